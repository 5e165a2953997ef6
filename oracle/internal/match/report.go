package match

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// Either stands between two names of which one cannot be told from the other.
const Either = " or "

// report adds the rows of what was tried, and the finding.
func (f *filter) report() {
	r := f.e.Report
	slices.SortStableFunc(f.tried, func(a, b Tried) int {
		switch {
		case a.fits && b.fits:
			return cmp.Compare(a.Match.After/f.limit(a.v), b.Match.After/f.limit(b.v))
		case a.fits != b.fits:
			return map[bool]int{true: -1, false: 1}[a.fits]
		}
		return cmp.Compare(b.Match.Gain, a.Match.Gain)
	})
	// Of those that leave about as little the first in the library's order.
	best := 0
	for i, t := range f.tried {
		if t.fits && t.Match.After/f.limit(t.v) < 1.1*f.tried[0].Match.After/f.limit(f.tried[0].v) &&
			t.prior < f.tried[best].prior {
			best = i
		}
	}
	if best > 0 {
		t := f.tried[best]
		f.tried = slices.Insert(slices.Delete(f.tried, best, best+1), 0, t)
	}
	var rows []report.FilterRow
	seen := map[string]bool{}
	for _, t := range f.tried {
		if key := f.name(&t) + f.layer(&t); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		row := report.FilterRow{
			ID: t.H.ID, Name: f.name(&t), Verdict: t.H.Verdict, Layer: f.layer(&t), Amplitude: diff.Number(t.Match.C),
			T: diff.Number(t.Match.T), Gain: diff.Number(t.Match.Gain), Found: t.fits,
		}
		rows = append(rows, row)
	}
	if len(f.tried) > 0 && f.tried[0].fits {
		f.find(rows)
	}
	if len(r.Filters) == 0 || len(rows) > 0 && rows[0].Found && !r.Filters[0].Found {
		r.Filters = rows[:min(len(rows), filterRows)]
	}
}

func (f *filter) find(rows []report.FilterRow) {
	best := &f.tried[0]
	alike := []*Tried{best}
	for i := range f.tried[1:] {
		if t := &f.tried[i+1]; t.fits && t.v == best.v && math.Abs(measure.Cosine(t.q, best.q)) > sameAngle {
			alike = append(alike, t)
		}
	}
	named := kinds(alike)
	var names []string
	advice := named[0].H.Advice
	for _, t := range named {
		if name := f.name(t); len(names) < 2 && !slices.Contains(names, name) {
			names = append(names, name)
			if t.H.Advice != advice {
				advice = ""
			}
		}
	}
	m := best.Match
	step := cmp.Or(best.since, f.s.Step)
	kept := *best
	kept.v, kept.q = nil, nil
	f.e.Pool.Named = &kept
	text := fmt.Sprintf("%s explains %.3g of the residual of step %d: amplitude %.4g, t = %.3g; "+
		"what is left is what a correct device leaves", rows[0].Name, m.Gain, f.s.Step, m.C, m.T)
	if step < f.s.Step {
		text += fmt.Sprintf("; t is that of the steps looked at since %d", step)
	}
	f.e.Find(report.Finding{Verdict: best.H.Verdict, Gate: "filter", Step: step, Realization: -1, Layer: rows[0].Layer,
		ID: named[0].H.ID, Advice: advice, Diagnosis: strings.Join(names, Either),
		Excess: diff.Number(math.Abs(m.T) / measure.LeastT), Text: text})
}

// kinds leaves out those that are one way of another among them.
func kinds(alike []*Tried) []*Tried {
	return slices.DeleteFunc(slices.Clone(alike), func(t *Tried) bool {
		return t.H.WayOf != "" && slices.ContainsFunc(alike, func(o *Tried) bool { return o.H.ID == t.H.WayOf })
	})
}

// name returns the name of a hypothesis with its amplitude.
func (f *filter) name(t *Tried) string {
	if t.H.Called != nil {
		return t.H.Called(t.v, t.Match.C)
	}
	return t.H.Name
}

// layer returns where a hypothesis acts, "" if not at one node alone.
func (f *filter) layer(t *Tried) string {
	if t.Scope >= 0 {
		return f.e.Machine.Nodes[t.Scope].Name
	}
	name := ""
	for i := range f.e.Machine.Nodes {
		if n := &f.e.Machine.Nodes[i]; t.Scope.Acts(t.H, i, n) && !t.H.Whole {
			if name != "" {
				return ""
			}
			name = n.Name
		}
	}
	return name
}
