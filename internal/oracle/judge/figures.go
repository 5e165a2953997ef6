package judge

import "math"

// Figures are errors of an output: from exact arithmetic, and from the contract.
type Figures struct {
	MaxAbs, MeanAbs float64 // from exact arithmetic
	// Squares is the mean square of those errors and Peak the largest, both over what the contract makes one expect,
	// its roundings among it; Centre is the root mean square of the errors from the contract.
	Squares, Peak, Centre float64
	Finite                int // the numbers of which this is
}

// Usual reports whether the errors from exact arithmetic are no larger than those that the contract makes one expect:
// their mean square as of as many normal numbers, and the largest of them.
func (f Figures) Usual() bool {
	n, odds := float64(f.Finite), atOdds(2)
	return n > 0 && ratioTail(n, n, f.Squares) >= odds && largestOf(f.Finite, false, nil).tail(f.Peak) >= odds
}

// figures measures errors from exact arithmetic, and keeps them number by number if the evaluation is to be seen.
func (e *evaluations) figures(i int, q *Question, t *trial, seen bool) (f Figures, err error) {
	truth := t.y
	if q.Truth != nil && !q.exactly(t) {
		if truth, err = q.Truth(); err != nil {
			return f, err
		}
	}
	if e.Watch != nil {
		e.Watch(i, q.Output.Data, truth)
	}
	var errors, expected, centre, n float64
	each := make([]float64, len(truth))
	for i, got := range q.Output.Data {
		d, off, ulp := math.Abs(got-truth[i]), t.stored[i]-truth[i], q.Output.Format.Ulp(t.stored[i])
		square := t.e[i] + float64(ulp*ulp)*storing
		if !(d-d == 0 && square-square == 0 && off-off == 0) {
			continue
		}
		n++
		f.MaxAbs = max(f.MaxAbs, d)
		f.MeanAbs += d
		errors += float64(d * d)
		each[i] = max(square, float64(off*off))
		expected += each[i]
		centre += float64((got-t.stored[i])*(got-t.stored[i])) / square
	}
	if seen {
		q.level()(each)
		for i, e := range each {
			each[i] = math.Sqrt(e)
		}
		e.Exact, e.Stored, e.Expected = truth, t.stored, each
	}
	f.Finite = int(n)
	if n > 0 && expected > 0 {
		f.MeanAbs /= n
		f.Squares, f.Centre, f.Peak = errors/expected, math.Sqrt(centre/n), f.MaxAbs/math.Sqrt(expected/n)
	}
	return f, nil
}
