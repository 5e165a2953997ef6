package study

import (
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/exact/elem"
)

// GrowthFit says how a small difference between two rollouts grows.
type GrowthFit struct {
	PerStep diff.Number `json:"per_step"` // the factor of one step
	From    int         `json:"from"`     // the first step of the fit
	To      int         `json:"to"`       // the last
}

// What a fit of growth takes.
const (
	aboveRounding = 10  // times the rounding error of a step: there a difference has left it behind
	smallDistance = 0.1 // of the std: beyond, a difference feels the size of the states
	leastGrowth   = 10  // over the fitted steps; less may be anything
	leastFitted   = 5   // steps
)

// fitGrowth fits distance = exp(a + lambda t) to the distances of a twin that
// started close by, and returns the factor exp(lambda). Both arguments are RMS
// over the std, element 0 that of step 1; rounding is the error of one step's
// arithmetic.
//
// The fit, least squares of the logarithms, is over the longest run of steps at
// which the distance has left rounding noise behind (at least 10 times rounding)
// and is still small (up to 0.1). Nothing is given (false) for a difference that
// does not grow: fewer than 5 such steps; less than tenfold growth over them; or
// less than a quarter of the logarithm's growth in their second half, which a
// power of the time shows and an exponential does not.
func fitGrowth(distance, rounding []float64) (g GrowthFit, ok bool) {
	if len(distance) != len(rounding) {
		panic("study: distances and rounding errors differ in length")
	}
	from, to := 0, 0 // the longest run so far, to one past its last step
	run := 0
	for t, d := range distance {
		if run++; !(d > 0 && d >= aboveRounding*rounding[t] && d <= smallDistance) {
			run = 0
		}
		if run > to-from {
			from, to = t+1-run, t+1
		}
	}
	n := to - from
	if n < leastFitted {
		return g, false
	}
	y := make([]float64, n)
	mean := 0.0
	for i := range y {
		y[i] = elem.Log(distance[from+i])
		mean += y[i] / float64(n)
	}
	var xy, xx float64
	for i := range y {
		x := float64(2*i-(n-1)) / 2
		xy += float64(x * (y[i] - mean))
		xx += float64(x * x)
	}
	lambda := xy / xx
	total, half := y[n-1]-y[0], y[n-1]-y[n/2]
	if !(lambda > 0) || total < elem.Log(leastGrowth) || half < total/4 {
		return g, false
	}
	return GrowthFit{diff.Number(elem.Exp(lambda)), from + 1, to}, true
}

// Saturated returns the RMS distance over the std at which two rollouts stay that draw
// other noise: the mean, over the last quarter of the steps, of the twin that does. That
// they stay there shows in the quarter before, whose mean must be within a fourth of it.
// Otherwise they are still moving apart, or there are fewer than 8 steps, and the distance
// is not known (false).
func Saturated(other []float64) (level float64, ok bool) {
	n := len(other) / 4
	if n < 2 {
		return 0, false
	}
	last, before := ending(other, n), ending(other[:len(other)-n], n)
	return last, finite(last) && math.Abs(last-before) <= last/4
}

// Lost returns the horizon of a path, its first step that says nothing; 0 if there is none
// within the steps. level is that of Saturated, known or not.
//
// A path has lost what it is compared with when it is half as far away as unrelated paths
// stay, if those stay at a quarter of the std or more; if they stay nearer, no path loses
// the other. Where the level is not known, a path that never comes to an eighth of
// the std has not lost the other either, and of any other nothing is known (false).
func Lost(distance []float64, level float64, known bool) (step int, measured bool) {
	if known {
		if level < diff.Saturation {
			return 0, true
		}
		return horizon(distance, level), true
	}
	return 0, horizon(distance, diff.Saturation) == 0
}

// ending returns the mean of the last n distances.
func ending(distance []float64, n int) float64 {
	sum := 0.0
	for _, d := range distance[len(distance)-n:] {
		sum += d
	}
	return ratio(sum, float64(n))
}

// horizon returns the first step (element 0 is step 1) whose distance is at
// least half of level, 0 if there is none. From there on a path has forgotten
// what it is compared with.
func horizon(distance []float64, level float64) int {
	for t, d := range distance {
		if !(d < level/2) {
			return t + 1
		}
	}
	return 0
}
