package resize

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("resize.elements", 30000, "numbers that the judge sees")

var formats = []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

var kinds = []struct {
	name string
	of   func(r *rand.Rand) float64
}{
	{"normal", func(r *rand.Rand) float64 { return r.NormFloat64() }},
	{"wide", func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(276)-149) }},
	{"integers", func(r *rand.Rand) float64 { return float64(r.IntN(9) - 4) }},
	{"ties", func(r *rand.Rand) float64 { return float64(1<<23 + r.IntN(1<<20)) }},
	{"cancelling", func(r *rand.Rand) float64 {
		return float64(2*r.IntN(2)-1)*0x1p40 + float64(r.IntN(3)-1)*0x1p17
	}},
	{"near ties", func(r *rand.Rand) float64 {
		return []float64{1, -1, 0x1p-24, 0x1p-60, -0x1p-60, 0x1p-149, -0x1p-149}[r.IntN(7)]
	}},
	{"subnormal", func(r *rand.Rand) float64 { return math.Ldexp(float64(r.IntN(9)-4), -149) }},
	// Means of equal numbers are that number, here the middle of two of a shorter format.
	{"constant", func(*rand.Rand) float64 { return 1 + 0x1p-8 }},
	{"constant, longer", func(*rand.Rand) float64 { return 1 + 0x1p-11 }},
	{"signed zeros", func(r *rand.Rand) float64 { return math.Copysign(0, r.NormFloat64()) }},
}

func random(r *rand.Rand, kind int, f fp16.Format, shape []int) *tensor.Tensor {
	x := tensor.New(f, shape...)
	for i := range x.Data {
		if x.Data[i] = f.Round(kinds[kind].of(r)); math.IsInf(x.Data[i], 0) {
			x.Data[i] = 1
		}
	}
	return x
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// trial is a random resizing.
func trial(r *rand.Rand, most int) (axes []Axis, in, out []int) {
	c := Coordinates(r.IntN(5))
	scaled := r.IntN(2) == 0
	for range 1 + r.IntN(3) {
		n, m := 1+r.IntN(most), 1+r.IntN(2*most)
		a := Axis{Coordinates: c}
		if scaled {
			a.Scale = []float64{2, 0.5, 3, 1.0 / 3, 0.7, 1.9999999, math.Exp(r.NormFloat64()), 1e-3, 1e3}[r.IntN(9)]
			m = min(max(int(float64(n)*a.Scale), 1), 2*most)
		} else if r.IntN(3) == 0 {
			m = n * (1 + r.IntN(3))
		}
		if c == AlignCorners {
			a.Scale = 0 // by scales they are in TestWindows
		}
		axes, in, out = append(axes, a), append(in, n), append(out, m)
	}
	return axes, in, out
}

// TestWeighted: linear and cubic sums are the judge's to the last bit, for all
// coordinates, by size and by scale, over 1 to 3 axes; in float64 within their bound.
func TestWeighted(t *testing.T) {
	r, o := rand.New(rand.NewPCG(1, 2)), hashed.New(t, *elements)
	worst := 0.0
	for n, seen := 0, 0; seen < *elements; n++ {
		axes, in, out := trial(r, []int{5, 7, 4}[n%3])
		if len(in) == 3 && n%4 > 0 {
			axes, in, out = axes[1:], in[1:], out[1:]
		}
		grid := append(formats, fp16.Float32)[r.IntN(5)]
		shape := func(s []int) []int { return append([]int{1, 2}, s...) }
		x := random(r, n%len(kinds), grid, shape(in))
		coefficient := []float64{-0.75, -0.5, 0, 16, -1 + 0x1p-30}[r.IntN(5)]
		k, terms := curve(tent), 1<<len(in)
		if n%3 == 2 {
			k, terms = cubicCurve(coefficient), 1<<(2*len(in))
		}
		size, each := tensor.Size(in), tensor.Size(out)
		shares := make([][][]share, len(in)) // by axis and place
		for a := range in {
			for i := range out[a] {
				at := position(axes[a], i, in[a], out[a])
				if n%3 != 2 && at.Sign() < 0 {
					at = new(big.Rat)
				}
				shares[a] = append(shares[a], sharesAt(at, in[a], k))
			}
		}
		var balls []bigref.Ball
		var exactly []func() (sum, size *big.Rat)
		for i := range 2 * each {
			at := make([][]share, len(in))
			for a, rest := len(in)-1, i%each; a >= 0; a-- {
				at[a] = shares[a][rest%out[a]]
				rest /= out[a]
			}
			plane := x.Data[i/each*size:][:size]
			balls = append(balls, ballOf(plane, in, at))
			exactly = append(exactly, sync.OnceValues(func() (sum, size *big.Rat) { return weighted(plane, in, at) }))
		}
		for _, f := range append(formats, fp16.Float64) {
			if f == fp16.Float64 && seen > 30000 {
				break // each needs fractions
			}
			y := tensor.New(f, shape(out)...)
			if n%3 == 2 {
				Cubic(y, x, coefficient, axes...)
			} else {
				Linear(y, x, axes...)
			}
			o.Add([]string{"linear", "linear", "cubic"}[n%3], y.Data...)
			if !o.Judge {
				seen += len(y.Data)
				continue
			}
			what := fmt.Sprintf("trial %d: %s %v %s to %v %v, %+v", n, kinds[n%len(kinds)].name, grid, x.Dims(), out, f, axes)
			for i, v := range y.Data {
				seen++
				if f != fp16.Float64 {
					if want := balls[i].Or(f, func() float64 {
						sum, _ := exactly[i]()
						return bigref.Round(sum, f)
					}); !sameBits(v, want) {
						t.Fatalf("%s: number %d is %x: want %x", what, i, v, want)
					}
					continue
				}
				sum, size := exactly[i]()
				m, _ := size.Float64()
				e, _ := sub(sum, bigref.Rat(v)).Float64()
				if bound := 1.0001 * u * float64(terms+11) * m; math.Abs(e) > bound {
					t.Fatalf("%s: number %d is off by %g, bound %g", what, i, e, bound)
				} else if bound > 0x1p-1000 {
					worst = max(worst, math.Abs(e)/bound)
				}
			}
		}
	}
	t.Logf("largest error in float64: %.2f of the bound", worst)
	if worst < 0.05 && o.Judge {
		t.Error("the data do not test the bound")
	}
}

// TestCancelling: weights 9, 3, 3 and 1 of numbers so large that they cancel, with small
// ones between them of which float64 loses most.
func TestCancelling(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	axes := []Axis{{Scale: 2}, {Scale: 2}}
	for trial := range 300 {
		x := tensor.New(fp16.Float32, 1, 2, 2)
		for i := range x.Data {
			x.Data[i] = float64(float32(math.Ldexp(r.NormFloat64(), 20)))
		}
		x.Data[0], x.Data[2] = 0x1p60, -3*0x1p60 // of the number at 1/4, 1/4
		y := tensor.New(formats[trial%4], 1, 4, 4)
		Linear(y, x, axes...)
		for i, v := range y.Data {
			at := []*big.Rat{position(axes[0], i/4, 2, 4), position(axes[1], i%4, 2, 4)}
			for _, p := range at {
				if p.Sign() < 0 {
					p.SetInt64(0)
				}
			}
			sum, _ := weighted(x.Data, []int{2, 2}, [][]share{sharesAt(at[0], 2, tent), sharesAt(at[1], 2, tent)})
			if want := bigref.Round(sum, y.Format); !sameBits(v, want) {
				t.Fatalf("trial %d: %v to %v: number %d is %v: want %v", trial, x.Data, y.Format, i, v, want)
			}
		}
	}
}

// TestNearest: what is moved is the judge's, for all coordinates and roundings.
func TestNearest(t *testing.T) {
	r, o := rand.New(rand.NewPCG(3, 4)), hashed.New(t, *elements)
	for n, seen := 0, 0; seen < *elements; n++ {
		axes, in, out := trial(r, 9)
		x := random(r, n%len(kinds), fp16.Float32, append([]int{2}, in...))
		rounding := Rounding(r.IntN(4))
		f := formats[r.IntN(4)]
		y := tensor.New(f, append([]int{2}, out...)...)
		Nearest(y, x, rounding, axes...)
		each := tensor.Size(out)
		o.Add("nearest", y.Data...)
		seen += len(y.Data)
		if !o.Judge {
			continue
		}
		places := make([][]int, len(in)) // by axis and place
		for a := range in {
			for i := range out[a] {
				places[a] = append(places[a], min(max(next(position(axes[a], i, in[a], out[a]), rounding), 0), in[a]-1))
			}
		}
		for i, v := range y.Data {
			at, step := 0, 1
			for a, rest := len(in)-1, i%each; a >= 0; a-- {
				at += step * places[a][rest%out[a]]
				step *= in[a]
				rest /= out[a]
			}
			if want := f.Round(x.Data[i/each*step+at]); !sameBits(v, want) {
				t.Fatalf("trial %d: %s to %v by %+v, rounding %d: number %d is %v: want %v",
					n, x.Dims(), out, axes, rounding, i, v, want)
			}
		}
	}
}

// TestJudge: the judge that linear and cubic share is the older, bilinear one.
func TestJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, factor := range []int{1, 2, 3, 6} {
		x := random(r, 0, fp16.Float32, []int{1, 2, 3, 5})
		want := bigref.Bilinear(x, factor).Round(fp16.Float32)
		y := tensor.Like(want)
		Linear(y, x, Axis{Scale: float64(factor)}, Axis{})
		for i, v := range y.Data {
			if !sameBits(v, want.Data[i]) {
				t.Errorf("factor %d: number %d is %v: want %v", factor, i, v, want.Data[i])
			}
		}
	}
}

// TestSpecials: all neighbours take part, also with weight 0, and 0*Inf is NaN; zeros are
// +0; nearest keeps what it moves.
func TestSpecials(t *testing.T) {
	inf, minus := math.Inf(1), math.Copysign(0, -1)
	nan := fp16.NaN
	for _, f := range append(formats, fp16.Float64) {
		for _, k := range []struct {
			x, want []float64
			run     func(y, x *tensor.Tensor)
		}{
			{[]float64{1, inf, 1, 1}, []float64{nan, inf, inf, inf, inf, 1, 1, 1},
				func(y, x *tensor.Tensor) { Linear(y, x, Axis{}) }},
			{[]float64{inf, -inf}, []float64{nan, nan, nan, -inf}, func(y, x *tensor.Tensor) { Linear(y, x, Axis{}) }},
			{[]float64{minus, minus}, []float64{0, 0, 0},
				func(y, x *tensor.Tensor) { Linear(y, x, Axis{Coordinates: AlignCorners}) }},
			{[]float64{math.Copysign(math.NaN(), -1), -inf, minus}, []float64{nan, -inf, minus},
				func(y, x *tensor.Tensor) { Nearest(y, x, Floor, Axis{}) }},
			{[]float64{1, 1, inf}, []float64{nan, nan, nan}, func(y, x *tensor.Tensor) { Cubic(y, x, -0.75, Axis{}) }},
		} {
			y := tensor.New(f, 1, len(k.want))
			k.run(y, tensor.Of(fp16.Float32, k.x, 1, len(k.x)))
			for i, v := range y.Data {
				if !sameBits(v, k.want[i]) {
					t.Errorf("%v to %v: %v: want %v", k.x, f, y.Data, k.want)
					break
				}
			}
		}
	}
}

// TestUnderflow: what underflows keeps its sign.
func TestUnderflow(t *testing.T) {
	y := tensor.New(fp16.Float32, 1, 4)
	Linear(y, tensor.Of(fp16.Float32, []float64{-0x1p-149, 0}, 1, 2), Axis{})
	for i, want := range []float64{-0x1p-149, -0x1p-149, math.Copysign(0, -1), 0} { // weights 1, 3/4, 1/4, 0
		if !sameBits(y.Data[i], want) {
			t.Errorf("number %d: %v: want %v", i, y.Data[i], want)
		}
	}
}

// TestThreads: results do not depend on the number of threads.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	x := random(rand.New(rand.NewPCG(7, 8)), 0, fp16.Float32, []int{5, 9, 11})
	var first []float64
	for _, threads := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(threads)
		var all []float64
		for _, run := range []func(y *tensor.Tensor){
			func(y *tensor.Tensor) { Linear(y, x, Axis{}, Axis{}) },
			func(y *tensor.Tensor) { Cubic(y, x, -0.75, Axis{}, Axis{}) },
			func(y *tensor.Tensor) { Nearest(y, x, Floor, Axis{}, Axis{}) },
		} {
			y := tensor.New(fp16.Float16, 5, 13, 7)
			run(y)
			all = append(all, y.Data...)
		}
		if first == nil {
			first = all
		}
		for i := range all {
			if !sameBits(all[i], first[i]) {
				t.Fatalf("%d threads: number %d is %v, with one %v", threads, i, all[i], first[i])
			}
		}
	}
}

func TestParse(t *testing.T) {
	for c := HalfPixel; c <= CropAndResize; c++ {
		if got, err := ParseCoordinates(c.String()); err != nil || got != c {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCoordinates("corners"); err == nil ||
		!strings.Contains(err.Error(), `"corners": want one of ["half_pixel"`) {
		t.Error(err)
	}
	if r, err := ParseRounding("round_prefer_ceil"); r != PreferCeil || err != nil {
		t.Error(r, err)
	}
	if _, err := ParseRounding("up"); err == nil {
		t.Error("an unknown rounding")
	}
}

func TestMisuse(t *testing.T) {
	x, y := tensor.New(fp16.Float32, 2, 4, 4), tensor.New(fp16.Float32, 2, 8, 8)
	a := Axis{}
	for name, call := range map[string]func(){
		"nil":         func() { Linear(nil, x, a, a) },
		"no axes":     func() { Linear(y, x) },
		"many axes":   func() { Linear(y, x, a, a, a, a) },
		"planes":      func() { Linear(tensor.New(fp16.Float32, 3, 8, 8), x, a, a) },
		"rank":        func() { Linear(tensor.New(fp16.Float32, 8, 8), x, a, a) },
		"empty":       func() { Linear(y, tensor.New(fp16.Float32, 2, 0, 4), a, a) },
		"float64":     func() { Linear(y, tensor.New(fp16.Float64, 2, 4, 4), a, a) },
		"scale":       func() { Linear(y, x, a, Axis{Scale: math.NaN()}) },
		"negative":    func() { Nearest(y, x, Floor, a, Axis{Scale: -1}) },
		"tiny":        func() { Nearest(y, x, Floor, a, Axis{Scale: 0x1p-41}) },
		"coordinates": func() { Nearest(y, x, Floor, a, Axis{Coordinates: 9}) },
		"rounding":    func() { Nearest(y, x, 9, a, a) },
		"coefficient": func() { Cubic(y, x, 0x1p-150, a, a) },
		"large":       func() { Cubic(y, x, 17, a, a) },
	} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "resize: ") {
					t.Errorf("%s: panics with %v", name, s)
				}
			}()
			call()
		}()
	}
}

func BenchmarkResize(b *testing.B) {
	x := random(rand.New(rand.NewPCG(9, 10)), 0, fp16.Float32, []int{1, 64, 112, 112})
	y := tensor.New(fp16.Float32, 1, 64, 224, 224)
	for name, run := range map[string]func(){
		"nearest":  func() { Nearest(y, x, Floor, Axis{Coordinates: Asymmetric}, Axis{Coordinates: Asymmetric}) },
		"bilinear": func() { Linear(y, x, Axis{}, Axis{}) },
		"cubic":    func() { Cubic(y, x, -0.75, Axis{}, Axis{}) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				run()
			}
		})
	}
}
