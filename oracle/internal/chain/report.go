package chain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// tell fills in what was found of all states.
func tell(g *facts.Gate, judged []*found) error {
	r := g.Report
	rows(g, judged)
	if !slices.ContainsFunc(judged, func(f *found) bool { return !f.Passes() }) {
		for _, f := range judged {
			if r.Contract == "" || !f.own {
				r.Contract = f.contract()
			}
		}
	}
	for _, f := range judged {
		if err := f.c.report(f); err != nil {
			return err
		}
	}
	if len(judged) > 0 && judged[0].c.index == 0 {
		if err := judged[0].picture(); err != nil {
			return err
		}
	}
	if g.Case.Step != nil || emulate.Known(g.Op) != nil {
		if ops := operations(g); ops != "" {
			r.Subject += "; " + ops
		}
		r.Notes = append(r.Notes,
			"steps were judged as chains of operations, from state to state: "+
				"statistics of the noise, other states and blends than the nearest, and probes were not looked at")
		if g.Case.Layers != nil {
			r.Notes = append(r.Notes, "recorded layers of this operator were not looked at")
		}
	}
	return nil
}

// contract names the contract that right steps keep.
func (f *found) contract() string {
	if f.own {
		return f.c.Report.Claim
	}
	return strings.TrimPrefix(fmt.Sprintf("%s; %v", f.c.called(f.k), f.Contract), "; ")
}

// report fills in what was found of a state.
func (c *checker) report(f *found) error {
	if f.Passes() {
		none := func(text string) {
			c.Find(report.Finding{Verdict: report.NoPower, Gate: "accuracy", Step: -1, Realization: -1, Excess: 1, Text: text})
		}
		switch {
		case f.hides(noOperator), f.hides(allZeros):
			none(c.of("the operator's part in the states") +
				" is no larger than the errors of right devices: one that left it out would pass")
		case f.hides(inTF32) && c.Mode.Precision == fp16.Float32:
			none(c.of("the part of TF32's errors in the states") +
				" is no larger than the errors of right devices: products in TF32 would pass")
		}
		c.unknown(f)
	} else if c.cut {
		c.Missed(c.of("all steps") + ": the budget was spent before it was known whether another contract makes them right")
	} else if err := c.fail(f); err != nil {
		return err
	}
	c.blind(f)
	return nil
}

// operations names those of the operator that are no layers. Those of a step graph are its subject.
func operations(g *facts.Gate) string {
	if g.Op == nil {
		return ""
	}
	var names []string
	for _, n := range g.Op.Nodes() {
		if n.Op == operator.OpOther && !slices.Contains(names, n.Other.Name()) {
			names = append(names, n.Other.Name())
		}
	}
	return listed(names)
}

// listed are names in words, the first of many.
func listed(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		names = append(slices.Clip(names[:mostNamed]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// unknown notes elements of which nothing is known, with which no verdict is a pass.
func (c *checker) unknown(f *found) {
	n := 0
	for i := range f.Each {
		n += f.Each[i].Unknown
	}
	if n > 0 {
		c.Report.Unjudged = append(c.Report.Unjudged,
			fmt.Sprintf("%d numbers of which it is not known what right devices return", n))
	}
}

// rows are the figures of each step, of all engine batches and states together.
func rows(g *facts.Gate, judged []*found) {
	r := g.Report
	for t := 1; t < g.States.T && len(judged) > 0; t++ {
		row, finite := report.StepRow{Step: t}, 0
		fields := diff.NewFields(1, g.States.Channels())
		for k, f := range judged {
			for i, e := range f.Each {
				if p := f.c.places[i]; p.t == t {
					f.c.row(&row, p, &e, len(judged))
					finite += e.Finite
					if x := f.c.fields[p]; x != nil && k == 0 && f.c.index == 0 {
						fields.Join(0, x)
					}
				}
			}
		}
		if row.Re = diff.Number(math.Sqrt(float64(row.Re))); finite == 0 { // nothing to compare is no error of 0
			none := diff.Number(math.NaN())
			row.MaxAbs, row.MeanAbs, row.R64, row.Re, row.Peak = none, none, none, none, none
		}
		r.Steps = append(r.Steps, row)
		r.AddFields(t, fields)
	}
	o, squares, n := &r.OneStep, 0.0, 0.0
	for i := range r.Steps {
		row := &r.Steps[i]
		if !measure.Finite(float64(row.R64)) {
			continue
		}
		n++
		o.MaxAbs = max(o.MaxAbs, row.MaxAbs)
		o.MeanAbs += row.MeanAbs
		squares += float64(row.R64)
	}
	n = max(n, 1)
	o.MeanAbs, o.RMSOverExpected = o.MeanAbs/diff.Number(n), diff.Number(math.Sqrt(squares/n))
}

// row adds the figures of a place, which has its share of those of a step.
func (c *checker) row(r *report.StepRow, p place, e *judge.Each, states int) {
	share := float64(p.hi-p.lo) / float64(c.states.M*states)
	r.MaxAbs, r.Peak = max(r.MaxAbs, diff.Number(e.MaxAbs)), max(r.Peak, diff.Number(e.Peak))
	r.MeanAbs += diff.Number(share * e.MeanAbs)
	r.R64 += diff.Number(share * e.Squares)
	r.Re += diff.Number(share * e.Centre * e.Centre)
	r.Violation = r.Violation || e.Fails() && !c.cut
}

// fail adds the finding of the first wrong step, or of a fault that shows in all of them together, or in one before.
func (c *checker) fail(f *found) error {
	i := f.First()
	along := f.Cause != nil && (i < 0 || f.Cause.First < i) // what is wrong there is too small to show without its name
	if along {
		i = f.Cause.First
	}
	x := report.Finding{Gate: "accuracy", Step: -1, Realization: -1, Excess: diff.Number(f.Excess)}
	where := f.Region
	if i >= 0 {
		p, e := c.places[i], &f.Each[i]
		x.Step, x.Excess, where = p.t, diff.Number(max(e.Excess, float64(e.Violations))), e.Region
		var err error
		if x.Realization, err = f.realization(i); err != nil {
			return err
		}
		x.Text = fmt.Sprintf("step %d: %s are up to %s times the limit of right devices", p.t, c.of("errors"),
			words.Three(e.Excess))
		if e.Violations > 0 {
			x.Known = report.Proved
			x.Text = fmt.Sprintf("step %d: %d of %d %s are not finite where right devices' are, or the other way round",
				p.t, e.Violations, e.Elements, c.of("numbers"))
		}
	} else {
		x.Text = fmt.Sprintf("errors of %s together are up to %s times the limit of right devices", c.of("all steps"),
			words.Three(f.Excess))
	}
	var err error
	switch {
	case along:
		where = everywhere
		x.Text = fmt.Sprintf("step %d: errors lie along a fault, %s deviations of it (%s times as it is known)", x.Step,
			words.Three(f.Cause.Amount*f.Cause.Power), words.Three(f.Cause.Amount))
	case f.Cause == nil:
		if x.Verdict, where, err = c.unnamed(max(0, i), where); err != nil {
			return err
		}
	}
	if f.Cause != nil {
		c.cause(&x, f.Cause)
	}
	if where != everywhere {
		x.Slice = where
		x.Text += " in " + where
	}
	c.Find(x)
	return nil
}

// realization is the one that is farthest off in the step that is seen, and -1 of several in another step.
func (f *found) realization(i int) (int, error) {
	p := f.c.places[i]
	if p.hi == p.lo+1 {
		return p.lo, nil
	}
	got, err := f.c.after(p)
	if err != nil || i != f.Seen {
		return -1, err
	}
	worst, most, each := -1, 0.0, len(got.Data)/(p.hi-p.lo)
	for m := range p.hi - p.lo {
		sum := 0.0
		for k := m * each; k < (m+1)*each; k++ {
			d := (got.Data[k] - f.Stored[k]) / f.Expected[k]
			if (got.Data[k]-got.Data[k] == 0) != (f.Stored[k]-f.Stored[k] == 0) {
				d = math.Inf(1)
			}
			if d == d {
				sum += float64(d * d)
			}
		}
		if sum > most {
			worst, most = p.lo+m, sum
		}
	}
	return worst, nil
}

// everywhere is no place.
const everywhere = "everywhere"

// cause names what is wrong.
func (c *checker) cause(x *report.Finding, cause *judge.Cause) {
	x.ID, x.Verdict, x.Diagnosis, x.Advice = cause.ID, table.ByID(cause.ID).Verdict, cause.Title, sentence(cause.Advice)
}

// sentence makes advice begin and end like one.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// hides reports whether a fault would not show.
func (f *found) hides(id string) bool {
	return slices.ContainsFunc(f.Blind, func(b judge.Blind) bool { return b.ID == id })
}

// blind lists what this run could not have shown, and of many similar faults what they are called together.
func (c *checker) blind(f *found) {
	for _, b := range f.Blind {
		if b.ID == noOperator {
			continue
		}
		row := table.ByID(b.ID)
		name := c.of(cmp.Or(row.Many, row.Name))
		at := slices.IndexFunc(c.Report.Blind, func(b report.Blind) bool { return b.Name == name })
		if at < 0 {
			at = len(c.Report.Blind)
			c.Report.Blind = append(c.Report.Blind, report.Blind{Name: name, Probe: row.Probe, Needs: row.Needs})
		}
		c.Report.Blind[at].Least = max(c.Report.Blind[at].Least, diff.Number(b.Least))
	}
}
