package judge

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// One law holds all statistics of an output to what the next right device would have, given those that were simulated:
// the chance of being as far is falseAlarm over how many statistics a check has. What a law knows of right devices it
// knows from theory, which counts as so many devices as asTheory says, and from the simulated ones.

// law is how a statistic of right devices varies.
type law interface {
	// tail is the logarithm of the chance that the next right device is beyond x.
	tail(x float64) float64
	// wider is the law with no less spread than another one of its kind.
	wider(than law) law
	// spread is how wide it is, for an order of laws of one kind.
	spread() float64
}

// squaresLaw is that of a sum of squared errors, in quanta: over what is expected it is an F variable. Its numbers are
// the independent ones that have the sum's mean and variance, and known are those by which the mean is known.
type squaresLaw struct {
	slack, expected, variance float64
	alike                     float64 // how many times its variance the sums of right devices vary, as numbers err alike
	devices                   float64 // that are known
	all                       float64 // independent numbers of the whole output, by which its level is known
	flips                     float64 // of roundings that may go to the other side, and one more
}

// numbers are the independent ones.
func (l squaresLaw) numbers() float64 { return 2 * l.expected * l.expected / (l.variance * l.alike) }

// tail implements [law].
func (l squaresLaw) tail(x float64) float64 {
	return ratioTail(l.numbers(), numbersOfTheory+l.devices*l.all/l.alike, max(0, x-l.flips)/(l.slack*l.expected))
}

func (l squaresLaw) wider(than law) law {
	l.alike = max(l.alike, than.(squaresLaw).alike)
	return l
}

func (l squaresLaw) spread() float64 { return l.alike }

// simulatedSums are sums over regions of simulated devices, by device and region, what is expected, and how it varies.
type simulatedSums struct {
	x    [][]float64
	e, v []float64
}

// sumsLaw is the law of sums over regions of one way, of which some are simulated, and what is expected is e, which
// varies by v. Roundings that go to the other side may add the edges.
func sumsLaw(slack float64, s simulatedSums, e, v, edges []float64) (of func(k int) squaresLaw) {
	l := squaresLaw{slack: slack, alike: alike(s.x, s.e, s.v), devices: float64(asTheory + len(s.x))}
	mean, variance := 0.0, 0.0
	for k := range e {
		mean, variance = mean+e[k], variance+v[k]
	}
	if variance > 0 {
		l.all = 2 * mean * mean / variance
	}
	return func(k int) squaresLaw {
		l.expected, l.variance = e[k]+1/l.devices, v[k]+1/l.devices // one event more of all devices
		l.flips = max(1, edges[k])
		return l
	}
}

// alike is how many times the variance v of independent numbers the sums of simulated devices vary: where they are
// above what is expected, twice, as sums of few squares have a longer tail there; and as theory has it, once.
func alike(x [][]float64, e, v []float64) float64 {
	above, all := 0.0, 0.0
	for k := range e {
		for _, sums := range x {
			own := sums[k] / float64(2*len(x)) // its share in what is expected
			d := max(0, sums[k]+own-e[k])
			above, all = above+2*float64(d*d), all+v[k]
		}
	}
	if all == 0 || len(x) == 0 {
		return 1
	}
	theory := asTheory * all / float64(len(x)*len(e)) // that many devices of one region
	return max(1, (above+theory)/(all+theory))
}

// largestLaw is that of the largest of many errors, in deviations: beyond what is usual the tail of extremes is
// exponential, and a scale that is known as from so many of them makes it a power.
type largestLaw struct{ usual, scale, known float64 }

// tail implements [law]: one flipped rounding is nobody's.
func (l largestLaw) tail(x float64) float64 {
	return -l.known * elem.Log1p(max(0, x-1-l.usual)/(l.known*l.scale))
}

func (l largestLaw) wider(than law) law {
	o := than.(largestLaw)
	return largestLaw{max(l.usual, o.usual), max(l.scale, o.scale), l.known}
}

func (l largestLaw) spread() float64 { return l.usual + l.scale }

// largestOf is the law of the largest of n errors, of which those of simulated devices are x. In theory they are
// normal, or of sums whose partial sums walk: the squares of a walk vary as the integral of W^2 does, with a tail of
// e^(-pi^2 y/8) where the mean is y = 1/2, and a normal number of such a variance is beyond r deviations with a chance
// of about e^(-1.11 r).
func largestOf(n int, walks bool, x []float64) largestLaw {
	size := elem.Log(float64(max(2, n)))
	usual, scale := math.Sqrt(2*size), 1/math.Sqrt(2*size)
	if walks {
		usual, scale = size/walkTail, 1/walkTail
	}
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += float64((v-mean)*(v-mean)) / extremeVariance
	}
	known := float64(numbersOfTheory + len(x))
	return largestLaw{max(usual, mean), math.Sqrt((numbersOfTheory*float64(scale*scale) + square) / known), known}
}

// alongLaw is that of how far right devices' errors lie along a direction, in deviations: Student's.
type alongLaw struct{ square, devices float64 }

// alongOf is it where those of simulated devices are x. In theory they are normal.
func alongOf(x []float64) alongLaw {
	l := alongLaw{asTheory, float64(asTheory + len(x))}
	for _, v := range x {
		l.square += float64(v * v)
	}
	l.square = max(1, l.square/l.devices)
	return l
}

func (l alongLaw) tail(x float64) float64 { return ratioTail(1, l.devices, float64(x*x)/l.square) }

func (l alongLaw) limit(chance float64) float64 { return beyond(l.tail, chance) }

// among is the chance that one of so many statistics is as unlikely as that.
func among(chance, statistics float64) float64 {
	return min(1, elem.Exp(min(0, chance+elem.Log(max(1, statistics)))))
}

// atOdds is the logarithm of the chance that each of so many statistics has.
func atOdds(statistics float64) float64 { return elem.Log(falseAlarm / max(1, statistics)) }
