package fault

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestViewForgets: a step that is computed from the first changed node on, and
// keeps no more than it needs, is the step that is computed whole.
func TestViewForgets(t *testing.T) {
	op, err := operator.Init(operator.Config{NumLayers: 4, BaseChannels: 2, InputChannels: 2, OutputChannels: 2,
		KernelSize: 3, Activation: "silu", Normalization: "group", NoiseType: "gaussian", NoiseScale: 0.1}, 7)
	if err != nil {
		t.Fatal(err)
	}
	m := emulate.New(op, rollout.Config{Policy: rollout.Convex, Alpha: 0.5, Timesteps: 2, Realizations: 2})
	e := &evidence.Evidence{Op: op, Machine: m}
	v := &trial.View{Evidence: e, Machine: m, Device: &emulate.Device{State: fp16.Float64},
		X: tensor.New(fp16.Float64, 2, 2, 6, 7), Drawn: func(int) *emulate.Draws { return nil }}
	for i := range v.X.Data {
		v.X.Data[i] = float64(measure.Mix64(uint64(i))%1000)/500 - 1
	}
	noise := make([]float64, 2*8*6*7)
	for i := range noise {
		noise[i] = float64(measure.Mix64(uint64(i)<<20)%1000)/500 - 1
	}
	kinds, channels := op.Draws()
	v.Draws = &emulate.Draws{Kinds: kinds, Data: [][]float64{noise[:2*channels*6*7]}}
	if err := v.Compute(); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, h := range Library() {
		if h.Slow || !h.On() {
			continue
		}
		some, err := v.Run(h, trial.Everywhere, nil)
		if err != nil {
			t.Fatal(err)
		}
		if some == nil {
			continue
		}
		whole := *v
		whole.Outputs = make([]*tensor.Tensor, len(v.Outputs))
		all, err := whole.Anew(h, trial.Everywhere)
		if err != nil {
			t.Fatal(err)
		}
		compared++
		if !measure.Equal(some.Data, all.Data) {
			t.Errorf("%s: %v off", h.Name, measure.RootMeanSquareDiff(some.Data, all.Data))
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

// TestViewMakesAgain: a view that keeps no output of a norm or an activation gives
// the steps that one with all outputs does, keeps few of those that it makes again,
// and none of its outputs is changed by a fault.
func TestViewMakesAgain(t *testing.T) {
	defer func(most int) { trial.MostCheap = most }(trial.MostCheap)
	for _, precision := range []string{"float32", "float16"} {
		r := rig.NewRig(t, precision, "gaussian", 0.05)
		e, s, d := secondStep(t, r)
		view := func(most int) *trial.View {
			trial.MostCheap = most
			v := &trial.View{Evidence: e.Evidence, Machine: e.Machine, Device: d, X: s.X, Draws: s.Draws,
				Contract: true, Drawn: func(int) *emulate.Draws { return nil }}
			if err := v.Compute(); err != nil {
				t.Fatal(err)
			}
			return v
		}
		full, lean := view(1<<30), view(0)
		var kept []*tensor.Tensor
		for i, y := range full.Outputs {
			if y == nil || (lean.Outputs[i] != nil) == lean.Cheap(i) {
				t.Fatalf("%s: node %d: kept of all: %v, of few: %v", precision, i, y != nil, lean.Outputs[i] != nil)
			}
			kept = append(kept, y.Clone())
		}
		compared := 0
		for _, h := range Library() {
			if h.Slow {
				continue
			}
			want, err := full.Run(h, trial.Everywhere, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := lean.Run(h, trial.Everywhere, nil)
			if err != nil {
				t.Fatal(err)
			}
			if (want == nil) != (got == nil) || want != nil && !measure.Equal(want.Data, got.Data) {
				t.Errorf("%s: %s: other states", precision, h.Name)
			}
			if want != nil {
				compared++
			}
			again := 0
			for i := range lean.Outputs {
				if lean.Cheap(i) && lean.Outputs[i] != nil {
					again++
				}
			}
			if again > trial.MostRecent {
				t.Fatalf("%s: %s: %d outputs kept, want %d", precision, h.Name, again, trial.MostRecent)
			}
		}
		if compared < 80 {
			t.Errorf("%s: %d hypotheses change anything", precision, compared)
		}
		for i, y := range kept {
			if !slices.Equal(y.Data, full.Outputs[i].Data) || !measure.Equal(y.Data, lean.Out(i).Data) {
				t.Errorf("%s: node %d: another output than before", precision, i)
			}
		}
	}
}

// secondStep returns step 2 of a right device of two realizations, with its draws, and the claim's device there.
func secondStep(t *testing.T, r *rig.Rig) (*facts.Gate, *evidence.BatchStep, *emulate.Device) {
	t.Helper()
	e := r.Exam(r.Run(nil), true)
	s, err := e.Step(0, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.ClaimAt(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Machine.Operator(d, s.X, s.Draws.Rewind()); err != nil { // which draws
		t.Fatal(err)
	}
	return e, s, d
}

// TestPolicyWeights: the constants of a policy are float32 numbers, but for a float64 claim.
func TestPolicyWeights(t *testing.T) {
	c := rollout.Config{Policy: rollout.Convex, Alpha: .999}
	round := fp16.Float32.Round
	for f, want := range map[fp16.Format][2]float64{
		fp16.Float32: {round(c.Alpha), round(1 - c.Alpha)}, fp16.Float64: {c.Alpha, 1 - c.Alpha},
	} {
		v := &trial.View{Machine: &emulate.Machine{Config: c}, Device: &emulate.Device{Mode: graph.Mode{Precision: f}}}
		if a, b := weightsOf(v); a != want[0] || b != want[1] {
			t.Errorf("%v: %v, %v: want %v", f, a, b, want)
		}
	}
}
