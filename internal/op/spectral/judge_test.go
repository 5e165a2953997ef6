package spectral

import (
	"math"
	"math/big"
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// The judge of these tests evaluates the definitions as they are written, axis by axis
// in big floats, with roots of unity from bigref's series for the cosine and the sine.

// number is a complex number of the judge.
type number struct{ re, im *big.Float }

func zeroNumber(prec uint) number {
	return number{new(big.Float).SetPrec(prec), new(big.Float).SetPrec(prec)}
}

type rootKey struct {
	n    int
	prec uint
}

var judgeRoots sync.Map

// judgeRoot returns cos and sin of 2 pi m/n, off by less than 2^(20-prec).
func judgeRoot(m, n int, prec uint) number {
	of, ok := judgeRoots.Load(rootKey{n, prec})
	if !ok {
		table := make([]number, n)
		for i := range table {
			if i > 1 { // a product, off by less than 8 i 2^-prec
				table[i] = rotated(table[i/2], table[i-i/2], prec)
			} else {
				t := new(big.Float).SetPrec(prec).Mul(bigref.Pi(prec), new(big.Float).SetInt64(int64(2*i)))
				t.Quo(t, new(big.Float).SetPrec(prec).SetInt64(int64(n)))
				table[i] = number{bigref.Cos(t, prec), bigref.Sin(t, prec)}
			}
			switch { // bigref's errors are relative to no zeros
			case 4*i == n || 4*i == 3*n:
				table[i].re = new(big.Float).SetPrec(prec)
			case i == 0 || 2*i == n:
				table[i].im = new(big.Float).SetPrec(prec)
			}
		}
		of, _ = judgeRoots.LoadOrStore(rootKey{n, prec}, table)
	}
	return of.([]number)[m%n]
}

// rotated is a complex product.
func rotated(a, b number, prec uint) number {
	p := zeroNumber(prec)
	q := zeroNumber(prec)
	p.re.Sub(p.re.Mul(a.re, b.re), q.re.Mul(a.im, b.im))
	p.im.Add(p.im.Mul(a.re, b.im), q.im.Mul(a.im, b.re))
	return p
}

// axisOf applies the complex transform to one axis of numbers of that shape.
func axisOf(x []number, shape []int, axis, sign int, prec uint) []number {
	n, inner := shape[axis], 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	y := make([]number, len(x))
	p := new(big.Float).SetPrec(prec)
	for at := range y {
		k := at / inner % n
		first := at - k*inner
		sum := zeroNumber(prec)
		for j := range n {
			v, w := x[first+j*inner], judgeRoot(j*k, n, prec)
			if v.re.Sign() == 0 && v.im.Sign() == 0 {
				continue
			}
			sum.re.Add(sum.re, p.Mul(v.re, w.re))
			sum.im.Add(sum.im, p.Mul(v.im, w.re))
			if sign > 0 {
				sum.re.Sub(sum.re, p.Mul(v.im, w.im))
				sum.im.Add(sum.im, p.Mul(v.re, w.im))
			} else {
				sum.re.Add(sum.re, p.Mul(v.im, w.im))
				sum.im.Sub(sum.im, p.Mul(v.re, w.im))
			}
		}
		y[at] = sum
	}
	return y
}

// judged is a question to the judge: the transform of numbers x of a shape along its
// axes first to last. of a real destination n is the length of the last one.
type judged struct {
	kind  string // fft, ifft, rfft or irfft
	x     []complex128
	shape []int
	n     int
	norm  Norm

	size    *big.Float
	answers map[uint][]number
	balls   [][2]bigref.Ball
}

// answer returns all numbers, before the factor of the norm, off by less than
// 2^(60-prec) times the sum of magnitudes. Along the axes, the last one first; for irfft
// the last one last.
func (j *judged) answer(prec uint) []number {
	if a, ok := j.answers[prec]; ok {
		return a
	}
	x := make([]number, len(j.x))
	j.size = new(big.Float)
	for i, v := range j.x {
		x[i] = zeroNumber(prec)
		x[i].re.SetFloat64(real(v))
		x[i].im.SetFloat64(imag(v))
		j.size.Add(j.size, new(big.Float).SetFloat64(2*math.Abs(real(v))))
		j.size.Add(j.size, new(big.Float).SetFloat64(2*math.Abs(imag(v))))
	}
	sign := -1
	if j.kind == "ifft" || j.kind == "irfft" {
		sign = 1
	}
	last := len(j.shape) - 1
	var y []number
	if j.kind != "irfft" {
		for a := range j.shape {
			x = axisOf(x, j.shape, a, sign, prec)
		}
		for i, v := range x {
			if h := j.shape[last]; j.kind != "rfft" || i%h <= h/2 {
				y = append(y, v)
			}
		}
	} else {
		for a := range last {
			x = axisOf(x, j.shape, a, sign, prec)
		}
		p := new(big.Float).SetPrec(prec)
		h := j.shape[last]
		for row := 0; row < len(x); row += h {
			for k := range j.n {
				sum := zeroNumber(prec)
				sum.re.Set(x[row].re)
				for c := 1; c < h; c++ {
					v, w := x[row+c], judgeRoot(c*k, j.n, prec)
					if 2*c == j.n {
						if k%2 == 0 {
							sum.re.Add(sum.re, v.re)
						} else {
							sum.re.Sub(sum.re, v.re)
						}
						continue
					}
					sum.re.Add(sum.re, p.Mul(p.Mul(v.re, w.re), big.NewFloat(2)))
					sum.re.Sub(sum.re, p.Mul(p.Mul(v.im, w.im), big.NewFloat(2)))
				}
				y = append(y, sum)
			}
		}
	}
	if j.answers == nil {
		j.answers = map[uint][]number{}
	}
	j.answers[prec] = y
	return y
}

// points returns N.
func (j *judged) points() int64 {
	n := int64(1)
	for _, d := range j.shape {
		n *= int64(d)
	}
	if j.kind == "irfft" {
		n = n / int64(j.shape[len(j.shape)-1]) * int64(j.n)
	}
	return n
}

// value returns one part of one number with its error.
func (j *judged) value(i, part int, prec uint) (v, err *big.Float) {
	a := j.answer(prec)[i]
	v = new(big.Float).SetPrec(prec)
	if v.Set(a.re); part == 1 {
		v.Set(a.im)
	}
	err = new(big.Float).SetPrec(64).SetMantExp(j.size, 60-int(prec))
	inverse := j.kind == "ifft" || j.kind == "irfft"
	by := new(big.Float).SetPrec(prec).SetInt64(j.points())
	switch {
	case j.norm == Ortho:
		by.Sqrt(by)
	case (j.norm == Backward) != inverse:
		return v, err
	}
	return v.Quo(v, by), err
}

// ballRoots are cos and sin of 2 pi m/n as two float64 know them.
var ballRoots = map[int][][2]bigref.Ball{}

func ballRoot(m, n int) [2]bigref.Ball {
	if ballRoots[n] == nil {
		for i := range n {
			var b [2]bigref.Ball
			if 4*i%n == 0 {
				b[0], b[1] = bigref.Exactly([]float64{1, 0, -1, 0}[4*i/n]), bigref.Exactly([]float64{0, 1, 0, -1}[4*i/n])
			} else {
				w := judgeRoot(i, n, 256)
				re, _ := w.re.Rat(nil)
				im, _ := w.im.Rat(nil)
				b[0], b[1] = bigref.Of(re), bigref.Of(im)
				b[0].Err += 0x1p-220
				b[1].Err += 0x1p-220
			}
			ballRoots[n] = append(ballRoots[n], b)
		}
	}
	return ballRoots[n][m%n]
}

// ballsOf returns all numbers as two float64 know them, by the definition as well.
func (j *judged) ballsOf() [][2]bigref.Ball {
	x := make([][2]bigref.Ball, len(j.x))
	for i, v := range j.x {
		x[i] = [2]bigref.Ball{bigref.Exactly(real(v)), bigref.Exactly(imag(v))}
	}
	inverse := j.kind == "ifft" || j.kind == "irfft"
	shape := slices.Clone(j.shape)
	last := len(shape) - 1
	if j.kind == "irfft" { // what the half spectrum leaves out
		h := shape[last]
		shape[last] = j.n
		var full [][2]bigref.Ball
		along(x, j.shape[:last], h, inverse)
		for row := 0; row < len(x); row += h {
			for k := range j.n {
				switch {
				case k == 0 || 2*k == j.n:
					full = append(full, [2]bigref.Ball{x[row+k][0]})
				case 2*k < j.n:
					full = append(full, x[row+k])
				default:
					full = append(full, [2]bigref.Ball{x[row+j.n-k][0], x[row+j.n-k][1].Neg()})
				}
			}
		}
		x = full
		along(x, shape[last:], 1, inverse)
		return x
	}
	along(x, shape, 1, inverse)
	if j.kind == "rfft" {
		var y [][2]bigref.Ball
		for i, v := range x {
			if h := shape[last]; i%h <= h/2 {
				y = append(y, v)
			}
		}
		return y
	}
	return x
}

// along transforms numbers in place, along all axes of a shape; inner numbers belong to each
// place, and the shape may be repeated.
func along(x [][2]bigref.Ball, shape []int, inner int, inverse bool) {
	for a := len(shape) - 1; a >= 0; a-- {
		n := shape[a]
		line := make([][2]bigref.Ball, n)
		for first := range len(x) {
			if first/inner%n != 0 {
				continue
			}
			for k := range n {
				line[k] = x[first+k*inner]
			}
			for k := range n {
				var re, im bigref.Ball
				for i, v := range line {
					w := ballRoot(i*k, n)
					if !inverse {
						w[1] = w[1].Neg()
					}
					if v[0] != (bigref.Ball{}) {
						re, im = re.Add(v[0].Mul(w[0])), im.Add(v[0].Mul(w[1]))
					}
					if v[1] != (bigref.Ball{}) {
						re, im = re.Sub(v[1].Mul(w[1])), im.Add(v[1].Mul(w[0]))
					}
				}
				x[first+k*inner] = [2]bigref.Ball{re, im}
			}
		}
		inner *= n
	}
}

// ball returns one part of one number.
func (j *judged) ball(i, part int) bigref.Ball {
	if j.balls == nil {
		j.balls = j.ballsOf()
	}
	v, by := j.balls[i][part], bigref.Exactly(float64(j.points()))
	switch {
	case j.norm == Ortho:
		by = by.Sqrt()
	case (j.norm == Backward) != (j.kind == "ifft" || j.kind == "irfft"):
		return v
	}
	return v.Quo(by)
}

// round returns one part of one number rounded to a format. What is within 2^-1500 of 0,
// or of a number of 200 bits, relative to all, is held to be it.
func (j *judged) round(i, part int, f fp16.Format) float64 {
	if y, ok := j.ball(i, part).Round(f); ok {
		return y
	}
	const enough = 256
	if y, ok := between(j.value(i, part, enough))(f); ok {
		return y
	}
	v, err := j.value(i, part, 1700)
	if v.Sign() == 0 || v.MantExp(nil) < j.size.MantExp(nil)-1500 {
		return 0
	}
	near, _ := new(big.Float).SetPrec(200).Set(v).Rat(nil)
	exact := new(big.Float).SetPrec(1700).SetRat(near)
	if d := exact.Sub(exact, v); d.Abs(d).Cmp(err) <= 0 {
		return bigref.Round(near, f)
	}
	y, ok := between(v, err)(f)
	if !ok {
		panic("the judge cannot tell")
	}
	return y
}

// between returns what rounds everything within err of v to a format, if it is one number.
func between(v, err *big.Float) func(f fp16.Format) (float64, bool) {
	return func(f fp16.Format) (float64, bool) {
		lo, _ := new(big.Float).Sub(v, err).Rat(nil)
		hi, _ := new(big.Float).Add(v, err).Rat(nil)
		a, b := bigref.Round(lo, f), bigref.Round(hi, f)
		return a, err.Sign() == 0 || lo.Sign() == hi.Sign() && math.Float64bits(a) == math.Float64bits(b)
	}
}
