package steps

import (
	"errors"
	"slices"

	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/report"
)

// backdate goes back from the step at which a fault was searched for, and named,
// as long as the step before has it too: less of it, so that it was not wrong
// beyond doubt.
func (g *stepGate) backdate(batch int, t *match.Tried) error {
	i := slices.IndexFunc(g.e.Found, func(f report.Finding) bool { return f.Gate == "filter" })
	if i < 0 {
		return nil
	}
	for f := &g.e.Found[i]; f.Step > 1; f.Step-- {
		s, err := g.look(batch, f.Step-1)
		if err != nil {
			return err
		}
		if has, err := g.e.Has(s, t); !has || err != nil {
			return err
		}
	}
	return nil
}

// errLate ends a search that the budget does not reach.
var errLate = errors.New("out of time")

// date looks for a fault at some steps, in order. Where it finds one, it goes
// back to its first step, as if it had lasted since: find is then asked again. Only
// those of full are asked for all faults.
func date(steps, full []int, find func(t int, again bool) (bool, error)) error {
	clean := 0
	for _, t := range steps {
		found, err := find(t, false)
		if err != nil {
			return err
		}
		if !found {
			if slices.Contains(full, t) {
				clean = t
			}
			continue
		}
		for t-clean > 1 {
			mid := (clean + t) / 2
			if found, err = find(mid, true); err != nil {
				return err
			}
			if found {
				t = mid
			} else {
				clean = mid
			}
		}
		return nil
	}
	return nil
}
