package steps

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// report writes down all steps, and the fault if there is one.
func (g *stepGate) report(all []*stepFigures, bad *verdictOn) error {
	r := g.e.Report
	g.rows(all, bad)
	if g.spared.value > 0 {
		r.Notes = append(r.Notes, g.spared.note())
	} else if bad == nil {
		note, err := g.farNote(all)
		if err != nil {
			return err
		}
		if note != "" {
			r.Notes = append(r.Notes, note)
		}
	}
	if note := levelNote(float64(r.OneStep.RMSOverExpected)); note != "" && bad == nil {
		r.Notes = append(r.Notes, note)
	}
	if note := g.h0.alikeNote(all); note != "" && bad == nil {
		r.Notes = append(r.Notes, note)
	}
	nodes := g.e.Machine.Nodes
	name, whole := g.streamName(), g.use.Whole(nodes, g.e.Case.Rollout)
	if bad == nil && !g.unnamed {
		r.Contract = g.use.Name(g.e.Case.Rollout.StateFormat(g.output(g.use)), name, whole)
	}
	r.Pattern = g.use.Differ(nodes)
	if g.use.Half() && !g.unnamed {
		r.Pattern = strings.TrimSuffix(g.use.Stores(nodes)+"; "+r.Pattern, "; ")
	}
	batch, t := 0, g.e.States.T-1
	if bad != nil {
		batch, t = bad.figures.batch, bad.figures.step
	}
	m, err := g.measureStep(batch, t)
	if err != nil {
		return err
	}
	g.expected(m)
	g.maps(m)
	if bad != nil {
		g.worst(m)
		return g.findings(m, bad, all)
	}
	return g.power(all, m)
}

// mostUsual is how many times the expected errors most right devices have at the most: by another method, F(4x4), sums
// have 4.4.
const mostUsual = 4

// levelNote says that a run without a fault has errors that few right devices have; "" where it has not.
func levelNote(level float64) string {
	if !(level > mostUsual) {
		return ""
	}
	return fmt.Sprintf("the RMS error of a step is %.3g times what the claim makes one expect: "+
		"sums in tiles (Winograd's method) have that, and so has a fault that is no larger; "+
		"recorded layers tell one from the other", level)
}

func (g *stepGate) streamName() string {
	if g.e.Stream == nil {
		return "none"
	}
	return g.e.Stream.Name
}

// rows fills in the table of steps and the errors over all of them.
func (g *stepGate) rows(all []*stepFigures, bad *verdictOn) {
	var count, sum, z, most float64
	for i := 0; i < len(all); {
		t := all[i].step
		var row report.StepRow
		var n, abs, zz, squares float64
		row.Step = t
		fields := diff.NewFields(1, g.e.States.C)
		for ; i < len(all) && all[i].step == t; i++ {
			f := all[i]
			fields.Join(0, f.fields)
			n, abs, zz = n+f.count, abs+f.sumAbs, zz+f.sumZ
			squares += f.cuts.Of[measure.InAll].Squares[0]
			row.MaxAbs, row.Peak = max(row.MaxAbs, diff.Number(f.maxAbs)), max(row.Peak, diff.Number(f.peak()))
			row.Violation = row.Violation || f.wrong > 0 || !g.unnamed && g.h0.judge(f) != nil
		}
		count, sum, z = count+n, sum+abs, z+zz
		if n > 0 {
			most = max(most, float64(row.MaxAbs))
		}
		if n == 0 { // nothing finite to compare is no error of 0
			row.MaxAbs, row.Peak = diff.Number(math.NaN()), diff.Number(math.NaN())
		}
		row.MeanAbs, row.R64, row.Re = diff.Number(abs/n), diff.Number(zz/n), diff.Number(math.Sqrt(squares/n))
		g.e.Report.Steps = append(g.e.Report.Steps, row)
		g.e.Report.AddFields(t, fields)
	}
	count = max(count, 1)
	g.e.Report.OneStep = report.StepError{MaxAbs: diff.Number(most), MeanAbs: diff.Number(sum / count),
		RMSOverExpected: diff.Number(math.Sqrt(z / count))}
}

// expected fills in what the claim makes one expect, as normal errors have it.
func (g *stepGate) expected(m *measured) {
	var sum, most float64
	for _, s := range m.s {
		if measure.Finite(s) {
			sum, most = sum+s, max(most, s)
		}
	}
	n := float64(len(m.s)) * float64(g.e.States.T-1)
	// The largest of n normal numbers is about sqrt(2 ln n) deviations.
	g.e.Report.Expected = report.StepError{MaxAbs: diff.Number(most * math.Sqrt(2*measure.LnAbove(n))),
		MeanAbs: diff.Number(sum / float64(len(m.s)) * math.Sqrt(2/math.Pi)), RMSOverExpected: 1}
}

// maps draws |r| of the step per channel, averaged over the realizations, and
// counts its ulps.
func (g *stepGate) maps(m *measured) {
	hw := m.X.H() * m.X.W()
	for c := range m.X.C() {
		v := make([]float64, hw)
		for n := range m.X.N() {
			for k := range v {
				if r := m.r[(n*m.X.C()+c)*hw+k]; r == r {
					v[k] += math.Abs(r) / float64(m.X.N())
				}
			}
		}
		g.e.Report.Maps = append(g.e.Report.Maps, report.Map{
			Title: fmt.Sprintf("step %d, channel %d: error over expected", m.Step, c), H: m.X.H(),
			W: m.X.W(), Values: v,
		})
	}
	scale := diff.NewUlpScale(g.format())
	for i, v := range m.Got {
		if measure.Finite(v) && measure.Finite(m.ref[i]) {
			g.e.Report.Ulps.Add(scale.Steps(v, m.ref[i]))
		}
	}
}

// format is the format of the states.
func (g *stepGate) format() fp16.Format {
	return g.e.Case.Rollout.StateFormat(g.e.Op.Output(g.claim.Mode))
}

// worst lists the ten elements that are farthest off.
func (g *stepGate) worst(m *measured) {
	order := make([]int, 0, len(m.r))
	size := func(i int) float64 {
		if m.r[i] != m.r[i] {
			if measure.Finite(m.Got[i]) != measure.Finite(m.ref[i]) {
				return math.Inf(1)
			}
			return -1
		}
		return math.Abs(m.r[i])
	}
	for i := range m.r {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	f := g.format()
	for _, i := range order[:min(10, len(order))] {
		x, y, c, n := i%m.X.W(), i/m.X.W()%m.X.H(), i/(m.X.W()*m.X.H())%m.X.C(), i/(m.X.W()*m.X.H()*m.X.C())
		g.e.Report.Worst = append(g.e.Report.Worst, report.Element{Step: m.Step, Realization: m.Lo + n, C: c, H: y, W: x,
			Exact: diff.Number(m.truth[i]), Rounded: hexOf(f, m.ref[i]), Got: hexOf(f, m.Got[i]),
			GotValue: diff.Number(m.Got[i]),
			Error:    diff.Number((m.Got[i] - m.truth[i]) / m.s[i])})
	}
}

// findings adds what is wrong at the first faulty step.
func (g *stepGate) findings(m *measured, bad *verdictOn, all []*stepFigures) error {
	f := bad.figures
	find := report.Finding{
		Gate: bad.gate, Step: f.step, Realization: g.realization(f), Slice: bad.home, Excess: diff.Number(bad.excess),
	}
	verdict, err := g.classify(m, bad)
	if err != nil {
		return err
	}
	find.Verdict = verdict
	switch {
	case bad.line:
		find.Text = fmt.Sprintf("step %d: all numbers of %s are shifted or scaled together, "+
			"by %.3g expected deviations; correct devices reach %.3g", f.step, bad.home, bad.value, bad.limit)
	case bad.gate == "structure":
		find.Text = fmt.Sprintf("step %d: %d numbers are not finite where the arithmetic is, or finite where it is "+
			"not; the first is %s", f.step, f.wrong, bad.slice)
	case bad.gate == "accuracy":
		find.Text = fmt.Sprintf("step %d: the squared error against float64 "+
			"is above that of the claimed arithmetic by %.3g of the expected variance%s; correct devices reach %.3g",
			f.step, bad.value, in(bad.slice), bad.limit)
	default:
		find.Text = fmt.Sprintf("step %d: the root mean square distance to the claimed arithmetic is %.3g expected "+
			"deviations%s; correct devices reach %.3g", f.step, bad.value, in(bad.slice), bad.limit)
	}
	g.e.Find(find)
	return nil
}

func in(slice string) string {
	if slice == "" {
		return ""
	}
	return " in " + slice
}

// realization returns the realization that is farthest off.
func (g *stepGate) realization(f *stepFigures) int {
	if f.wrong > 0 {
		return f.lo + f.wrongAt/(f.cuts.C*f.cuts.H*f.cuts.W)
	}
	most, at := -1.0, 0
	for i := range f.cuts.Of[measure.InSample].Count {
		if q := f.cuts.Of[measure.InSample].Mean(i); q > most {
			most, at = q, i
		}
	}
	return f.lo + at
}

// hexOf returns the bits of v in a format, as they are written in dumps.
func hexOf(f fp16.Format, v float64) string { return fmt.Sprintf("0x%0*x", 2*f.Bytes(), f.Bits(v)) }
