package tape

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// masks gathers what a draw of two values says: the channels that a dropout keeps, and the signs
// of Laplace noise, whose size does not matter.
type masks struct {
	units
	signs   // how often the rarer value comes
	dropout bool
	n       int // numbers of a realization

	all                           tally // rare counts the rarer value
	steps, realizations, channels []tally
	parts                         []tally // [m*t]
	along                         []tally // of channels so far apart, by turns
}

// furthestChannels are compared within a mask.
const furthestChannels = 8

func newMasks(u units, n int, s signs, dropout bool) *masks {
	k := &masks{units: u, signs: s, dropout: dropout, n: n, steps: make([]tally, u.t), realizations: make([]tally, u.m),
		parts: make([]tally, u.m*u.t)}
	if dropout {
		k.channels, k.along = make([]tally, n), make([]tally, 2*furthestChannels)
	}
	return k
}

// add takes the draw of one step of a realization: positive numbers are 1, others -1, and a
// number that has no sign is 0.
func (k *masks) add(at place, v []float64) {
	mask := make([]int8, len(v))
	for i, x := range v {
		switch {
		case x > 0:
			mask[i] = 1
		case x < 0 || k.dropout:
			mask[i] = -1
		}
	}
	*k.of(at) = mask
	one := k.count(mask)
	k.parts[at.m*k.t+at.t-1] = one
	k.steps[at.t-1].add(one)
	k.realizations[at.m].add(one)
	if !k.isNew(at) {
		return
	}
	k.all.add(one)
	for c := range k.channels {
		k.channels[c].add(k.count(mask[c : c+1]))
	}
	for i := range k.along {
		for c, d := 0, i/2+1; c+d < len(mask); c++ {
			if c/d%2 == i%2 {
				k.along[i].add(compare(mask[c:c+1], mask[c+d:c+d+1], k.rarer))
			}
		}
	}
}

// count counts the rarer value.
func (k *masks) count(mask []int8) tally {
	c := compare(mask, mask, k.rarer)
	return tally{n: c.n, rare: c.rare}
}

// rate bounds the chance of so many of the rarer value.
func (k *masks) rate(c tally) float64 {
	return within(c.rare, c.n, max(0, k.p-k.slack), min(1, k.p+k.slack))
}

// judge returns the first of these that is not as it should be: how many there are of either
// value in one mask, what masks have in common, how many there are in all, and what channels
// have in common. Masks that come again have the right number in each, and not in all; and of
// masks with another number each two have more in common.
func (k *masks) judge() *suspicion {
	rate, part := k.wrongRate()
	if part || rate != nil && (k.all.rare == 0 || k.all.rare == k.all.n) {
		return rate
	}
	of := k.signs
	if rate != nil {
		of.p = k.all.rare / k.all.n
	}
	c, limit := k.together(of)
	if c.nats > limit {
		return c.suspicion(limit, fmt.Sprintf("the recorded %s of %s agree in %.3g %% of the numbers, "+
			"where %.3g %% is chance", k, c.lag, 100*c.agree, 100*(float64(of.p*of.p)+float64((1-of.p)*(1-of.p)))))
	}
	if rate != nil {
		return rate
	}
	limit = certain + elem.Log(float64(1+pairTests*len(k.along)))
	for i, c := range k.along {
		if nats := k.unlikely(c); nats > limit {
			return &suspicion{"noise.noise-differs-between-channels", fmt.Sprintf("the recorded %s of channels "+
				"%d apart agree in %.3g %% of the numbers", k, i/2+1, 100*c.agree/c.n), nats / limit, -1, -1}
		}
	}
	return nil
}

func (k *masks) String() string {
	if k.dropout {
		return "masks"
	}
	return "signs"
}

// wrongRate returns the largest part of the masks in which a value is not as rare as it should
// be, and the first step that shows it; and whether it is not in one mask, either.
func (k *masks) wrongRate() (found *suspicion, part bool) {
	limit := certain + elem.Log(float64(1+k.t+k.m+len(k.channels)+len(k.parts)))
	look := func(c tally, id string, step, m int, where string) {
		if nats := k.rate(c); found == nil && nats > limit {
			found = &suspicion{id, fmt.Sprintf("of the recorded %s%s %s, where %.3g %% should be",
				k, where, k.said(c.rare/c.n), 100*k.ofSaid(k.p)), nats / limit, step, m}
		}
	}
	const wrong = "noise.dropout-rate-wrong"
	look(k.all, k.rateID(k.all), -1, -1, "")
	for m, c := range k.realizations {
		look(c, wrong, -1, m, fmt.Sprintf(" of realization %d", m))
	}
	for i, c := range k.channels {
		look(c, wrong, -1, -1, fmt.Sprintf(" of channel %d", i))
	}
	for t, c := range k.steps {
		look(c, wrong, t+1, -1, fmt.Sprintf(" of step %d", t+1))
	}
	for i, c := range k.parts {
		look(c, wrong, i%k.t+1, i/k.t, fmt.Sprintf(" of step %d, realization %d", i%k.t+1, i/k.t))
	}
	for t := k.t - 1; found != nil && t >= 0; t-- {
		if k.rate(k.steps[t]) > limit {
			found.step = t + 1
		}
	}
	for _, c := range k.parts {
		part = part || k.rate(c) > limit
	}
	return found, part
}

// ofSaid makes the share of the rarer value that of -1.
func (k *masks) ofSaid(share float64) float64 {
	if k.rarer < 0 {
		return share
	}
	return 1 - share
}

// said says how many are -1, given the share of the rarer value.
func (k *masks) said(share float64) string {
	if k.dropout {
		return fmt.Sprintf("%.3g %% are dropped", 100*k.ofSaid(share))
	}
	return fmt.Sprintf("%.3g %% are negative", 100*k.ofSaid(share))
}

// rateID names what is wrong with the rate of all.
func (k *masks) rateID(c tally) string {
	negative := k.ofSaid(c.rare / c.n)
	switch {
	case !k.dropout && (negative == 0 || negative == 1):
		return "noise.laplace-noise-without-its-sign"
	case !k.dropout:
		return "noise.noise-has-a-mean"
	case negative == 0:
		return "noise.dropout-is-off"
	case coins(c.rare, c.n, 1-k.p) < certain:
		return "noise.dropout-with-p-and-1-p-swapped"
	}
	return "noise.dropout-rate-wrong"
}

// least returns how many times more numbers would show masks that all steps or all realizations
// have in common: infinite for one mask.
func (k *masks) least() float64 {
	most := 0.0
	for _, a := range lags(k.m, k.t) {
		pairs := float64((k.t - a.dt) * (k.m - max(a.dm, -a.dm)) / 2) // of the smaller tally
		n := max(pairs, 1) * float64(k.n)
		most = max(most, k.unlikely(tally{n: n, agree: n, rare: n * k.p}))
	}
	_, limit := k.together(k.signs)
	if most <= 0 {
		return math.Inf(1)
	}
	return limit / most
}
