package oracle

import (
	"context"
	"time"

	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/rollout"
)

// CheckCase checks the trajectory of a case, and its layers if it has them,
// against the claim. Evidence that cannot be read, or that does not belong to
// the case, is an error of one line; everything else is in the report.
func CheckCase(ctx context.Context, c *rollout.Case, o CheckOptions) (*Report, error) {
	op, err := c.NewOperator()
	if err != nil {
		return nil, err
	}
	states, err := c.ReadTrajectory()
	if err != nil {
		return nil, err
	}
	e := &exam{ctx: ctx, c: c, op: op, machine: emulate.New(op, c.Rollout), o: o, states: states,
		r: &Report{FirstStep: -1, FirstRealization: -1}}
	if o.Budget > 0 {
		e.until = time.Now().Add(o.Budget)
	}
	if o.Noise != "unknown" {
		if e.stream, err = c.OpenStream(o.Noise, op, o.Mode); err != nil {
			return nil, err
		}
		e.r.Noise.Stream = e.stream.Name
	} else {
		e.r.Noise.Stream = "unknown"
	}
	for _, gate := range []func() error{e.structure, e.steps, e.layers, e.noise, e.rollout, e.probes} {
		if err := gate(); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	e.decide()
	return e.r, nil
}
