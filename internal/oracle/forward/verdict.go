package forward

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// findings become a report.
type findings struct {
	q         *Question
	r         *report.Report
	others    []string // contracts that are not the claim's
	powerless []string // pieces that show nothing
	judged    int
	left      []string // what nothing is held against, by name
	blind     []string
}

// leave notes an output or a layer that nothing is held against.
func (f *findings) leave(p *piece, why error) {
	f.left = append(f.left, p.name)
	f.r.Unjudged = append(f.r.Unjudged, fmt.Sprintf("%s: %v", p.name, why))
}

// add takes what was found of a piece.
func (f *findings) add(p *piece, a answer) {
	if a.err != nil {
		if f.leave(p, cause(a.err)); a.Report != nil {
			f.measure(p, a)
		}
		return
	}
	f.judged++
	f.r.Layers = append(f.r.Layers, report.LayerRow{
		Step: 1, Name: p.name, Op: p.ops(), Elements: a.Elements, Violations: a.Violations, Flips: a.Flips,
		FlipLimit: diff.Number(a.Expected), Variance: diff.Number(a.Errors), WorstSlice: a.Region,
	})
	for _, b := range a.Blind {
		if text := titleOf(b); text != "" && !slices.Contains(f.blind, text) {
			f.blind = append(f.blind, text)
		}
	}
	f.measure(p, a)
	switch {
	case a.Verdict == judge.Fail:
		f.fail(p, a)
	case p.output && a.Unseen:
		f.leave(p, errors.New(a.Reason))
	case a.Verdict == judge.NoPower && a.Elements > 1:
		f.powerless = append(f.powerless, p.name)
	}
	for _, name := range []string{a.contract.Name, f.wider(a)} {
		if name != "" && a.Verdict != judge.Fail && !slices.Contains(f.others, name) {
			f.others = append(f.others, name)
		}
	}
}

// wider says which operands a device leaves in float32 that a claim of TF32 rounds; "" for none.
func (f *findings) wider(a answer) string {
	_, but, some := strings.Cut(a.Contract.Operands, " but of ")
	for _, part := range strings.Split(a.Contract.Singles, "; ") {
		if of, is := strings.CutSuffix(part, " in float32"); is {
			but, some = strings.TrimPrefix(but+", "+strings.TrimPrefix(of, "of "), ", "), true
		}
	}
	switch {
	case f.q.Claim.Mode.Precision != fp16.TF32 || a.Contract.Operands != "" && !some:
		return ""
	case some:
		return "operands of " + but + " kept in float32"
	}
	return "operands of products kept in float32"
}

// cause is the last part of an error's text: of which operation what is not known.
func cause(err error) error {
	for errors.Unwrap(errors.Unwrap(err)) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// ops names the operations of a piece.
func (p *piece) ops() string {
	var names []string
	for i := range p.graph.Nodes {
		if n := p.graph.Nodes[i].Op.Name(); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) > mostOperations {
		return fmt.Sprintf("%d operations", len(p.graph.Nodes))
	}
	return strings.Join(names, ", ")
}

// titleOf is what a fault that was not visible is called; "" for a step that is rounded.
func titleOf(id string) string {
	for _, f := range judge.Faults {
		if f.ID == id {
			return f.Title
		}
	}
	return ""
}

// measure adds the errors of the network's outputs.
func (f *findings) measure(p *piece, a answer) {
	if !p.output {
		return
	}
	exact, err := p.exact()
	if err != nil {
		return
	}
	e := report.StepRow{Step: 1, R64: diff.Number(a.Errors), Violation: a.Verdict == judge.Fail}
	sum := 0.0
	for i, got := range p.got.Data {
		d := math.Abs(got - exact[i])
		if d > float64(e.MaxAbs) || d != d {
			e.MaxAbs = diff.Number(d)
		}
		sum += d / float64(len(exact))
	}
	e.MeanAbs = diff.Number(sum)
	f.r.Steps = append(f.r.Steps, e)
	o := &f.r.OneStep
	o.MaxAbs, o.MeanAbs, o.RMSOverExpected = max(o.MaxAbs, e.MaxAbs), max(o.MeanAbs, e.MeanAbs),
		max(o.RMSOverExpected, diff.Number(math.Sqrt(a.Errors)))
}

// exact evaluates a piece in float64.
func (p *piece) exact() ([]float64, error) { return lower.Exact(p.graph, p.inputs, nil) }

// fail adds a finding.
func (f *findings) fail(p *piece, a answer) {
	x := report.Finding{Verdict: f.kind(p, a), Gate: "statistics", Step: 1, Realization: -1, Layer: p.name,
		Slice: a.Region, Diagnosis: a.Fault, Known: a.Known, Chance: a.Chance, Excess: diff.Number(a.Errors)}
	if a.Errors == math.MaxFloat64 {
		x.Excess = diff.Number(math.Inf(1))
	}
	if a.Violations > 0 {
		x.Gate = "bound"
	}
	if f.q.whole(p) {
		x.Gate, x.Layer = "accuracy", ""
	}
	x.ID = "unnamed." + x.Gate
	if a.Fault != "" {
		x.ID, x.Advice = a.FaultID, a.Advice
	}
	x.Text = a.Reason
	if a.Advice != "" {
		x.Text += "; " + a.Advice
	}
	f.r.Findings = append(f.r.Findings, x)
	if w := a.Worst; w != nil {
		f.r.Worst = append(f.r.Worst, element(p.name, w))
	}
}

// element is a worst element as a report has it: of its place the first axis and the last three.
func element(layer string, w *judge.Worst) report.Element {
	e := report.Element{Step: 1, Layer: layer, Rounded: w.Exact, Low: w.Low, High: w.High}
	number := func(s string) diff.Number {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			v = math.NaN()
		}
		return diff.Number(v)
	}
	e.Exact, e.GotValue = number(w.Exact), number(w.Got)
	at := w.Index
	if len(at) > 3 {
		e.Realization, at = at[0], at[len(at)-3:]
	}
	for i, to := range []*int{&e.W, &e.H, &e.C} {
		if k := len(at) - 1 - i; k >= 0 {
			*to = at[k]
		}
	}
	return e
}

// kind says whether a failure is one of logic or of precision: by its row, or, without one, of logic if its
// errors lie in a place or are more than four times those of bfloat16, the coarsest arithmetic there is.
func (f *findings) kind(p *piece, a answer) report.Verdict {
	if a.FaultID != "" {
		return table.ByID(a.FaultID).Verdict
	}
	if a.Region != "" {
		return report.FailLogic
	}
	exact, err := p.exact()
	if err != nil {
		return report.FailLogic
	}
	coarse, err := lower.Exact(p.graph, p.inputs, func(t *tensor.Tensor) {
		if t.Format != fp16.Int64 {
			fp16.BFloat16.RoundSlice(t.Data, t.Data)
		}
	})
	if err != nil || !(square(p.got.Data, exact) <= judge.Coarsest*square(coarse, exact)) {
		return report.FailLogic
	}
	return report.FailPrecision
}

func square(a, b []float64) (s float64) {
	for i, v := range a {
		s += float64((v - b[i]) * (v - b[i]))
	}
	return s
}

// conclude says what all findings amount to.
func (f *findings) conclude() *report.Report {
	r := f.r
	if len(f.blind) > 0 {
		r.Notes = append(r.Notes, "these inputs would not show: "+strings.Join(f.blind, "; "))
	}
	what := "layers"
	if f.q.whole(nil) {
		what, r.Layers = "outputs", nil
	}
	switch {
	case len(r.Findings) > 0:
		x := r.Findings[0] // what is wrong behind it has right inputs of its own, and is no consequence
		r.Verdict, r.FirstStep, r.FirstLayer, r.Slice, r.Diagnosis = x.Verdict, 1, x.Layer, x.Slice, x.Diagnosis
		r.Reason = fmt.Sprintf("%s: %s.", place(x), x.Text)
		if n := len(r.Findings) - 1; n > 0 {
			r.Reason += fmt.Sprintf(" %d more of %d %s are wrong by themselves.", n, f.judged, what)
		}
	case f.judged == 0:
		r.Verdict, r.Reason = report.NoPower, f.unjudged()+" Nothing was judged: this is no pass."
	case len(f.powerless) == f.judged:
		r.Verdict, r.Reason = report.NoPower, fmt.Sprintf("These inputs show nothing: "+
			"what is right is one number everywhere, or next to zeros, in %s.", strings.Join(f.powerless, ", "))
	case len(r.Unjudged) > 0:
		r.Verdict = r.Pass(report.PassConforming)
		r.Reason = fmt.Sprintf("%s No fault was found in the %d %s that were judged: this is no pass.",
			f.unjudged(), f.judged, what)
	case len(f.others) > 0:
		r.Verdict, r.Contract = report.PassAccurate, f.q.Claim.String()+" with fewer roundings: "+strings.Join(f.others, "; ")
		r.Reason = fmt.Sprintf("All %d %s that were judged are as accurate as %v or better: %s.",
			f.judged, what, f.q.Claim, strings.Join(f.others, "; "))
	default:
		r.Verdict, r.Contract = report.PassConforming, f.q.Claim.String()
		r.Reason = fmt.Sprintf("All %d %s that were judged are what %v gives.", f.judged, what, f.q.Claim)
	}
	if r.Verdict.Passed() && len(f.powerless) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("these inputs show nothing of %s", strings.Join(f.powerless, ", ")))
	}
	return r
}

func place(x report.Finding) string {
	switch {
	case x.Layer == "":
		return "The output is wrong"
	case x.Slice != "":
		return fmt.Sprintf("%s is the first wrong layer, at %s", x.Layer, x.Slice)
	}
	return x.Layer + " is the first wrong layer"
}

// unjudged says what was not judged.
func (f *findings) unjudged() string {
	names, more := f.left, ""
	if n := len(names) - mostUnjudged; n > 0 {
		names, more = names[:mostUnjudged], fmt.Sprintf(" and %d more", n)
	}
	return "Not judged: " + strings.Join(names, ", ") + more + "."
}
