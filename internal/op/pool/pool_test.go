package pool

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("pool.elements", 40000,
	"windows of each kind, and number of axes, that the judge sees at least")

var formats = []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

// kinds are numbers of all sorts: of averages that cancel, that are the middle of two
// numbers, and that underflow.
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

// covered is where its numbers are in a plane, in row-major order, and how many
// of it are numbers or padding.
type covered struct {
	at     []int
	padded int
}

// judge returns the windows of a plane of a size, where along returns the positions of
// window i of an axis, also those outside, and where its padding ends.
func judge(in, out []int, along func(axis, i int) (positions []int, before, after int)) []covered {
	all := []covered{{at: []int{0}, padded: 1}}
	for a := range in {
		var next []covered
		for _, w := range all {
			for i := range out[a] {
				positions, before, after := along(a, i)
				v := covered{}
				for _, base := range w.at {
					for _, p := range positions {
						if p >= 0 && p < in[a] {
							v.at = append(v.at, base*in[a]+p)
						}
					}
				}
				for _, p := range positions {
					if p >= -before && p < in[a]+after {
						v.padded += w.padded
					}
				}
				next = append(next, v)
			}
		}
		all = next
	}
	return all
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// ofAxes names the maxima with their indices and averages over 1 to 3 axes.
var ofAxes = []string{"1d", "2d", "3d"}

// compare holds Max and Average of those windows to the judge's.
func compare(t *testing.T, o *hashed.Outputs, what string, x *tensor.Tensor, out []int, windows []Windows,
	of []covered, r *rand.Rand) {
	t.Helper()
	size := tensor.Size(x.Shape[2:])
	shape := append([]int{x.Shape[0], x.Shape[1]}, out...)
	for _, f := range append(formats, fp16.Float64) {
		c := Count{Padding: r.IntN(2) == 0}
		if r.IntN(3) == 0 {
			c.Divisor = 1 + r.IntN(20)
		}
		maxima, indices, averages := tensor.New(f, shape...), tensor.New(fp16.Int64, shape...), tensor.New(f, shape...)
		Max(maxima, indices, x, windows...)
		Average(averages, x, c, windows...)
		o.Add(ofAxes[len(out)-1], maxima.Data...)
		o.Add(ofAxes[len(out)-1], indices.Data...)
		o.Add(ofAxes[len(out)-1], averages.Data...)
		for i := range maxima.Data {
			if !o.Judge {
				break
			}
			plane, w := x.Data[i/len(of)*size:][:size], of[i%len(of)]
			best, at := math.Inf(-1), -1
			sum, plain := bigref.Ball{}, 0.0
			for _, k := range w.at {
				if at < 0 || plane[k] > plane[at] {
					best, at = plane[k], k
				}
				sum = sum.Add(bigref.Exactly(plane[k]))
				plain += plane[k]
			}
			if !sameBits(maxima.Data[i], f.Round(best)) || indices.Data[i] != float64(at) {
				t.Fatalf("%s to %v: maximum %d is %v at %v: want %v at %d", what, f, i, maxima.Data[i], indices.Data[i], best, at)
			}
			d := len(w.at)
			if c.Padding {
				d = w.padded
			}
			if c.Divisor > 0 {
				d = c.Divisor
			}
			want := fp16.NaN
			if d > 0 {
				want = plain / float64(d)
				if f != fp16.Float64 {
					want = sum.Quo(bigref.Exactly(float64(d))).Or(f, func() float64 {
						sum := new(big.Rat)
						for _, k := range w.at {
							sum.Add(sum, bigref.Rat(plane[k]))
						}
						return bigref.Round(sum.Quo(sum, big.NewRat(int64(d), 1)), f)
					})
				}
			}
			if !sameBits(averages.Data[i], want) {
				t.Fatalf("%s to %v, %+v: average %d is %v: want %v", what, f, c, i, averages.Data[i], want)
			}
		}
	}
}

// TestSliding: maxima, their indices and averages are the judge's to the last bit, for
// windows of all geometries over 1 to 3 axes. In float64 averages are the sums in order.
func TestSliding(t *testing.T) {
	r, o := rand.New(rand.NewPCG(1, 2)), hashed.New(t, *elements)
	empty := 0
	for trial := 0; ; trial++ {
		kind := trial % len(kinds)
		axes, seen := o.Least(ofAxes...)
		if axes++; seen >= *elements {
			break
		}
		var in, out []int
		var g []Geometry
		var windows []Windows
		for range axes {
			n := 1 + r.IntN(9)
			a := Geometry{Kernel: 1 + r.IntN(4), Stride: 1 + r.IntN(4), Dilation: 1 + r.IntN(3), Ceil: r.IntN(2) == 0}
			a.Before, a.After = r.IntN(a.reach()), r.IntN(a.reach())
			if a.Fault(n) != "" {
				a = Geometry{Kernel: 1, Stride: 1, Dilation: 1}
			}
			in, g, windows, out = append(in, n), append(g, a), append(windows, Sliding(n, a)), append(out, a.Size(n))
		}
		of := judge(in, out, func(a, i int) (p []int, before, after int) {
			for k := range g[a].Kernel {
				p = append(p, i*g[a].Stride-g[a].Before+k*g[a].Dilation)
			}
			return p, g[a].Before, g[a].After
		})
		for _, w := range of {
			if len(w.at) == 0 {
				empty++
			}
		}
		grid := append(formats, fp16.Float32)[r.IntN(5)]
		x := random(r, kind, grid, append([]int{1 + r.IntN(2), 1 + r.IntN(3)}, in...))
		compare(t, o, fmt.Sprintf("trial %d: %s, %s %v, %+v", trial, kinds[kind].name, x.Dims(), grid, g), x,
			out, windows, of, r)
	}
	if empty == 0 {
		t.Error("no window was empty")
	}
}

// TestAdaptive: the same of windows from floor(i in/out) to ceil((i+1) in/out).
func TestAdaptive(t *testing.T) {
	r, o := rand.New(rand.NewPCG(3, 4)), hashed.New(t, *elements)
	for trial := 0; ; trial++ {
		kind := trial % len(kinds)
		axes, seen := o.Least(ofAxes...)
		if axes++; seen >= *elements {
			break
		}
		var in, out []int
		var windows []Windows
		for range axes {
			n, m := 1+r.IntN(9), 1+r.IntN(9)
			if r.IntN(3) == 0 {
				m = 1 // global
			}
			in, out, windows = append(in, n), append(out, m), append(windows, Adaptive(n, m))
		}
		of := judge(in, out, func(a, i int) (p []int, before, after int) {
			for k := range in[a] { // the numbers whose cell overlaps with cell i of the result
				if (k+1)*out[a] > i*in[a] && k*out[a] < (i+1)*in[a] {
					p = append(p, k)
				}
			}
			return p, 0, 0
		})
		x := random(r, kind, fp16.Float32, append([]int{1 + r.IntN(2), 1 + r.IntN(3)}, in...))
		compare(t, o, fmt.Sprintf("trial %d: %s, %s to %v", trial, kinds[kind].name, x.Dims(), out), x, out, windows, of, r)
	}
}

// TestSpecials: NaN wins a maximum, the last one by its index; averages follow IEEE 754,
// and an exact zero is +0.
func TestSpecials(t *testing.T) {
	inf, nan, minus := math.Inf(1), math.Copysign(math.NaN(), -1), math.Copysign(0, -1)
	for _, k := range []struct {
		x       []float64
		max     float64
		at      float64
		average float64
	}{
		{[]float64{1, nan, 3, nan}, fp16.NaN, 3, fp16.NaN},
		{[]float64{nan, inf, 3, 4}, fp16.NaN, 0, fp16.NaN},
		{[]float64{inf, 1, inf, 3}, inf, 0, inf},
		{[]float64{inf, -inf, 1, 1}, inf, 0, fp16.NaN},
		{[]float64{-inf, -inf, -inf, -inf}, -inf, 0, -inf},
		{[]float64{minus, minus, minus, minus}, minus, 0, 0},
		{[]float64{-1, minus, 0, 0}, minus, 1, -0.25},
		{[]float64{-1, 0, minus, -2}, 0, 1, -0.75},
		{[]float64{-0x1p-149, 0, 0, 0}, 0, 1, minus},
		{[]float64{math.MaxFloat32, math.MaxFloat32, math.MaxFloat32, math.MaxFloat32}, math.MaxFloat32, 0, math.MaxFloat32},
	} {
		x := tensor.Of(fp16.Float32, k.x, 1, 1, 2, 2)
		m, at, a := tensor.New(fp16.Float32, 1, 1, 1, 1), tensor.New(fp16.Int64, 1, 1, 1, 1),
			tensor.New(fp16.Float32, 1, 1, 1, 1)
		Max(m, at, x, Blocks(2, 2), Blocks(2, 2))
		Average(a, x, Count{}, Blocks(2, 2), Blocks(2, 2))
		if !sameBits(m.Data[0], k.max) || at.Data[0] != k.at || !sameBits(a.Data[0], k.average) {
			t.Errorf("%v: maximum %v at %v, average %v: want %v at %v, %v",
				k.x, m.Data[0], at.Data[0], a.Data[0], k.max, k.at, k.average)
		}
	}
}

// TestThreads: results do not depend on the number of threads.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(5, 6))
	x := random(r, 0, fp16.Float32, []int{3, 7, 11, 13})
	w := []Windows{Sliding(11, Geometry{3, 2, 1, 1, 1, true}), Adaptive(13, 5)}
	var first []float64
	for _, threads := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(threads)
		m, a := tensor.New(fp16.Float16, 3, 7, len(w[0].Of), 5), tensor.New(fp16.Float16, 3, 7, len(w[0].Of), 5)
		Max(m, nil, x, w...)
		Average(a, x, Count{Padding: true}, w...)
		all := append(m.Data, a.Data...)
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

// TestGeometry: faults and sizes, PyTorch's among them.
func TestGeometry(t *testing.T) {
	for _, k := range []struct {
		in    int
		g     Geometry
		size  int
		fault string
	}{
		{5, Geometry{2, 2, 1, 0, 0, false}, 2, ""},
		{5, Geometry{2, 2, 1, 0, 0, true}, 3, ""},
		{5, Geometry{3, 3, 1, 1, 1, true}, 2, ""}, // a third would begin in the padding
		{1, Geometry{2, 2, 1, 0, 0, true}, 1, ""},
		{1, Geometry{2, 2, 1, 0, 0, false}, 0, "kernel_size: 2: want a window of at most 1"},
		{0, Geometry{1, 1, 1, 0, 0, false}, 0, "input is 0 long"},
		{5, Geometry{0, 1, 1, 0, 0, false}, 0, "kernel_size: 0: want 1 to 2^30"},
		{5, Geometry{1, -3, 1, 0, 0, false}, 0, "stride: -3: want 1 to 2^30"},
		{5, Geometry{2, 1, math.MaxInt, 0, 0, false}, 0, "dilation: 9223372036854775807: want 1 to 2^30"},
		{5, Geometry{2, 1, 1, -1, 0, false}, 0, "padding: -1: want 0 to 2^30"},
		{5, Geometry{2, 1, 1, 0, 2, false}, 0, "padding: 2: want less than the window, 2"},
		{5, Geometry{extent, extent, extent, extent, extent, true}, 0, ""},
	} {
		f := k.g.Fault(k.in)
		if k.g.Kernel == extent {
			if f == "" && k.g.Size(k.in) < 1 {
				t.Errorf("%+v: %d windows", k.g, k.g.Size(k.in))
			}
			continue
		}
		if (f == "") != (k.fault == "") || !strings.HasPrefix(f, k.fault) {
			t.Errorf("%+v of %d: fault %q: want %q", k.g, k.in, f, k.fault)
		}
		if f == "" && k.g.Size(k.in) != k.size {
			t.Errorf("%+v of %d: %d windows: want %d", k.g, k.in, k.g.Size(k.in), k.size)
		}
	}
}

func TestMisuse(t *testing.T) {
	x, y := tensor.New(fp16.Float32, 1, 2, 4, 4), tensor.New(fp16.Float32, 1, 2, 2, 2)
	w := Blocks(4, 2)
	for name, call := range map[string]func(){
		"nil":          func() { Max(nil, nil, x, w, w) },
		"no axes":      func() { Max(y, nil, x) },
		"many axes":    func() { Max(y, nil, x, w, w, w, w) },
		"windows":      func() { Max(y, nil, x, w, Blocks(4, 1)) },
		"source":       func() { Max(y, nil, x, w, Blocks(5, 2)) },
		"planes":       func() { Average(tensor.New(fp16.Float32, 1, 3, 2, 2), x, Count{}, w, w) },
		"p":            func() { Lp(y, x, MaxP+1, w, w) },
		"divisor":      func() { Average(y, x, Count{Divisor: -1}, w, w) },
		"float64":      func() { Average(y, tensor.New(fp16.Float64, 1, 2, 4, 4), Count{}, w, w) },
		"indices":      func() { Max(y, tensor.New(fp16.Float32, 1, 2, 2, 2), x, w, w) },
		"indices size": func() { Max(y, tensor.New(fp16.Int64, 1, 2, 2, 1), x, w, w) },
		"geometry":     func() { Blocks(4, 5) },
		"adaptive":     func() { Adaptive(0, 1) },
	} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "pool: ") {
					t.Errorf("%s: panics with %v", name, s)
				}
			}()
			call()
		}()
	}
}

func BenchmarkPool(b *testing.B) {
	x := random(rand.New(rand.NewPCG(7, 8)), 0, fp16.Float32, []int{1, 64, 112, 112})
	g := Sliding(112, Geometry{3, 2, 1, 1, 1, false})
	y := tensor.New(fp16.Float32, 1, 64, 56, 56)
	b.Run("max", func(b *testing.B) {
		for b.Loop() {
			Max(y, nil, x, g, g)
		}
	})
	b.Run("average", func(b *testing.B) {
		for b.Loop() {
			Average(y, x, Count{}, g, g)
		}
	})
	b.Run("average 2x2", func(b *testing.B) {
		for b.Loop() {
			Average(y, x, Count{}, Blocks(112, 2), Blocks(112, 2))
		}
	})
}
