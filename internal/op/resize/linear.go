package resize

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// u is the relative error of one float64 operation.
const u = 0x1p-53

// Linear resizes with the two neighbours on each axis: linear, bilinear, trilinear.
//
// Weights are integers over one denominator for each axis: on half_pixel axes, whose
// scale is p/q in lowest terms, of 2p; on asymmetric ones of p; on align_corners ones of
// the size of the result less 1. The float64 order is: the neighbours in row-major order,
// each times the product of its weights, first axis first, added to 0; then one division
// by the product of the denominators. Its error is at most g_(n+11) P/D, see the guard.
//
// With antialiasing, or without what is beyond the ends, the numbers of each window have
// the sum of their weights for a denominator.
func Linear(dst, src *tensor.Tensor, axes ...Axis) {
	weigh(newLayout(dst, src, axes), dst, src, triangle)
}

// MaxCoefficient bounds the coefficient of Cubic.
const MaxCoefficient = 16

// Cubic resizes with the four neighbours on each axis, as [Linear] in all else. The
// coefficient of the polynomials, in PyTorch and ONNX -0.75, in PyTorch -0.5 with
// antialiasing, must be 0 or between 2^-149 and 16 in magnitude.
func Cubic(dst, src *tensor.Tensor, coefficient float64, axes ...Axis) {
	if !Coefficient(coefficient) {
		panic("resize: a coefficient that is not 0 or between 2^-149 and 16")
	}
	weigh(newLayout(dst, src, axes), dst, src, keys(coefficient))
}

// Coefficient reports whether Cubic takes a coefficient.
func Coefficient(a float64) bool {
	return a == 0 || math.Abs(a) <= MaxCoefficient && math.Abs(a) >= 0x1p-149
}

// mixer computes the weighted sums of planes.
type mixer struct {
	in            []int
	axes          []*weights
	f             fp16.Format
	representable bool    // products of all weights with float32 numbers are
	underflow     float64 // what a term is off by at most if some of it underflows
}

func weigh(l *layout, dst, src *tensor.Tensor, k kernel) {
	m := &mixer{in: l.in, f: dst.Format}
	bits, most := 0, 600/max(3, len(l.axes))
	for a := range l.axes {
		w := newWeights(newWindows(l.axes[a], k, l.in[a], l.out[a]), l.out[a], most)
		m.axes = append(m.axes, w)
		bits += w.bits
		if w.scaled {
			m.underflow = 0x1p-340
		}
	}
	m.representable = bits <= 29
	l.each(dst, src, m.plane)
}

// line is one line of neighbours of a number: where it begins, and its weight.
type line struct {
	at     int
	weight float64
}

// plane makes a result, row after row along the last axis.
func (m *mixer) plane(out, in []float64) {
	place := make([]int, len(m.axes))
	last := len(m.axes) - 1
	r := &row{mixer: m, in: in, place: place}
	n := len(m.axes[last].d)
	for k := 0; k < len(out); k += n {
		rest := k / n
		for a := last - 1; a >= 0; a-- {
			place[a] = rest % len(m.axes[a].d)
			rest /= len(m.axes[a].d)
		}
		if a := r.lines(); a < 0 {
			r.run(out[k : k+n])
		} else {
			fill(out[k:k+n], m.f.Round(m.axes[a].alone[place[a]]))
		}
	}
}

// row is a row of a result under way.
type row struct {
	*mixer
	in          []float64
	place       []int // of the number, along each axis
	all, before []line
	denominator float64 // of the weights of lines
}

// lines finds the lines of neighbours, by the windows of all axes but the last. If one has
// none it returns which axis that is, else -1.
func (r *row) lines() int {
	r.all = append(r.all[:0], line{0, 1})
	r.denominator = 1
	last := len(r.axes) - 1
	for a, w := range r.axes[:last] {
		i := r.place[a]
		if w.first[i] == w.first[i+1] {
			return a
		}
		r.before, r.all = r.all, r.before[:0]
		for _, l := range r.before {
			for k := w.first[i]; k < w.first[i+1]; k++ {
				r.all = append(r.all, line{l.at*r.mixer.in[a] + w.at[k], float64(l.weight * w.w[k])})
			}
		}
		r.denominator *= w.d[i]
	}
	for k := range r.all {
		r.all[k].at *= r.mixer.in[last]
	}
	return -1
}

// run makes the numbers of a row.
func (r *row) run(out []float64) {
	last := r.axes[len(r.axes)-1]
	f, in, lines, first, at, w := r.f, r.in, r.all, last.first, last.at, last.w
	var d, part, least float64 // of the number before: they mostly stay what they are
	n := 0
	for x := range out {
		i, j := first[x], first[x+1]
		if i == j {
			out[x] = f.Round(last.alone[x])
			continue
		}
		sum, size := mix(in, lines, at[i:j], w[i:j])
		if all := float64(r.denominator * last.d[x]); all != d || j-i != n {
			d, n = all, j-i
			part, least = r.bound(d, len(lines)*n)
		}
		v := sum / d
		if f == fp16.Float64 || sum-sum != 0 {
			out[x] = f.Round(v) // finite terms do not overflow: IEEE 754's answer
		} else if y, ok := f.Decide(v, float64(part*size)+least); ok {
			out[x] = y
		} else {
			r.place[len(r.place)-1] = x
			out[x] = f.Round(r.settle(d))
		}
	}
}

// mix returns the weighted sum of neighbours, and that of their magnitudes.
func mix(in []float64, lines []line, at []int, w []float64) (sum, size float64) {
	for _, l := range lines {
		for c, x := range at {
			p := float64(float64(l.weight*w[c]) * in[l.at+x])
			sum += p
			size += math.Abs(p)
		}
	}
	return sum, size
}

// bound bounds the error of a weighted mean of n numbers by a part of P, see below, and the least.
//
// With D the product of the denominators, P the sum of |weights x| and g_k = k u/(1 - k u):
// of a axes, a term has a weights that were rounded to float64, a-1 products of them and one
// with x, 2a roundings; n-1 additions round, the first, to 0, does not; D has a numbers that
// were rounded and a-1 products, and the division rounds once. So
//
//	|y^ - y| <= g_(n-1+4a) P/D.
//
// Three axes are counted for fewer, too. P and P/D are computed with a relative error below
// that; a factor 1.0001 covers it, as no sum has 2^36 numbers. If P is 0 the mean is exactly
// 0, and so is the bound.
//
// Weights of at most 200 bits (600/a of more axes) do not underflow: D is below 2^600, terms
// and P/D are above 2^-800 or 0. Larger ones are multiplied by a power of two, so that they
// may: then each of the 2a roundings of a term is off by at most 2^-1075 more, times all the
// factors that follow, which are below 2^600 2^128 in all.
//
// Numerators of either sign may nearly cancel in a denominator. If D is above 2^-400, so are all
// of which it is the product above 2^-1000, and none has underflowed; else nothing is known.
func (r *row) bound(d float64, n int) (part, least float64) {
	if d < 0x1p-400 {
		return 0, math.Inf(1)
	}
	roundings := float64(n - 1 + 4*max(3, len(r.axes)))
	return 1.0001 * u * roundings / d, r.underflow * float64(n) / d
}

// settle returns the weighted mean of finite numbers rounded to odd, of the denominator d.
// Where the weights have few bits the sum mostly loses nothing in float64: such means are
// often the middle of two numbers.
func (r *row) settle(d float64) float64 {
	if r.representable {
		last := r.axes[len(r.axes)-1]
		x := r.place[len(r.place)-1]
		sum, lost := 0.0, 0.0
		for _, l := range r.all {
			for k := last.first[x]; k < last.first[x+1]; k++ {
				var e float64
				sum, e = exact.TwoSum(sum, float64(float64(l.weight*last.w[k])*r.in[l.at+last.at[k]]))
				lost += math.Abs(e)
			}
		}
		if lost == 0 {
			return exact.Divide(sum, d)
		}
	}
	windows, denominator := make([]window, len(r.axes)), big.NewInt(1)
	for a, w := range r.axes {
		windows[a] = w.of(r.place[a])
		denominator.Mul(denominator, windows[a].denominator)
	}
	return exact.Quotient(exactly(windows, r.in, r.mixer.in), -least, denominator)
}

// exactly returns the sum of numbers times the numerators of a window of each axis, in units
// of 2^-least.
func exactly(windows []window, in []float64, size []int) *big.Int {
	if len(windows) == 0 {
		fraction, e := math.Frexp(in[0])
		x := big.NewInt(int64(math.Ldexp(fraction, 24))) // a float32 number: x 2^(e-24)
		return x.Lsh(x, uint(e-24+least))
	}
	sum, step := new(big.Int), len(in)/size[0]
	for i, at := range windows[0].at {
		s := exactly(windows[1:], in[at*step:(at+1)*step], size[1:])
		sum.Add(sum, s.Mul(s, windows[0].numerators[i]))
	}
	return sum
}

// least makes every float32 number p 2^e with 24 bits a multiple of 2^-least.
const least = 149 + 24
