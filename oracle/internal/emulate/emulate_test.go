package emulate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestContract holds the machine to the exact engine: in float64 mode to 10^-12,
// and in the others, storing what the contract stores, at every element
// but those few whose rounding a float64 error decides.
func TestContract(t *testing.T) {
	for _, name := range []string{"seed_small", "residual_k5_group_silu", "no_norm_no_noise",
		"autoregressive_batch_relu", "convex_layer_tanh_mult"} {
		c, err := rollout.OpenCase("../../../testdata/rollouts/" + name)
		if err != nil {
			t.Fatal(err)
		}
		op, err := c.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		states, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		m := New(op, c.Rollout)
		for _, p := range []string{
			"float64", "float32", "tf32", "tf32:truncate", "float16", "bfloat16", "bfloat16/cpu:1.13",
		} {
			precision, autocast, _ := strings.Cut(p, "/")
			if autocast != "" && (op.Config.Activation == "silu" || op.Config.Normalization == "layer") {
				continue // the one 1.13 computes with other roundings, and the other not at all
			}
			mode, err := graph.ParseMode(precision, autocast)
			if err != nil {
				t.Fatal(err)
			}
			x := tensor.Of(mode.Wide(), states.At(0, 0), 1, states.C, states.H, states.W)
			stream, err := c.OpenStream("counter", op, mode)
			if err != nil {
				t.Fatal(err)
			}
			from, err := stream.Draws(0, 0, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			draws := Keep(from)
			s := rollout.Stepper{Operator: op, Config: c.Rollout, Mode: mode}
			want, err := s.Step(x, draws.Rewind())
			if err != nil {
				t.Fatal(err)
			}
			d := &Device{Mode: mode, State: want.Format}
			if d.Store, err = m.Formats(mode, x.Format); err != nil {
				t.Fatal(err)
			}
			got, err := m.Step(d, x, draws.Rewind())
			if err != nil {
				t.Fatal(err)
			}
			differ := 0
			for i := range got.Data {
				if d := got.Data[i] - want.Data[i]; p == "float64" && math.Abs(d) > 1e-12 || p != "float64" && d != 0 {
					differ++
				}
			}
			// Without ties a layer of 1e4 numbers of 24 bits has none; a
			// number rounded otherwise spreads.
			if allowed := map[bool]int{true: 0, false: len(got.Data) / 100}[mode.Precision == fp16.Float64]; differ > allowed {
				t.Errorf("%s, %s: %d of %d numbers differ from the engine's: want at most %d",
					name, p, differ, len(got.Data), allowed)
			}
		}
	}
}

// TestMachineMemory: a machine that has computed steps of other sizes and modes
// gives the same states, and keeps the memory of a few tensors and two kinds of
// operands.
func TestMachineMemory(t *testing.T) {
	op, err := operator.Init(operator.Config{NumLayers: 4, BaseChannels: 2, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	c := rollout.Config{Policy: rollout.Convex, Alpha: 0.5, Timesteps: 2, Realizations: 1}
	old := New(op, c)
	for k := range 24 {
		mode, err := graph.ParseMode([]string{"float32", "float16", "bfloat16", "tf32"}[k%4], "")
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.New(fp16.Float64, 1+k%2, 3, 6+k%3, 7)
		for i := range x.Data {
			x.Data[i] = float64(i*i%97)/32 - 1.5
		}
		step := func(m *Machine, handOn func(*tensor.Tensor) *tensor.Tensor) []float64 {
			d, err := noise.Counter{}.At(1, 0, x.N())
			if err != nil {
				t.Fatal(err)
			}
			of, err := m.Formats(mode, fp16.Float32)
			if err != nil {
				t.Fatal(err)
			}
			dev := &Device{Mode: mode, Store: of, State: fp16.Float32}
			dev.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				if k%5 == 0 && len(in) == 2 && i < len(m.Nodes)-6 { // the last sum reads the one before
					return handOn(in[0]), nil
				}
				return nil, nil
			}
			y, err := m.Step(dev, x, d)
			if err != nil {
				t.Fatal(err)
			}
			return y.Data
		}
		got := step(old, func(x *tensor.Tensor) *tensor.Tensor { return x })
		if want := step(New(op, c), (*tensor.Tensor).Clone); !slices.Equal(got, want) {
			t.Errorf("step %d: other states than those of a new machine", k)
		}
		if len(old.free) > mostSpare || len(old.kernels) > mostKernels {
			t.Fatalf("step %d: %d tensors and %d kinds of operands kept, want %d and %d",
				k, len(old.free), len(old.kernels), mostSpare, mostKernels)
		}
	}
}
