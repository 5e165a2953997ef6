package run

import (
	"crypto/sha256"
	"fmt"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// wholeStep rolls out a step graph.
func wholeStep(c *cli.Command, cs *rollout.Case, w *setup.Flags, mode graph.Mode, requested, noise string) error {
	if noise != "" && noise != "tape" {
		return fmt.Errorf("--noise: %.60q: a step graph's draws are inputs of it, noise.NAME: want no --noise", noise)
	}
	g := cs.Step
	modeName, err := g.ModeName(mode)
	if err != nil {
		return err
	}
	store := mode.Wide()
	if w.Store != "" {
		if store, err = setup.Storage(w.Store); err != nil {
			return fmt.Errorf("--store: %w", err)
		}
	}
	contents, err := g.Contents(cs.Rollout)
	if err != nil {
		return err
	}
	start, numbers := sha256.New(), 0
	for m := range cs.Rollout.Realizations {
		for i, s := range g.States {
			for age := range s.Past + 1 {
				x, err := cs.Before(i, m, age)
				if err != nil {
					return err
				}
				start.Write(fp16.Float64.Append(nil, x))
				numbers += len(x)
			}
		}
	}
	p, err := g.Network.Graph.Infer(mode, g.Network.Types()...)
	if err != nil {
		return err
	}
	r, shape := cs.Rollout, g.States[0].Shape
	job := &rollout.Job{
		Engine: &rollout.Engine{
			Stepper: rollout.Stepper{Config: r, Mode: mode}, Graph: &rollout.GraphRun{StepGraph: g, Case: cs, Mode: mode},
			Shape: rollout.Shape{C: 1, H: 1, W: tensor.Size(shape)}, AllowNonfinite: w.AllowNonfinite,
		},
		Path: w.Out, Store: store, Resume: w.Resume, Force: w.Force, Every: w.Checkpoint,
		Metadata: map[string]string{"made_by": "refrun " + cli.Version, "mode": modeName, "contract": graph.Contract},
		Identity: [][2]string{
			{"version", cli.Version}, {"contract", graph.Contract}, {"mode", modeName}, {"store", store.String()},
			{"step", contents},
			{"state", fmt.Sprint(shape)}, {"initial condition", fmt.Sprintf("%x", start.Sum(nil))},
			{"steps", fmt.Sprint(r.Timesteps - 1)}, {"realizations", fmt.Sprint(r.Realizations)},
			{"allow_nonfinite", fmt.Sprint(w.AllowNonfinite)},
		},
	}
	out := wholeReport{Mode: modeName, Shape: append([]int{r.Realizations, r.Timesteps}, shape...), step: true,
		PrecisionRequested: requested, PrecisionUsed: mode.Precision.String(), Noise: g.Noise()}
	return runJob(c, cs, job, &out, float64(p.Products()), 8*int64(numbers), nil)
}
