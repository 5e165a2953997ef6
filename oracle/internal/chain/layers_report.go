package chain

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// row adds the figures of a layer, and notes numbers of which nothing is known.
func (r *recording) row(a asked, f *found) {
	e := &f.Each[0]
	row := report.LayerRow{Step: r.Step, Name: a.name, Op: a.op, Elements: e.Elements, Violations: e.Violations,
		Flips: e.Flips, FlipLimit: diff.Number(e.Expected), BiasZ: diff.Number(e.Bias), Variance: diff.Number(e.Errors),
		MaxE: diff.Number(e.Reach)}
	if !f.Passes() {
		row.WorstSlice = r.within(a, e)
	}
	r.Report.Layers = append(r.Report.Layers, row)
	if e.Unknown > 0 {
		r.Report.Unjudged = append(r.Report.Unjudged, fmt.Sprintf(
			"layer %s at step %d: %d numbers of which it is not known what right devices return", a.name, r.Step, e.Unknown))
	}
}

// within is the part of a layer that is wrong, "" if that is all of it.
func (r *recording) within(a asked, e *judge.Each) string {
	switch {
	case e.Violations > 0:
		return whereabouts(e.Wrong, a.got.Shape, r.Realization)
	case e.Region == "everywhere":
		return ""
	}
	return e.Region
}

// fail reports a layer that is wrong by itself.
func (r *recording) fail(a asked, f *found) error {
	e := &f.Each[0]
	x := report.Finding{Gate: "statistics", Step: r.Step, Realization: r.Realization, Layer: a.name, Slice: r.within(a, e),
		Excess: diff.Number(max(e.Excess, f.Excess))}
	in := ""
	if x.Slice != "" {
		in = " in " + x.Slice
	}
	x.Text = fmt.Sprintf("%s: errors%s are %s times what a right device's can be: "+
		"%d of %d elements are not the rounded value (right devices have %d at most), mean square %s", a.name, in,
		words.Three(float64(x.Excess)), e.Flips, e.Elements, e.Expected, words.Three(e.Errors))
	if e.Violations > 0 {
		x.Gate, x.Excess = "bound", diff.Number(max(e.Reach, math.Nextafter(1, 2)))
		x.Text = fmt.Sprintf("%s: %d of %d elements are outside of what any right device can have%s, "+
			"the worst %s times the bound away", a.name, e.Violations, e.Elements, in, words.Three(e.Reach))
	}
	if w := e.Worst; w != nil {
		x.Realization += w.Index[0]
		for _, of := range f.c.element(f.c.places[0], w) {
			of.Layer, of.Realization, of.Low, of.High = a.name, x.Realization, w.Low, w.High
			of.Error = diff.Number(e.Reach)
			r.Report.Worst = append(r.Report.Worst, of)
		}
	}
	if len(e.Wrong) > 0 {
		x.Realization = r.Realization + tensor.Index(slices.Min(e.Wrong), a.got.Shape)[0]
	}
	if err := r.why(a, f, &x); err != nil {
		return err
	}
	switch {
	case a.op == "noise" && (x.Diagnosis == "" || x.Verdict == report.FailLogic):
		x.Verdict = report.FailRNG
	case a.op == policy:
		x.Verdict, x.Layer = report.FailRollout, ""
		x.Text = fmt.Sprintf("the policy: %d of %d numbers of the state at step %d are not what it makes of the recorded "+
			"output", max(e.Violations, e.Flips), e.Elements, r.Step)
	}
	r.Find(x)
	return nil
}

// why says what kind of fault a wrong layer has, and of the first one which it is.
func (r *recording) why(a asked, f *found, x *report.Finding) error {
	if !r.named && !r.Late("diagnosis of layer "+a.name) {
		r.named = true
		if err := f.many.Faults(f.Joint, []int{0}, true); err != nil {
			return err
		}
	}
	if f.Cause != nil {
		text := x.Text
		f.c.cause(x, f.Cause)
		x.Text = text
		return nil
	}
	if x.Gate == "bound" && x.Slice != "" { // precision is no matter of place
		x.Verdict = report.FailLogic
		return nil
	}
	var err error
	x.Verdict, err = f.c.kindOf(0, f.Each[0].Wrong)
	return err
}

// element is the worst element of a layer of images.
func (c *checker) element(p place, w *judge.Worst) []report.Element {
	if len(w.Index) != 4 {
		return nil
	}
	number := func(s string) diff.Number {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			v = math.NaN()
		}
		return diff.Number(v)
	}
	e := report.Element{Step: p.t, Realization: p.lo + w.Index[0], C: w.Index[1], H: w.Index[2], W: w.Index[3],
		Rounded: w.Exact, Got: w.Got}
	e.Exact, e.GotValue = number(w.Exact), number(w.Got)
	return []report.Element{e}
}
