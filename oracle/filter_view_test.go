package oracle

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestViewForgets: a step that is computed from the first changed node on, and
// keeps no more than it needs, is the step that is computed whole.
func TestViewForgets(t *testing.T) {
	op, err := operator.Init(operator.Config{NumLayers: 4, BaseChannels: 2, InputChannels: 2, OutputChannels: 2, KernelSize: 3,
		Activation: "silu", Normalization: "group", NoiseType: "gaussian", NoiseScale: 0.1}, 7)
	if err != nil {
		t.Fatal(err)
	}
	m := emulate.New(op, rollout.Config{Policy: rollout.Convex, Alpha: 0.5, Timesteps: 2, Realizations: 2})
	e := &evidence{op: op, machine: m}
	v := &view{e: e, m: m, d: &emulate.Device{State: fp16.Float64}, x: tensor.New(fp16.Float64, 2, 2, 6, 7), drawn: func(int) *emulate.Draws { return nil }}
	for i := range v.x.Data {
		v.x.Data[i] = float64(mix64(uint64(i))%1000)/500 - 1
	}
	noise := make([]float64, 2*8*6*7)
	for i := range noise {
		noise[i] = float64(mix64(uint64(i)<<20)%1000)/500 - 1
	}
	kinds, channels := op.Draws()
	v.draws = &emulate.Draws{Kinds: kinds, Data: [][]float64{noise[:2*channels*6*7]}}
	if err := v.compute(); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, h := range library() {
		if h.slow || !h.on() {
			continue
		}
		some, err := v.step(h, everywhere, nil)
		if err != nil {
			t.Fatal(err)
		}
		if some == nil {
			continue
		}
		whole := *v
		whole.of = make([]*tensor.Tensor, len(v.of))
		all, err := whole.anew(h, everywhere)
		if err != nil {
			t.Fatal(err)
		}
		compared++
		if !equal(some.Data, all.Data) {
			t.Errorf("%s: %v off", h.name, rootMeanDiff(some.Data, all.Data))
		}
	}
	if compared < 80 {
		t.Errorf("%d hypotheses change anything", compared)
	}
}

// TestStatisticsOverSamples: those of each group over all samples, by hand.
func TestStatisticsOverSamples(t *testing.T) {
	one := func(v float64) *operator.Param { return &operator.Param{Data: []float64{v, v, v, v}} }
	n := &operator.Node{Groups: 2, Weight: one(2), Bias: one(3)}
	x := tensor.Of(fp16.Float64, []float64{1, 2, 3, 4, 5, 6, 7, 9}, 2, 4, 1, 1)
	s := claimed(n)
	s.overBatch = true
	y := normalize(x, n, s)
	// Group 0 has 1, 2, 5, 6: mean 3.5, variance 4.25; group 1 has 3, 4, 7, 9.
	for i, want := range []float64{-2.5 / math.Sqrt(4.25), -1.5 / math.Sqrt(4.25), -2.75 / math.Sqrt(5.6875)} {
		if got := (y.Data[i] - 3) / 2; math.Abs(got-want) > 1e-12 {
			t.Errorf("element %d: %v, want %v", i, got, want)
		}
	}
}
