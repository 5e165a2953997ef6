package reduce

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("reduce.elements", 20000, "outputs of each operation that are held to the judge")

var formats = []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

// makers make numbers that are hard in one way or another.
var makers = []struct {
	name string
	make func(r *rand.Rand) float64
}{
	{"normal", func(r *rand.Rand) float64 { return r.NormFloat64() }},
	{"positive", func(r *rand.Rand) float64 { return math.Abs(r.NormFloat64()) + 0.5 }},
	{"integers", func(r *rand.Rand) float64 { return float64(r.IntN(9) - 4) }},
	{"halves", func(r *rand.Rand) float64 { return float64(r.IntN(4097)-2048) / 2048 }},
	{"cancelling", func(r *rand.Rand) float64 {
		return (float64(r.IntN(2))*2 - 1) * (1 + float64(r.IntN(8))*0x1p-23)
	}},
	{"wide", func(r *rand.Rand) float64 { return math.Ldexp(r.Float64()-0.5, r.IntN(240)-120) }},
	{"tiny", func(r *rand.Rand) float64 { return math.Ldexp(float64(r.IntN(65)-32), -149) }},
	{"constant", func(r *rand.Rand) float64 { return 1.25 }},
	{"steps", func(r *rand.Rand) float64 { return float64(r.IntN(3)) * 40 }},
	{"logits", func(r *rand.Rand) float64 { return 8 * r.NormFloat64() }},
	{"zeros", func(r *rand.Rand) float64 { return math.Copysign(0, float64(r.IntN(2))-0.5) }},
}

func fill(x *tensor.Tensor, r *rand.Rand, make func(*rand.Rand) float64) {
	for i := range x.Data {
		if x.Data[i] = x.Format.Round(make(r)); math.IsInf(x.Data[i], 0) {
			x.Data[i] = 1 // beyond a narrow format
		}
	}
}

// ballOf is the sum of a line as two float64 know it.
func ballOf(line []float64) (s bigref.Ball) {
	for _, x := range line {
		s = s.Add(bigref.Exactly(x))
	}
	return s
}

// exactSum is the judge of sums: rational arithmetic.
func exactSum(line []float64) *big.Rat {
	s := new(big.Rat)
	for _, x := range line {
		s.Add(s, bigref.Rat(x))
	}
	return s
}

// A line has the numbers of a tensor along axes at one place of the others.
type line struct {
	of     []float64
	places []int
}

// linesOf returns all lines, by counting through all indices: no view is used.
func linesOf(src *tensor.Tensor, along []bool) []line {
	index := make([]int, len(src.Shape))
	count := 1
	for a, d := range src.Shape {
		if !along[a] {
			count *= d
		}
	}
	lines := make([]line, count)
	for at := range src.Data {
		rest, kept := at, 0
		for a := len(index) - 1; a >= 0; a-- {
			index[a] = rest % src.Shape[a]
			rest /= src.Shape[a]
		}
		for a, x := range index {
			if !along[a] {
				kept = kept*src.Shape[a] + x
			}
		}
		l := &lines[kept]
		l.of, l.places = append(l.of, src.Data[at]), append(l.places, at)
	}
	return lines
}

func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// trials calls body with tensors of all kinds of numbers, formats, ranks and axes until
// it has had so many outputs.
func trials(t *testing.T, seed uint64,
	body func(what string, r *rand.Rand, x *tensor.Tensor, axes []int, along []bool) (outputs int)) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	done := 0
	for trial := 0; done < *elements; trial++ {
		m := makers[trial%len(makers)]
		f := formats[r.IntN(len(formats))]
		shape := make([]int, 1+r.IntN(4))
		for a := range shape {
			shape[a] = 1 + r.IntN(6)
		}
		shape[r.IntN(len(shape))] = 1 + r.IntN(40)
		x := tensor.New(f, shape...)
		fill(x, r, m.make)
		along := make([]bool, len(shape))
		var axes []int
		for _, a := range r.Perm(len(shape))[:1+r.IntN(len(shape))] {
			along[a] = true
			if r.IntN(3) == 0 {
				a -= len(shape)
			}
			axes = append(axes, a)
		}
		done += body(fmt.Sprintf("trial %d: %s %v in %v along %v", trial, m.name, shape, f, axes), r, x, axes, along)
	}
}

// TestSums: every sum, mean and prefix is the judge's.
func TestSums(t *testing.T) {
	o := hashed.New(t, *elements)
	trials(t, 1, func(what string, r *rand.Rand, x *tensor.Tensor, axes []int, along []bool) int {
		lines := linesOf(x, along)
		kept := len(lines)
		f := formats[r.IntN(len(formats))]
		sum, mean := tensor.New(f, kept), tensor.New(f, kept)
		Sum(sum, x, axes...)
		Mean(mean, x, axes...)
		o.Add("sum", sum.Data...)
		o.Add("mean", mean.Data...)
		for i, l := range lines {
			if !o.Judge {
				break
			}
			n := float64(len(l.of))
			s := ballOf(l.of)
			if want := s.Or(f, func() float64 { return bigref.Round(exactSum(l.of), f) }); !same(sum.Data[i], want) {
				t.Fatalf("%s: sum %d in %v is %v, want %v", what, i, f, sum.Data[i], want)
			}
			if want := s.Quo(bigref.Exactly(n)).Or(f, func() float64 {
				s := exactSum(l.of)
				return bigref.Round(s.Quo(s, bigref.Rat(n)), f)
			}); !same(mean.Data[i], want) {
				t.Fatalf("%s: mean %d in %v is %v, want %v", what, i, f, mean.Data[i], want)
			}
		}
		return kept
	})
}

// TestCumSum: so is every prefix, in both directions, with its number and without.
func TestCumSum(t *testing.T) {
	o := hashed.New(t, *elements)
	trials(t, 2, func(what string, r *rand.Rand, x *tensor.Tensor, _ []int, along []bool) int {
		axis := r.IntN(len(x.Shape))
		for a := range along {
			along[a] = a == axis
		}
		f := formats[r.IntN(len(formats))]
		exclusive, reverse := r.IntN(2) == 0, r.IntN(2) == 0
		y := tensor.New(f, x.Shape...)
		CumSum(y, x, axis, exclusive, reverse)
		o.Add("cumsum", y.Data...)
		if !o.Judge {
			return len(x.Data)
		}
		for i, l := range linesOf(x, along) {
			of, places := l.of, l.places
			s := bigref.Ball{}
			for k := range of {
				j := k
				if reverse {
					j = len(of) - 1 - k
				}
				if !exclusive {
					s = s.Add(bigref.Exactly(of[j]))
				}
				if want := s.Or(f, func() float64 {
					before := of[:k]
					if reverse {
						before = of[j+1:]
					}
					sum := exactSum(before)
					if !exclusive {
						sum.Add(sum, bigref.Rat(of[j]))
					}
					return bigref.Round(sum, f)
				}); !same(y.Data[places[j]], want) {
					t.Fatalf("%s: prefix %d of line %d in %v (exclusive %v, reverse %v) is %v, want %v",
						what, k, i, f, exclusive, reverse, y.Data[places[j]], want)
				}
				if exclusive {
					s = s.Add(bigref.Exactly(of[j]))
				}
			}
		}
		return len(x.Data)
	})
}

// TestSoftmax: every share is the judge's.
func TestSoftmax(t *testing.T) {
	hashed.OnEach(t, *elements, func(o *hashed.Outputs) { softmaxes(t, o) })
}

func softmaxes(t *testing.T, o *hashed.Outputs) {
	trials(t, 3, func(what string, r *rand.Rand, x *tensor.Tensor, axes []int, along []bool) int {
		if r.IntN(4) == 0 {
			x.Data[r.IntN(len(x.Data))] = math.Inf(-1)
		}
		f := formats[r.IntN(len(formats))]
		y := tensor.New(f, x.Shape...)
		Softmax(y, x, axes...)
		o.Add("softmax", y.Data...)
		if !o.Judge {
			return len(x.Data)
		}
		for i, l := range linesOf(x, along) {
			of, places := l.of, l.places
			judge := bigref.Softmax(of)
			for j := range of {
				if want := judge(j, f); !same(y.Data[places[j]], want) {
					t.Fatalf("%s: share %d of line %d in %v is %v, want %v", what, j, i, f, y.Data[places[j]], want)
				}
			}
		}
		return len(x.Data)
	})
}

// TestSoftmaxKernels: the kernels' coarse exponentials change no bit. Of so many shares some
// twenty are rounded the wrong way if their error is left out of the bound.
func TestSoftmaxKernels(t *testing.T) {
	defer asm.Use("auto")
	r := rand.New(rand.NewPCG(4, 4))
	x := tensor.New(fp16.Float32, 2000, 200)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(3 * r.NormFloat64())
	}
	var want *tensor.Tensor
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		y := tensor.New(fp16.Float32, x.Shape...)
		if Softmax(y, x, 1); want == nil {
			want = y
		}
		for i, v := range want.Data {
			if y.Data[i] != v {
				t.Fatalf("%s: share %d is %v, want %v", isa, i, y.Data[i], v)
			}
		}
	}
}

// TestSoftmaxInPlace: over its own source a softmax is what it is elsewhere, also where the
// kernel leaves numbers open and the source is read again.
func TestSoftmaxInPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	x := tensor.New(fp16.Float32, 1000, 200)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(4 * r.NormFloat64())
	}
	before, apart := x.Clone(), tensor.Like(x)
	Softmax(apart, x, -1)
	for i, v := range x.Data {
		if v != before.Data[i] {
			t.Fatalf("number %d of the source became %v", i, v)
		}
	}
	Softmax(x, x, -1)
	for i, v := range x.Data {
		if v != apart.Data[i] {
			t.Fatalf("number %d is %v in place, %v elsewhere", i, v, apart.Data[i])
		}
	}
}

// TestHardSoftmax: lines whose shares are simple numbers, or beside them.
func TestHardSoftmax(t *testing.T) {
	inf := math.Inf(-1)
	for _, line := range [][]float64{
		{3}, {2, 2}, {0, 0, 0}, {1, 1, 1, 1}, {0, -70000}, {0, 0, -70000}, {0, 0, 0, -70000}, {5, -30}, {5, -1000},
		{0, -300, -600},
		{0, -16.635532}, {88, 88, inf}, {inf, 4}, {inf, inf, 1, 1}, {1e38, -1e38}, {0x1p-149, 0}, {700, 0},
		{0, -87, -88, -89}, {0, -103, -104},
	} {
		x := tensor.Of(fp16.Float32, line, len(line))
		for i := range line {
			if line[i] = fp16.Float32.Round(line[i]); line[i] < -1e30 && line[i] > inf {
				line[i] = -0x1p100
			}
		}
		for _, f := range formats {
			y := tensor.New(f, len(line))
			Softmax(y, x, 0)
			for i := range line {
				if want := bigref.Softmax(line)(i, f); !same(y.Data[i], want) {
					t.Errorf("%v: share %d in %v is %v, want %v", line, i, f, y.Data[i], want)
				}
			}
		}
	}
}

// TestSpecials: what the package says of numbers that are not finite, and of none.
func TestSpecials(t *testing.T) {
	inf, nan := math.Inf(1), fp16.NaN
	for _, f := range append(formats, fp16.Float64) {
		for _, c := range []struct {
			line         []float64
			sum, softmax float64 // of the first number
		}{
			{[]float64{1, inf}, inf, nan}, {[]float64{inf, -inf}, nan, nan}, {[]float64{nan, 1}, nan, nan},
			{[]float64{-inf, -inf}, -inf, nan}, {[]float64{1, -inf}, -inf, 1}, {[]float64{math.Copysign(0, -1)}, 0, 1},
			{[]float64{1, -1}, 0, f.Round(0.8807970779778823)},
		} {
			x := tensor.Of(fp16.Float32, c.line, len(c.line))
			s, m, p, y := tensor.New(f, 1), tensor.New(f), tensor.New(f, len(c.line)), tensor.New(f, len(c.line))
			Sum(s, x, 0)
			Mean(m, x, 0)
			CumSum(p, x, 0, false, false)
			Softmax(y, x, 0)
			if !same(s.Data[0], c.sum) || !same(m.Data[0], f.Round(c.sum/float64(len(c.line)))) ||
				!same(p.Data[len(c.line)-1], c.sum) {
				t.Errorf("%v in %v: sum %v, mean %v, last prefix %v: want the sum %v",
					c.line, f, s.Data[0], m.Data[0], p.Data[len(c.line)-1], c.sum)
			}
			if !same(f.Round(y.Data[0]), c.softmax) && !(f == fp16.Float64 && math.Abs(y.Data[0]-c.softmax) < 1e-15) {
				t.Errorf("%v in %v: share %v, want %v", c.line, f, y.Data[0], c.softmax)
			}
		}
		none := tensor.New(fp16.Float32, 2, 0)
		s, m := tensor.New(f, 2), tensor.New(f, 2)
		Sum(s, none, 1)
		Mean(m, none, 1)
		if !same(s.Data[0], 0) || !same(m.Data[1], nan) {
			t.Errorf("of no numbers in %v: sum %v, mean %v", f, s.Data[0], m.Data[1])
		}
		Softmax(tensor.New(f, 2, 0), none, 1)
		CumSum(tensor.New(f, 2, 0), none, 1, false, false)
	}
}

// TestFloat64: sums in float64 have the order of the axes and the stated error.
func TestFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x := tensor.New(fp16.Float64, 7, 300)
	fill(x, r, func(r *rand.Rand) float64 { return r.NormFloat64() })
	y, p := tensor.New(fp16.Float64, 7), tensor.New(fp16.Float64, 7, 300)
	Sum(y, x, 1)
	CumSum(p, x, 1, false, false)
	for i := range 7 {
		want := 0.0
		for j, v := range x.Data[i*300 : (i+1)*300] {
			if want += v; p.Data[i*300+j] != want {
				t.Fatalf("prefix %d of line %d is %v, want %v", j, i, p.Data[i*300+j], want)
			}
		}
		if y.Data[i] != want {
			t.Errorf("sum %d is %v, want %v", i, y.Data[i], want)
		}
	}
}

// TestMisuse: what does not fit panics, and says what.
func TestMisuse(t *testing.T) {
	x, f64 := tensor.New(fp16.Float32, 2, 3), tensor.New(fp16.Float64, 2, 3)
	for what, f := range map[string]func(){
		"reduce: axes that the tensor has not, or twice":        func() { Sum(tensor.New(fp16.Float32, 2), x, 2) },
		"reduce: destination size does not fit source and axes": func() { Mean(tensor.New(fp16.Float32, 2), x, 0) },
		"reduce: source and destination differ in shape":        func() { Softmax(tensor.New(fp16.Float32, 3, 2), x, 0) },
		"reduce: a float64 source needs a float64 destination":  func() { CumSum(x, f64, 0, false, false) },
	} {
		func() {
			defer func() {
				if r := recover(); r != what {
					t.Errorf("panic %v, want %q", r, what)
				}
			}()
			f()
		}()
	}
	func() {
		defer func() { _ = recover() }()
		Sum(tensor.New(fp16.Float32, 1), x, 0, -2)
		t.Error("an axis may be given twice")
	}()
}

// TestNothing: of no numbers, however large the other axes are.
func TestNothing(t *testing.T) {
	x := tensor.New(fp16.Float32, 0, 1<<39)
	for _, f := range []func(dst, src *tensor.Tensor, axes ...int){
		Softmax, LogSoftmax, func(dst, src *tensor.Tensor, axes ...int) { Standardize(dst, src, 1, axes...) },
		func(dst, src *tensor.Tensor, axes ...int) { CumSum(dst, src, axes[0], false, false) },
	} {
		f(x, x, 0)
		f(x, x, 1)
	}
	y := tensor.New(fp16.Float32, 1)
	Sum(tensor.New(fp16.Float32, 0), x, 1)
	if Sum(y, x, 0, 1); y.Data[0] != 0 {
		t.Errorf("sum of no numbers: %v", y.Data[0])
	}
	z := tensor.New(fp16.Float32, 3, 4)
	if Var(z, tensor.New(fp16.Float32, 3, 0, 4), 1, 1); z.Data[11] == z.Data[11] {
		t.Errorf("variance of no numbers: %v", z.Data[11])
	}
}
