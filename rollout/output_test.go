package rollout

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// TestWideOutput: an operator that adds its float32 input last returns float32 numbers
// in half modes too, as PyTorch's type promotion has it. Its share of the next state is
// then rounded to float32, and autoregressive states are float32.
func TestWideOutput(t *testing.T) {
	op, err := operator.Init(operator.Config{InputChannels: 2, OutputChannels: 2, Nodes: []operator.NodeConfig{
		{Op: "conv", Name: "a", OutChannels: 2, KernelSize: 3},
		{Op: "add", Name: "b", In: []string{"a", "input"}}}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.New(fp16.Float32, 1, 2, 6, 5)
	for k := range x.Data {
		x.Data[k] = fp16.Float32.Round(math.Sqrt(float64(k)))
	}
	round := fp16.Float32.Round
	for _, precision := range []string{"bfloat16", "float16"} {
		m, err := graph.ParseMode(precision, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		out, err := op.Forward(&operator.Pass{Mode: m}, x)
		if err != nil || out.Format != fp16.Float32 || op.Output(m) != fp16.Float32 {
			t.Fatalf("%s: output of %v, and %v is told (%v): want float32", precision, out.Format, op.Output(m), err)
		}
		for _, p := range []Policy{Convex, Autoregressive} {
			s := Stepper{Operator: op, Config: Config{Policy: p, Alpha: 0.75}, Mode: m}
			next, err := s.Step(x, nil)
			if err != nil || next.Format != fp16.Float32 {
				t.Fatalf("%s, %s: states of %v, %v", precision, p, next.Format, err)
			}
			for k, v := range next.Data {
				want := out.Data[k]
				if p == Convex {
					want = round(round(0.75*x.Data[k]) + round(0.25*want))
				}
				if v != want {
					t.Fatalf("%s, %s: number %d is %v, want %v", precision, p, k, v, want)
				}
			}
		}
	}
}
