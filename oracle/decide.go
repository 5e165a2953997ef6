package oracle

import (
	"cmp"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/report"
)

// decide sets the verdict from what the gates found.
func decide(e *evidence.Evidence, r *report.Report) {
	o := layerOrder{at: map[string]int{}, noise: -1}
	for i := range e.Machine.Nodes {
		n := &e.Machine.Nodes[i]
		for _, name := range append([]string{n.Name}, n.Also...) {
			o.at[name] = i
		}
		if n.Op == operator.OpNoise {
			o.noise = i
		}
	}
	ruling{r}.decide(o)
}

// names reports whether a finding names a fault, or one of those of that name. What a run showed it could show,
// whatever its right steps say.
func names(f report.Finding, fault string) bool {
	if f.Diagnosis == "" || f.ID == "" {
		return false
	}
	row := table.ByID(f.ID)
	return fault == row.Name || fault == row.Many || fault == f.Diagnosis
}

// ruling is a report on the way to its verdict.
type ruling struct{ *report.Report }

// layerOrder has the place of each layer in the order of execution, and that of
// the noise, -1 for none.
type layerOrder struct {
	at    map[string]int
	noise int
}

// of returns a layer's place; what is no layer comes last.
func (o layerOrder) of(layer string) int {
	if at, ok := o.at[layer]; ok {
		return at
	}
	return len(o.at)
}

// decide sets verdict, place and reason.
func (r ruling) decide(order layerOrder) {
	var faults, blind []report.Finding
	for _, f := range r.Findings {
		switch {
		case f.Verdict == report.NoPower:
			blind = append(blind, f)
		case f.Verdict.Failed():
			faults = append(faults, f)
		}
	}
	if len(faults) > 0 {
		faults = r.fail(faults, order)
	} else {
		r.Verdict = r.faultless(blind)
	}
	r.Findings = append(faults, blind...)
	r.Blind = slices.DeleteFunc(r.Blind, func(b report.Blind) bool {
		return slices.ContainsFunc(faults, func(f report.Finding) bool { return names(f, b.Name) })
	})
	r.Reason = r.explain()
	if r.Blind == nil {
		r.Blind = []report.Blind{}
	}
	if r.Findings == nil {
		r.Findings = []report.Finding{}
	}
	if r.Steps == nil {
		r.Steps = []report.StepRow{}
	}
}

// faultless returns the verdict where no fault was found.
func (r ruling) faultless(blind []report.Finding) report.Verdict {
	switch {
	case len(blind) > 0 || len(r.Steps) == 0: // layers alone do not test a rollout
		return report.NoPower
	case r.Contract == r.Claim:
		return r.Pass(report.PassConforming)
	}
	return r.Pass(report.PassAccurate)
}

// fail sets verdict and place, and returns the findings in the order in which
// they count.
//
// The first faulty step decides: what is wrong later may only follow from it.
// Among the findings at that step the one that explains most speaks (see rank).
// A finding without a step is about the whole run, and the layers of one step
// show what the layers do at all steps, so both belong to the first.
func (r ruling) fail(faults []report.Finding, order layerOrder) []report.Finding {
	first := -1
	for _, f := range faults {
		if f.Step >= 0 && (first < 0 || f.Step < first) {
			first = f.Step
		}
	}
	when := func(f report.Finding) int {
		if f.Step < 0 || f.OfLayers() {
			return first
		}
		return f.Step
	}
	elsewhere := slices.ContainsFunc(faults,
		func(f report.Finding) bool { return f.OfLayers() && order.of(f.Layer) != order.noise })
	seen := slices.ContainsFunc(faults,
		func(f report.Finding) bool { return f.OfLayers() && (f.Step < 0 || f.Step == first) })
	rank := func(f report.Finding) int {
		if elsewhere && vagueNoise(f) || seen && f.Verdict == report.FailRollout &&
			(f.Gate == "rollout" || strings.HasPrefix(f.ID, table.Frozen)) {
			return lastRank // a layer that is wrong by itself refutes it
		}
		return rank(f)
	}
	slices.SortStableFunc(faults, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(when(a), when(b)), cmp.Compare(rank(a), rank(b)),
			cmp.Compare(order.of(a.Layer), order.of(b.Layer)),
			cmp.Compare(a.Step, b.Step), cmp.Compare(b.Excess, a.Excess))
	})
	f := faults[0]
	r.Verdict, r.FirstStep = f.Verdict, first
	r.FirstRealization, r.FirstLayer, r.Slice, r.Diagnosis = f.Realization, f.Layer, f.Slice, f.Diagnosis
	// What the winner leaves open, the next finding about that step may know.
	// Layers that were seen know better which layer it is than a residual.
	for _, f := range faults {
		if f.OfLayers() {
			r.FirstLayer = f.Layer
			break
		}
	}
	for _, f := range faults {
		if when(f) != first {
			break
		}
		if r.FirstRealization < 0 {
			r.FirstRealization = f.Realization
		}
		r.FirstLayer = cmp.Or(r.FirstLayer, f.Layer)
		if f.Layer == r.FirstLayer { // a place in that layer, or in the state
			r.Slice = cmp.Or(r.Slice, f.Slice)
		}
	}
	return faults
}

// vagueNoise reports whether a finding only says that the noise is not as
// specified, and not what noise would explain the states.
func vagueNoise(f report.Finding) bool {
	return f.Gate == "noise" && (f.Diagnosis == "" || f.Weak)
}

// fitted reports whether a finding only says that some weights of state and
// output fit: so they do where a fault of the operator scales its output.
func fitted(f report.Finding) bool {
	return f.Gate == "rollout" && f.Weak
}

// rank orders findings at one step, from what explains everything else to what
// only says that something is wrong.
func rank(f report.Finding) int {
	switch {
	case f.Gate == "structure":
		return 0 // no step is right among states that are not those of a rollout
	case f.Verdict == report.FailRollout && f.Diagnosis != "" && !fitted(f):
		return 1
	case f.Verdict == report.FailRNG && f.Diagnosis != "" && !vagueNoise(f):
		return 2 // other draws look like many faults of the operator
	case f.Diagnosis != "" && !vagueNoise(f):
		return 3
	case f.Verdict == report.FailRollout:
		return 4
	case vagueNoise(f):
		return 5
	case f.OfLayers():
		return 6
	case f.Verdict == report.FailLogic:
		return 7
	}
	return lastRank
}

const lastRank = 8
