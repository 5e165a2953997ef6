package judge

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
)

// closeness are torch.testing.assert_close's defaults: relative and absolute.
var closeness = map[fp16.Format][2]float64{
	fp16.Float16: {1e-3, 1e-5}, fp16.BFloat16: {1.6e-2, 1e-5}, fp16.Float32: {1.3e-6, 1e-5}, fp16.Float64: {1e-7, 1e-7},
}

// report puts the best trial into words.
func (q *Question) report(t *trial) *Report {
	f := q.Output.Format
	r := &Report{Store: f.String(), Elements: len(t.y), Contract: t.Contract, Claimed: q.Claimed != nil, Violations: t.violations, Errors: t.errors, Blind: t.blind}
	c := closeness[f]
	for i, got := range q.Output.Data {
		if got != t.stored[i] && !(got != got && t.stored[i] != t.stored[i]) {
			r.Flips++
		}
		if math.Abs(got-t.stored[i]) > c[1]+c[0]*math.Abs(t.stored[i]) {
			r.Close++
		}
	}
	for _, k := range t.right {
		n := 0
		for i, v := range k {
			if v != t.stored[i] {
				n++
			}
		}
		r.Expected = max(r.Expected, n)
	}
	r.Worst = q.worst(t)
	switch {
	case !t.passes():
		r.Verdict = Fail
	case constant(t.stored):
		r.Verdict, r.Reason = NoPower, "what is right is one number everywhere: this data shows nothing"
	case t.zero <= 1:
		r.Verdict, r.Reason = NoPower, "this data would not tell a right kernel from one that writes zeros"
	default:
		r.Verdict = Pass
	}
	if r.Verdict != Fail {
		return r
	}
	switch {
	case t.violations > 0:
		r.Reason = fmt.Sprintf("%d of %d elements are what no right kernel returns", t.violations, len(t.y))
	case t.excess > 1:
		r.Reason = fmt.Sprintf("errors are larger than those of right kernels, most at %s", t.region)
	default:
		r.Reason = "the errors lie along a fault"
	}
	if t.excess > 1 && t.region != "everywhere" {
		r.Region = t.region
	}
	if t.fault != nil {
		r.Fault, r.Advice = t.fault.Title, t.fault.Advice
	}
	return r
}

// constant reports whether all numbers are one.
func constant(v []float64) bool {
	for _, x := range v {
		if x != v[0] {
			return false
		}
	}
	return true
}

// worst is the element that is farthest outside its interval, in lengths of it, or else the one whose
// error is the largest for what is expected of it.
func (q *Question) worst(t *trial) *Worst {
	f := q.Output.Format
	at, most := -1, 0.0
	for i, got := range q.Output.Data {
		lo, hi := t.interval(f, i)
		d := math.Abs(got-t.stored[i]) / math.Sqrt(t.quantum(f, i))
		if !(got >= lo && got <= hi) && !(got != got && t.y[i] != t.y[i]) {
			d = 1e30 * (1 + d)
			if d != d {
				d = math.Inf(1)
			}
		}
		if d > most {
			at, most = i, d
		}
	}
	if at < 0 {
		return nil
	}
	lo, hi := t.interval(f, at)
	return &Worst{place(at, q.Output.Shape), fmt.Sprintf("%.9g", q.Output.Data[at]), fmt.Sprintf("%.9g", t.y[at]), fmt.Sprintf("%.9g", lo), fmt.Sprintf("%.9g", hi)}
}
