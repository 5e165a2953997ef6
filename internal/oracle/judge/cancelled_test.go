package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestCancelled: a norm of pairs of stored bfloat16 numbers, some of them equal, by a kernel that has x*scale + shift:
// what is exactly 0 is there as large as float32's errors. That no contract explains these numbers does not hide the
// one that explains all others.
func TestCancelled(t *testing.T) {
	const rows, channels = 128, 128
	f, single := fp16.BFloat16, fp16.Float32.Round
	r := rand.New(rand.NewPCG(0, 37))
	a, b := drawn(r, f, rows, channels), drawn(r, f, channels)
	y := tensor.New(f, rows, channels)
	for i := 0; i < len(y.Data); i += 2 {
		var x [2]float64
		for k := range x {
			v := a.Data[i+k]
			v = f.Round(f.Round(1/(1+math.Exp(-v))) * v)
			x[k] = f.Round(v + b.Data[(i+k)%channels])
		}
		mean := single((x[0] + x[1]) / 2)
		scale := single(1 / math.Sqrt(single((x[0]-mean)*(x[0]-mean)+1e-5)))
		shift := single(-mean * scale)
		for k := range x {
			y.Data[i+k] = f.Round(single(math.FMA(x[k], scale, shift)))
		}
	}
	g := graph.New(nil)
	in := g.Input("a")
	gate := g.Add(unary("sigmoid"), "gate", in)
	sum := g.Add(plus, "sum", g.Add(mul, "product", gate, in), g.Input("b"))
	g.Outputs = []int{g.Add(graph.GroupNorm{Groups: channels / 2, Eps: 1e-5}, "output", sum)}
	for _, factor := range []float64{1, 1.02} {
		out := tensor.New(f, rows, channels)
		for i, v := range y.Data {
			out.Data[i] = f.Round(factor * v)
		}
		got, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: out})
		if err != nil || (got.Verdict == Pass) != (factor == 1) {
			t.Errorf("times %v: %+v, %v", factor, got, err)
		}
	}
}
