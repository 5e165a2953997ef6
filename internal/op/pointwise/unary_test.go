package pointwise

import (
	"flag"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("pointwise.elements", 4000, "float32 elements per function that the judge sees")

// get returns the function, and its parameters by name as results of a format see them.
func (s *sample) get(t testing.TB, format fp16.Format) (Func, named) {
	t.Helper()
	f, err := Parse(s.name, s.params)
	if err != nil {
		t.Fatal(err)
	}
	p := named{}
	for i, q := range f.fn.params {
		p[q.name] = f.in(format)[i]
	}
	return f, p
}

// domain reports whether x is inside the function's, and not at a pole.
func (s *sample) domain(x float64) bool {
	switch s.name {
	case "acosh":
		return x >= 1
	case "asin", "acos":
		return math.Abs(x) <= 1
	case "log", "log2", "log10", "rsqrt":
		return x > 0
	case "log1p":
		return x > -1
	case "sqrt":
		return x >= 0
	case "reciprocal":
		return x != 0
	}
	return true
}

// want returns the right result for a finite x of the domain in format f.
func (s *sample) want(x float64, p named, f fp16.Format) float64 {
	if s.rule != nil {
		if y := s.rule(x); y != 0 {
			return f.Round(y)
		}
		return zeroOf(s.name, x)
	}
	if s.fast != nil {
		if y, ok := bigref.Near(s.fast(x, p), 0x1p-36, f); ok {
			return y
		}
	}
	return bigref.Unary(s.name, x, p, f)
}

// unary applies f to x, both formats being those of the tensors.
func unary(x []float64, f Func, src, dst fp16.Format) []float64 {
	in, out := tensor.Of(src, x, len(x)), tensor.New(dst, len(x))
	Unary(out, in, f)
	return out.Data
}

// compare judges the function on x, and returns how many it has seen.
func (s *sample) compare(t *testing.T, o *hashed.Outputs, name string, x []float64, src, dst fp16.Format) int {
	t.Helper()
	f, p := s.get(t, dst)
	got := unary(x, f, src, dst)
	o.Add(name, got...)
	if !o.Judge {
		n := 0
		for _, v := range x {
			if s.domain(v) {
				n++
			}
		}
		return n
	}
	var wrong, seen atomic.Int64
	const piece = 512
	par.For((len(x)+piece-1)/piece, func(i int) {
		for k := i * piece; k < min((i+1)*piece, len(x)); k++ {
			if !s.domain(x[k]) {
				continue
			}
			seen.Add(1)
			if !o.Sees(k, int(dst)) {
				continue
			}
			want := s.want(x[k], p, dst)
			if math.Float64bits(got[k]) != math.Float64bits(want) && wrong.Add(1) <= 5 {
				t.Errorf("%v of %x in %v: got %x, want %x", f, x[k], dst, got[k], want)
			}
		}
	})
	if n := wrong.Load(); n > 0 {
		t.Errorf("%v from %v to %v: %d of %d elements wrong", f, src, dst, n, seen.Load())
	}
	return int(seen.Load())
}

var short = []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

// finite returns all finite numbers of a 16-bit format.
func finite(f fp16.Format) []float64 {
	var x []float64
	for b := range uint64(1 << 16) {
		if v := f.FromBits(b); v-v == 0 {
			x = append(x, v)
		}
	}
	return x
}

// TestHalfExhaustive: every function of every half number, in the same format and in float32, is the judge's.
func TestHalfExhaustive(t *testing.T) {
	o := hashed.New(t, 0)
	for _, src := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		x := finite(src)
		for i := range samples {
			for _, dst := range []fp16.Format{src, fp16.Float32} {
				samples[i].compare(t, o, "all", x, src, dst)
			}
		}
	}
}

// structured returns float32 numbers around every power of two, around the places
// where the functions change, near multiples of pi/2, and ties of shorter formats.
func structured() []float64 {
	var x []float64
	add := func(v float64) {
		b := math.Float32bits(float32(v))
		for d := uint32(0); d < 5; d++ {
			if w := float64(math.Float32frombits(b + d - 2)); w-w == 0 {
				x = append(x, w, -w)
			}
		}
	}
	for e := -148; e < 128; e++ {
		add(math.Ldexp(1, e))
		for _, p := range []int{8, 11} { // 1 + 2^-p and its odd neighbours are ties
			x = append(x, math.Ldexp(1+math.Ldexp(1, -p), max(e, -125)), -math.Ldexp(2-math.Ldexp(1, -p), max(e, -125)))
		}
	}
	for k := 1.0; k < 40; k++ {
		add(k)
		add(k * math.Pi / 2)
		add(k * 0.25)
		add(k * k)
		add(math.Log(k))
		add(k * 5)
	}
	x = append(x, 0, negZero, 16367173*0x1p72, -16367173*0x1p72) // the float32 number nearest to a multiple of pi/2
	return x
}

// random returns n float32 numbers: of all sizes, of ordinary ones, short ones, and
// close to those of structured.
func random(r *rand.Rand, n int) []float64 {
	x, near := make([]float64, n), structured()
	for i := range x {
		switch i % 8 {
		case 0, 1, 2:
			x[i] = float64(float32(r.NormFloat64() * 3))
		case 3:
			x[i] = float64(float32(r.NormFloat64() * 40))
		case 4:
			x[i] = math.Ldexp(float64(r.IntN(1<<13)-1<<12), r.IntN(40)-32)
		case 5:
			x[i] = fp16.Float32.Round(near[r.IntN(len(near))] * (1 + 0x1p-20*r.NormFloat64()))
		case 6:
			x[i] = float64(float32(math.Ldexp(r.NormFloat64(), -r.IntN(60))))
		default:
			x[i] = float64(math.Float32frombits(r.Uint32()))
		}
		if x[i]-x[i] != 0 {
			x[i] = 1
		}
	}
	return x
}

func TestFloat32(t *testing.T) {
	o, x := hashed.New(t, *elements), structured()
	for i := range samples {
		n := 0
		f, _ := samples[i].get(t, fp16.Float32)
		for _, dst := range short {
			n += samples[i].compare(t, o, f.String(), x, fp16.Float32, dst)
		}
		r := rand.New(rand.NewPCG(uint64(i), 1))
		for n < *elements {
			y := random(r, min(*elements, 1<<16)/2)
			for k, dst := range []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.Float32, fp16.Float16, fp16.Float32, fp16.TF32} {
				n += samples[i].compare(t, o, f.String(), y[k*len(y)/6:(k+1)*len(y)/6], fp16.Float32, dst)
			}
		}
	}
}

// What the settlement returns rounds right in every format, wherever the evaluation is
// not exact: it is hardly ever asked otherwise.
func TestSettle(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for i := range samples {
		s := &samples[i]
		f, p := s.get(t, fp16.Float32)
		if f.fn.settle == nil {
			continue
		}
		settled := 0
		for _, x := range random(r, 600) {
			y, bound := f.fn.eval(x, &f.float)
			if !(bound > 0) || !s.domain(x) {
				continue
			}
			settled++
			odd := f.fn.settle(x, &f.float)
			if got, ok := fp16.Float32.Decide(y, bound); ok && got != fp16.Float32.Round(odd) {
				t.Errorf("%v(%x): decided as %x, settled as %x", f, x, got, odd)
			}
			for _, dst := range short {
				if got, want := dst.Round(odd), s.want(x, p, dst); math.Float64bits(got) != math.Float64bits(want) {
					t.Errorf("%v(%x) in %v: settled as %x, want %x", f, x, dst, got, want)
				}
			}
		}
		if settled < 20 {
			t.Errorf("%v: only %d numbers to settle", f, settled)
		}
	}
}
