package emulate

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// Accumulator returns half an ulp of 1 in the type in which a mode adds up.
func Accumulator(m graph.Mode) float64 {
	if m.Precision == fp16.Float64 {
		return 0x1p-53
	}
	return 0x1p-24
}

// Legal disturbs an emulation as a correct device's float32 arithmetic does:
// sums in some order, functions that are an ulp off, products that round or
// fuse. It is what stands between two correct devices; the roundings to a half
// type, which both make, are none of its business.
//
// With u the half-ulp of the accumulator, an error that is rounded at random
// has the standard deviation 0.43 u of its number (uniform within half an ulp,
// mantissas log-uniform). Added up:
//
//	sum of n terms p_k with partial sums S_k    (0.43 u)^2 sum S_k^2
//	   and, for a sum y that is reached in any order, S_k is a bridge from 0 to
//	   y: sum E S_k^2 = n (y^2/3 + P/6), P = sum p_k^2
//	mean m of N numbers of variance v           (0.43 u)^2 (N m^2/3 + v/2)
//	variance v                                  (0.43 u v)^2 N/3 (1 + m^2/v)^2
//
// the last factor for E x^2 - m^2, as far as that is legal. An error of the
// mean or the variance is one number for its whole group.
//
// Every error is a function of the number that it disturbs, of its place among
// the channels, and of the member of the ensemble: equal windows have equal
// errors, as they have on most devices, and nothing depends on the order of work. Where a
// convolution is a product of matrices, the pixels at the end of a block are added up in
// another order than those in it, and equal windows have errors that differ (Blocks): it is
// next to nothing, unless a norm divides what differs in an image that is constant.
type Legal struct {
	Machine *Machine
	U       float64 // half an ulp of 1 in the accumulator
	Lambda  float64 // size of the sums' errors, 1 for one addition after another
	Lean    float64 // what a term of a sum loses toward zero on average, in half-ulps of the sum: see MostLean
	Member  uint64
	Half    bool         // the device stores half numbers
	Apart   bool         // and rounds convolutions before their bias is added
	Whole   bool         // statistics are added up one number after another, however many
	Blocks  bool         // sums of each blockOfPixels have errors of their own
	Modes   []graph.Mode // of single convolutions; nil if they are all the same
}

const (
	Rounding   = 0.43 // rms of a rounding error, in half-ulps of the number's binade
	longestSum = 1024 // statistics are added up in blocks no longer than this, but for Whole
	worstKappa = 10   // (m^2+v)/v up to which a one-pass variance is legal
)

// blockOfPixels is how many pixels a kernel forms together: numbers of AVX-512, or a row of a
// matrix unit's tile.
const blockOfPixels = 16

// CoarseLambda is the lambda of the coarsest legal sums: Winograd's F(4x4) has 4.4.
const CoarseLambda = 5

// Disturb is an emulate.Device's Perturb. Sums of two half numbers, which are
// exact in float32 but for a few, and often ties, stay as they are; so do those
// with a bias, whose sums sum has disturbed.
func (l *Legal) Disturb(i int, y *tensor.Tensor, in []*tensor.Tensor) {
	switch n := &l.Machine.Nodes[i]; n.Op {
	case operator.OpConv:
		if !l.Apart || n.Bias == nil || l.Modes != nil && !rounds(l.Modes[i].Precision) {
			l.sums(i, n, y, in[0])
		}
	case operator.OpNorm:
		l.norm(i, n, y, in[0])
	case operator.OpAct:
		if n.Act == act.ReLU || n.Act == act.Identity {
			return
		}
		l.each(i, y, func(k int, v float64) float64 {
			size := math.Abs(v)
			if n.Act != act.Tanh { // x (1 + f)/2: the error of f counts where 1 + f is small
				size += math.Abs(in[0].Data[k]) / 2
			}
			return 2 * size
		})
	case operator.OpOther:
		l.other(i, n, y, in)
	default: // one addition
		if l.Half {
			return
		}
		l.each(i, y, func(_ int, v float64) float64 { return Rounding * math.Abs(v) })
	}
}

// Sum is an emulate.Device's Sum.
func (l *Legal) Sum(i int, y *tensor.Tensor, in []*tensor.Tensor) {
	l.sums(i, &l.Machine.Nodes[i], y, in[0])
}

// each adds to every number an error of standard deviation u sd(k, v).
func (l *Legal) each(i int, y *tensor.Tensor, sd func(k int, v float64) float64) {
	hw := y.H() * y.W()
	par.For(y.N()*y.C(), func(p int) {
		salt := l.Salt(i, p%y.C())
		for k, v := range y.Plane(p/y.C(), p%y.C()) {
			y.Data[p*hw+k] = v + float64(l.U*sd(p*hw+k, v))*Deviate(salt, v)
		}
	})
}

// sums disturbs a convolution.
func (l *Legal) sums(i int, n *operator.Node, y, x *tensor.Tensor) {
	s := n.Weight.Shape
	oc, ic, taps := s[0], s[1], s[2]*s[3]
	squares := make([]float64, x.N()*ic) // mean of x^2
	par.For(len(squares), func(p int) { squares[p] = measure.MeanSquare(x.Plane(p/ic, p%ic)) })
	scale := l.Lambda * Rounding * l.U * math.Sqrt(float64(ic*taps))
	par.For(y.N()*oc, func(p int) {
		var products float64 // P: the mean over the image of sum (w x)^2
		for c := range ic {
			var w2 float64
			for _, w := range n.Weight.Data[(p%oc*ic+c)*taps : (p%oc*ic+c+1)*taps] {
				w2 += float64(w * w)
			}
			products += float64(w2 * squares[p/oc*ic+c])
		}
		salt, plane := l.Salt(i, p%oc), y.Plane(p/oc, p%oc)
		terms := float64(ic * taps)
		sizes := 2 / math.Pi * math.Sqrt(terms*products) // the sum of |w x|, of normal w and x
		for k, v := range plane {
			of := salt
			if l.Blocks {
				of = measure.Mix64(salt + uint64(k/blockOfPixels))
			}
			variance := float64(scale*scale) * (float64(v*v)/3 + products/6)
			plane[k] = v + float64(math.Sqrt(variance)*Deviate(of, v))
			// What is lost of terms of both signs is within the model of an error of no sign.
			if one := min(1, math.Abs(v)/sizes); l.Lean > 0 && one > 0.25 {
				plane[k] -= float64(l.Lean*l.U*terms*v) * (one - 0.25) / 0.75
			}
		}
	})
}

// norm disturbs a normalization: y = g (x-m)/sqrt(v+eps) + b moves by
// -g dm/sqrt(v+eps) and by -(y-b) dv/(2(v+eps)), and rounds on the way, also
// where a device forms x a + (b - m a).
func (l *Legal) norm(i int, n *operator.Node, y, x *tensor.Tensor) {
	size := 1 // channels with common statistics
	if n.Norm != "batch" {
		size = x.C() / n.Groups
	}
	par.For(x.N()*x.C()/size, func(g int) {
		at, first := g*size*x.H()*x.W(), g*size%x.C()
		group := x.Data[at : at+size*x.H()*x.W()]
		var m, v, dm, dv float64
		if n.Norm == "batch" {
			m, v = n.Mean.Data[first], n.Variance.Data[first]
		} else {
			m, v = measure.Moments(group)
			count := float64(len(group))
			if !l.Whole {
				count = min(count, longestSum)
			}
			// Terms that differ by less than the sum's last place round alike.
			last := min(l.U, 0x1p-24) * count
			alike := func(width float64, term func(x float64) float64) float64 {
				return max(count, float64(count*count)*alikeTerms(group, width, term))
			}
			ofMean := alike(last*math.Abs(m), func(x float64) float64 { return x })
			ofVariance := alike(last*v, func(x float64) float64 { return float64((x - m) * (x - m)) })
			dm, dv = Moments(l.U, ofMean, ofVariance, m, v, n.Eps)
			dm *= Deviate(l.Salt(i, -1), m)
			dv *= Deviate(l.Salt(i, -2), v)
		}
		inverse := 1 / math.Sqrt(v+n.Eps)
		for c := first; c < first+size; c++ {
			gain, shift, salt := 1.0, 0.0, l.Salt(i, c)
			if n.Weight != nil {
				gain, shift = n.Weight.Data[c], n.Bias.Data[c]
			}
			offset := math.Abs(gain * m * inverse)
			common := Rounding * l.U * offset * Deviate(salt, m)
			common -= float64(gain*dm) * inverse
			plane := y.Plane(at/(x.C()*x.H()*x.W()), c)
			for k, w := range plane {
				from := w - shift
				e := Rounding * l.U * (2*math.Abs(from) + math.Abs(w) + offset)
				plane[k] = w + common - float64(from*dv)*(inverse*inverse)/2 + float64(e*Deviate(salt, w))
			}
		}
	})
}

// Salt tells the errors of one member, node and channel from those of others.
func (l *Legal) Salt(node, channel int) uint64 {
	return measure.Mix64(l.Member<<40 ^ uint64(node)<<20 ^ uint64(channel&(1<<20-1)))
}

// Deviate returns a number that is distributed about as N(0,1), a function of
// salt and the bits of v: the sum of four uniform 16-bit numbers, whose variance
// is 2^32/3 and whose tails end at 3.5.
func Deviate(salt uint64, v float64) float64 {
	h := measure.Mix64(salt ^ math.Float64bits(v))
	sum := h&0xffff + h>>16&0xffff + h>>32&0xffff + h>>48
	return (float64(sum) - 2*65535) * (1 / 37837.2)
}

// Moments returns the standard deviations of a mean m and of a variance v, of which the sums have so many terms, by the
// formulas of Legal. A variance may be formed as E x^2 - m^2, as far as m^2 is not far beyond v + eps.
func Moments(u, ofMean, ofVariance, m, v, eps float64) (dm, dv float64) {
	kappa := min(1+measure.Ratio(float64(m*m), v+eps), worstKappa)
	return Rounding * u * math.Sqrt(ofMean*float64(m*m)/3+v/2), Rounding * u * v * kappa * math.Sqrt(ofVariance/3)
}

// alikeTerms returns the probability that the terms of two of the numbers are the same, or that they are where terms
// within a width are: of those that lie anywhere in many such widths there are four times as many within four, and they
// round at random.
func alikeTerms(x []float64, width float64, term func(x float64) float64) float64 {
	same := coincident(x, 0, term)
	if width > 0 && anyWithin(x, width, term) {
		if p := (4*coincident(x, width, term) - coincident(x, 4*width, term)) / 3; p > leastAlike {
			same = max(same, p)
		}
	}
	return same
}

// anyWithin reports whether two of a few terms are within a width.
func anyWithin(x []float64, width float64, term func(x float64) float64) bool {
	var few [24]float64
	for i := range few {
		few[i] = term(x[measure.Mix64(uint64(i))%uint64(len(x))])
		for _, v := range few[:i] {
			if math.Abs(v-few[i]) < width {
				return true
			}
		}
	}
	return false
}

// leastAlike is a share that some hundreds of numbers show for sure.
const leastAlike = 0.01

// coincident returns the probability that the terms of two of the numbers are within a width, of some
// hundreds of them: that they lie in one of the bins of that width, or are the same.
func coincident(x []float64, width float64, term func(x float64) float64) float64 {
	const some, room = 512, 1024 // numbers, and places of a table of them
	n := min(len(x), some)
	var of [room]struct {
		v     float64
		count int
	}
	pairs := 0
	for i := range n {
		v := x[i]
		if len(x) > some {
			v = x[measure.Mix64(uint64(i))%uint64(len(x))]
		}
		if v = term(v); v != v {
			continue // equal to nothing
		}
		if width > 0 {
			v = math.Floor(v / width)
		}
		at := (math.Float64bits(v+0) * 0x9e3779b97f4a7c15) >> 54 // -0 is 0
		for of[at].count > 0 && of[at].v != v {
			at = (at + 1) % room
		}
		pairs += of[at].count
		of[at].v = v
		of[at].count++
	}
	return float64(2*pairs) / float64(max(1, n*(n-1)))
}
