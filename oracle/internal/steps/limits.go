package steps

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// spread collects a statistic of correct devices over slices of one kind: its
// moments and its greatest value, from an ensemble of them.
type spread struct{ n, sum, squares, most float64 }

func (s *spread) add(v float64) {
	s.n++
	s.most = max(s.most, math.Abs(v))
	s.sum += v
	s.squares += float64(v * v)
}

func (s *spread) mean() float64 { return s.sum / max(s.n, 1) }

// upper returns the mean with an allowance for how well a few devices tell it: a tenth, and
// three standard errors.
func (s *spread) upper() float64 { return 1.1*s.mean() + 3*math.Sqrt(s.variance()/max(s.n, 1)) }

// variance returns the unbiased variance, 0 for fewer than two numbers.
func (s *spread) variance() float64 {
	if s.n < 2 {
		return 0
	}
	m := s.mean()
	return max(0, (s.squares-float64(s.n*float64(m*m)))/(s.n-1))
}

// spreads are what correct devices show in slices of all kinds.
type spreads struct {
	squares  [measure.Kinds]spread // mean square of r, and its maxima over windows, spots and numbers
	gain     [measure.InWindow]spread
	lines    spread // of cuts' Lines
	planes   int    // of a member
	channels int
	alike    float64 // pixels with the same surroundings as one, on average (see lookAlikes)
	of       float64 // independent numbers of a plane that the scale is taken from
	reach    int     // pixels by which a change in the first layer can spread
	fine     bool    // errors are against exact arithmetic: no rounding of the claim's falls otherwise
	strict   strict
	like     *spreads // the same of steps that are alike (see class), nil if there was none
	// of many members, of the step that is judged; nil where their slices are not looked at one by one
	own []*measure.Cuts
}

// class returns the spreads of steps whose planes have so many independent numbers. Where these are few, what a step
// shows varies far more, and says nothing of those whose pixels differ: a start that a clamp makes constant is followed
// by states that vary.
func (h *spreads) class(of float64) *spreads {
	if of >= wellKnown {
		return h
	}
	if h.like == nil {
		h.like = &spreads{channels: h.channels, alike: 1, of: h.of, reach: h.reach, fine: h.fine}
	}
	return h.like
}

// empty reports whether no device was taken in.
func (h *spreads) empty() bool { return h.squares[measure.InAll].n == 0 }

// add takes in a member of the ensemble.
func (h *spreads) add(c *measure.Cuts) {
	for k := range measure.InWindow {
		t := &c.Of[k]
		for i := range t.Count {
			if t.Count[i] > 0 {
				h.squares[k].add(t.Mean(i))
				h.gain[k].add(t.Excess(i))
			}
		}
	}
	for k := measure.InWindow; k < measure.Kinds; k++ {
		for _, v := range c.Most[k] {
			h.squares[k].add(v)
		}
	}
	for _, v := range c.Lines {
		h.lines.add(v)
	}
	h.planes = c.N * c.C
}

// A step is tested by a few hundred slices, a run by a few hundred steps: each
// test may fail by chance once in 1e10 times.
const (
	logChance = -23 // ln 1e-10
	// flips are roundings that may fall otherwise in any slice, and flip the
	// most that one adds to the sum of r^2: two last roundings, an ulp each.
	flips = 8
	flip  = 24
	// cascades are changes in the first layer that may happen in any step. All
	// that they reach is rounded anew, so that r^2 has a mean of 2 there.
	cascades = 2
	anew     = 2.5
	// beyond times the greatest sum of squares of the ensemble is no chance:
	// where large terms are rare, moments say too little of the tail.
	beyond = 6
)

// limit returns what the mean square of r over a slice of count numbers may be
// on a correct device.
//
// A mean of many squares with mean m and variance v is about gamma distributed,
// with shape m^2/v and scale v/m. Its tail is bounded by Chernoff's inequality,
// ln P(q > x) <= k (1 - x/m + ln(x/m)), k = m^2/v, which holds for sums of few
// large terms and for normal ones. The maxima over small slices have the tail of
// Gumbel's distribution: P(max > m + b x) <= e^-x about, and its deviation is b pi/sqrt 6.
// Whatever the ensemble shows, a few roundings may fall otherwise.
//
// The ensemble is small. So its variance counts half as much again, and no mean square is
// taken to be known better than to 3 % (a thousandth of m^2 is added).
func (h *spreads) limit(k measure.SliceKind, count float64) float64 {
	s := &h.squares[k]
	m := s.upper()
	v := 1.5*s.variance() + float64(m*m)*1e-3
	few := h.few(k, count)
	switch {
	case k >= measure.InWindow:
		return max(m+math.Sqrt(v)*(-logChance)*math.Sqrt(6)/math.Pi, few)
	case k == measure.InAll:
		v = 1.5*h.stepVariance() + float64(m*m)*1e-3
	}
	return max(min(chernoff(m, v), beyond*s.most), few)
}

// at returns the limits for a step from states of which so many pixels are alike, and whose
// scale is taken from so many numbers of a plane: those of its class, or of the other one if its own has no devices.
func (h *spreads) at(alike, of float64) *spreads {
	c := *h
	if l := h.like; l != nil && !l.empty() && (of < wellKnown || h.empty()) {
		c = *l
		c.own, c.strict = h.own, h.strict
	}
	c.alike, c.of = alike, of
	return &c
}

// few is what a few roundings that fall otherwise make of the mean of r^2,
// whatever the ensemble showed. Pixels that are alike round alike: what is few of
// them is many, up to all, and then the mean is one of as many independent squares as
// there are pixels that differ. Errors against exact arithmetic are none but the device's own: no
// larger, over few numbers, than those of all.
func (h *spreads) few(k measure.SliceKind, count float64) float64 {
	f := h.fewOf(k, count)
	if h.fine {
		f *= min(1, h.squares[measure.InAll].upper())
	}
	return f
}

func (h *spreads) fewOf(k measure.SliceKind, count float64) float64 {
	const most = 100 // a difference of two errors, each of up to 7 deviations
	switch k {
	case measure.InWindow:
		return min(8*h.alike, most) * h.doubt() // rounded anew, of a dozen independent numbers
	case measure.InSpot: // which has fewer
		return min(24*h.alike, most) * h.doubt()
	case measure.InPeak:
		return most * h.doubt()
	}
	side := float64(2*min(h.reach, 3) + 1) // farther off, little is rounded anew
	pixels := side * side
	if k == measure.InRow || k == measure.InColumn || k == measure.InRing {
		pixels = side
	}
	share := h.alike / max(count, 1) // of the numbers, those that are alike
	all := chernoff(anew, 2*anew*anew*share)
	return h.doubt() * min(share*max(flips*flip, cascades*anew*pixels*float64(h.channels)), all, most)
}

// doubt is by how much more the variance of a plane's errors may be than the mean of
// the n squares that it is taken from: n over the quantile 1e-6 of a chi-square variable
// of n degrees of freedom, in units of that of 64 numbers, which limits allow for. The
// quantile is n (1 - v + z sqrt v)^3, v = 2/(9 n), z = -4.75 that of a normal number
// (Wilson and Hilferty, 1931).
func (h *spreads) doubt() float64 {
	share := func(n float64) float64 {
		v := 2 / (9 * n)
		q := max(1-v-float64(4.75*math.Sqrt(v)), 0.1)
		return q * q * q
	}
	return share(wellKnown) / share(min(max(h.of, 1), wellKnown))
}

// stepVariance is the variance of the mean square of r over a step: that of the
// members, or what their planes make one expect if they were independent.
func (h *spreads) stepVariance() float64 {
	return max(h.squares[measure.InAll].variance(), h.squares[measure.InPlane].variance()/float64(max(h.planes, 1)))
}

func (h *spreads) gainVariance() float64 {
	return max(h.gain[measure.InAll].variance(), h.gain[measure.InPlane].variance()/float64(max(h.planes, 1)))
}

// chernoff returns x > m with k (1 - x/m + ln(x/m)) = logChance, k = m^2/v.
func chernoff(m, v float64) float64 {
	if !(m > 0) {
		return 0
	}
	k := float64(m*m) / max(v, 1e-300)
	lo, hi := 1.0, 2.0
	tail := func(x float64) float64 { return k * (1 - x + elem.Log(x)) }
	for tail(hi) > logChance && hi < 1e12 {
		hi *= 2
	}
	for range 60 {
		if mid := (lo + hi) / 2; tail(mid) > logChance {
			lo = mid
		} else {
			hi = mid
		}
	}
	return m * hi
}

// gainLimit returns what the mean of g^2 - e^2 over a slice may be: a device
// that is as accurate as the emulation has 0 on average, and one whose float32
// errors are large beside the emulation's has what the ensemble shows.
func (h *spreads) gainLimit(k measure.SliceKind, count float64) float64 {
	s := &h.gain[k]
	v := s.variance()
	if k == measure.InAll {
		v = h.gainVariance()
	}
	return max(h.gained(k)+min(8*math.Sqrt(1.5*v), beyond*s.most), h.few(k, count))
}

// ownLimit returns what a statistic of one slice may be by what many devices have in that slice of that step, with
// eight deviations, 0 where they were not asked. A number far in the tail of its errors makes a slice vary more than
// others do. Those of fewer realizations say it of what lies in one.
func (h *spreads) ownLimit(c *measure.Cuts, k measure.SliceKind, i int, of func(*measure.Tally) float64) float64 {
	var s spread
	for _, o := range h.own {
		if o.N == c.N || (k == measure.InSample || k == measure.InPlane) && i < len(o.Of[k].Count) {
			s.add(of(&o.Of[k]))
		}
	}
	return s.upper() + 8*math.Sqrt(1.5*s.variance())
}

// gained is the mean of g^2 - e^2 of correct devices, from above.
func (h *spreads) gained(k measure.SliceKind) float64 { return max(0, h.gain[k].upper()) }
