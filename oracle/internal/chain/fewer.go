package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/lower"
	"github.com/refrun/refrun/oracle/judge"
)

// fewer is the contract with the fewest of the claim's roundings that a step tells of: from the nearest that stores all
// of them on, those without which the step is plainly nearer are left out, one after the other, and a rounding together
// with the one before it where neither alone shows, as of a sum whose ReLU is stored. What it leaves out no right device
// needs to have, so that a step that is right under it is right. It is nil where nothing is plainly nearer.
func (c *checker) fewer(plain *found, at int) (*candidate, error) {
	if _, half := c.claim.Narrow(); !half {
		return nil, nil
	}
	best, err := c.nearest(plain, at)
	if err != nil {
		return nil, err
	}
	all, err := c.roundings(best.k, at)
	if err != nil {
		return nil, err
	}
	left := map[int]bool{}
	for some := true; some; {
		if some, err = c.leave(best, at, left, singles(all)); err == nil && !some {
			some, err = c.leave(best, at, left, pairs(all))
		}
		if err != nil {
			return nil, err
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	best.k.Name = withoutWords(best.k.Name, all, left)
	best.many = c.many(best.k)
	return best, nil
}

// nearest is the contract of the claim's that stores all results which is nearest to a step.
func (c *checker) nearest(plain *found, at int) (*candidate, error) {
	k := c.claim.Contracts()[0]
	m := c.many(k)
	contracts, err := m.Contracts(at)
	if err != nil {
		return nil, err
	}
	var best *candidate
	for _, contract := range append(contracts, plain.Contract) {
		if len(contract.Round) > 0 {
			continue
		}
		far, err := m.Off(at, contract)
		if err != nil {
			return nil, err
		}
		if best == nil || far.Mean < best.off.Mean {
			best = &candidate{k, m, contract, far}
		}
	}
	return best, nil
}

// roundings are those of a step's results under a contract.
func (c *checker) roundings(k lower.Contract, at int) ([]lower.Rounding, error) {
	in, err := c.inputs(c.places[at])
	if err != nil {
		return nil, err
	}
	got, err := c.after(c.places[at])
	if err != nil {
		return nil, err
	}
	types := make([]graph.Type, len(in))
	for i, x := range in {
		types[i] = graph.Type{Shape: x.Shape, Format: x.Format}
	}
	return c.claim.Roundings(c.step.g, types, k, got.Format)
}

func singles(all []lower.Rounding) (groups [][]lower.Rounding) {
	for _, r := range all {
		groups = append(groups, []lower.Rounding{r})
	}
	return groups
}

// pairs are roundings with one that is before them.
func pairs(all []lower.Rounding) (groups [][]lower.Rounding) {
	for _, r := range all {
		for _, of := range all {
			if r.Before(of) {
				groups = append(groups, []lower.Rounding{of, r})
			}
		}
	}
	return groups
}

// leave leaves out the groups without which a step is plainly nearer, all of them if that is nearest, and the best
// otherwise. It reports whether there were some.
func (c *checker) leave(best *candidate, at int, left map[int]bool, groups [][]lower.Rounding) (bool, error) {
	try := func(of []lower.Rounding) (judge.Distance, lower.Contract, error) {
		k := best.k.Without(of...)
		far, err := c.many(k).Off(at, best.contract)
		return far, k, err
	}
	var nearer []lower.Rounding
	next, taken := *best, []lower.Rounding(nil)
	take := func(far judge.Distance, k lower.Contract, of []lower.Rounding) {
		if far.Mean < next.off.Mean {
			next.off, next.k, taken = far, k, of
		}
	}
	for _, of := range groups {
		if !slices.ContainsFunc(of, func(r lower.Rounding) bool { return !left[r.Number] }) {
			continue
		}
		far, k, err := try(of)
		if err != nil {
			return false, err
		}
		if far.Plainly(best.off) {
			nearer = append(nearer, of...)
			take(far, k, of)
		}
	}
	if len(nearer) == 0 {
		return false, nil
	}
	far, k, err := try(nearer)
	if err != nil {
		return false, err
	}
	take(far, k, nearer)
	for _, r := range taken {
		left[r.Number] = true
	}
	*best = next
	return true, nil
}

// withoutWords names a contract by the results whose roundings it leaves out.
func withoutWords(name string, all []lower.Rounding, left map[int]bool) string {
	var of []string
	for _, r := range all {
		if left[r.Number] {
			of = append(of, r.Name)
		}
	}
	more := ""
	if n := len(of) - mostOperations; n > 0 {
		of, more = of[:mostOperations], fmt.Sprintf(" and %d more", n)
	}
	return strings.TrimPrefix(fmt.Sprintf("%s, without the roundings of %s%s", name, strings.Join(of, ", "), more), ", ")
}
