package replay

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

const (
	freeSteps   = 32   // that are rolled out,
	freeLarge   = 12   // and of an operator whose steps take long
	freeDelta   = 1e-4 // distance of the twins over the std: far above float32's roundings
	freeHorizon = 0.1  // of the std: from there on a free-running comparison says nothing
	freeSlack   = 5    // times the predicted distance that is worth a note
)

// Free measures what a comparison of whole rollouts would be worth. Two float32
// rollouts of ours, from the device's start and with its noise, run side by
// side; after every step the second is brought back to the same small distance,
// so that the growth of each step is that of a small difference:
//
//	g_t = |Y'_t - Y_t| / delta
//
// A device that errs by e in every step is then expected at a distance D of
//
//	D_t^2 = (g_t D_{t-1})^2 + e^2
//
// from our own rollout, until that reaches the size of the states. A device that
// is farther away, with all single steps right, is worth a note and no more: the
// roundings of a step may feed the growing direction more or less than the
// difference of the twins does.
func (e *Gate) Free() error {
	if e.Late("growth of small differences") || e.Report.GrowthPerStep != nil {
		return nil
	}
	f, err := e.newFree()
	if f == nil || err != nil {
		return err
	}
	s := e.States
	n := e.rolled()
	oneStep := 1.2533 * float64(e.Report.OneStep.MeanAbs) // sqrt(pi/2): from mean to RMS of a normal error
	_, faulty := e.firstFailure()
	var logs, distance float64
	counted, noted := 0, false
	growth := 0.0
	for t := 1; t <= n; t++ {
		if err := e.Ctx.Err(); err != nil {
			return err
		}
		if e.Late("growth of small differences") {
			return nil
		}
		g, err := f.step(t)
		if err != nil {
			return err
		}
		if !(g > 0) || !measure.Finite(g) {
			return nil // nothing is left of the difference: there is no growth to speak of
		}
		if t > 2 || n <= 4 { // a random direction first turns into the growing one
			logs += elem.Log(g)
			counted++
			growth = elem.Exp(logs / float64(counted))
		}
		std := diff.Std(f.y.Data)
		distance = math.Sqrt(float64(g*distance*g*distance) + float64(oneStep*oneStep))
		e.horizon(t, distance, std)
		got := measure.RMSDiff(f.device(t), f.y.Data)
		if e.Stream != nil && !faulty && !noted && oneStep > 0 && distance < freeHorizon*std &&
			got > freeSlack*distance+1e-6*std {
			noted = true
			e.Report.Notes = append(e.Report.Notes,
				fmt.Sprintf("free-running, state %d is %.2g from our own rollout, "+
					"where single steps and growth make one expect %.2g; no single step is wrong", t, got, distance))
		}
	}
	g := diff.Number(growth)
	e.Report.GrowthPerStep = &g
	std := diff.Std(f.y.Data)
	for t := n + 1; t < s.T && growth > 1; t++ {
		distance = math.Sqrt(float64(growth*distance*growth*distance) + float64(oneStep*oneStep))
		e.horizon(t, distance, std)
	}
	return nil
}

// rolled returns how many steps are rolled out.
func (e *Gate) rolled() int {
	if s := e.States; e.Op.MACs(s.H, s.W) > evidence.LargeForward {
		return min(s.T-1, freeLarge)
	}
	return min(e.States.T-1, freeSteps)
}

// firstFailure reports whether any gate has found a fault.
func (e *Gate) firstFailure() (report.Finding, bool) {
	for _, f := range e.Findings() {
		if f.Verdict != report.NoPower {
			return f, true
		}
	}
	return report.Finding{}, false
}

func (e *Gate) horizon(t int, distance, std float64) {
	if e.Report.Horizon == nil && distance > freeHorizon*std {
		e.Report.Horizon = &t
	}
}

// twins are two float32 rollouts on their way: the first realization's or,
// where normalization joins realizations, the first engine batch's.
type twins struct {
	e       *evidence.Evidence
	stepper rollout.Stepper
	hi      int // realizations that take part
	batch   int // of the engine batch
	y, z    *tensor.Tensor
	delta   float64
}

// newFree starts the twins; nil if the device's start is none.
func (e *Gate) newFree() (*twins, error) {
	s, c := e.States, e.Case.Rollout
	batch := c.EngineBatches()[0][1]
	f := &twins{e: e.Evidence, hi: 1, batch: batch}
	if c.Normalization != "" && c.EngineBatch > 0 {
		f.hi = batch
	}
	c.Realizations = f.hi
	f.stepper = rollout.Stepper{Operator: e.Op, Config: c, Mode: graph.Mode{Precision: fp16.Float32}}
	f.y = tensor.New(fp16.Float32, f.hi, s.C, s.H, s.W)
	for m := range f.hi {
		fp16.Float32.RoundSlice(f.y.Samples(m, m+1).Data, s.At(m, 0))
	}
	if !measure.AllFinite(f.y) {
		return nil, nil
	}
	f.delta = freeDelta * max(diff.Std(f.y.Data), 1e-3*measure.RMS(f.y.Data))
	if f.delta == 0 {
		f.delta = freeDelta // a start of zeros
	}
	f.z = f.y.Clone()
	sign := uint32(1)
	for i := range f.z.Data {
		sign = 1664525*sign + 1013904223
		f.z.Data[i] = fp16.Float32.Round(f.z.Data[i] + math.Copysign(f.delta, float64(sign>>31)-0.5))
	}
	return f, nil
}

// device returns the device's states at t.
func (f *twins) device(t int) []float64 {
	var x []float64
	for m := range f.hi {
		x = append(x, f.e.States.At(m, t)...)
	}
	return x
}

// step takes both to time t and returns how their distance has grown.
func (f *twins) step(t int) (growth float64, err error) {
	before := measure.RMSDiff(f.y.Data, f.z.Data)
	if f.y, err = f.next(f.y, t); err != nil {
		return 0, err
	}
	if f.z, err = f.next(f.z, t); err != nil {
		return 0, err
	}
	after := measure.RMSDiff(f.y.Data, f.z.Data)
	for i, y := range f.y.Data {
		f.z.Data[i] = fp16.Float32.Round(y + float64((f.z.Data[i]-y)*(f.delta/after)))
	}
	return measure.Ratio(after, before), nil
}

func (f *twins) next(x *tensor.Tensor, t int) (*tensor.Tensor, error) {
	var draws noise.Draws
	var err error
	if f.e.Stream != nil {
		draws, err = f.e.Stream.Draws(0, 0, f.batch, t)
	} else {
		draws, err = evidence.SomeNoise(0, 0, f.batch, t)
	}
	if err != nil {
		return nil, err
	}
	if draws != nil && f.hi < f.batch {
		draws = firstOf{draws, f.batch}
	}
	return f.stepper.Step(x, draws)
}

// firstOf draws for a batch and hands out the first realization's numbers.
type firstOf struct {
	from  noise.Draws
	batch int
}

func (d firstOf) Draw(kind noise.Kind, p float64, shape []int, dst []float64) error {
	all := make([]float64, d.batch*len(dst))
	err := d.from.Draw(kind, p, append([]int{d.batch}, shape[1:]...), all)
	copy(dst, all)
	return err
}
