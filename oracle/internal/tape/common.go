package tape

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/exact/elem"
)

// lag is a kind of pairs: realization m at step t, and m-dm at t-dt.
type lag struct{ dm, dt int }

// furthest is how far steps and realizations are apart that are compared.
const furthest = 32

// lags are the kinds of pairs among so many realizations and steps.
func lags(m, t int) (all []lag) {
	for d := 1; d < m && d <= furthest; d++ {
		all = append(all, lag{d, 0})
	}
	for d := 1; d < t && d <= furthest; d++ {
		all = append(all, lag{0, d})
	}
	for d := 1; d < t && d <= 3 && m > 1; d++ {
		all = append(all, lag{1, d}, lag{-1, d})
	}
	return all
}

func (a lag) String() string {
	switch {
	case a.dt == 0:
		return fmt.Sprintf("realizations %d apart", a.dm)
	case a.dm == 0:
		return fmt.Sprintf("steps %d apart", a.dt)
	}
	return fmt.Sprintf("realizations %d apart, %d steps apart,", max(a.dm, -a.dm), a.dt)
}

// id names what such pairs have in common, whole saying that all of them do.
func (a lag) id(whole bool) string {
	switch {
	case a.dt == 0 && whole:
		return "noise.the-same-noise-for-all-realizations"
	case a.dt == 0:
		return "noise.realizations-share-their-noise"
	case a.dm == 0 && a.dt == 1 && whole:
		return "noise.the-same-noise-at-every-step"
	case a.dm == 0:
		return "noise.steps-share-their-noise"
	}
	return "noise.seeds-overlap"
}

// units are the same numbers of every step of every realization, kept: signs or masks.
type units struct {
	m, t  int   // realizations, steps
	batch []int // the first realization of the engine batch of each
	kept  [][]int8
}

func (u *units) of(at place) *[]int8 { return &u.kept[at.m*u.t+at.t-1] }

// isNew reports whether a draw is not one that an engine batch before has by design. What is
// counted over all steps and engine batches is counted of these alone.
func (u *units) isNew(at place) bool {
	return !slices.ContainsFunc(u.batch, func(lo int) bool {
		t := at.lo + at.t - lo
		return lo < at.lo && 1 <= t && t <= u.t
	})
}

// each gives the pairs of a kind, but those that engine batches have by design.
func (u *units) each(a lag, use func(at, other place)) {
	for t := 1 + a.dt; t <= u.t; t++ {
		for m := max(0, a.dm); m < min(u.m, u.m+a.dm); m++ {
			at, other := place{t: t, m: m, lo: u.batch[m]}, place{t: t - a.dt, m: m - a.dm, lo: u.batch[m-a.dm]}
			if !at.seeded(other) {
				use(at, other)
			}
		}
	}
}

// tally counts pairs of numbers: how many agree, and how many are both the rarer of two values.
type tally struct{ n, agree, rare float64 }

func (y *tally) add(x tally) { y.n, y.agree, y.rare = y.n+x.n, y.agree+x.agree, y.rare+x.rare }

// compare counts the pairs of two lists, rarer being the rarer of the values 1 and -1. A zero
// has no sign.
func compare(x, y []int8, rarer int8) (c tally) {
	for i, v := range x {
		switch v * y[i] {
		case 1:
			c.agree++
			if v == rarer {
				c.rare++
			}
			fallthrough
		case -1:
			c.n++
		}
	}
	return c
}

// signs are numbers 1 and -1, of which each is rarer with probability p, within slack.
type signs struct {
	rarer    int8
	p, slack float64
}

// unlikely bounds the chance of a tally of independent pairs, in nats.
func (s signs) unlikely(c tally) float64 {
	both := func(p float64) float64 { return float64(p * p) }
	lo, hi := max(0, s.p-s.slack), s.p+s.slack
	agree := func(p float64) float64 { return both(p) + both(1-p) } // least at 1/2
	return max(within(c.agree, c.n, agree(min(hi, 0.5)), max(agree(lo), agree(hi))),
		within(c.rare, c.n, both(lo), both(hi)))
}

// pairTests are those of a tally.
const pairTests = 2

// shared is what pairs of a kind have in common.
type shared struct {
	lag
	nats  float64 // of the pair or of all that is least likely
	first place   // the first pair that is unlikely by itself; m is -1 if none is
	bad   float64 // such pairs
	of    float64 // pairs
	agree float64 // the share of their numbers that agree
}

// together returns the kind of pairs that have most in common, and how unlikely that must be.
func (u *units) together(s signs) (worst shared, limit float64) {
	kinds, tests := lags(u.m, u.t), 0
	for _, a := range kinds {
		tests += pairTests * (2 + (u.t-a.dt)*(u.m-max(a.dm, -a.dm)))
	}
	limit = certain + elem.Log(float64(max(1, tests)))
	for _, a := range kinds {
		if c := u.inCommon(a, s, limit); c.nats > worst.nats {
			worst = c
		}
	}
	return worst, limit
}

// inCommon tests each pair of a kind, and every other one within engine batches together: of
// those no number is in two.
func (u *units) inCommon(a lag, s signs, limit float64) shared {
	c := shared{lag: a, first: place{m: -1}}
	var halves [2]tally
	u.each(a, func(at, other place) {
		one := compare(*u.of(at), *u.of(other), s.rarer)
		if at.lo == other.lo && u.isNew(at) {
			halves[a.turn(at)].add(one)
		}
		nats := s.unlikely(one)
		c.nats = max(c.nats, nats)
		if c.of++; nats > limit {
			if c.bad++; c.bad == 1 {
				c.first = at
			}
		}
	})
	c.nats = max(c.nats, s.unlikely(halves[0]), s.unlikely(halves[1]))
	halves[0].add(halves[1])
	c.agree = halves[0].agree / max(1, halves[0].n)
	return c
}

// turn is 0 and 1 by turns along the seeds or realizations that pairs of the kind link.
func (a lag) turn(at place) int {
	if a.dt > 0 {
		return (at.lo + at.t) / a.dt % 2
	}
	return (at.m - at.lo) / a.dm % 2
}
