package oracle

import (
	"cmp"
	"fmt"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// OneStepOptions says how a case is stepped.
type OneStepOptions struct {
	Mode  graph.Mode
	Noise string // rollout.Case.OpenStream's names; "" is what the case says
	Batch int    // realizations per application of the operator, 0 for the engine batch; never changes a bit
	// Progress, if not nil, is called after each step of a state batch.
	Progress func(done, total int)
}

// OneStep is the comparison of a recorded trajectory with single steps from
// its own states: each recorded X_{t-1} is stepped once, and the result held
// against the recorded X_t. Errors of arithmetic show here; their growth along
// a chaotic trajectory does not.
type OneStep struct {
	// All compares refrun's steps with the recording over all steps, and
	// PerStep step by step (the first entry is the step to t = 1). Std is that
	// of the whole recorded trajectory in both, and At counts through the
	// recorded [M,T,C,H,W].
	All     diff.Diff   `json:"one_step"`
	PerStep []diff.Diff `json:"per_step"`
	// Fields are the errors by step, from 1 on, and channel.
	Fields []diff.Field `json:"fields"`
	// Truth is nil if the case has no float64 truth of its steps.
	Truth  *Truth  `json:"truth,omitempty"`
	Layers []Layer `json:"layers,omitempty"`

	Mode  string `json:"mode"`  // precision, autocast, state and noise
	Noise string `json:"noise"` // the stream that was used
	// Overflow is the first float16 overflow, if there was one.
	Overflow *rollout.Overflow `json:"overflow,omitempty"`
	Digest   string            `json:"digest"` // of the steps, [M,T-1,C,H,W]
	Steps    int               `json:"steps"`  // sample-steps: M*(T-1)
	MACs     int64             `json:"macs"`   // multiply-adds with weights of one sample-step
}

// Truth compares both sides with float64 steps from the same states and the
// same noise.
type Truth struct {
	Ours     diff.Number `json:"ours_rms_over_std"`
	Recorded diff.Number `json:"recorded_rms_over_std"`
	Ratio    diff.Number `json:"ratio"` // Ours/Recorded: 1 if both are equally accurate, below if refrun is closer
}

// Layer compares one module's output.
type Layer struct {
	Name string `json:"name"`
	diff.Diff
}

// CheckOneStep steps every recorded state of a case once. Whatever the case
// lacks or has wrong is an error of one line.
func CheckOneStep(c *rollout.Case, o OneStepOptions) (*OneStep, error) {
	if c.Step != nil {
		return oneStepOfGraph(c, o)
	}
	op, err := c.NewOperator()
	if err != nil {
		return nil, err
	}
	traj, truth, err := recordedStates(c, o.Mode)
	if err != nil {
		return nil, err
	}
	stream, err := c.OpenStream(o.Noise, op, o.Mode)
	if err != nil {
		return nil, err
	}
	r := &OneStep{Noise: stream.Name, Mode: c.Rollout.ModeName(op, o.Mode, stream), Steps: traj.M * (traj.T - 1),
		MACs: op.MACs(traj.H, traj.W)}
	step := 0
	s := &rollout.Stepper{Operator: op, Config: c.Rollout, Mode: o.Mode, Batch: o.Batch,
		Overflow: func(layer string, elements int) {
			if r.Overflow == nil || step < r.Overflow.Step {
				r.Overflow = &rollout.Overflow{Step: step, Layer: layer, Elements: elements}
			}
		}}

	sums := newOneStepSums(traj, truth, o.Mode)
	batches := c.Rollout.EngineBatches()
	done, total := 0, len(batches)*(traj.T-1)
	for k, b := range batches {
		lo, hi := b[0], b[1]
		x := tensor.New(c.Rollout.StartFormat(o.Mode), hi-lo, traj.C, traj.H, traj.W)
		for t := 1; t < traj.T; t++ {
			for m := lo; m < hi; m++ {
				copy(x.Samples(m-lo, m-lo+1).Data, traj.At(m, t-1))
			}
			if t > 1 {
				x.Format = stateFormat(c.Rollout, op, o.Mode, x.Data)
			}
			draws, err := stream.Draws(k, lo, hi, t)
			if err != nil {
				return nil, err
			}
			step = t
			next, err := s.Step(x, draws)
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", t, err)
			}
			for m := lo; m < hi; m++ {
				sums.add(m, t, next.Samples(m-lo, m-lo+1).Data)
			}
			if done++; o.Progress != nil {
				o.Progress(done, total)
			}
		}
	}
	sums.into(r)
	if c.Layers != nil {
		if r.Layers, err = compareLayers(c, op, o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// oneStepSums are the differences of steps from the recorded ones, and of both from the truth.
type oneStepSums struct {
	traj, truth         *rollout.States
	all, ours, recorded *diff.Accumulator
	perStep             []*diff.Accumulator
	fields              *diff.Fields
	digest              *rollout.Digest
}

func newOneStepSums(traj, truth *rollout.States, mode graph.Mode) *oneStepSums {
	std := diff.Std(traj.Data)
	s := &oneStepSums{
		traj: traj, truth: truth, all: diff.NewAccumulator(traj.Format, std), ours: diff.NewAccumulator(fp16.Float64, std),
		recorded: diff.NewAccumulator(fp16.Float64, std), fields: diff.NewFields(traj.T, traj.C),
		digest: rollout.NewDigest(mode.Wide(), traj.M, traj.T-1, traj.C, traj.H, traj.W),
	}
	for range traj.T - 1 {
		s.perStep = append(s.perStep, diff.NewAccumulator(traj.Format, std))
	}
	return s
}

// add adds realization m's step to t.
func (s *oneStepSums) add(m, t int, got []float64) {
	want, at := s.traj.At(m, t), (m*s.traj.T+t)*s.traj.CHW()
	s.all.AddAt(at, got, want)
	s.perStep[t-1].AddAt(at, got, want)
	s.fields.AddState(t, got, want)
	s.digest.Add(m, got)
	if s.truth != nil {
		s.ours.Add(got, s.truth.At(m, t-1))
		s.recorded.Add(want, s.truth.At(m, t-1))
	}
}

// into fills in what the sums say.
func (s *oneStepSums) into(r *OneStep) {
	r.All, r.Digest = s.all.Diff(), s.digest.Hex()
	for _, a := range s.perStep {
		r.PerStep = append(r.PerStep, a.Diff())
	}
	r.Fields = s.fields.All()[s.traj.C:]
	if s.truth != nil {
		u, v := s.ours.Diff().RMSOverStd, s.recorded.Diff().RMSOverStd
		r.Truth = &Truth{u, v, diff.Number(measure.Ratio(float64(u), float64(v)))}
	}
}

// recordedStates returns the trajectory, and its float64 truth if there is one.
func recordedStates(c *rollout.Case, mode graph.Mode) (traj, truth *rollout.States, err error) {
	if traj, err = c.ReadTrajectory(); err != nil {
		return nil, nil, err
	}
	if err := evidence.OnGrid(c.Trajectory.Path, "trajectory", traj.Data, mode.Wide()); err != nil {
		return nil, nil, err
	}
	if traj.T < 2 {
		return nil, nil, fmt.Errorf("%s: trajectory: %d state: want at least 2 to compare a step", c.Trajectory.Path, traj.T)
	}
	if truth, err = c.ReadTruth(); err != nil {
		return nil, nil, err
	}
	if truth != nil && (truth.H != traj.H || truth.W != traj.W) {
		return nil, nil, fmt.Errorf("%s: one_step: images are %dx%d: want %dx%d as in the trajectory", c.Truth.Path, truth.H,
			truth.W, traj.H, traj.W)
	}
	return traj, truth, nil
}

// stateFormat returns the format of recorded states after the first: the mode's, or the
// wide one if they are no such numbers.
func stateFormat(c rollout.Config, op *operator.Operator, m graph.Mode, x []float64) fp16.Format {
	f := c.StateFormat(op.Output(m))
	for _, v := range x {
		if v == v && !f.Holds(v) {
			return m.Wide()
		}
	}
	return f
}

// compareLayers applies the operator to the recorded input of layers.safetensors
// with the recorded draw, or if there is none the draws of the framework that
// follow manual_seed(base_seed + 1), and compares every module recorded there. Each
// layer is compared along the operator: its error includes those of the layers
// before it. Recorded tensors that no module is named after are left out.
func compareLayers(c *rollout.Case, op *operator.Operator, o OneStepOptions) ([]Layer, error) {
	f := c.Layers
	in, err := f.Tensor("input")
	if err != nil {
		return nil, err
	}
	x, err := evidence.NCHW(f, in, o.Mode.Wide())
	if err != nil {
		return nil, err
	}
	draws, err := evidence.RecordedDraws(f)
	if err != nil {
		return nil, err
	}
	if draws == nil && op.HasNoise() {
		name := o.Noise
		if name == "" || name == "tape" { // a tape has no draw for it
			name = cmp.Or(c.Framework(), "torch-cpu")
		}
		stream, err := c.OpenStream(name, op, o.Mode)
		if err != nil {
			return nil, fmt.Errorf("%s: stochastic_block.draw: missing: want it, or a stream to draw from: %w", f.Path, err)
		}
		if draws, err = stream.Draws(0, 0, x.N(), 1); err != nil {
			return nil, err
		}
	}
	var layers []Layer
	var bad error
	pass := &operator.Pass{Mode: o.Mode, Draws: draws, Feature: func(name string, y *tensor.Tensor) {
		t, err := f.Tensor(name)
		if err != nil || bad != nil {
			return // not recorded
		}
		want, err := evidence.NCHW(f, t, fp16.Float64)
		if err == nil && !want.SameShape(y) {
			err = fmt.Errorf("%s: %s: shape %s: want %s", f.Path, name, want.Dims(), y.Dims())
		}
		if err != nil {
			bad = err
			return
		}
		layers = append(layers, Layer{name, diff.Compare(y.Data, want.Data, y.Format)})
	}}
	if _, err := op.Forward(pass, x); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if bad != nil {
		return nil, bad
	}
	return layers, nil
}
