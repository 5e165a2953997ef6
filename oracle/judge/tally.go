package judge

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/tensor"
)

// tally is what is counted of an output, and of the simulated right kernels beside it; those of pieces add
// up.
type tally struct {
	elements   int
	violations int
	unknown    int // elements of which it is not known what right kernels return
	flips      int
	close      int     // that assert_close finds off
	all        float64 // squared errors over what one is counted in, see quantum
	expected   float64 // the same of what is expected
	right      []counts
	worst      *Worst
	score      float64 // of the worst
	constant   bool    // what is right is one number
	finite     bool    // some of what is right is finite
	value      float64
	units      [2]flushes // of results that are subnormal themselves, and of others
}

// counts are a simulated kernel's flips and squared errors.
type counts struct {
	flips int
	all   float64
}

// add adds a piece's.
func (t *tally) add(p *tally) {
	if t.elements == 0 {
		*t = *p
		return
	}
	t.finite = t.finite || p.finite
	t.constant = t.constant && p.constant && t.value == p.value
	t.elements += p.elements
	t.violations += p.violations
	t.unknown += p.unknown
	t.flips += p.flips
	for k, n := range p.units {
		t.units[k].gone += n.gone
		t.units[k].kept += n.kept
	}
	t.close += p.close
	t.all += p.all
	t.expected += p.expected
	t.right = t.right[:min(len(t.right), len(p.right))]
	for m := range t.right {
		t.right[m].flips += p.right[m].flips
		t.right[m].all += p.right[m].all
	}
	if p.score > t.score {
		t.worst, t.score = p.worst, p.score
	}
}

// sigmas is how far all errors together are above what is expected, over the limit.
func (t *tally) sigmas() float64 {
	return t.far(t.all) / t.limit()
}

// power is the mean square of errors, over that of right kernels, from which on they would be seen if
// they were everywhere.
func (t *tally) power() float64 {
	return (usualSlack*t.expected + t.limit()*t.deviation()) / t.expected
}

// limit is how far all errors of a right kernel together may be above what is expected.
func (t *tally) limit() float64 {
	limit := leastFar
	for _, k := range t.right {
		limit = max(limit, regionTimes*t.far(k.all)+farther)
	}
	return limit
}

// far is how many deviations squared errors are above what is expected.
func (t *tally) far(all float64) float64 { return (all - usualSlack*t.expected) / t.deviation() }

func (t *tally) deviation() float64 { return math.Sqrt(squareVariance*t.expected) + 1 }

// errors is the mean square of the errors over what is expected.
func (t *tally) errors() float64 {
	switch {
	case t.expected > 0:
		return t.all / t.expected
	case t.all > 0:
		return math.MaxFloat64
	}
	return 0
}

// count fills a trial's tally.
func (q *Question) count(t *trial) {
	f := q.Output.Format
	c := closeness[f]
	n := &t.tally
	n.elements, n.constant = len(t.y), true
	if len(t.y) > 0 {
		n.value = t.stored[0]
	}
	n.units = q.flushes(t)
	n.right = make([]counts, len(t.right))
	at := -1
	for i, got := range q.Output.Data {
		want := t.stored[i]
		n.constant = n.constant && want == n.value
		n.finite = n.finite || want-want == 0
		if math.Abs(got-want) > c[1]+c[0]*math.Abs(want) {
			n.close++
		}
		u := t.quantum(f, i, t.e)
		n.expected += t.e[i] / u
		for m, k := range t.right {
			if d := k[i] - want; d != 0 {
				n.right[m].flips++
				if d-d == 0 {
					n.right[m].all += d * d / u
				}
			}
		}
		if got == want || got != got && want != want {
			continue
		}
		n.flips++
		d := got - want
		score := math.Abs(d) / math.Sqrt(u)
		if d-d == 0 {
			n.all += d * d / u
		}
		switch t.admits(f, i, got) {
		case unknown:
			n.unknown++
		case no:
			n.violations++
			if score = impossible * (1 + score); score != score {
				score = math.Inf(1)
			}
		}
		if score > n.score {
			at, n.score = i, score
		}
	}
	if at >= 0 {
		lo, hi := t.interval(f, at)
		n.worst = &Worst{tensor.Index(q.offset+at, q.whole), digits(q.Output.Data[at]), digits(t.y[at]), digits(lo), digits(hi)}
	}
}

func digits(v float64) string { return fmt.Sprintf("%.9g", v) }
