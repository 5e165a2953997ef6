package emulate

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// Single returns v rounded to float32.
func Single(v float64) float64 { return float64(float32(v)) }

// Boundary returns the distance of y from the nearest number whose neighbours
// round to two numbers of f; infinite for Float64 and what is not finite.
func Boundary(f fp16.Format, y float64) float64 {
	if f == fp16.Float64 || math.IsInf(y, 0) || y != y {
		return math.Inf(1)
	}
	r := f.Round(y)
	if math.IsInf(r, 0) {
		l := f.Largest()
		return math.Abs(y) - (l + f.Ulp(l)/2)
	}
	if math.Float64bits(r)<<12 != 0 { // no power of two, nor 0: both neighbours are as far
		return max(0, f.Ulp(r)/2-math.Abs(y-r))
	}
	up, down := f.NextUp(r), f.NextDown(r)
	if math.IsInf(up, 0) {
		up = r + f.Ulp(r)
	}
	if math.IsInf(down, 0) {
		down = r - f.Ulp(r)
	}
	return max(0, min((r+up)/2-y, y-(r+down)/2))
}

// AddedHow is the other way to write multiplicative noise of draws n and scale s:
// x + x (n s) has no rounding of 1 + n s, which in a half type is coarser than most of n s.
const AddedHow = "as x + x n"

// OnceHow is what a compiler makes of the factor that noise multiplies by where it fuses what that
// is made of: 1 + n s is rounded as a whole and n s is not, and 1/(1-p) of a dropout is not rounded.
const OnceHow = "by a factor that is rounded once at most"

// PyTorch's CPU keeps the statistics of a norm in the type of its parameters,
// and of its input where it has none, as an InstanceNorm2d has by default: under
// autocast to a half type f, with sums in float32 over the N numbers of a plane,
//
//	bfloat16   m = f(mean), q = f(sum (x-mean)^2), v = f(q/f(N)), r = f(1/sqrt(v+eps))
//	float16    m = f(mean), r = f(1/sqrt(var+eps))
//	           y = f(x (r w) + (b - m (r w))), w and b the parameters, 1 and 0 if there are none
//
// (batch_norm_cpu_update_stats_template in ATen/native/Normalization.cpp, which
// an instance norm calls with its planes as channels.)

// PlainNorms reports for each node whether it is such a norm in a mode. The parameters are of
// the half type where all of the operator's are such numbers, as after module.half().
func PlainNorms(c operator.Config, nodes []operator.Node, m graph.Mode) []bool {
	of := make([]bool, len(nodes))
	if m.Autocast != graph.CPU2 {
		return of
	}
	half := !slices.ContainsFunc(nodes, func(n operator.Node) bool {
		return slices.ContainsFunc([]*operator.Param{n.Weight, n.Bias},
			func(p *operator.Param) bool { return p != nil && !holds(m.Precision, p.Data) })
	})
	plain := map[string]bool{}
	for i := range c.Nodes {
		plain[c.Nodes[i].Name] = c.Nodes[i].NoAffine
	}
	for i := range nodes {
		of[i] = nodes[i].Op == operator.OpNorm && nodes[i].Norm == "instance" && (half || plain[nodes[i].Name])
	}
	return of
}

// NarrowStatistics are the two roundings of a plane's statistics, each to the
// nearest number or to the other one beside the exact value.
type NarrowStatistics struct {
	f            fp16.Format
	n, eps       float64
	mean, second float64 // exact: the mean, and q or r
	// slack is how far a device's mean may be from the exact one, relative the
	// other's.
	slack, relative float64
}

// Narrowly returns the statistics of a plane. loose is the share of its numbers
// that a device may have rounded otherwise, each by an ulp: 0 if they are known.
func Narrowly(f fp16.Format, plane []float64, eps, loose float64) *NarrowStatistics {
	s := &NarrowStatistics{f: f, n: float64(len(plane)), eps: eps}
	mean, v := measure.Moments(plane)
	s.mean, s.second = mean, v*s.n
	// Six deviations of float32 sums (see legal), and three of the numbers'.
	u := 0x1p-24
	s.slack = 6 * Rounding * u * math.Sqrt(float64(s.n*mean*mean)/3+v/2)
	s.relative = 6 * Rounding * u * math.Sqrt(s.n/3+4)
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

// Beside returns for both roundings how near to a tie they are, in what a device
// may be off: from 1 on there is no doubt.
func (s *NarrowStatistics) Beside() [2]float64 {
	return [2]float64{
		Boundary(s.f, s.mean) / (s.slack + 0x1p-1000), Boundary(s.f, s.second) / (s.relative*s.second + 0x1p-1000),
	}
}

// Round returns mean and inverse deviation; other tells which of the roundings
// goes the other way.
func (s *NarrowStatistics) Round(other [2]bool) (mean, inverse float64) {
	mean, inverse = toward(s.f, s.mean, other[0]), toward(s.f, s.second, other[1])
	if s.f != fp16.Float16 {
		v := s.f.Round(Single(inverse / s.f.Round(s.n)))
		inverse = s.f.Round(Single(1 / math.Sqrt(v+s.eps)))
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

// Standardized writes x r w + (b - m r w) of plane p of norm n.
func Standardized(y, x []float64, n *operator.Node, p int, mean, inverse float64) {
	c := p % len(n.Weight.Data)
	by := Single(inverse * n.Weight.Data[c])
	shift := Single(n.Bias.Data[c] - Single(mean*by))
	for k, v := range x {
		y[k] = float64(v*by) + shift
	}
}

// PlainHow says in words what a device that has [PlainNorms] in a format does.
func PlainHow(f fp16.Format) string {
	return "instance norm statistics in " + f.String() + ", as PyTorch keeps them without float32 parameters"
}

// NarrowSiLU is x/(1 + e^-x), each operation rounded to f.
func NarrowSiLU(x *tensor.Tensor, f fp16.Format) *tensor.Tensor {
	y := tensor.Like(x)
	for k, v := range x.Data {
		y.Data[k] = v / f.Round(1+f.Round(elem.Exp(-v)))
	}
	return y
}
