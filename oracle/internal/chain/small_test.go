package chain_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestConstantImages: a norm of a constant image divides by next to nothing errors of sums that differ by the place of
// a pixel, where convolutions are products of matrices. Such a device is right.
func TestConstantImages(t *testing.T) {
	t.Parallel()
	for member := range uint64(2) {
		r := rig.NewRig(t, "float32", "", 0)
		r.Config = rollout.Config{Policy: rollout.Autoregressive, Timesteps: 3, Realizations: 1, BaseSeed: 7}
		r.Start = func(x *tensor.Tensor) {
			for i := range x.Data {
				x.Data[i] = 2
			}
		}
		config := r.Op.Config
		config.KernelSize, config.Normalization, config.Activation = 1, "group", "relu"
		var err error
		if r.Op, err = operator.Init(config, 5); err != nil {
			t.Fatal(err)
		}
		legal := &emulate.Legal{Machine: emulate.New(r.Op, r.Config), U: 0x1p-24, Lambda: 1, Blocks: true,
			Member: 1<<30 + member}
		states := r.Run(func(_ *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			d.Perturb = legal.Disturb
		})
		rig.Want(t, "right", rig.Do(t, r.Exam(states, true), chain.Steps), "", "", 0)
	}
}

// TestNarrowStates: states that are kept in a half type, of an operator in float32, are what its policy and a
// normalization of states store. What is wrong in one row of them is of logic, and has no name.
func TestNarrowStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ precision, state string }{{"float32", "float16"}, {"bfloat16", "bfloat16"}} {
		for _, config := range []rollout.Config{
			{Policy: rollout.Convex, Alpha: .25, Clamp: &[2]float64{-.7, .7}},
			{Policy: rollout.Residual, Dt: .5}, {Policy: rollout.Convex, Alpha: .5, Normalization: rollout.ZScore},
		} {
			r := rig.NewRig(t, c.precision, "", 0)
			config.Timesteps, config.Realizations, config.BaseSeed, config.State = 4, 1, 7, c.state
			r.Config = config
			for _, wrong := range []bool{false, true} {
				if wrong && (config.Normalization != "" || // which says what a row is beside others
					!share.All() && (config.Policy == rollout.Residual) != (c.precision == "bfloat16")) {
					continue
				}
				states := r.Run(nil)
				want := report.Verdict("")
				if wrong {
					row := states.At(0, 2)[:r.Size]
					for i, j := 0, len(row)-1; i < j; i, j = i+1, j-1 {
						row[i], row[j] = row[j], row[i]
					}
					want = report.FailLogic
				}
				rig.Want(t, c.state, rig.Do(t, r.Exam(states, true), chain.Steps), want, "", 2)
			}
		}
	}
}

// TestNoNumbers: of steps to and from a state that is NaN throughout the report has no figures, and not that their
// error is 0.
func TestNoNumbers(t *testing.T) {
	t.Parallel()
	r := rig.NewRig(t, "float32", "", 0)
	r.Config.Timesteps, r.Config.Realizations = 4, 1
	states := r.Run(nil)
	for i := range states.At(0, 1) {
		states.At(0, 1)[i] = math.NaN()
	}
	e := r.Exam(states, true)
	rig.Do(t, e, chain.Steps)
	for _, row := range e.Report.Steps {
		if none := math.IsNaN(float64(row.MaxAbs)) && math.IsNaN(float64(row.R64)); none != (row.Step <= 2) {
			t.Errorf("step %d: %+v", row.Step, row)
		}
	}
	if one := e.Report.OneStep; !(one.MaxAbs > 0) || !(one.RMSOverExpected > 0) {
		t.Errorf("of all steps: %+v", one)
	}
}

// TestPicture: of a wrong row the report has the elements that are farthest off, all in that row, maps of the step's
// errors with the row, and what is expected; of right steps maps of the last one and no elements.
func TestPicture(t *testing.T) {
	t.Parallel()
	for _, wrong := range []bool{false, true} {
		r := rig.NewRig(t, "float16", "", 0)
		r.Config.Timesteps, r.Config.Realizations = 4, 1
		states := r.Run(nil)
		if wrong {
			for i := range r.Size {
				states.At(0, 2)[3*r.Size+i] += .25
			}
		}
		e := r.Exam(states, true)
		rig.Do(t, e, chain.Steps)
		of, step := e.Report, 3
		if wrong {
			step = 2
		}
		if len(of.Maps) != 3 || !strings.HasPrefix(of.Maps[0].Title, fmt.Sprintf("step %d, channel 0", step)) {
			t.Fatalf("wrong %v: %d maps: want 3 of step %d", wrong, len(of.Maps), step)
		}
		if x := of.Expected; !(x.MeanAbs > 0) || !(x.MaxAbs > x.MeanAbs) || !(x.MaxAbs < .05) {
			t.Errorf("wrong %v: expected %+v", wrong, x)
		}
		inside, outside := 0., 0.
		for i, v := range of.Maps[0].Values {
			if i/r.Size == 3 {
				inside = max(inside, v)
			} else {
				outside = max(outside, v)
			}
		}
		if wrong != (inside > 10*outside) || wrong != (len(of.Worst) == 10) || !wrong && len(of.Worst) > 0 {
			t.Errorf("wrong %v: %v in the row and %v elsewhere, %d elements", wrong, inside, outside, len(of.Worst))
		}
		for _, x := range of.Worst {
			if x.Step != 2 || x.C != 0 || x.H != 3 || math.Abs(float64(x.GotValue-x.Exact)-.25) > .01 || x.Got == x.Rounded {
				t.Errorf("%+v", x)
			}
		}
	}
}
