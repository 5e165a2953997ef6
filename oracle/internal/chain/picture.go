package chain

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// picture draws the first wrong step, or the last one: its errors by channel and in places of their format, what is
// expected of all steps, and of a wrong one the elements that are farthest off.
func (f *found) picture() error {
	r, p := f.c.Report, f.c.places[f.Seen]
	got, err := f.c.after(p)
	if err != nil {
		return err
	}
	off := make([]float64, len(got.Data))
	scale, most, sum := diff.NewUlpScale(got.Format), 0.0, 0.0
	for i, v := range got.Data {
		most, sum = max(most, f.Expected[i]), sum+f.Expected[i]
		if off[i] = (v - f.Exact[i]) / f.Expected[i]; v-v == 0 && f.Stored[i]-f.Stored[i] == 0 {
			r.Ulps.Add(scale.Steps(v, f.Stored[i]))
		}
	}
	n := float64(len(off))
	r.Expected = report.StepError{MaxAbs: diff.Number(most * math.Sqrt(2*measure.LnAbove(n*float64(len(f.Each))))),
		MeanAbs: diff.Number(sum / n * math.Sqrt(2/math.Pi)), RMSOverExpected: 1}
	if len(got.Shape) != 4 {
		return nil
	}
	r.Maps = append(r.Maps, maps(p, got.Shape, off)...)
	if f.Each[f.Seen].Fails() {
		r.Worst = append(r.Worst, f.farthest(p, got, off)...)
	}
	return nil
}

// maps are the sizes of a step's errors, by channel, averaged over the realizations.
func maps(p place, shape []int, off []float64) (all []report.Map) {
	n, c, h, w := shape[0], shape[1], shape[2], shape[3]
	for k := range c {
		v := make([]float64, h*w)
		for m := range n {
			for i := range v {
				if x := off[(m*c+k)*h*w+i]; x == x {
					v[i] += math.Abs(x) / float64(n)
				}
			}
		}
		all = append(all, report.Map{
			Title: fmt.Sprintf("step %d, channel %d: error over expected", p.t, k), H: h, W: w, Values: v,
		})
	}
	return all
}

// farthest are the elements of a step that are farthest from the contract: those first that are no numbers, or should
// be none.
func (f *found) farthest(p place, got *tensor.Tensor, off []float64) (all []report.Element) {
	size := func(i int) float64 {
		if d := (got.Data[i] - f.Stored[i]) / f.Expected[i]; d == d {
			return math.Abs(d)
		}
		if (got.Data[i]-got.Data[i] == 0) != (f.Stored[i]-f.Stored[i] == 0) {
			return math.Inf(1)
		}
		return -1
	}
	order := make([]int, len(off))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	format := got.Format
	bits := func(v float64) string { return fmt.Sprintf("0x%0*x", 2*format.Bytes(), format.Bits(format.Round(v))) }
	c, h, w := got.Shape[1], got.Shape[2], got.Shape[3]
	for _, i := range order[:min(mostWorst, len(order))] {
		all = append(all, report.Element{Step: p.t, Realization: p.lo + i/(c*h*w), C: i / (h * w) % c, H: i / w % h, W: i % w,
			Exact: diff.Number(f.Exact[i]), Rounded: bits(f.Stored[i]), Got: bits(got.Data[i]),
			GotValue: diff.Number(got.Data[i]), Error: diff.Number(off[i])})
	}
	return all
}
