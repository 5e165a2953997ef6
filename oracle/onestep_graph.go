package oracle

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/rollout"
)

// oneStepOfGraph is [CheckOneStep] of a step graph. The figures are those of its first state, and those of the others
// stand among the layers by their names.
func oneStepOfGraph(c *rollout.Case, o OneStepOptions) (*OneStep, error) {
	g := c.Step
	if o.Noise != "" && o.Noise != "tape" {
		return nil, fmt.Errorf("--noise: %.60q: a step graph's draws are inputs of it, noise.NAME: want no --noise", o.Noise)
	}
	states, err := c.OpenStates()
	if err != nil {
		return nil, err
	}
	first := states[0]
	if first.T < 2 {
		return nil, fmt.Errorf("%s: trajectory: %d state: want at least 2 to compare a step", c.Trajectory.Path, first.T)
	}
	r := &OneStep{Noise: g.Noise(), Steps: first.M * (first.T - 1)}
	if r.Mode, err = g.ModeName(o.Mode); err != nil {
		return nil, err
	}
	run := &rollout.GraphRun{StepGraph: g, Case: c, Mode: o.Mode}
	errors := make([]*diff.Accumulator, len(states))
	for i, s := range states {
		if err := holds(s, fp16.Float64, c.Trajectory.Path, r.Mode); err != nil {
			return nil, err
		}
		errors[i] = diff.NewAccumulator(s.Format, stdOf(s))
	}
	perStep := make([]*diff.Accumulator, first.T-1)
	for i := range perStep {
		perStep[i] = diff.NewAccumulator(first.Format, stdOf(first))
	}
	channels := first.Channels()
	plane := channels * first.H * first.W
	fields := diff.NewFields(first.T, channels)
	digest := rollout.NewDigest(o.Mode.Wide(), first.M, first.T-1, first.Dims...)
	for m := range first.M {
		for t := 1; t < first.T; t++ {
			in, err := run.StepInputs(m, t, func(i, t int) ([]float64, error) { return recorded(c, states, i, m, t) })
			if err != nil {
				return nil, err
			}
			for _, x := range in {
				if x.Format != fp16.Int64 && !evidence.OnFormat(x.Format, x.Data) {
					x.Format = o.Mode.Wide()
				}
			}
			out, err := run.Apply(in)
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", t, err)
			}
			for i, s := range states {
				at := (m*s.T + t) * s.CHW()
				errors[i].AddAt(at, out[i].Data, s.At(m, t))
			}
			got, want := out[0].Data, first.At(m, t)
			perStep[t-1].AddAt((m*first.T+t)*first.CHW(), got, want)
			for lo := 0; lo < len(got); lo += plane {
				fields.AddState(t, got[lo:lo+plane], want[lo:lo+plane])
			}
			digest.Add(m, got)
			if o.Progress != nil {
				o.Progress(m*(first.T-1)+t, r.Steps)
			}
		}
	}
	for i, s := range states {
		if err := s.Err(); err != nil {
			return nil, err
		}
		if i > 0 {
			r.Layers = append(r.Layers, Layer{"state." + s.Name, errors[i].Diff()})
		}
	}
	for _, a := range perStep {
		r.PerStep = append(r.PerStep, a.Diff())
	}
	r.All, r.Digest, r.Fields, r.MACs = errors[0].Diff(), digest.Hex(), fields.All()[channels:], run.Products()
	return r, nil
}

// recorded is a state as it was recorded, before the first one too.
func recorded(c *rollout.Case, states []*rollout.States, i, m, t int) ([]float64, error) {
	if t < 0 {
		return c.Before(i, m, -t)
	}
	return slices.Clone(states[i].At(m, t)), nil
}

// stdOf is the standard deviation of a whole trajectory.
func stdOf(s *rollout.States) float64 {
	var all []float64
	for m := range s.M {
		for t := range s.T {
			all = append(all, s.At(m, t)...)
		}
	}
	return diff.Std(all)
}
