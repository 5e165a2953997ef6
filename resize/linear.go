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
func Linear(dst, src *tensor.Tensor, axes ...Axis) {
	l := newLayout(dst, src, axes)
	weigh(l, dst, src, len(axes), linear)
}

// MaxCoefficient bounds the coefficient of Cubic.
const MaxCoefficient = 16

// Cubic resizes with the four neighbours on each axis, as [Linear] in all else. The
// coefficient of the polynomials, -0.75 in PyTorch and ONNX, must be a multiple of 2^-30
// and at most 16 in magnitude.
func Cubic(dst, src *tensor.Tensor, coefficient float64, axes ...Axis) {
	if scaled := math.Ldexp(coefficient, 30); !(math.Abs(coefficient) <= MaxCoefficient) || scaled != math.Trunc(scaled) {
		panic("resize: a coefficient that is no multiple of 2^-30, or beyond 16")
	}
	l := newLayout(dst, src, axes)
	weigh(l, dst, src, len(axes), func(a Axis, in, out int) *weights { return cubic(a, coefficient, in, out) })
}

// mixer computes the weighted sums of planes.
type mixer struct {
	in            [most]int
	axes          [most]*weights
	denominator   float64
	f             fp16.Format
	representable bool // products of all weights with float32 numbers are
}

func weigh(l *layout, dst, src *tensor.Tensor, axes int, of func(a Axis, in, out int) *weights) {
	m := &mixer{in: l.in, denominator: 1, f: dst.Format}
	bits := 0
	for a := range most {
		if m.axes[a] = none(); a >= most-axes {
			m.axes[a] = of(l.axes[a], l.in[a], l.out[a])
		}
		d, _ := new(big.Float).SetInt(m.axes[a].denominator).Float64()
		m.denominator *= d
		bits += m.axes[a].bits
	}
	m.representable = bits <= 29
	l.each(dst, src, m.plane)
}

// line is one line of neighbours of a number: where it begins, and its weight.
type line struct {
	at     int
	weight float64
}

func (m *mixer) plane(out, in []float64) {
	d, h, w := m.axes[0], m.axes[1], m.axes[2]
	lines := make([]line, d.each*h.each)
	k := 0
	for z := 0; z < len(d.at); z += d.each {
		for y := 0; y < len(h.at); y += h.each {
			for i := range d.each {
				for j := range h.each {
					lines[i*h.each+j] = line{(d.at[z+i]*m.in[1] + h.at[y+j]) * m.in[2], d.w[z+i] * h.w[y+j]}
				}
			}
			for x := 0; x < len(w.at); x += w.each {
				sum, size := mix(in, lines, w.at[x:x+w.each], w.w[x:x+w.each])
				v := sum / m.denominator
				if m.f == fp16.Float64 || v-v != 0 {
					out[k] = m.f.Round(v) // finite terms do not overflow: IEEE 754's answer
				} else if r, ok := m.f.Decide(v, m.bound(size, len(lines)*w.each)); ok {
					out[k] = r
				} else {
					out[k] = m.f.Round(m.settle(in, lines, z, y, x))
				}
				k++
			}
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

// bound bounds the error of a weighted mean of n numbers.
//
// With D the product of the denominators, P the sum of |weights x| and g_k = k u/(1 - k u):
// a term has three weights that were rounded to float64, two products of them and one with
// x, 6 roundings; n-1 additions round, the first, to 0, does not; D has three numbers that
// were rounded and two products, and the division rounds once. So
//
//	|y^ - y| <= g_(n+11) P/D.
//
// P and P/D are computed with a relative error below that, for n at most 64; a factor 1.0001
// covers it. Nothing underflows: D is below 2^600, terms and P/D are above 2^-800 or 0. If
// P is 0 the mean is exactly 0, and so is the bound.
func (m *mixer) bound(size float64, n int) float64 {
	return 1.0001 * u * float64(n+11) * size / m.denominator
}

// settle returns the weighted mean of finite numbers rounded to odd. Where the weights
// have few bits the sum mostly loses nothing in float64: such means are often the middle of
// two numbers.
func (m *mixer) settle(in []float64, lines []line, z, y, x int) float64 {
	d, h, w := m.axes[0], m.axes[1], m.axes[2]
	if m.representable {
		sum, lost := 0.0, 0.0
		for _, l := range lines {
			for c := range w.each {
				var e float64
				sum, e = exact.TwoSum(sum, float64(float64(l.weight*w.w[x+c])*in[l.at+w.at[x+c]]))
				lost += math.Abs(e)
			}
		}
		if lost == 0 {
			return exact.Divide(sum, m.denominator)
		}
	}
	total, p := new(big.Int), new(big.Int)
	for i, l := range lines {
		for c := range w.each {
			fraction, e := math.Frexp(in[l.at+w.at[x+c]])
			p.SetInt64(int64(math.Ldexp(fraction, 24))) // a float32 number: p 2^(e-24)
			p.Lsh(p, uint(e-24+least))
			p.Mul(p, d.numerator(z+i/h.each))
			p.Mul(p, h.numerator(y+i%h.each))
			p.Mul(p, w.numerator(x+c))
			total.Add(total, p)
		}
	}
	p.Mul(d.denominator, h.denominator)
	return exact.Quotient(total, -least, p.Mul(p, w.denominator))
}

// least makes every float32 number p 2^e with 24 bits a multiple of 2^-least.
const least = 149 + 24
