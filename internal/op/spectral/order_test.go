package spectral

import (
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// radicesOf returns the radices of a length as line's doc has them.
func radicesOf(n int) (r []int) {
	for ; n%4 == 0; n /= 4 {
		r = append(r, 4)
	}
	for p := 2; n > 1; p++ {
		for ; n%p == 0; n /= p {
			r = append(r, p)
		}
	}
	return r
}

// rootOf returns e^(-2 pi i m/n), each part the float64 nearest to it.
func rootOf(m, n int) complex128 {
	w := judgeRoot(m, n, 256)
	re, _ := w.re.Float64()
	im, _ := w.im.Float64()
	return complex(re, 0-im)
}

// product is a w in the order of line's doc.
func product(a, w complex128) complex128 {
	return complex(float64(real(a)*real(w))-float64(imag(a)*imag(w)), float64(real(a)*imag(w))+float64(imag(a)*real(w)))
}

// written is line's doc as a recursion: a stage, and the lines that come of it one by one.
func written(x []complex128, radices []int) []complex128 {
	if len(radices) == 0 {
		return x
	}
	r, n := radices[0], len(x)
	m := n / r
	out := make([]complex128, n)
	for k := range r {
		line := make([]complex128, m)
		for p := range m {
			var v complex128
			switch {
			case r == 2 && k == 0:
				v = x[p] + x[p+m]
			case r == 2:
				v = x[p] - x[p+m]
			case r == 4:
				s, d := x[p]+x[p+2*m], x[p]-x[p+2*m]
				s1, d1 := x[p+m]+x[p+3*m], x[p+m]-x[p+3*m]
				i := complex(-imag(d1), real(d1))
				v = []complex128{s + s1, d - i, s - s1, d + i}[k]
			default:
				v = x[p]
				for j := 1; j < r; j++ {
					v += product(x[p+j*m], rootOf(j*k%r, r))
				}
			}
			if k > 0 && m > 1 {
				v = product(v, rootOf(p*k, n))
			}
			line[p] = v
		}
		for p, v := range written(line, radices[1:]) {
			out[k+r*p] = v
		}
	}
	return out
}

// TestFloat64Order: float64 is the order that the doc of line says, and errs by no more
// than it says.
func TestFloat64Order(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	worst := 0.0
	for _, n := range []int{
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 18, 20, 24, 30, 32, 36, 49, 60, 64, 97, 100, 128, 210, 256,
	} {
		for _, inverse := range []bool{false, true} {
			x, y := tensor.New(fp16.Float64, n, 2), tensor.New(fp16.Float64, n, 2)
			line := make([]complex128, n)
			j := &judged{kind: "fft", shape: []int{n}}
			size := 0.0
			for i := range n {
				line[i] = complex(r.NormFloat64(), r.NormFloat64())
				x.Data[2*i], x.Data[2*i+1] = real(line[i]), imag(line[i])
				j.x = append(j.x, line[i])
				size += math.Abs(real(line[i])) + math.Abs(imag(line[i]))
				if inverse {
					line[i] = complex(imag(line[i]), real(line[i]))
				}
			}
			norm := Backward
			if FFT(y, x, []int{0}, Backward); inverse {
				j.kind, norm = "ifft", Forward
				IFFT(y, x, []int{0}, Forward)
			}
			j.norm = norm
			for k, v := range written(line, radicesOf(n)) {
				if inverse {
					v = complex(imag(v), real(v))
				}
				if got := complex(y.Data[2*k], y.Data[2*k+1]); !equal(real(got), real(v)+0) || !equal(imag(got), imag(v)+0) {
					t.Fatalf("%d points, inverse %v: number %d is %v, want %v", n, inverse, k, got, v)
				}
				for p := range 2 {
					want, _ := j.value(k, p, 256)
					e, _ := want.Sub(want, big.NewFloat(y.Data[2*k+p])).Float64()
					if bound := 1.0001 * u * newLine(n).units * size; math.Abs(e) > bound {
						t.Errorf("%d points: part %d of number %d is off by %v, the bound is %v", n, p, k, e, bound)
					} else if bound > 0 {
						worst = max(worst, math.Abs(e)/bound)
					}
				}
			}
		}
	}
	t.Logf("largest error in float64: %.3f of the bound", worst)
	if worst < 0.01 {
		t.Error("the bound is of another size than the errors")
	}
}

// TestFloat64Shapes: several axes, halves and factors in float64 are made of lines as
// the package's doc says.
func TestFloat64Shapes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	x := tensor.New(fp16.Float64, 6, 10)
	for i := range x.Data {
		x.Data[i] = r.NormFloat64()
	}
	full, half, want := tensor.New(fp16.Float64, 6, 10, 2), tensor.New(fp16.Float64, 6, 6, 2),
		tensor.New(fp16.Float64, 6, 10, 2)
	RFFT(half, x, []int{0, 1}, Ortho)
	FFT(want, tensor.Of(fp16.Float64, x.Data, 6, 10, 1), []int{1}, Backward)
	FFT(want, want, []int{0}, Backward)
	FFT(full, tensor.Of(fp16.Float64, x.Data, 6, 10, 1), []int{0, 1}, Ortho)
	for i := range want.Data {
		w, k := want.Data[i]/math.Sqrt(60), i/2%10
		if !equal(full.Data[i], w) || k < 6 && !equal(half.Data[(i/20*6+k)*2+i%2], w) {
			t.Fatalf("number %d is %v, want %v", i/2, full.Data[i], w)
		}
	}
	back := tensor.New(fp16.Float64, 6, 10)
	IRFFT(back, half, []int{0, 1}, Ortho)
	for i, v := range back.Data {
		if math.Abs(v-x.Data[i]) > 1e-14 {
			t.Errorf("there and back: number %d is %v, want %v", i, v, x.Data[i])
		}
	}
}

// TestDoubleBound: two words err by no more than transformDD says.
func TestDoubleBound(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{2, 3, 8, 15, 64, 97, 210} {
		l := newLine(n)
		x, y := make([]complexNum, n), make([]complexNum, n)
		j := &judged{kind: "fft", shape: []int{n}}
		size := 0.0
		for i := range x {
			x[i].re.Hi, x[i].im.Hi = r.NormFloat64(), r.NormFloat64()
			j.x = append(j.x, complex(x[i].re.Hi, x[i].im.Hi))
			size += math.Abs(x[i].re.Hi) + math.Abs(x[i].im.Hi)
		}
		if l.transformDD(x, y, 1); len(l.primes)%2 == 0 {
			y = x
		}
		for k := range y {
			want, _ := j.value(k, 0, 400)
			want.Sub(want, new(big.Float).SetFloat64(y[k].re.Hi))
			e, _ := want.Sub(want, new(big.Float).SetFloat64(y[k].re.Lo)).Float64()
			if bound := 0x1p-106 * l.unitsDD * size; math.Abs(e) > bound {
				t.Errorf("%d points: number %d is off by %v, the bound is %v", n, k, e, bound)
			}
		}
	}
}

// TestSpecials: one number that is not finite makes all that comes of it NaN, and
// nothing else; exact zeros are +0; what overflows is an infinity.
func TestSpecials(t *testing.T) {
	for _, bad := range []float64{math.Inf(1), math.Inf(-1), fp16.NaN} {
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16, fp16.BFloat16} {
			x, y := tensor.New(fp16.Float16, 2, 5), tensor.New(f, 2, 3, 2)
			for i := range x.Data {
				x.Data[i] = 1
			}
			x.Data[7] = bad
			RFFT(y, x, []int{1}, Backward)
			for i, v := range y.Data {
				if want := []float64{5, 0, 0, 0, 0, 0}[i%6]; i < 6 && math.Abs(v-want) > 1e-14 || i >= 6 && !equal(v, fp16.NaN) {
					t.Errorf("%v in %v: part %d is %v", bad, f, i, v)
				}
			}
		}
	}
	x, y := tensor.New(fp16.Float32, 4, 1), tensor.New(fp16.Float16, 4, 2)
	copy(x.Data, []float64{60000, 60000, -60000, 60000})
	FFT(y, x, []int{0}, Backward)
	for i, want := range []float64{math.Inf(1), 0, math.Inf(1), 0, math.Inf(-1), 0, math.Inf(1), 0} {
		if !equal(y.Data[i], want) {
			t.Errorf("part %d is %v, want %v", i, y.Data[i], want)
		}
	}
	none := tensor.New(fp16.Float32, 0, 4, 2)
	FFT(none, none, []int{1}, Backward)
}

// TestMisuse: what does not fit panics, and says what.
func TestMisuse(t *testing.T) {
	z, x, f64 := tensor.New(fp16.Float32, 2, 3, 2), tensor.New(fp16.Float32, 2, 3), tensor.New(fp16.Float64, 2, 3)
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"spectral: axes that the tensor has not, or twice", func() { FFT(z, z, []int{2}, Backward) }},
		{"spectral: axes that the tensor has not, or twice", func() { FFT(z, z, []int{-1, 1}, Backward) }},
		{"spectral: no axes", func() { IFFT(z, z, nil, Backward) }},
		{"spectral: source without a last axis of 2, or of 1 for real numbers", func() { FFT(z, x, []int{0}, Backward) }},
		{"spectral: destination of another shape than the transform's", func() { RFFT(z, x, []int{1}, Backward) }},
		{"spectral: source of another shape than half of the destination's spectrum",
			func() { IRFFT(x, z, []int{1}, Backward) }},
		{"spectral: a float64 source needs a float64 destination",
			func() { RFFT(tensor.New(fp16.Float32, 2, 2, 2), f64, []int{1}, Backward) }},
		{"spectral: an axis of no numbers", func() { e := tensor.New(fp16.Float32, 0, 2); FFT(e, e, []int{0}, Backward) }},
	} {
		func() {
			defer func() {
				if r := recover(); r != c.want {
					t.Errorf("panic %v, want %q", r, c.want)
				}
			}()
			c.f()
		}()
	}
	for _, n := range []Norm{Backward, Forward, Ortho} {
		if m, err := ParseNorm(n.String()); m != n || err != nil {
			t.Errorf("%v reads back as %v, %v", n, m, err)
		}
	}
	if _, err := ParseNorm("orthonormal"); err == nil || err.Error() != `"orthonormal": want backward, forward or ortho` {
		t.Errorf("orthonormal: %v", err)
	}
}

// TestZeros: of a constant's transform all but one number is exactly +0, and few of them
// are added up.
func TestZeros(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	x, y := tensor.New(fp16.Float32, 32, 32), tensor.New(fp16.Float32, 32, 17, 2)
	for i := range x.Data {
		x.Data[i] = 1.25
	}
	RFFT(y, x, []int{0, 1}, Backward)
	for i, v := range y.Data {
		if want := 1280.0; i == 0 && v != want || i > 0 && !equal(v, 0) {
			t.Fatalf("part %d is %v", i, v)
		}
	}
	w := halfWorker(x.Shape)
	if w.do(y, x, 0); len(w.exact.zero) > 250 {
		t.Errorf("%d sums for %d zeros", len(w.exact.zero), len(y.Data)-1)
	}
}

// halfWorker returns what transforms real planes of that shape.
func halfWorker(shape []int) *worker {
	n := len(shape)
	t := newTransform(shape, []int{n - 2, n - 1}, Backward, false)
	t.read, t.write, t.narrow = 1, 2, true
	t.in, t.out = newView(shape, t.axes), newView(t.halved(shape), t.axes)
	return newWorker(t)
}
