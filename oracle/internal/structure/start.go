package structure

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// start holds state 0 against the case's initial condition, post-processed. A
// copy has the same bits. Normalizing is an operation that devices do in
// several roundings and with float32 sums, so there a small distance is right:
// 2^-17 of the largest number, times the condition number of the subtraction. Half numbers may be
// normalized by operations on half numbers.
func (e *Gate) start() error {
	const blind = "states stored one step late or early from the start on"
	s := e.States
	known := e.Case.Trajectory != nil
	if known {
		_, err := e.Case.Trajectory.Tensor("initial_condition")
		known = err == nil
	}
	if !known {
		e.Report.Blind = append(e.Report.Blind, report.Blind{Name: blind, Least: diff.Number(math.Inf(1))})
		return nil
	}
	given, shape, err := e.Case.ReadStart()
	if err != nil {
		return err
	}
	if shape.H != s.H || shape.W != s.W {
		return fmt.Errorf("%s: initial_condition: images are %dx%d: want %dx%d as in the trajectory",
			e.Case.Trajectory.Path, shape.H, shape.W, s.H, s.W)
	}
	for _, b := range e.Case.Rollout.EngineBatches() {
		x := tensor.New(e.Case.Rollout.StartFormat(e.Mode), b[1]-b[0], s.C, s.H, s.W)
		for m := b[0]; m < b[1]; m++ {
			from := given
			if len(given) > shape.Len() {
				from = given[m*shape.Len() : (m+1)*shape.Len()]
			}
			x.Format.RoundSlice(x.Samples(m-b[0], m-b[0]+1).Data, from)
		}
		want := evidence.StartState(e.Case.Rollout, x)
		for m := b[0]; m < b[1]; m++ {
			w := want.Samples(m-b[0], m-b[0]+1).Data
			if err := e.StartOf(m, x.Samples(m-b[0], m-b[0]+1), w); err != nil {
				return err
			}
		}
	}
	return nil
}

// StartOf checks state 0 of realization m.
func (e *Gate) StartOf(m int, given *tensor.Tensor, want []float64) error {
	got := e.States.At(m, 0)
	stored := append([]float64(nil), want...)
	e.States.Format.RoundSlice(stored, want)
	limit := 0.0
	if e.Case.Rollout.Normalization != "" {
		mean, most := 0.0, 0.0
		for i, v := range given.Data {
			mean += v / float64(len(given.Data))
			most = max(most, math.Abs(want[i]))
		}
		if limit = 0x1p-17 * most; limit > 0 { // zeros stay what they are
			limit *= 1 + math.Abs(mean)/diff.Std(given.Data)
		}
		if given.Format.Half() { // the mean, the difference, what divides it and the quotient may each be a half number
			limit += given.Format.Ulp(1) / 2 * (3*most + math.Abs(mean)/diff.Std(given.Data))
		}
	}
	worst, at := 0.0, -1
	for i, v := range got {
		// Of numbers that lie so near, a coarse type may hold either neighbour.
		if f := e.States.Format; v >= f.Round(want[i]-limit) && v <= f.Round(want[i]+limit) {
			continue
		}
		if d := math.Abs(v - stored[i]); at < 0 || !(d <= worst) {
			worst, at = d, i
		}
	}
	if at < 0 {
		return nil
	}
	f := report.Finding{Verdict: report.FailRollout, Gate: "structure", Step: 0, Realization: m,
		Slice: evidence.Place(at, e.States.H, e.States.W), Excess: diff.Number(measure.Ratio(worst, limit))}
	why := "it is something else"
	for _, coarse := range []fp16.Format{fp16.Float16, fp16.BFloat16, fp16.TF32} {
		c := append([]float64(nil), want...)
		coarse.RoundSlice(c, want)
		if f.ID == "" && measure.RMSDiff(got, c) == 0 {
			f.Verdict, f.ID = report.FailPrecision, "rollout.state-kept-in:"+coarse.String()
			why = fmt.Sprintf("it is the initial condition rounded to %v", coarse)
		}
	}
	if f.ID == "" && measure.RMSDiff(got, given.Data) == 0 {
		f.ID, why = "rollout.start-not-post-processed", "it is the initial condition without its post-processing"
	}
	if f.ID == "" {
		late, err := e.startIsStep(m, want)
		if err != nil {
			return err
		}
		if late {
			f.ID, why = "rollout.states-stored-one-step-early", "it is what the first step makes of the initial "+
				"condition, so that state t holds what state t+1 should be"
		}
	}
	f.Text = fmt.Sprintf("state 0 of realization %d is not the initial condition (largest difference %.3g): %s",
		m, worst, why)
	e.Find(f)
	return nil
}

// startIsStep reports whether state 0 is the first step from the start: nearer
// to it than a tenth of the way that the step goes, which noise of unknown
// draws may take.
func (e *Gate) startIsStep(m int, start []float64) (bool, error) {
	b, err := e.StepWith(m, 1)
	if err != nil {
		return false, err
	}
	for i := range b.X.N() {
		copy(b.X.Samples(i, i+1).Data, start)
	}
	y, err := e.Emulated(b)
	if err != nil {
		return false, err
	}
	got, want := e.States.At(m, 0), b.Sample(y.Data, m)
	way, share := measure.RMSDiff(want, start), 0.1
	if e.Stream == nil {
		share = 0.5
	}
	return measure.RMSDiff(got, want) < share*way, nil
}
