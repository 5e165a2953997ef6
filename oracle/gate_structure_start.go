package oracle

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// start holds state 0 against the case's initial condition, post-processed. A
// copy has the same bits. Normalizing is an operation that devices do in
// several roundings and with float32 sums, so there a small distance is right:
// 2^-17 of the largest number, times the condition number of the subtraction.
func (e *structureGate) start() error {
	const blind = "states stored one step late or early from the start on"
	s := e.states
	if e.c.Trajectory == nil {
		e.r.Blind = append(e.r.Blind, report.Blind{Name: blind, Least: diff.Number(math.Inf(1))})
		return nil
	}
	if _, err := e.c.Trajectory.Tensor("initial_condition"); err != nil {
		e.r.Blind = append(e.r.Blind, report.Blind{Name: blind, Least: diff.Number(math.Inf(1))})
		return nil
	}
	given, shape, err := e.c.ReadStart()
	if err != nil {
		return err
	}
	if shape.H != s.H || shape.W != s.W {
		return fmt.Errorf("%s: initial_condition: images are %dx%d: want %dx%d as in the trajectory", e.c.Trajectory.Path, shape.H, shape.W, s.H, s.W)
	}
	for _, b := range e.c.Rollout.EngineBatches() {
		x := tensor.New(e.mode.Wide(), b[1]-b[0], s.C, s.H, s.W)
		for m := b[0]; m < b[1]; m++ {
			from := given
			if len(given) > shape.Len() {
				from = given[m*shape.Len() : (m+1)*shape.Len()]
			}
			x.Format.RoundSlice(x.Samples(m-b[0], m-b[0]+1).Data, from)
		}
		want := startState(e.c.Rollout, x)
		for m := b[0]; m < b[1]; m++ {
			w := want.Samples(m-b[0], m-b[0]+1).Data
			if err := e.startOf(m, x.Samples(m-b[0], m-b[0]+1), w); err != nil {
				return err
			}
		}
	}
	return nil
}

// startState returns the states at t = 0 for initial conditions x.
func startState(c rollout.Config, x *tensor.Tensor) *tensor.Tensor {
	c.Policy = rollout.Autoregressive // the states after are the output
	return c.Advance(x, x, x.Format, operator.Mode{Precision: x.Format})
}

// startOf checks state 0 of realization m.
func (e *structureGate) startOf(m int, given *tensor.Tensor, want []float64) error {
	got := e.states.At(m, 0)
	stored := append([]float64(nil), want...)
	e.states.Format.RoundSlice(stored, want)
	limit := 0.0
	if e.c.Rollout.Normalization != "" {
		mean, most := 0.0, 0.0
		for i, v := range given.Data {
			mean += v / float64(len(given.Data))
			most = max(most, math.Abs(want[i]))
		}
		if limit = 0x1p-17 * most; limit > 0 { // zeros stay what they are
			limit *= 1 + math.Abs(mean)/diff.Std(given.Data)
		}
	}
	worst, at := 0.0, -1
	for i, v := range got {
		// Of numbers that lie so near, a coarse type may hold either neighbour.
		if f := e.states.Format; v >= f.Round(want[i]-limit) && v <= f.Round(want[i]+limit) {
			continue
		}
		if d := math.Abs(v - stored[i]); at < 0 || !(d <= worst) {
			worst, at = d, i
		}
	}
	if at < 0 {
		return nil
	}
	f := report.Finding{Verdict: report.FailRollout, Gate: "structure", Step: 0, Realization: m, Slice: place(at, e.states.H, e.states.W), Excess: diff.Number(ratio(worst, limit))}
	why := "it is something else"
	for _, coarse := range []fp16.Format{fp16.Float16, fp16.BFloat16, fp16.TF32} {
		c := append([]float64(nil), want...)
		coarse.RoundSlice(c, want)
		if f.Diagnosis == "" && rmsDiff(got, c) == 0 {
			f.Verdict, f.Diagnosis = report.FailPrecision, fmt.Sprintf("state kept in %v", coarse)
			why = fmt.Sprintf("it is the initial condition rounded to %v", coarse)
		}
	}
	if f.Diagnosis == "" && rmsDiff(got, given.Data) == 0 {
		f.Diagnosis, why = "start not post-processed", "it is the initial condition without its post-processing"
	}
	if f.Diagnosis == "" {
		late, err := e.startIsStep(m, want)
		if err != nil {
			return err
		}
		if late {
			f.Diagnosis, why = "states stored one step early", "it is what the first step makes of the initial condition, so that state t holds what state t+1 should be"
		}
	}
	f.Text = fmt.Sprintf("state 0 of realization %d is not the initial condition (largest difference %.3g): %s", m, worst, why)
	e.find(f)
	return nil
}

// startIsStep reports whether state 0 is the first step from the start: nearer
// to it than a tenth of the way that the step goes, which noise of unknown
// draws may take.
func (e *structureGate) startIsStep(m int, start []float64) (bool, error) {
	k, lo, hi := batchOf(e.c.Rollout, m)
	b, err := e.step(k, lo, hi, 1)
	if err != nil {
		return false, err
	}
	for i := range hi - lo {
		copy(b.X.Samples(i, i+1).Data, start)
	}
	y, err := e.emulated(b)
	if err != nil {
		return false, err
	}
	got, want := e.states.At(m, 0), b.sample(y.Data, m)
	way, share := rmsDiff(want, start), 0.1
	if e.stream == nil {
		share = 0.5
	}
	return rmsDiff(got, want) < share*way, nil
}
