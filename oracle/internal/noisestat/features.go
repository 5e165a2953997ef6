package noisestat

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/oracle/internal/measure"
)

// A feature is something that is known before the noise of a step is drawn: a
// number at every element. Noise has nothing in common with it; what a wrong
// operator, policy or store does has.
type feature struct {
	Name string
	At   func(n, o, p int) float64
}

// Features returns those of a step: what the operator and the state look like,
// here and beside here, and where the pixel lies.
func (u *Unseen) Features(st *UnseenStep) []feature {
	x, out := st.X, st.Outputs
	c, h, w := x.C(), x.H(), x.W()
	hw := h * w
	value := func(d []float64) func(n, o, p int) float64 {
		return func(n, o, p int) float64 { return d[(n*c+o)*hw+p] }
	}
	all := []feature{
		{"the operator's output", value(out.Data)},
		{"the state before", value(x.Data)},
		{"the operator's output one pixel to the left",
			func(n, o, p int) float64 { return out.Data[(n*c+o)*hw+p-min(p%w, 1)] }},
		{"the operator's output one pixel above", func(n, o, p int) float64 { return out.Data[(n*c+o)*hw+p-w*min(p/w, 1)] }},
		{"the square of the operator's output", func(n, o, p int) float64 {
			v := out.Data[(n*c+o)*hw+p]
			return float64(v * v)
		}},
		{"the operator's output in the lower half", func(n, o, p int) float64 {
			if p/w < h/2 {
				return 0
			}
			return out.Data[(n*c+o)*hw+p]
		}},
	}
	for ch := range c {
		only := func(f func(n, p int) float64) func(n, o, p int) float64 {
			return func(n, o, p int) float64 {
				if o != ch {
					return 0
				}
				return f(n, p)
			}
		}
		all = append(all,
			feature{fmt.Sprintf("output channel %d", ch), only(func(n, p int) float64 { return out.Data[(n*c+ch)*hw+p] })},
			feature{fmt.Sprintf("channel %d of the state before", ch),
				only(func(n, p int) float64 { return x.Data[(n*c+ch)*hw+p] })},
			feature{fmt.Sprintf("the border of channel %d", ch), only(func(n, p int) float64 {
				if border(p, h, w) {
					return 1
				}
				return 0
			})})
	}
	if x.N() > 1 {
		all = append(all, feature{
			"another realization's output", func(n, o, p int) float64 { return out.Data[((n+1)%x.N()*c+o)*hw+p] },
		},
			feature{"another realization's state", func(n, o, p int) float64 { return x.Data[((n+1)%x.N()*c+o)*hw+p] }})
	}
	if st.Step > 1 {
		all = append(all, feature{"the state before the last", value(u.E.Stored(st.Lo, st.Hi, st.Step-2).Data)})
	}
	return all
}

func border(p, h, w int) bool {
	y, x := p/w, p%w
	return y == 0 || y == h-1 || x == 0 || x == w-1
}

// FeatureSums hold a feature against fields. In units of standard deviations:
// coherent over all of them, step by step, and as a sum of squares over samples,
// where its sign may change.
type FeatureSums struct {
	Name       string
	num, den   float64
	squares, n float64
	stepNum    map[int]float64
	stepDen    map[int]float64
	largest    float64 // of a sample
}

// Coherent returns the projections of all steps added up with their signs, in deviations: it
// grows with the steps where each has the same.
func (s *FeatureSums) Coherent() float64 { return measure.Ratio(s.num, math.Sqrt(s.den)) }

// Against adds a step's field. What the feature has in common with a mean of the
// outputs or of the draws is taken out: means are tested by themselves. Samples
// are taken at their own size, unless quiet is negative; those quieter than
// that say nothing.
func (s *FeatureSums) Against(f *Field, m *Model, step int, quiet float64, at func(n, o, p int) float64) {
	if s.stepNum == nil {
		s.stepNum, s.stepDen = map[int]float64{}, map[int]float64{}
	}
	hw := f.h * f.w
	q := make([]float64, hw*f.K)
	for n := range f.n {
		level := 1.0
		if quiet >= 0 {
			level = f.Sums[n].Level(f.K)
		}
		if level < quiet || level == 0 {
			continue
		}
		for p := range hw {
			v := q[p*f.K : (p+1)*f.K]
			for r, o := range m.Rows {
				v[r] = 0
				if f.ok[n*hw+p] {
					v[r] = at(n, o, p)
				}
			}
			f.solve(n*hw+p, v)
		}
		before := measure.Dot(q, q)
		for _, b := range f.means(n) {
			c := measure.Dot(q, b)
			for i, v := range b {
				q[i] -= float64(c * v)
			}
		}
		den := measure.Dot(q, q)
		if !(den > 1e-9*before) {
			continue
		}
		num := measure.Dot(q, f.Z[n*hw*f.K:(n+1)*hw*f.K]) / math.Sqrt(level)
		s.num += num
		s.den += den
		s.stepNum[step] += num
		s.stepDen[step] += den
		s.squares += float64(num * num / den)
		s.n++
		s.largest = max(s.largest, math.Abs(num)/math.Sqrt(den))
	}
}

// means returns orthonormal fields that span what a constant in each output and
// a mean of the draws make of z in sample n.
func (f *Field) means(n int) [][]float64 {
	if f.basis == nil {
		f.basis = make([][][]float64, f.n)
	}
	if f.basis[n] != nil {
		return f.basis[n]
	}
	hw := f.h * f.w
	var all [][]float64
	for r := range f.K + 1 {
		b := make([]float64, hw*f.K)
		for p := range hw {
			if !f.ok[n*hw+p] {
				continue
			}
			v := b[p*f.K : (p+1)*f.K]
			if r < f.K {
				v[r] = 1
				f.solve(n*hw+p, v)
			} else {
				copy(v, f.mean[(n*hw+p)*f.K:])
			}
		}
		length := measure.Dot(b, b)
		for _, a := range all {
			c := measure.Dot(a, b)
			for i, v := range a {
				b[i] -= float64(c * v)
			}
		}
		if left := measure.Dot(b, b); left > 1e-9*length {
			all = append(all, measure.Scaled(b, 1/math.Sqrt(left)))
		}
	}
	f.basis[n] = all
	return all
}
