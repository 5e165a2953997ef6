package judge

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
)

// A result that is stored in a half type may have been rounded to the other side of an edge, and nobody counts one such
// flip. But the edge says how far off the result must have been before it was stored: beside exact numbers that are far
// from any edge, one flip is an error of many float32 roundings. That is a slip.

// slips reports whether results before they are stored differ by the errors of float32 alone: a rounding of an inner
// result that goes to the other side moves them farther, and is as rare.
func (q *Question) slips(t *trial) bool {
	return q.Output.Format.Half() && !t.Double && !t.b.truncates && !q.integers && len(t.round) == 0 &&
		t.Accumulate == "" && t.Atomic == "" && !t.b.jumps()
}

// slip is how far off element i must have been to be stored as got.
func (t *trial) slip(f fp16.Format, i int, got float64) float64 {
	next := f.NextUp(got)
	if got > t.stored[i] {
		next = f.NextDown(got)
	}
	if got == t.stored[i] || next-next != 0 || got-got != 0 {
		return 0
	}
	return max(0, math.Abs(got-t.y[i])-math.Abs(got-next)/2)
}

// slipped finds the largest slip for the errors that simulated right kernels have before they store: half what they
// are at this element, and half what they are for their bound.
func (q *Question) slipped(t *trial, f fp16.Format) {
	if t.wide == nil {
		return
	}
	squares := make([]float64, len(t.y))
	all, bound := 0.0, 0.0
	for i, r := range t.r {
		for kind, of := range t.wide {
			squares[i] = max(squares[i], of[i]/float64(t.ofKind(kind)))
		}
		if r-r == 0 {
			all, bound = all+squares[i], bound+float64(r*r)
		}
	}
	for i, r := range t.r {
		if r-r == 0 && bound > 0 {
			squares[i] = squares[i]/2 + r*r*(all/bound)/2
		}
		if t.flushed != nil {
			squares[i] = max(squares[i], float64((t.flushed[i]-t.y[i])*(t.flushed[i]-t.y[i])))
		}
		squares[i] = max(squares[i], float64(t.sigma[i]*t.sigma[i]))
	}
	largest := func(out []float64, own float64) (most float64, at int) {
		at = -1
		for i, v := range out {
			if s := t.slip(f, i, v); s > 0 && s*s > most*(squares[i]-own*s*s) {
				most, at = s*s/(squares[i]-own*s*s), i
			}
		}
		return math.Sqrt(most), at
	}
	var right []float64
	for _, k := range t.right {
		x, _ := largest(k, 1/float64(2*len(t.right)))
		right = append(right, x)
	}
	l := largestOf(len(t.y), true, right)
	x, at := largest(q.Output.Data, 0)
	w := farthest{law: l, of: x, chance: l.tail(x), count: 1}
	if at >= 0 {
		w.at = fmt.Sprintf("element %v", q.index(at))
	}
	t.ways[slipWay] = w
}

// addSquares adds the squares of a kernel's errors.
func addSquares(to, x, y []float64) {
	for i, v := range x {
		if d := v - y[i]; d-d == 0 {
			to[i] += d * d
		}
	}
}
