package oracle

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/noisestat"
	"github.com/refrun/refrun/oracle/internal/probe"
	"github.com/refrun/refrun/oracle/internal/replay"
	"github.com/refrun/refrun/oracle/internal/structure"
	"github.com/refrun/refrun/oracle/internal/tape"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// CheckOptions says what a device is claimed to have computed, and how much
// work the check may be.
type CheckOptions struct {
	Mode graph.Mode
	// Noise is one of rollout.Case.OpenStream's names, "" for what the case
	// says, or "unknown" for a stream that cannot be reproduced.
	Noise string
	// Budget is the time after which gates leave out files, ensembles and
	// hypotheses (and list them); 0 for none.
	Budget time.Duration
	// Progress, if not nil, is called as the check goes.
	Progress func(stage string, done, total int)
}

// CheckCase checks the trajectory of a case, and its layers if it has them,
// against the claim. Evidence that cannot be read, or that does not belong to
// the case, is an error of one line; everything else is in the report.
func CheckCase(ctx context.Context, c *rollout.Case, o CheckOptions) (*report.Report, error) {
	if c.Step != nil {
		return checkStep(ctx, c, o)
	}
	op, err := c.NewOperator()
	if err != nil {
		return nil, err
	}
	states, err := c.OpenTrajectory()
	if err != nil {
		return nil, err
	}
	stream, err := claimedNoise(c, op, o)
	if err != nil {
		return nil, err
	}
	e := &evidence.Evidence{Ctx: ctx, Case: c, Op: op, Mode: o.Mode, Watch: o.Progress, States: states, Stream: stream}
	return examine(e, o.Budget, c.Trajectory.Path)
}

// claimedNoise returns the stream of the claim, nil if it is unknown. A stream
// that nobody named is not guessed: a check against another one would find
// everything wrong.
func claimedNoise(c *rollout.Case, op *operator.Operator, o CheckOptions) (*rollout.Stream, error) {
	name := o.Noise
	if name == "" && c.NoiseUnknown {
		name = words.UnknownNoise
	}
	switch {
	case name == words.UnknownNoise && op.HasNoise():
		return nil, nil
	case name == words.UnknownNoise:
		name = "none"
	case name == "" && op.HasNoise() && c.Noise == nil && c.Framework() == "":
		missing, want := filepath.Join(c.Dir, "noise.safetensors"), "the draws of the device there or with --tape FILE"
		if !c.HasFolder() {
			missing, want = "--tape", "the file of the device's draws"
		}
		return nil, fmt.Errorf("%s: missing, and %s has no torch.version: want %s, the stream "+
			"they are from with --noise (counter, torch-cpu:1.13, torch-cpu:2.x or torch-cuda:SMS), or --noise unknown",
			missing, c.File, want)
	case name == "tape" && op.HasNoise() && c.Noise == nil && !c.HasFolder():
		return nil, errors.New("--tape: missing: want the file of the device's draws, or another --noise")
	}
	s, err := c.OpenStream(name, op, o.Mode)
	if err != nil && strings.HasPrefix(err.Error(), "noise: ") && strings.HasSuffix(err.Error(), " or none") {
		err = fmt.Errorf("%w, or unknown", err) // of the names, only a check takes this one
	}
	return s, err
}

// examine runs the gates (not in the order of their numbers) over the evidence, and
// decides. name is what messages call the trajectory.
func examine(e *evidence.Evidence, budget time.Duration, name string) (*report.Report, error) {
	s := e.States
	if s.T < 2 {
		return nil, fmt.Errorf("%s: trajectory: %d state: want at least 2 to check a step", name, s.T)
	}
	wide, claim := e.Mode.Wide(), e.Mode.String()
	if e.Case.Rollout.State != "" {
		wide = e.Case.Rollout.StartFormat(e.Mode)
		claim += "/state-" + wide.String()
	}
	for _, s := range e.Each() {
		if err := holds(s, wide, name, claim); err != nil {
			return nil, err
		}
	}
	if e.Machine = new(emulate.Machine); e.Op != nil {
		e.Machine = emulate.New(e.Op, e.Case.Rollout).Images(s.H, s.W)
	}
	f := &facts.Facts{Report: facts.Open(e)}
	if budget > 0 {
		f.Until = time.Now().Add(budget)
	}
	gates := []facts.Check{noisestat.ReadMasks, structure.Check, chain.Steps, chain.Layers, tape.Check, noisestat.Check,
		replay.Check, probe.Check}
	switch {
	case e.Case.Step != nil:
		var err error
		if f.Report.Claim, err = e.Case.Step.ModeName(e.Mode); err != nil {
			return nil, err
		}
		gates = []facts.Check{structure.Numbers, chain.Steps}
	case probe.IsNonfinite(e): // states are NaN on purpose
		gates = []facts.Check{probe.Check}
	case emulate.Known(e.Op) != nil: // a graph of operations of any kind
		gates = []facts.Check{structure.Numbers, chain.Steps, tape.Check}
	}
	for _, gate := range gates {
		found, err := gate(e, f)
		f.Report.Findings = append(f.Report.Findings, found...)
		for _, s := range e.Each() {
			if failed := s.Err(); failed != nil { // what the gate saw was not there
				err = failed
			}
		}
		if err != nil {
			return nil, err
		}
		if err := e.Ctx.Err(); err != nil {
			return nil, err
		}
	}
	decide(e, f.Report)
	printable(reflect.ValueOf(f.Report))
	return f.Report, nil
}

// checkStep checks the trajectory of a step graph.
func checkStep(ctx context.Context, c *rollout.Case, o CheckOptions) (*report.Report, error) {
	if o.Noise != "" && o.Noise != "tape" {
		return nil, fmt.Errorf("--noise: %.60q: a step graph's draws are inputs of it, noise.NAME: want no --noise", o.Noise)
	}
	states, err := c.OpenStates()
	if err != nil {
		return nil, err
	}
	e := &evidence.Evidence{Ctx: ctx, Case: c, Mode: o.Mode, Watch: o.Progress, States: states[0], More: states[1:],
		Stream: &rollout.Stream{Name: c.Step.Noise()}}
	return examine(e, o.Budget, c.Trajectory.Path)
}

// holds refuses states that are no numbers of the claim.
func holds(s *rollout.States, wide fp16.Format, name, claim string) error {
	for m := range s.M {
		for t := range s.T {
			for i, v := range s.At(m, t) {
				if measure.Finite(v) && !wide.Holds(v) {
					return fmt.Errorf("%s: %s: element %d is %v: want %s numbers, as %s claims", name, s.Called(),
						(m*s.T+t)*s.CHW()+i, v, wide, claim)
				}
			}
		}
	}
	return s.Err()
}

// printable makes every text of a report fit for one line, whatever files called their
// nodes and tensors and whatever they say: each way of writing a report then is safe.
func printable(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			printable(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			printable(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			printable(v.Index(i))
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(fault.Printable(v.String()))
		}
	case reflect.Map:
		panic("oracle: a map in a report, whose texts would not be made printable")
	}
}
