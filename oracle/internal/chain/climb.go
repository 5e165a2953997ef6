package chain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/oracle/report"
)

// A contract of half numbers is looked for at one step, by what it stores there, as package judge does it within an
// operation: from the nearest contract of a whole network on, and from the claim's own, with one choice or two made
// otherwise at a time, as long as that plainly brings it nearer. Two, because a rounding and the next may show only
// together: where the second changes nothing after the first, as of a product and its ReLU. None of these choices makes
// a device wrong, so that a step which is right under such a contract is right.

// looked finds the contract of half numbers under which all steps are right, or the best. It begins with one that
// explains a wrong step. If that leaves another step wrong, both are to be explained: where few numbers are off, each
// step alone has several contracts.
func (c *checker) looked(best *found) (*found, error) {
	at := []int{best.worst()}
	for range mostClimbed {
		if c.late() {
			return best, nil
		}
		all, err := c.climbed(best, at)
		if err != nil {
			return nil, err
		}
		to, err := c.first(all, best, at)
		if err != nil || to.Passes() {
			return to, err
		}
		near := to
		if !c.plain && !c.last {
			if near, err = c.reformed(to, at); err != nil || near.Passes() {
				return near, err
			}
			if near.better(to) {
				to = near
			}
		}
		wrong := near.worst()
		if slices.Contains(at, wrong) {
			wrong = to.worst()
		}
		if slices.Contains(at, wrong) {
			return to, nil
		}
		best, at = to, append(at, wrong)
	}
	return best, nil
}

// late reports whether the budget is spent. Then it is not known whether steps that are wrong under all contracts so
// far are right under another one. Each layer has all the time it takes.
func (c *checker) late() bool {
	c.cut = c.cut || !c.layer && c.Late("contracts of half numbers")
	return c.cut
}

// open reports whether another contract may make wrong steps right. If there is a step that none does, those before it
// are not counted as wrong.
func (f *found) open() (bool, error) {
	for i := range f.Each {
		if !f.Each[i].Fails() {
			continue
		}
		if kind, err := f.c.kind(i); kind == report.FailLogic || err != nil {
			for k := range i {
				f.Each[k].Excess = min(f.Each[k].Excess, 1)
			}
			return false, err
		}
	}
	return true, nil
}

// reformed is what steps are under the contract that is found the other way round, from the claim's own: by the forms
// of operations first. Where an operation has another form, choices that are made before lead astray. The best so far
// is returned where no form is plainly nearer.
func (c *checker) reformed(best *found, at []int) (*found, error) {
	if c.late() {
		return best, nil
	}
	k := best.k.Whole()
	own := candidate{k: k, many: c.many(k)}
	var err error
	if own.contract, err = own.many.Plain(at[0]); err != nil {
		return nil, err
	}
	if own.off, err = own.many.Off(own.contract, at...); err != nil {
		return nil, err
	}
	if some, err := c.form(&own, at); err != nil || !some {
		return best, err
	}
	to, err := c.climb(own, at)
	if err != nil {
		return nil, err
	}
	return c.under(to)
}

// excused is a contract under which steps have no cause that are right by themselves, if there is one: what right
// devices may do is asked for before what looks like it.
func (c *checker) excused(best *found) (*found, error) {
	if _, half := c.claim.Narrow(); !half || best.Cause == nil || best.First() >= 0 || c.late() {
		return best, nil
	}
	at := []int{best.Cause.First}
	if at[0] > 0 {
		at = append(at, at[0]-1)
	}
	all, err := c.climbed(best, at)
	if err != nil {
		return nil, err
	}
	to, err := c.first(all, best, at)
	if err != nil {
		return nil, err
	}
	if near, err := c.reformed(to, at); err != nil {
		return nil, err
	} else if near.better(to) {
		to = near
	}
	if to == best {
		return best, nil
	}
	if err := c.faults(to); err != nil || to.Passes() {
		return to, err
	}
	return best, nil
}

// climbed are contracts that are near to a step, the nearest first: from the one that is the best so far, and from the
// nearest of a whole network.
func (c *checker) climbed(best *found, at []int) (all []candidate, err error) {
	starts, err := c.starts(best, at)
	if err != nil {
		return nil, err
	}
	for _, from := range starts {
		to, err := c.climb(from, at)
		if err != nil {
			return nil, err
		}
		all = append(all, to)
		if c.plain {
			continue
		}
		if c.layer {
			forms, err := c.formed(to, at)
			if err != nil {
				return nil, err
			}
			all = append(all, forms...)
		}
		atomic, is, err := to.many.Atomic(at[0], to.contract)
		if err != nil {
			return nil, err
		}
		if is {
			to.contract = atomic
			all = append(all, to)
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.off.Mean, b.off.Mean) })
	return all, nil
}

// starts are the best contract so far and the nearest of a whole network, if that is another one; and the nearest whose
// activations are elementary operations as well, which may be far from all others where biases are apart, too.
func (c *checker) starts(best *found, at []int) (starts []candidate, err error) {
	after, err := c.after(c.places[at[0]])
	if err != nil {
		return nil, err
	}
	claim := c.claim
	claim.Halves = after.Format.Half()
	off := func(k lower.Contract, contract judge.Contract) (candidate, error) {
		m := c.many(k)
		far, err := m.Off(contract, at...)
		return candidate{k, m, contract, far}, err
	}
	own, err := off(best.k, best.Contract)
	if err != nil {
		return nil, err
	}
	var elementary []judge.Contract
	if !c.plain {
		if elementary, err = best.many.Elementary(at[0]); err != nil {
			return nil, err
		}
	}
	starts, least := []candidate{own}, own.off.Mean
	for _, contracts := range [][]judge.Contract{{best.Contract}, elementary} {
		nearest := own
		for _, contract := range contracts {
			for _, k := range claim.Wholes(c.step.g) {
				whole, err := off(k, contract)
				if err != nil {
					return nil, err
				}
				if whole.off.Mean < min(least, nearest.off.Mean) {
					nearest = whole
				}
			}
		}
		if nearest.off.Mean < least {
			starts, least = append(starts, nearest), nearest.off.Mean
		}
	}
	return starts, nil
}

// climb goes from a contract to nearer ones, by choices and by the forms of operations, until there are none.
func (c *checker) climb(from candidate, at []int) (candidate, error) {
	for !c.late() {
		all, err := c.choices(from.k, at)
		if err != nil {
			return from, err
		}
		some := false
		for _, groups := range [][][]lower.Choice{alike(all), alikeTwos(all), ones(all), twos(all)} {
			if !some && err == nil {
				some, err = c.turn(&from, at, groups)
			}
		}
		if err == nil && !some && !c.plain {
			some, err = c.form(&from, at)
		}
		if err != nil {
			return from, err
		}
		if !some {
			break
		}
	}
	return from, nil
}

// form puts operations in the forms that are nearest to a step, if these are plainly nearer.
func (c *checker) form(best *candidate, at []int) (some bool, err error) {
	contracts, err := best.many.Contracts(at...)
	if err != nil {
		return false, err
	}
	from := best.off
	for _, contract := range contracts {
		far, err := best.many.Off(contract, at...)
		if err != nil {
			return false, err
		}
		if far.Plainly(from) && far.Mean < best.off.Mean {
			best.contract, best.off, some = contract, far, true
		}
	}
	return some, nil
}

// formed are contracts with other forms of operations that are no farther from a step than the form that is written.
// How far off a layer may be depends on its form, even where two forms have the same numbers. A third one that is
// nearer by chance says nothing of those two.
func (c *checker) formed(to candidate, at []int) (all []candidate, err error) {
	contracts, err := to.many.Contracts(at...)
	if err != nil {
		return nil, err
	}
	plain, err := to.many.Plain(at[0])
	if err != nil {
		return nil, err
	}
	written, err := to.many.Off(plain, at...)
	if err != nil {
		return nil, err
	}
	for _, contract := range contracts {
		far, err := to.many.Off(contract, at...)
		if err != nil {
			return nil, err
		}
		if contract.String() != to.contract.String() && !written.Plainly(far) {
			all = append(all, candidate{to.k, to.many, contract, far})
		}
	}
	return all[:min(len(all), mostTried)], nil
}

// choices are those of a contract at a step.
func (c *checker) choices(k lower.Contract, at []int) ([]lower.Choice, error) {
	in, err := c.inputs(c.places[at[0]])
	if err != nil {
		return nil, err
	}
	types, err := c.step.typesOf(in)
	if err != nil {
		return nil, err
	}
	got, err := c.after(c.places[at[0]])
	if err != nil {
		return nil, err
	}
	return c.claim.Choices(c.step.g, types, k, got.Format)
}

// alike are the choices of each kind of operations together.
func alike(all []lower.Choice) (groups [][]lower.Choice) {
	for i, a := range all {
		if slices.ContainsFunc(all[:i], a.Like) {
			continue
		}
		for _, done := range []bool{true, false} {
			of := slices.DeleteFunc(slices.Clone(all), func(b lower.Choice) bool { return !a.Like(b) || b.Done != done })
			if len(of) > 1 {
				groups = append(groups, of)
			}
		}
	}
	return groups
}

// ones are choices one by one.
func ones(all []lower.Choice) (groups [][]lower.Choice) {
	for _, a := range all {
		if !a.Idle {
			groups = append(groups, []lower.Choice{a})
		}
	}
	return groups
}

// alikeTwos are the choices of two kinds together, of which each is followed by one of the other kind: what brings a
// layer plainly nearer only where all have it, such as a batch norm in the weights of a product that is not stored.
func alikeTwos(all []lower.Choice) (groups [][]lower.Choice) {
	like := func(a, b lower.Choice) bool { return a.Like(b) && a.Done == b.Done }
	for pairs := twos(all); len(pairs) > 0; {
		first, of, others := pairs[0], []lower.Choice(nil), [][]lower.Choice(nil)
		for _, p := range pairs {
			if like(p[0], first[0]) && like(p[1], first[1]) {
				of = append(of, p...)
			} else {
				others = append(others, p)
			}
		}
		if len(of) > len(first) {
			groups = append(groups, of)
		}
		pairs = others
	}
	return groups
}

// twos are choices with the next.
func twos(all []lower.Choice) (groups [][]lower.Choice) {
	for _, a := range all {
		for _, next := range all {
			if next.Follows(a) {
				groups = append(groups, []lower.Choice{a, next})
			}
		}
	}
	return groups
}

// turn makes choices otherwise: those that bring a step plainly nearer, the one that does most first, and each of the
// others if it does so still. It reports whether there were any.
func (c *checker) turn(best *candidate, at []int, groups [][]lower.Choice) (bool, error) {
	try := func(of []lower.Choice) (candidate, error) {
		k := best.k.Turned(of...)
		to := candidate{k, c.many(k), best.contract, best.off}
		var err error
		to.off, err = to.many.Off(best.contract, at...)
		return to, err
	}
	type alone struct {
		of []lower.Choice
		to candidate
	}
	var nearer []alone
	for _, of := range groups {
		if c.late() {
			break
		}
		to, err := try(of)
		if err != nil {
			return false, err
		}
		if to.off.Plainly(best.off) {
			nearer = append(nearer, alone{of, to})
		}
	}
	slices.SortStableFunc(nearer, func(a, b alone) int { return cmp.Compare(a.to.off.Mean, b.to.off.Mean) })
	for i, a := range nearer {
		to := a.to
		if i > 0 {
			var err error
			if to, err = try(a.of); err != nil {
				return false, err
			}
		}
		if to.off.Plainly(best.off) {
			*best = to
		}
	}
	return len(nearer) > 0, nil
}

// called says in words what a contract does.
func (c *checker) called(k lower.Contract) string {
	var without, with []string
	own, err := c.choices(k.Whole(), []int{0})
	if err != nil {
		return k.Name
	}
	for _, choice := range own {
		switch {
		case !k.Turns(choice):
		case choice.Done:
			without = append(without, choice.String())
		default:
			with = append(with, choice.String())
		}
	}
	name := k.Name
	if without != nil {
		name += "; without the roundings of " + listed(without)
	}
	if with != nil {
		name += "; rounded: " + listed(with)
	}
	return strings.TrimPrefix(name, "; ")
}
