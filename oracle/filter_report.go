package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/report"
)

// report adds the rows of what was tried, and the finding.
func (f *filter) report() {
	r := f.e.r
	slices.SortStableFunc(f.tried, func(a, b tried) int {
		switch {
		case a.fits && b.fits:
			return cmp.Compare(a.match.after/f.limit(a.v), b.match.after/f.limit(b.v))
		case a.fits != b.fits:
			return map[bool]int{true: -1, false: 1}[a.fits]
		}
		return cmp.Compare(b.match.gain, a.match.gain)
	})
	// Of those that leave about as little the first in the library's order.
	best := 0
	for i, t := range f.tried {
		if t.fits && t.match.after/f.limit(t.v) < 1.1*f.tried[0].match.after/f.limit(f.tried[0].v) && t.prior < f.tried[best].prior {
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
		row := report.FilterRow{Name: f.name(&t), Verdict: t.h.verdict, Layer: f.layer(&t), Amplitude: diff.Number(t.match.c), T: diff.Number(t.match.t), Gain: diff.Number(t.match.gain), Found: t.fits}
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
	names := []string{rows[0].Name}
	for i := range f.tried[1:] {
		t := &f.tried[i+1]
		if name := f.name(t); t.fits && t.v == best.v && len(names) < 2 && !slices.Contains(names, name) && math.Abs(cosine(t.q, best.q)) > sameAngle {
			names = append(names, name)
		}
	}
	m := best.match
	step := cmp.Or(best.since, f.s.Step)
	if f.e.pool.searched {
		named := *best
		named.v, named.q = nil, nil
		f.e.pool.named = &named
	}
	text := fmt.Sprintf("%s explains %.3g of the residual of step %d: amplitude %.4g, t = %.3g; what is left is what a correct device leaves",
		rows[0].Name, m.gain, f.s.Step, m.c, m.t)
	if step < f.s.Step {
		text += fmt.Sprintf("; t is that of the steps looked at since %d", step)
	}
	f.e.find(report.Finding{Verdict: best.h.verdict, Gate: "filter", Step: step, Realization: -1, Layer: rows[0].Layer,
		Diagnosis: strings.Join(names, either), Excess: diff.Number(math.Abs(m.t) / leastT), Text: text})
}

// name returns the name of a hypothesis with its amplitude.
func (f *filter) name(t *tried) string {
	if t.h.called != nil {
		return t.h.called(t.v, t.match.c)
	}
	return t.h.name
}

// layer returns where a hypothesis acts, "" if not at one node alone.
func (f *filter) layer(t *tried) string {
	if t.scope >= 0 {
		return f.e.machine.Nodes[t.scope].Name
	}
	name := ""
	for i := range f.e.machine.Nodes {
		if n := &f.e.machine.Nodes[i]; t.scope.acts(t.h, i, n) && !t.h.whole {
			if name != "" {
				return ""
			}
			name = n.Name
		}
	}
	return name
}
