package oracle

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// peakOf checks a right rollout of so many steps and returns the greatest size of
// the live heap on the way, without the states.
func peakOf(t *testing.T, steps int) int64 {
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 16, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.05}, 7)
	if err != nil {
		t.Fatal(err)
	}
	ro := rollout.Config{Policy: rollout.Convex, Alpha: 0.5, Timesteps: steps + 1, Realizations: 1}
	s := &rollout.States{M: 1, T: steps + 1, C: 3, H: 32, W: 32, Format: fp16.Float32, Data: make([]float64, (steps+1)*3*32*32)}
	x := tensor.Of(fp16.Float32, s.At(0, 0), 1, 3, 32, 32)
	for k := range x.Data {
		x.Data[k] = fp16.Float32.Round(float64(mix64(uint64(k))%1000)/250 - 2)
	}
	mode := operator.Mode{Precision: fp16.Float32}
	step := rollout.Stepper{Operator: op, Config: ro, Mode: mode}
	for i := 1; i <= steps; i++ {
		d, err := noise.Counter{}.At(i, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		y, err := step.Step(tensor.Of(fp16.Float32, s.At(0, i-1), 1, 3, 32, 32), d)
		if err != nil {
			t.Fatal(err)
		}
		copy(s.At(0, i), y.Data)
	}
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var peak int64
	before := live()
	c := &rollout.Case{File: "test", Operator: op.Config, Rollout: ro}
	e := &evidence{ctx: context.Background(), c: c, op: op, states: s, mode: mode, watch: func(stage string, done, _ int) {
		if stage == "steps" || done%16 == 0 {
			peak = max(peak, live()-before)
		}
	}}
	if e.stream, err = c.OpenStream("counter", op, mode); err != nil {
		t.Fatal(err)
	}
	r, err := examine(e, 0, "test")
	if err != nil || r.Verdict != report.PassConforming {
		t.Fatal(err, r.Verdict)
	}
	return peak
}

// TestMemoryOfOneStep: what a check keeps on its way does not grow with the number
// of steps, but for their rows of figures: a tensor more for each step, of draws or of
// an output, would be 12 MB.
func TestMemoryOfOneStep(t *testing.T) {
	peakOf(t, 2) // fills pools
	few, many := peakOf(t, 6), peakOf(t, 24)
	if grown := many - few; grown > 4<<20 { // what workers hold at a moment differs by some
		t.Errorf("live heap of %d bytes for 6 steps, %d for 24: %d more", few, many, grown)
	}
}

// TestViewMakesAgain: a view that keeps no output of a norm or an activation gives
// the steps that one with all outputs does, keeps few of those that it makes again,
// and none of its outputs is changed by a fault.
func TestViewMakesAgain(t *testing.T) {
	defer func(most int) { mostCheap = most }(mostCheap)
	for _, precision := range []string{"float32", "float16"} {
		b := newStepBench(t, precision, "", "group", convex(0.5))
		b.check()
		g := b.gate
		s, err := g.step(2)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.begin(s); err != nil {
			t.Fatal(err)
		}
		view := func(most int) *view {
			mostCheap = most
			v := &view{e: g.e.evidence, m: g.e.machine, d: g.device(g.claim, 2, nil), x: s.X, draws: s.Draws, contract: true, drawn: func(int) *emulate.Draws { return nil }}
			if err := v.compute(); err != nil {
				t.Fatal(err)
			}
			return v
		}
		full, lean := view(1<<30), view(0)
		var kept []*tensor.Tensor
		for i, y := range full.of {
			if y == nil || (lean.of[i] != nil) == lean.cheap(i) {
				t.Fatalf("%s: node %d: kept of all: %v, of few: %v", precision, i, y != nil, lean.of[i] != nil)
			}
			kept = append(kept, y.Clone())
		}
		compared := 0
		for _, h := range library() {
			if h.slow {
				continue
			}
			want, err := full.step(h, everywhere, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := lean.step(h, everywhere, nil)
			if err != nil {
				t.Fatal(err)
			}
			if (want == nil) != (got == nil) || want != nil && !equal(want.Data, got.Data) {
				t.Errorf("%s: %s: other states", precision, h.name)
			}
			if want != nil {
				compared++
			}
			again := 0
			for i := range lean.of {
				if lean.cheap(i) && lean.of[i] != nil {
					again++
				}
			}
			if again > mostRecent {
				t.Fatalf("%s: %s: %d outputs kept, want %d", precision, h.name, again, mostRecent)
			}
		}
		if compared < 80 {
			t.Errorf("%s: %d hypotheses change anything", precision, compared)
		}
		for i, y := range kept {
			if !slices.Equal(y.Data, full.of[i].Data) || !equal(y.Data, lean.out(i).Data) {
				t.Errorf("%s: node %d: another output than before", precision, i)
			}
		}
	}
}

// TestRunShares: memory that the output of a fault shares with what the fault was
// given is not used again, and other memory is.
func TestRunShares(t *testing.T) {
	for _, shares := range []bool{false, true} {
		r := newRun(&view{m: newStepBench(t, "float32", "", "group", convex(0.5)).gate.e.machine})
		x := r.v.m.Scratch(1, 2, 2, 3)
		y := tensor.New(fp16.Float64, 1, 1, 2, 3)
		if shares {
			y = tensor.Of(fp16.Float64, x.Data[6:], 1, 1, 2, 3)
		}
		r.has(0, x, true)
		r.has(1, y, false)
		r.drop(0)
		if again := overlap(r.v.m.Scratch(1, 2, 2, 3).Data, x.Data); again == shares {
			t.Errorf("shared: %v, used again: %v", shares, again)
		}
	}
}
