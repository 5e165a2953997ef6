package run

import (
	"context"
	"fmt"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// demoDevice is a device whose trajectory the demo checks: what it claims, what
// it computes, and what the check must say.
type demoDevice struct {
	what     string
	claim    string
	computes string // "" is the recorded trajectory
	stale    int    // the step that leaves a tile of the state as it was, 0 for none
	verdict  string // how the verdict must begin
	step     int    // the first faulty step, -1 for none
}

var demoDevices = []demoDevice{
	{"the recording by PyTorch", "float32", "", 0, "PASS", -1},
	{"a correct float16 device", "float16", "float16", 0, "PASS", -1},
	{"the same, one 8x8 tile left as it was at step 2", "float16", "float16", 2, "FAIL", 2},
	{"TF32 sold as float32", "float32", "tf32", 0, "FAIL", 1},
}

// Of the recording the first states are checked, and the made devices step some
// realizations of it, so that the demo stays short.
const demoStates, demoRealizations = 3, 2

// check makes the trajectory of a device and checks it.
func (d demoDevice) check(cs *rollout.Case, recorded *rollout.States) (demoCheck, error) {
	k := demoCheck{What: "check of " + d.what}
	op, err := cs.NewOperator()
	if err != nil {
		return k, err
	}
	// The case's autocast is that of its recording.
	claim, err := graph.ParseMode(d.claim, "")
	if err != nil {
		return k, err
	}
	config, states, noise := cs.Rollout, first(recorded, recorded.M, demoStates), ""
	if d.computes != "" {
		states, noise = first(recorded, demoRealizations, demoStates), "counter"
		config.EngineBatch = 0
	}
	config.Realizations, config.Timesteps = states.M, states.T
	stream, err := cs.OpenStream(noise, op, graph.Mode{Precision: fp16.Float32})
	if err != nil {
		return k, err
	}
	if d.computes != "" {
		if err := d.run(op, config, stream, states); err != nil {
			return k, err
		}
	}
	r, err := oracle.Check(context.Background(), op, states, oracle.Claim{Mode: claim, Rollout: config, Stream: stream})
	if err != nil {
		return k, err
	}
	k.Verdict, k.FirstStep, k.Diagnosis = r.Verdict, &r.FirstStep, r.Diagnosis
	k.OK = strings.HasPrefix(string(r.Verdict), d.verdict) && r.FirstStep == d.step
	return k, nil
}

// first returns the first steps of the first realizations, as states of their own.
func first(s *rollout.States, realizations, steps int) *rollout.States {
	out := *s
	out.M, out.T, out.Data = min(realizations, s.M), min(steps, s.T), nil
	for m := range out.M {
		for t := range out.T {
			out.Data = append(out.Data, s.At(m, t)...)
		}
	}
	return &out
}

// run steps the device from the states at t = 0 and puts what it makes into the
// others.
func (d demoDevice) run(
	op *operator.Operator, config rollout.Config, stream *rollout.Stream, states *rollout.States,
) error {
	mode, err := graph.ParseMode(d.computes, "")
	if err != nil {
		return err
	}
	s := &rollout.Stepper{Operator: op, Config: config, Mode: mode}
	x := tensor.New(mode.Wide(), states.M, states.C, states.H, states.W)
	for m := range states.M {
		copy(x.Samples(m, m+1).Data, states.At(m, 0))
	}
	for t := 1; t < states.T; t++ {
		draws, err := stream.Draws(0, 0, states.M, t)
		if err != nil {
			return err
		}
		next, err := s.Step(x, draws)
		if err != nil {
			return fmt.Errorf("step %d: %w", t, err)
		}
		if t == d.stale {
			leaveTile(next, x)
		}
		x = next
		for m := range states.M {
			copy(states.At(m, t), x.Samples(m, m+1).Data)
		}
	}
	return nil
}

// leaveTile puts an 8x8 tile of the old state into the new one, as a kernel does
// that skips a tile.
func leaveTile(next, old *tensor.Tensor) {
	const tile = 8
	for y := range min(tile, next.H()) {
		at := (next.H()/2+y)%next.H()*next.W() + next.W()/4
		copy(next.Plane(0, 0)[at:at+min(tile, next.W()/2)], old.Plane(0, 0)[at:])
	}
}
