package oracle

import "github.com/refrun/refrun/internal/elem"

// GrowthFit says how a small difference between two rollouts grows.
type GrowthFit struct {
	PerStep Number `json:"per_step"` // the factor of one step
	From    int    `json:"from"`     // the first step of the fit
	To      int    `json:"to"`       // the last
}

// What a fit of growth takes.
const (
	aboveRounding = 10  // times the rounding error of a step: there a difference has left it behind
	smallDistance = 0.1 // of the std: beyond, a difference feels the size of the states
	leastGrowth   = 10  // over the fitted steps; less may be anything
	leastFitted   = 5   // steps
)

// FitGrowth fits distance = exp(a + lambda t) to the distances of a twin that
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
func FitGrowth(distance, rounding []float64) (g GrowthFit, ok bool) {
	if len(distance) != len(rounding) {
		panic("oracle: distances and rounding errors differ in length")
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
	return GrowthFit{Number(elem.Exp(lambda)), from + 1, to}, true
}

// Saturated returns the RMS distance over the std of two rollouts that have
// lost each other: the mean, over the last quarter of the steps, of the twin
// with another noise. That it is saturated shows in a second twin, whose start
// was moved by a millionth: it must end at half of that distance or more, and
// both at a quarter of the std or more, the limit of [Growth]. Otherwise the
// paths have not lost each other within the steps, and there is no such
// distance (false).
func Saturated(moved, other []float64) (level float64, ok bool) {
	m, o := ending(moved), ending(other)
	return o, o >= saturation && m >= saturation && m >= o/2 && finite(o)
}

// ending returns the mean over the last quarter.
func ending(distance []float64) float64 {
	n := len(distance) / 4
	sum := 0.0
	for _, d := range distance[len(distance)-n:] {
		sum += d
	}
	return ratio(sum, float64(n))
}

// Horizon returns the first step (element 0 is step 1) whose distance is at
// least half of level, 0 if there is none. From there on a path has forgotten
// what it is compared with.
func Horizon(distance []float64, level float64) int {
	for t, d := range distance {
		if !(d < level/2) {
			return t + 1
		}
	}
	return 0
}
