package judge

import (
	"fmt"
	"math"
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
	variance   float64 // and how that varies
	flipped    float64 // and of roundings that may go to the other side
	right      []counts
	wrong      []int // the elements that are violations
	worst      *Worst
	score      float64 // of the worst
	constant   bool    // what is right is one number
	finite     bool    // some of what is right is finite
	reach      float64 // the largest error over what the bound and storing allow
	bias       float64 // errors away from zero, of numbers whose rounding is more than that, in places
	biased     float64 // and how many numbers these are
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
	t.wrong = append(t.wrong, p.wrong...)
	t.unknown += p.unknown
	t.flips += p.flips
	for k, n := range p.units {
		t.units[k].gone += n.gone
		t.units[k].kept += n.kept
	}
	t.close += p.close
	t.all += p.all
	t.expected += p.expected
	t.variance += p.variance
	t.flipped += p.flipped
	t.right = t.right[:min(len(t.right), len(p.right))]
	for m := range t.right {
		t.right[m].flips += p.right[m].flips
		t.right[m].all += p.right[m].all
	}
	t.reach = max(t.reach, p.reach)
	t.bias += p.bias
	t.biased += p.biased
	if p.score > t.score {
		t.worst, t.score = p.worst, p.score
	}
}

// law is that of all errors together.
func (t *tally) law() squaresLaw {
	var x [][]float64
	for _, k := range t.right {
		x = append(x, []float64{k.all})
	}
	e, v := []float64{t.expected}, []float64{t.variance}
	return sumsLaw(usualSlack, simulatedSums{x, e, v}, e, v, []float64{t.flipped})(0)
}

// everywhere is how likely all errors together are.
func (t *tally) everywhere() farthest {
	l := t.law()
	return farthest{law: l, of: t.all, at: everywhere, chance: l.tail(t.all), count: 1}
}

// power is the mean square of errors, over that of right kernels, from which on they would be seen if
// they were everywhere.
func (t *tally) power() float64 { return beyond(t.law().tail, atOdds(1)) / t.expected }

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
	n, edges := &t.tally, t.edges
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
		n.reaches(f.Ulp(want), t.y[i], t.r[i], t.e[i], got)
		u := t.quantum(f, i)
		n.expected += t.e[i] / u
		n.variance += varies(t.e[i] / u)
		if edges != nil {
			n.flipped += edges[i] / u
		}
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
			n.wrong = append(n.wrong, q.offset+i)
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
		n.worst = &Worst{q.index(at), t.digits(q.Output.Data[at]), t.digits(t.y[at]), t.digits(lo), t.digits(hi)}
	}
}

// reaches counts how far a number is from where it should be, of which right kernels are within r, and to which side.
func (t *tally) reaches(ulp, y, r, expected, got float64) {
	d := got - y
	if d-d != 0 {
		return
	}
	if e := math.Abs(d) / (ulp/2 + r); e > t.reach {
		t.reach = e
	}
	if expected < float64(ulp*ulp*storing) && y != 0 {
		t.bias += math.Copysign(d/ulp, d*y)
		t.biased++
	}
}

// digits is a number with as many digits as tell those of the steps' format apart.
func (t *trial) digits(v float64) string {
	if t.Double {
		return fmt.Sprintf("%.17g", v)
	}
	return fmt.Sprintf("%.9g", v)
}
