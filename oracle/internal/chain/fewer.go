package chain

import (
	"slices"

	"github.com/refrun/refrun/oracle/internal/lower"
)

// fewer is the claim's own contract without the roundings that the device does not have, as a step shows them. Single
// roundings are tried, and then pairs of one and the next, which show only together where the second changes nothing
// after the first, as of a product and its ReLU. Those without which the step is plainly nearer are left out, until
// there are none; the result is nil if there were none at all. A device needs no rounding of its claim to be right, so
// that a step that is right under this contract is right.
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
	ones, twos := groups(all)
	for some := true; some; {
		if some, err = c.leave(best, at, ones); err == nil && !some {
			some, err = c.leave(best, at, twos)
		}
		if err != nil {
			return nil, err
		}
	}
	lacks := slices.DeleteFunc(slices.Clone(all), func(r lower.Rounding) bool { return !best.k.Lacks(r) })
	if len(lacks) == 0 {
		return nil, nil
	}
	best.k.Name = lacking(lacks)
	best.many = c.many(best.k)
	return best, nil
}

// nearest is the claim's own contract, with operations in the forms that are nearest to a step.
func (c *checker) nearest(plain *found, at int) (*candidate, error) {
	k := c.claim.Contracts(c.step.g)[0]
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
	return c.claim.Roundings(c.step.g, typesOf(in), k, got.Format)
}

// groups are the roundings one by one, and each with the next.
func groups(all []lower.Rounding) (ones, twos [][]lower.Rounding) {
	for _, r := range all {
		ones = append(ones, []lower.Rounding{r})
		for _, next := range all {
			if next.Follows(r) {
				twos = append(twos, []lower.Rounding{r, next})
			}
		}
	}
	return ones, twos
}

// leave leaves out all groups without which a step is plainly nearer, or the best of them where that is nearer still.
// It reports whether there were any.
func (c *checker) leave(best *candidate, at int, groups [][]lower.Rounding) (bool, error) {
	from, nearer := *best, []lower.Rounding(nil)
	try := func(of []lower.Rounding) error {
		k := from.k.Without(of...)
		far, err := c.many(k).Off(at, from.contract)
		if err == nil && far.Plainly(from.off) {
			nearer = append(nearer, of...)
			if far.Mean < best.off.Mean {
				best.k, best.off = k, far
			}
		}
		return err
	}
	for _, of := range groups {
		if slices.ContainsFunc(of, func(r lower.Rounding) bool { return !from.k.Lacks(r) }) {
			if err := try(of); err != nil {
				return false, err
			}
		}
	}
	if len(nearer) == 0 {
		return false, nil
	}
	return true, try(nearer)
}

// lacking says in words which roundings a contract lacks.
func lacking(of []lower.Rounding) string {
	var names []string
	for _, r := range of {
		names = append(names, r.Name)
	}
	return "without the roundings of " + listed(names)
}
