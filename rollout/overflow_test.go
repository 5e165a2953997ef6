package rollout

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
)

// overflowing returns an engine of a float16 rollout that leaves the format's
// range: weights of 1, states of 2^13, 3x3 sums of 9*2^13 > 65504 inside the
// image, 6*2^13 and 4*2^13 on its border.
func overflowing(t *testing.T, precision string) *Engine {
	t.Helper()
	op, err := operator.Init(operator.Config{NumLayers: 0, BaseChannels: 1, InputChannels: 1, OutputChannels: 1,
		KernelSize: 3, Activation: "relu", Normalization: "none"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range op.Params() {
		for i := range p.Data {
			p.Data[i] = 1
			if strings.HasSuffix(p.Name, "bias") {
				p.Data[i] = 0
			}
		}
	}
	mode, err := graph.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Policy: Residual, Dt: 0.5, Timesteps: 4, Realizations: 4, EngineBatch: 4}
	return &Engine{
		Stepper: Stepper{Operator: op, Config: c, Mode: mode},
		Stream:  &Stream{Name: "none", at: noDraws},
		Shape:   Shape{1, 4, 5},
		Start: func(m int) []float64 {
			x := make([]float64, 20)
			for i := range x {
				x[i] = 1 // stays in range for these steps
				if m == 2 {
					x[i] = 0x1p13
				}
			}
			return x
		},
	}
}

// TestOverflow: the first step, layer and count are reported, in any grouping,
// and the rollout goes on with infinities and NaNs.
func TestOverflow(t *testing.T) {
	for _, batch := range []int{0, 1, 3} {
		e := overflowing(t, "float16")
		e.Batch = batch
		states := third{}
		e.Sinks = []Sink{states}
		if err := e.Run(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if want := (Overflow{1, "conv_blocks.0.block.0", 6}); e.Overflowed == nil || *e.Overflowed != want {
			t.Errorf("batch %d: %+v, want %+v", batch, e.Overflowed, want)
		}
		if x := states[1]; !math.IsInf(x[6], 1) || math.IsInf(x[0], 0) {
			t.Errorf("batch %d: state after the overflow: %v", batch, x)
		}
		if len(states) != 4 {
			t.Errorf("batch %d: %d states", batch, len(states))
		}
	}
	// The same numbers are no overflow in bfloat16.
	e := overflowing(t, "bfloat16")
	if err := e.Run(context.Background(), nil); err != nil || e.Overflowed != nil {
		t.Errorf("bfloat16: %v, %+v", err, e.Overflowed)
	}
	// An infinity that was there before is none either, and stays an error.
	e = overflowing(t, "float16")
	e.Start = func(int) []float64 { return []float64{19: math.Inf(1)} }
	var bad *NonfiniteError
	if err := e.Run(context.Background(), nil); !errors.As(err, &bad) || e.Overflowed != nil {
		t.Errorf("infinite start: %v, %+v", err, e.Overflowed)
	}
}

// third keeps the states of realization 2.
type third map[int][]float64

func (s third) State(t, m int, x, _ []float64) error {
	if m == 2 {
		s[t] = append([]float64(nil), x...)
	}
	return nil
}

// TestStateFormat: the states of an autoregressive rollout are outputs, those
// of the others are sums in float32.
func TestStateFormat(t *testing.T) {
	for _, k := range []struct {
		policy    Policy
		precision string
		want      string
	}{
		{Autoregressive, "float16", "float16/autocast-cuda/state-float16/noise-none"},
		{Convex, "float16", "float16/autocast-cuda/state-float32/noise-none"},
		{Residual, "bfloat16", "bfloat16/autocast-cuda/state-float32/noise-none"},
		{Autoregressive, "tf32:away", "tf32:away/state-float32/noise-none"},
		{Convex, "float64", "float64/state-float64/noise-none"},
	} {
		m, err := graph.ParseMode(k.precision, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := (Config{Policy: k.policy}).ModeName(new(operator.Operator), m, &Stream{Name: "none"}); got != k.want {
			t.Errorf("%s in %s: %s, want %s", k.policy, k.precision, got, k.want)
		}
		e := overflowing(t, k.precision)
		e.Config.Policy, e.Config.Alpha = k.policy, 0.5
		var f fp16.Format
		f, _ = fp16.ParseFormat(strings.Split(strings.Split(k.want, "state-")[1], "/")[0])
		x, err := e.start(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		y, err := e.Step(x, nil)
		if err != nil || y.Format != f {
			t.Errorf("%s in %s: state of type %v, want %v (%v)", k.policy, k.precision, y.Format, f, err)
		}
	}
}
