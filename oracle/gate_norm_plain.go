package oracle

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// PyTorch's CPU keeps the statistics of a norm in the type of its parameters,
// and of its input where it has none, as an InstanceNorm2d has by default: under
// autocast to a half type f, with sums in float32 over the N numbers of a plane,
//
//	bfloat16   m = f(mean), q = f(sum (x-mean)^2), v = f(q/f(N)), r = f(1/sqrt(v+eps))
//	float16    m = f(mean), r = f(1/sqrt(var+eps))
//	           y = f(x r - m r)
//
// (batch_norm_cpu_update_stats_template in ATen/native/Normalization.cpp, which
// an instance norm calls with its planes as channels.)

// plainNorms reports for each node whether it is such a norm in a mode.
func plainNorms(c operator.Config, nodes []operator.Node, m operator.Mode) []bool {
	of := make([]bool, len(nodes))
	if m.Autocast != operator.CPU2 {
		return of
	}
	plain := map[string]bool{}
	for i := range c.Nodes {
		plain[c.Nodes[i].Name] = c.Nodes[i].NoAffine
	}
	for i := range nodes {
		of[i] = nodes[i].Op == operator.OpNorm && nodes[i].Norm == "instance" && plain[nodes[i].Name]
	}
	return of
}

// narrowStatistics are the two roundings of a plane's statistics, each to the
// nearest number or to the other one beside the exact value.
type narrowStatistics struct {
	f            fp16.Format
	n, eps       float64
	mean, second float64 // exact: the mean, and q or r
	// slack is how far a device's mean may be from the exact one, relative the
	// other's.
	slack, relative float64
}

// narrowly returns the statistics of a plane. loose is the share of its numbers
// that a device may have rounded otherwise, each by an ulp: 0 if they are known.
func narrowly(f fp16.Format, plane []float64, eps, loose float64) *narrowStatistics {
	s := &narrowStatistics{f: f, n: float64(len(plane)), eps: eps}
	mean, v := moments(plane)
	s.mean, s.second = mean, v*s.n
	// Six deviations of float32 sums (see legal), and three of the numbers'.
	u := 0x1p-24
	s.slack = 6 * rounding * u * math.Sqrt(float64(s.n*mean*mean)/3+v/2)
	s.relative = 6 * rounding * u * math.Sqrt(s.n/3+4)
	if loose > 0 {
		moved := 3 * f.Ulp(math.Sqrt(v+float64(mean*mean))) * math.Sqrt(loose/s.n)
		s.slack += moved
		s.relative += 2 * moved / math.Sqrt(v+eps)
	}
	if f == fp16.Float16 {
		s.second = 1 / math.Sqrt(v+eps)
		s.relative /= 2
	}
	return s
}

// beside returns for both roundings how near to a tie they are, in what a device
// may be off: from 1 on there is no doubt.
func (s *narrowStatistics) beside() [2]float64 {
	return [2]float64{boundary(s.f, s.mean) / (s.slack + 0x1p-1000), boundary(s.f, s.second) / (s.relative*s.second + 0x1p-1000)}
}

// round returns mean and inverse deviation; other tells which of the roundings
// goes the other way.
func (s *narrowStatistics) round(other [2]bool) (mean, inverse float64) {
	mean, inverse = toward(s.f, s.mean, other[0]), toward(s.f, s.second, other[1])
	if s.f != fp16.Float16 {
		v := s.f.Round(single(inverse / s.f.Round(s.n)))
		inverse = s.f.Round(single(1 / math.Sqrt(v+s.eps)))
	}
	return mean, inverse
}

// toward returns v rounded to f, or the number of f on the other side of v.
func toward(f fp16.Format, v float64, other bool) float64 {
	r := f.Round(v)
	switch {
	case !other:
		return r
	case v < r:
		return f.NextDown(r)
	}
	return f.NextUp(r)
}

// standardized writes x r - m r of a plane.
func standardized(y, x []float64, mean, inverse float64) {
	shift := single(mean * inverse)
	for k, v := range x {
		y[k] = float64(v*inverse) - shift
	}
}

// plainAnswer is the answer of such a norm for recorded inputs x. Where a
// statistic is beside a tie, got (nil if unknown) says how it was rounded.
func (g *layerGate) plainAnswer(n *operator.Node, x, got *tensor.Tensor) *answer {
	f := g.mode.Precision
	y := tensor.Like(x)
	bound, sd := make([]float64, len(x.Data)), make([]float64, len(x.Data))
	hw := x.H() * x.W()
	for p := range x.N() * x.C() {
		from, to := x.Plane(p/x.C(), p%x.C()), y.Plane(p/x.C(), p%x.C())
		s := narrowly(f, from, n.Eps, 0)
		mean, inverse := s.round([2]bool{})
		standardized(to, from, mean, inverse)
		if got != nil {
			least := unlike(f, got.Plane(p/x.C(), p%x.C()), to)
			trial := make([]float64, hw)
			for _, other := range s.choices() {
				m, r := s.round(other)
				standardized(trial, from, m, r)
				if d := unlike(f, got.Plane(p/x.C(), p%x.C()), trial); d < least {
					least, mean, inverse = d, m, r
					copy(to, trial)
				}
			}
		}
		for k, v := range from {
			a, b, c := math.Abs(v*inverse), math.Abs(mean*inverse), math.Abs(to[k])
			bound[p*hw+k] = float64(g.u*(a+2*b+c)) + tiny
			sd[p*hw+k] = roundingSD * g.u * math.Sqrt(float64(a*a)+float64(b*b)+float64(c*c))
		}
	}
	return around(plainHow(f), y.Data, bound, sd)
}

// choices are the other ways to round statistics that are beside ties.
func (s *narrowStatistics) choices() (l [][2]bool) {
	b := s.beside()
	for k := 1; k < 4; k++ {
		other := [2]bool{k&1 != 0, k&2 != 0}
		if (!other[0] || b[0] < 1) && (!other[1] || b[1] < 1) {
			l = append(l, other)
		}
	}
	return l
}

// unlike counts the numbers that differ after rounding.
func unlike(f fp16.Format, got, y []float64) (n int) {
	for k, v := range got {
		if f.Round(y[k]) != v {
			n++
		}
	}
	return n
}

func plainHow(f fp16.Format) string {
	return "instance norm statistics in " + f.String() + ", as PyTorch keeps them without affine parameters"
}
