package measure

import (
	"math"

	"github.com/refrun/refrun/rollout"
)

// LevelOut takes from the errors v what a post-processing that maps each group of realizations linearly may have made
// of one rounding: that of its least or its greatest number, or of its spread. What is left is the error of each number
// for itself. A line that is more than a few roundings stays, unless whatever they are is asked for. Where most numbers
// have no error at all, the others have none in common with them, and there is no line. It returns the mean square of
// each group's line, in deviations s.
func LevelOut(c rollout.Config, v, truth, s []float64, realizations int, whatever bool) (lines []float64) {
	if c.Normalization == rollout.NoNormalization {
		return nil
	}
	group := len(v)
	if c.EngineBatch == 0 {
		group /= realizations
	}
	for lo := 0; lo < len(v); lo += group {
		v, x, s := v[lo:lo+group], truth[lo:lo+group], s[lo:lo+group]
		if mostExact(v) {
			lines = append(lines, 0)
			continue
		}
		at, a, b := fit(v, x, s)
		usual, most, within := math.Inf(1), 0.0, true
		for _, d := range s {
			if d > 0 {
				usual, most = min(usual, d), max(most, d)
			}
		}
		// The error of the greatest number, in deviations of the usual ones, and
		// in its own at the most.
		reach := min(64*usual, 12*most)
		for k, w := range x {
			if d := a + float64(b*(w-at)); !whatever && v[k] == v[k] && math.Abs(d) > reach {
				within = false
				break
			}
		}
		n, squares := 0.0, 0.0
		for k := range v {
			d := a + float64(b*(x[k]-at))
			if Finite(v[k]) && s[k] > 0 {
				n, squares = n+1, squares+float64(d*d)/float64(s[k]*s[k])
			}
			if within {
				v[k] -= d
			}
		}
		lines = append(lines, squares/max(n, 1))
	}
	return lines
}

// mostExact reports whether most errors are none.
func mostExact(v []float64) bool {
	none := 0
	for _, d := range v {
		if d == 0 {
			none++
		}
	}
	return 2*none > len(v)
}

// fit returns the line a + b (x - at) through v, by least squares of v/s, at
// the mean of x; numbers that are not finite are left out.
func fit(v, x, s []float64) (at, a, b float64) {
	weight := func(k int) float64 {
		if !Finite(v[k]) || !Finite(x[k]) || !(s[k] > 0) {
			return 0
		}
		return 1 / float64(s[k]*s[k])
	}
	var n, sx, sv float64
	for k := range v {
		if w := weight(k); w > 0 {
			n, sx, sv = n+w, sx+float64(w*x[k]), sv+float64(w*v[k])
		}
	}
	if n == 0 {
		return 0, 0, 0
	}
	at, a = sx/n, sv/n
	var xx, xv float64
	for k := range v {
		if w := weight(k); w > 0 {
			d := x[k] - at
			xx, xv = xx+w*float64(d*d), xv+w*float64(d*v[k])
		}
	}
	if xx > 0 {
		b = xv / xx
	}
	return at, a, b
}
