package conv

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("conv.elements", 0,
	"outputs that TestForwardExact and TestTransposedExact have judged at least")

// sameBits fails unless got and want agree in shape and every bit.
func sameBits(t *testing.T, got, want *tensor.Tensor, what string) {
	t.Helper()
	if !got.SameShape(want) {
		t.Fatalf("%s: shape %s, want %s", what, got.Dims(), want.Dims())
	}
	wrong := 0
	for i, v := range got.Data {
		if math.Float64bits(v) != math.Float64bits(want.Data[i]) {
			if wrong++; wrong == 1 {
				t.Errorf("%s: element %d is %x, want %x", what, i, v, want.Data[i])
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%s: %d of %d elements differ", what, wrong, len(got.Data))
	}
}

// A fixture is one operation that PyTorch has evaluated.
type fixture struct {
	name, op      string
	src, weight   *tensor.Tensor
	bias          []float64
	p             Params
	out32, out64  []float64
	n, c, h, w    int // of the output
	terms         int // of one output: products, and 1 for the bias
	exact, magnit *bigref.Exact
}

// fixtures reads the linear operations of testdata/ops.
func fixtures(t *testing.T) []*fixture {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "testdata", "ops")
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Cases []struct {
			File, Op string
			Attrs    struct {
				Stride, Padding int
				PaddingMode     string `json:"padding_mode"`
			}
		}
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	var found []*fixture
	for _, c := range index.Cases {
		switch c.Op {
		case "conv2d", "conv_transpose2d":
		default:
			continue
		}
		file, err := safetensors.Open(filepath.Join(dir, c.File))
		if err != nil {
			t.Fatal(err)
		}
		read := func(name string) ([]float64, []int) {
			x, err := file.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			v, err := x.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			return v, x.Shape
		}
		image := func(name string) *tensor.Tensor {
			v, s := read(name)
			return tensor.Of(fp16.Float32, v, s[0], s[1], s[2], s[3])
		}
		f := &fixture{name: c.File, op: c.Op, src: image("x")}
		f.weight = image("weight")
		f.bias, _ = read("bias")
		f.p = Square(c.Attrs.Stride, c.Attrs.Padding, Zeros)
		if c.Attrs.PaddingMode != "" {
			if f.p.Padding, err = ParsePadding(c.Attrs.PaddingMode); err != nil {
				t.Fatal(err)
			}
		}
		var shape []int
		f.out32, shape = read("out_f32")
		f.out64, _ = read("out_f64")
		f.n, f.c, f.h, f.w = shape[0], shape[1], shape[2], shape[3]
		found = append(found, f)
	}
	return found
}

// magnitudes returns a tensor of absolute values.
func magnitudes(x *tensor.Tensor) *tensor.Tensor {
	m := x.Clone()
	for i, v := range m.Data {
		m.Data[i] = math.Abs(v)
	}
	return m
}

// compute runs the operation into a tensor of format f.
func (x *fixture) compute(f fp16.Format) *tensor.Tensor {
	dst := tensor.New(f, x.n, x.c, x.h, x.w)
	switch x.op {
	case "conv2d":
		Forward(dst, x.src, NewKernel(x.weight, x.bias), x.p)
	case "conv_transpose2d":
		Transposed(dst, x.src, NewTransposedKernel(x.weight, x.bias), x.p)
	}
	return dst
}

// judge sets the exact values and the same with |x|, |weight| and |bias|.
func (x *fixture) judge() {
	var mb []float64
	for _, b := range x.bias {
		mb = append(mb, math.Abs(b))
	}
	mx, mw := magnitudes(x.src), magnitudes(x.weight)
	switch x.op {
	case "conv2d":
		mode := x.p.Padding.String()
		x.exact = bigref.Conv2d(x.src, x.weight, x.bias, x.p.Stride[0], x.p.Pad[0], mode)
		x.magnit = bigref.Conv2d(mx, mw, mb, x.p.Stride[0], x.p.Pad[0], mode)
		x.terms = x.weight.C()*x.weight.H()*x.weight.W() + 1
	case "conv_transpose2d":
		x.exact = bigref.ConvTranspose2d(x.src, x.weight, x.bias, x.p.Stride[0], x.p.Pad[0])
		x.magnit = bigref.ConvTranspose2d(mx, mw, mb, x.p.Stride[0], x.p.Pad[0])
		x.terms = x.weight.N()*x.weight.H()*x.weight.W() + 1
	}
}

// The outputs are the judge's to the last bit, and PyTorch's within what its
// own summation may lose. A sum of n products, each rounded, in any order and
// with or without fusing, is within g_n(u) of the sum of their magnitudes
// (Higham, section 3.1; u = 2^-24 or 2^-53).
//
// They are judged on the first instruction set; on the others they are the same.
func TestFixtures(t *testing.T) {
	cases := fixtures(t)
	if len(cases) != 11 {
		t.Fatalf("found %d operations, want 11", len(cases))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got32, got64 := c.compute(fp16.Float32), c.compute(fp16.Float64)
			if was, is := judgedFixtures[c.name]; is {
				sameBits(t, got32, was[0], "float32")
				sameBits(t, got64, was[1], "float64")
				return
			}
			c.judge()
			sameBits(t, got32, c.exact.Round(fp16.Float32), "float32")
			n := float64(c.terms)
			within := func(what string, got, torch []float64, u float64) {
				t.Helper()
				nonzero := 0
				worst := 0.0
				for i, v := range got {
					m, _ := c.magnit.Values[i].Float64()
					// got has its own error: half an ulp, or that of a
					// float64 sum.
					bound := 2 * n * u / (1 - n*u) * m
					worst = max(worst, math.Abs(v-torch[i])/bound)
					if v != 0 {
						nonzero++
					}
				}
				if !(worst <= 1) {
					t.Errorf("%s: differs from PyTorch by %.3g of the bound", what, worst)
				}
				if nonzero < len(got)/2 {
					t.Errorf("%s: %d of %d outputs are zero", what, len(got)-nonzero, len(got))
				}
			}
			within("float32", got32.Data, c.out32, 0x1p-24)
			within("float64", got64.Data, c.out64, 0x1p-53)
			if !t.Failed() {
				judgedFixtures[c.name] = [2]*tensor.Tensor{got32, got64}
			}
		})
	}
}

// judgedFixtures are the outputs in float32 and float64 that were right.
var judgedFixtures = map[string][2]*tensor.Tensor{}

// A maker fills a tensor with numbers of a kind.
type maker struct {
	name string
	fill func(r *rand.Rand, i int) float64
}

var makers = []maker{
	{"gauss", func(r *rand.Rand, _ int) float64 { return r.NormFloat64() }},
	{"wide", func(r *rand.Rand, _ int) float64 {
		return math.Ldexp(r.NormFloat64(), r.IntN(120)-60)
	}},
	{"extreme", func(r *rand.Rand, _ int) float64 {
		return math.Ldexp(1+r.Float64(), r.IntN(276)-149)
	}},
	{"subnormal", func(r *rand.Rand, _ int) float64 {
		return math.Ldexp(float64(r.IntN(200)-100), -149)
	}},
	{"cancelling", func(r *rand.Rand, i int) float64 {
		return float64(1-2*(i%2))*1000 + float64(r.IntN(3))*0x1p-12
	}},
	{"integers", func(r *rand.Rand, _ int) float64 { return float64(r.IntN(9) - 4) }},
	{"sparse", func(r *rand.Rand, _ int) float64 {
		if r.IntN(4) > 0 {
			return math.Copysign(0, r.NormFloat64())
		}
		return r.NormFloat64()
	}},
	{"constant", func(*rand.Rand, int) float64 { return 0.1 }},
	{"alternating", func(_ *rand.Rand, i int) float64 { return 0.3 * float64(1-2*(i%2)) }},
	{"half way", func(r *rand.Rand, _ int) float64 { // sums near midpoints of 24 bits
		return float64(r.IntN(1<<12)) + math.Ldexp(float64(r.IntN(3)-1), -20)
	}},
}

func (m maker) make(r *rand.Rand, grid fp16.Format, n, c, h, w int) *tensor.Tensor {
	t := tensor.New(grid, n, c, h, w)
	for i := range t.Data {
		t.Data[i] = finite(grid, m.fill(r, i))
	}
	return t
}

// finite rounds v to the grid, and takes 1 where v is beyond it.
func finite(grid fp16.Format, v float64) float64 {
	if v = grid.Round(v); v-v != 0 {
		return 1
	}
	return v
}

var formats = []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

// Every element of random convolutions equals the judge's, for all paddings,
// strides, kinds of data and formats.
func TestForwardExact(t *testing.T) {
	r, o := rand.New(rand.NewPCG(3, 4)), hashed.New(t, *elements)
	for trial, seen := 0, 0; trial < 160 || seen < *elements; trial++ {
		xs, ws := makers[trial%len(makers)], makers[r.IntN(len(makers))]
		p := Params{Stride: [2]int{r.IntN(4), r.IntN(4)}, Padding: Padding(r.IntN(4))}
		if trial%3 == 0 {
			p.Dilation = [2]int{r.IntN(4), r.IntN(4)}
		}
		groups := []int{1, 1, 2, 3}[r.IntN(4)]
		ic, oc := 1+r.IntN(5), 1+r.IntN(5)
		if groups > 1 {
			ic, oc = groups*(1+r.IntN(3)), groups*(1+r.IntN(3))
		}
		kh, kw := 1+r.IntN(4), 1+r.IntN(4)
		h, w := 1+r.IntN(9), 1+r.IntN(9)
		for side := range p.Pad {
			n := []int{h, w}[side%2]
			switch p.Padding {
			case Zeros, Replicate:
				p.Pad[side] = r.IntN(5)
			case Circular:
				p.Pad[side] = r.IntN(n + 1)
			case Reflect:
				p.Pad[side] = r.IntN(n)
			}
		}
		if trial%2 == 0 { // the usual
			pad := min(p.Pad[0], p.Pad[1], p.Pad[2], p.Pad[3])
			p.Pad = [4]int{pad, pad, pad, pad}
		}
		if oh, ow := p.OutSize(h, w, kh, kw); oh == 0 || ow == 0 {
			h, w = h+10, w+10
		}
		grid := formats[r.IntN(4)]
		if trial%2 == 0 {
			grid = fp16.Float32
		}
		src := xs.make(r, grid, 1+r.IntN(3), ic, h, w)
		weight := ws.make(r, grid, oc, ic/groups, kh, kw)
		var bias []float64
		if r.IntN(2) == 0 {
			bias = ws.make(r, grid, 1, 1, 1, oc).Data
		}
		what := fmt.Sprintf("trial %d: %s * %s, %s, weight %s, %d groups, %+v, %v", trial,
			xs.name, ws.name, src.Dims(), weight.Dims(), groups, p, grid)
		var exact *bigref.Exact
		if o.Judge {
			exact = bigref.Convolution(src, weight, bias, judged(p, groups))
		}
		k := NewGroupedKernel(weight, bias, groups)
		for _, f := range formats {
			oh, ow := p.OutSize(h, w, kh, kw)
			dst := tensor.New(f, src.N(), oc, oh, ow)
			Forward(dst, src, k, p)
			seen += len(dst.Data)
			if o.Add("conv", dst.Data...); o.Judge {
				sameBits(t, dst, exact.Round(f), what+" to "+f.String())
			}
		}
		if trial >= 160 || !o.Judge {
			continue
		}
		float64Error(t, exact, src, weight, bias, p, groups, what)
	}
}

// float64Error holds the float64 sum to its bound g_n * sum |w x|.
func float64Error(
	t *testing.T, exact *bigref.Exact, src, weight *tensor.Tensor, bias []float64, p Params, groups int, what string,
) {
	t.Helper()
	got := tensor.New(fp16.Float64, exact.N, exact.C, exact.H, exact.W)
	Forward(got, src, NewGroupedKernel(weight, bias, groups), p)
	m := bigref.Convolution(magnitudes(src), magnitudes(weight), absolute(bias), judged(p, groups))
	for i, v := range got.Data {
		size, _ := m.Values[i].Float64()
		bound := float64(weight.C()*weight.H()*weight.W()+1) * 0x1p-53 * 1.0001 * size
		if d := distance(v, exact.Values[i]); !(d <= bound) {
			t.Fatalf("%s: float64 element %d is off by %g, bound %g", what, i, d, bound)
		}
	}
}

func absolute(v []float64) []float64 {
	var a []float64
	for _, x := range v {
		a = append(a, math.Abs(x))
	}
	return a
}

// distance returns |v - exact|, rounded.
func distance(v float64, exact *big.Rat) float64 {
	d := new(big.Rat).Sub(bigref.Rat(v), exact)
	f, _ := d.Abs(d).Float64()
	return f
}

func TestTransposedExact(t *testing.T) {
	r, o := rand.New(rand.NewPCG(5, 6)), hashed.New(t, *elements)
	for trial, seen := 0, 0; trial < 80 || seen < *elements; trial++ {
		xs, ws := makers[trial%len(makers)], makers[r.IntN(len(makers))]
		groups := []int{1, 1, 2, 3}[r.IntN(4)]
		ic, oc := groups*(1+r.IntN(3)), groups*(1+r.IntN(3))
		p := Params{Stride: [2]int{r.IntN(4), r.IntN(4)}}
		if trial%3 == 0 {
			p.Dilation = [2]int{r.IntN(4), r.IntN(4)}
		}
		kh, kw := 1+r.IntN(4), 1+r.IntN(4)
		h, w := 1+r.IntN(6), 1+r.IntN(6)
		for side := range p.Pad {
			p.Pad[side] = r.IntN(4)
		}
		for oh, ow := p.TransposedSize(h, w, kh, kw, [2]int{}); oh < 1 ||
			ow < 1; oh, ow = p.TransposedSize(h, w, kh, kw, [2]int{}) {
			h, w = h+1, w+1
		}
		var extra [2]int
		if trial%2 == 0 {
			extra = [2]int{r.IntN(max(p.Stride[0], 1)), r.IntN(max(p.Stride[1], 1))}
		}
		src := xs.make(r, fp16.Float32, 1+r.IntN(2), ic, h, w)
		weight := ws.make(r, fp16.Float32, ic, oc/groups, kh, kw)
		var bias []float64
		if r.IntN(2) == 0 {
			bias = ws.make(r, fp16.Float32, 1, 1, 1, oc).Data
		}
		what := fmt.Sprintf("trial %d: %s * %s, %s, weight %s, %d groups, %+v", trial,
			xs.name, ws.name, src.Dims(), weight.Dims(), groups, p)
		var exact *bigref.Exact
		if o.Judge {
			exact = bigref.Transposed(src, weight, bias, judged(p, groups), extra)
		}
		k := NewGroupedTransposedKernel(weight, bias, groups)
		for _, f := range formats {
			oh, ow := p.TransposedSize(h, w, kh, kw, extra)
			dst := tensor.New(f, src.N(), oc, oh, ow)
			Transposed(dst, src, k, p)
			seen += len(dst.Data)
			if o.Add("conv_transpose", dst.Data...); o.Judge {
				sameBits(t, dst, exact.Round(f), what+" to "+f.String())
			}
		}
	}
}

// TestTransposedPixels: a transposed convolution of single pixels may make an image of the
// source's size and yet read nothing in most places.
func TestTransposedPixels(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	p := Params{Stride: [2]int{2, 1}, Pad: [4]int{1, 0, 1, 0}}
	for _, channels := range [][2]int{{1, 1}, {8, 8}, {3, 16}} {
		src, weight := makers[0].make(r, fp16.Float32, 1, channels[0], 3, 40),
			makers[0].make(r, fp16.Float32, channels[0], channels[1], 1, 1)
		exact := bigref.Transposed(src, weight, nil, judged(p, 1), [2]int{})
		k := NewTransposedKernel(weight, nil)
		for _, f := range append(formats, fp16.Float64) {
			dst := tensor.New(f, 1, channels[1], 3, 40)
			Transposed(dst, src, k, p)
			if f != fp16.Float64 {
				sameBits(t, dst, exact.Round(f), fmt.Sprint(channels, " to ", f))
				continue
			}
			for i, v := range dst.Data {
				if i/40%3 != 1 && v != 0 {
					t.Fatalf("%v in float64: line %d is %v, want 0", channels, i/40%3, v)
				}
			}
		}
	}
}

// judged is a geometry as the judge takes it.
func judged(p Params, groups int) bigref.Geometry {
	least1 := func(v [2]int) [2]int { return [2]int{max(v[0], 1), max(v[1], 1)} }
	return bigref.Geometry{
		Stride: least1(p.Stride), Dilation: least1(p.Dilation), Pad: p.Pad, Groups: groups, Mode: p.Padding.String(),
	}
}

// The float64 evaluation stays within the guard's bound: on data of all kinds
// no output is further from the exact value. The ratio tells how close the
// bound is; worst-case bounds of sums are far.
func TestBound(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, xs := range makers {
		largest, count := 0.0, 0
		for _, ws := range makers {
			for _, ic := range []int{1, 7} {
				src := xs.make(r, fp16.Float32, 1, ic, 6, 5)
				weight := ws.make(r, fp16.Float32, 3, ic, 3, 2)
				// Channels of very different size, weights inversely so.
				for c := range ic {
					e := r.IntN(20) - 10
					for i := range src.Plane(0, c) {
						src.Plane(0, c)[i] = finite(fp16.Float32, math.Ldexp(src.Plane(0, c)[i], e))
					}
					for o := range weight.N() {
						for i := range weight.Plane(o, c) {
							weight.Plane(o, c)[i] = finite(fp16.Float32, math.Ldexp(weight.Plane(o, c)[i], -e))
						}
					}
				}
				bias := ws.make(r, fp16.Float32, 1, 1, 1, 3).Data
				k := NewKernel(weight, bias)
				exact := bigref.Conv2d(src, weight, bias, 1, 1, "zeros")
				sums := tensor.New(fp16.Float64, 1, exact.C, exact.H, exact.W)
				Forward(sums, src, k, Square(1, 1, Zeros))
				j := &job{dst: sums, src: src, k: k, memory: new(images),
					rows: squareAxis(src.H(), 1, Zeros), cols: squareAxis(src.W(), 1, Zeros)}
				norms, hw := j.windows(), sums.H()*sums.W()
				for i, v := range sums.Data {
					e, d := k.bound(i/hw, norms[i%hw]), distance(v, exact.Values[i])
					if !(d <= e) {
						t.Fatalf("%s * %s: element %d is off by %g, bound %g", xs.name, ws.name, i, d, e)
					}
					if e > 0 {
						largest = max(largest, d/e)
					}
					count++
				}
			}
		}
		t.Logf("%-12s largest error/bound %.3f of %d", xs.name, largest, count)
	}
}

// The norms of windows and the scales of channels are what bound.go says.
func TestWindowNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	src := makers[0].make(r, fp16.Float32, 2, 3, 5, 4)
	weight := makers[0].make(r, fp16.Float32, 2, 3, 3, 3)
	k := NewKernel(weight, nil)
	dst := tensor.New(fp16.Float32, 2, 2, 3, 2)
	j := &job{dst: dst, src: src, k: k, memory: new(images),
		rows: squareAxis(src.H(), 1, Reflect), cols: squareAxis(src.W(), 1, Reflect)}
	j.rows.stride, j.cols.stride = 2, 2
	j.windows()
	norms := j.windows() // in memory that was used
	// The same norms are the convolution of t^2 x^2 with ones.
	squares := src.Clone()
	for i, v := range squares.Data {
		c := i / 20 % 3
		squares.Data[i] = v * v * k.scale[c] * k.scale[c]
		if s := k.scale[c]; s <= 0.3 || s > 2 || math.Ldexp(1, math.Ilogb(s)) != s {
			t.Fatalf("scale of channel %d is %g, want a power of two near 1", c, s)
		}
	}
	ones := tensor.New(fp16.Float64, 1, 3, 3, 3)
	for i := range ones.Data {
		ones.Data[i] = 1
	}
	want := bigref.Conv2d(squares, ones, nil, 2, 1, "reflect")
	for i, v := range norms {
		w, _ := want.Values[i].Float64()
		if math.Abs(v*v-w) > 1e-13*w {
			t.Errorf("window %d has norm %g, want %g", i, v, math.Sqrt(w))
		}
	}
}

// Results do not depend on the number of threads or on the batch.
func TestThreadsAndBatch(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(13, 14))
	src := makers[0].make(r, fp16.Float32, 5, 6, 11, 13)
	src.Data[77] = math.Inf(1)
	src.Data[2000] = math.NaN()
	weight := makers[0].make(r, fp16.Float32, 9, 6, 3, 3)
	back := makers[0].make(r, fp16.Float32, 6, 9, 3, 3)
	k, kt := NewKernel(weight, weight.Data[:9]), NewTransposedKernel(back, back.Data[:9])
	ops := map[string]struct {
		c, h, w int
		run     func(dst, src *tensor.Tensor)
	}{
		"forward":    {9, 6, 7, func(d, s *tensor.Tensor) { Forward(d, s, k, Square(2, 1, Circular)) }},
		"transposed": {9, 21, 25, func(d, s *tensor.Tensor) { Transposed(d, s, kt, Square(2, 1, Zeros)) }},
	}
	for name, op := range ops {
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16} {
			var first *tensor.Tensor
			for _, threads := range []int{1, 2, 3, 7} {
				runtime.GOMAXPROCS(threads)
				whole := tensor.New(f, src.N(), op.c, op.h, op.w)
				op.run(whole, src)
				if first == nil {
					first = whole
				}
				sameBits(t, whole, first, fmt.Sprintf("%s %v, %d threads", name, f, threads))
				parts := tensor.New(f, src.N(), op.c, op.h, op.w)
				for n := range src.N() {
					op.run(parts.Samples(n, n+1), src.Samples(n, n+1))
				}
				sameBits(t, parts, first, fmt.Sprintf("%s %v, %d threads, sample by sample", name, f, threads))
			}
		}
	}
}

// A batch that does not fit into the scratch memory at once is computed in
// groups of samples.
func TestGroups(t *testing.T) {
	src := tensor.Of(fp16.Float32, []float64{1, 2, 3, 4, 5}, 5, 1, 1, 1)
	one := tensor.Of(fp16.Float32, []float64{1}, 1, 1, 1, 1)
	for _, pad := range []int{100, 150, 250, 600} { // 5, 5, 2 and 1 samples at a time
		dst := tensor.New(fp16.Float32, 5, 1, 2, 2)
		Forward(dst, src, NewKernel(one, nil), Square(2*pad, pad, Replicate))
		for i, v := range dst.Data {
			if want := float64(1 + i/4); v != want {
				t.Errorf("pad %d: element %d is %g, want %g", pad, i, v, want)
			}
		}
	}
}

// Channels of very different size, with weights inversely so, do not spoil the
// bound: the guard decides nearly everything.
func TestChannelScales(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	src := gauss(r, fp16.Float32, 1, 16, 16, 16)
	weight := gauss(r, fp16.Float32, 8, 16, 3, 3)
	for c := range 16 {
		size := math.Ldexp(1, 4*(c-8))
		for i := range src.Plane(0, c) {
			src.Plane(0, c)[i] *= size
		}
		for o := range 8 {
			for i := range weight.Plane(o, c) {
				weight.Plane(o, c)[i] /= size
			}
		}
	}
	dst := tensor.New(fp16.Float32, 1, 8, 16, 16)
	if open := flagged(dst, src, NewKernel(weight, nil), Square(1, 1, Zeros)); open > 0.002 {
		t.Errorf("%.4f of the outputs are flagged", open)
	}
}

// The float64 sum is that of the documented order: a loop over channel, row
// and column that skips the taps outside the image, then the bias.
func TestFloat64Order(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for trial := range 20 {
		src := makers[trial%2].make(r, fp16.Float64, 1, 5, 7, 6)
		weight := makers[trial%2].make(r, fp16.Float64, 3, 5, 3, 3)
		bias := makers[0].make(r, fp16.Float64, 1, 1, 1, 3).Data
		if trial%4 == 3 { // an infinite weight: nothing to add to in the padding
			weight.Data[r.IntN(len(weight.Data))] = math.Inf(1)
		}
		got := tensor.New(fp16.Float64, 1, 3, 7, 6)
		Forward(got, src, NewKernel(weight, bias), Square(1, 1, Zeros))
		want := tensor.Like(got)
		for o := range 3 {
			for y := range 7 {
				for x := range 6 {
					want.Plane(0, o)[y*6+x] = loop(src, weight, o, y-1, x-1) + bias[o]
				}
			}
		}
		for i, v := range want.Data {
			want.Data[i] = fp16.Float64.Round(v)
		}
		sameBits(t, got, want, fmt.Sprintf("trial %d", trial))
	}
}

// loop sums the taps of a window whose first corner is (y,x), zeros padding.
func loop(src, weight *tensor.Tensor, o, y, x int) float64 {
	sum := 0.0
	for c := range src.C() {
		for i := range weight.H() {
			for l := range weight.W() {
				if y+i >= 0 && y+i < src.H() && x+l >= 0 && x+l < src.W() {
					sum += float64(src.Plane(0, c)[(y+i)*src.W()+x+l] * weight.Plane(o, c)[i*weight.W()+l])
				}
			}
		}
	}
	return sum
}

// Infinities and NaNs, in the image, the weight or the bias, reach the outputs
// that a plain loop gives them to, as IEEE 754 has it; the others are as if
// the numbers were finite.
func TestNotFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	special := []float64{math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(math.NaN(), -1)}
	counts := map[string]int{}
	for trial := range 60 {
		src := makers[6*(trial%2)].make(r, fp16.Float32, 1, 3, 6, 7)
		weight := makers[6*(trial/2%2)].make(r, fp16.Float32, 4, 3, 3, 3)
		bias := makers[0].make(r, fp16.Float32, 1, 1, 1, 4).Data
		tame := func(v []float64) []float64 {
			c := append([]float64(nil), v...)
			for i, x := range c {
				if x-x != 0 {
					c[i] = 0.5
				}
			}
			return c
		}
		for range 1 + r.IntN(3) {
			v := special[r.IntN(len(special))]
			switch trial % 3 {
			case 0:
				src.Data[r.IntN(len(src.Data))] = v
			case 1:
				weight.Data[r.IntN(len(weight.Data))] = v
			case 2:
				src.Data[r.IntN(len(src.Data))] = v
				bias[r.IntN(4)] = v
			}
		}
		finite := bigref.Conv2d(tensor.Of(fp16.Float32, tame(src.Data), 1, 3, 6, 7),
			tensor.Of(fp16.Float32, tame(weight.Data), 4, 3, 3, 3), tame(bias), 1, 1, "zeros")
		for _, f := range append(formats, fp16.Float64) {
			got := tensor.New(f, 1, 4, 6, 7)
			Forward(got, src, NewKernel(weight, bias), Square(1, 1, Zeros))
			for i, v := range got.Data {
				o, y, x := i/42, i/7%6, i%7
				want := loop(src, weight, o, y-1, x-1) + bias[o]
				switch {
				case want != want:
					want = fp16.NaN
					counts["nan"]++
				case math.IsInf(want, 0):
					counts["inf"]++
				case f != fp16.Float64:
					want = bigref.Round(finite.Values[i], f)
					counts["finite"]++
				}
				if math.Float64bits(v) != math.Float64bits(want) {
					t.Fatalf("trial %d to %v: element %d is %x, want %x", trial, f, i, v, want)
				}
			}
		}
	}
	if counts["nan"] < 500 || counts["inf"] < 500 || counts["finite"] < 500 {
		t.Errorf("too little of something was compared: %v", counts)
	}
}

// Zeros: an exact zero is +0 whatever the signs; underflow keeps the sign;
// overflow gives the infinity.
func TestZerosAndRange(t *testing.T) {
	minus := math.Copysign(0, -1)
	one := func(v ...float64) *tensor.Tensor { return tensor.Of(fp16.Float32, v, 1, len(v), 1, 1) }
	for _, c := range []struct {
		x, w []float64
		bias float64
		f    fp16.Format
		want float64
	}{
		{[]float64{minus}, []float64{1}, minus, fp16.Float32, 0},
		{[]float64{minus}, []float64{1}, minus, fp16.Float64, 0},
		{[]float64{0}, []float64{-1}, 0, fp16.BFloat16, 0},
		{[]float64{3, 1}, []float64{1, -3}, 0, fp16.Float32, 0},
		{[]float64{3, 1}, []float64{1, -3}, 0, fp16.Float64, 0},
		{[]float64{3}, []float64{1}, -3, fp16.Float16, 0},
		{[]float64{-0x1p-100}, []float64{0x1p-100}, 0, fp16.Float32, minus},
		{[]float64{0x1p-100}, []float64{0x1p-100}, 0, fp16.Float32, 0},
		{[]float64{-0x1p-20}, []float64{0x1p-20}, 0, fp16.Float16, minus},
		{[]float64{-0x1p-75, 0x1p-149}, []float64{0x1p-75, -0x1p-149}, 0, fp16.Float32, -0x1p-149},
		{[]float64{-0x1p-75}, []float64{0x1p-75}, 0, fp16.Float32, minus}, // tie to even
		{[]float64{0x1p100}, []float64{-0x1p100}, 1, fp16.Float32, math.Inf(-1)},
		{[]float64{256}, []float64{256}, 0, fp16.Float16, math.Inf(1)},
		{[]float64{0x1p127, 0x1p127}, []float64{2, -2}, 7, fp16.Float32, 7},
		// Beyond three words: only the exact sum sees the third term.
		{[]float64{0x1p120, 0x1p40, 0x1p-40, -0x1p40, -0x1p120}, []float64{1, 1, 1, 1, 1}, 0, fp16.Float32, 0x1p-40},
		{[]float64{0}, []float64{5}, 0x1p-149, fp16.Float32, 0x1p-149},
	} {
		dst := tensor.New(c.f, 1, 1, 1, 1)
		Forward(dst, one(c.x...), NewKernel(one(c.w...), []float64{c.bias}), Params{})
		if math.Float64bits(dst.Data[0]) != math.Float64bits(c.want) {
			t.Errorf("%v * %v + %g to %v: %g, want %g", c.x, c.w, c.bias, c.f, dst.Data[0], c.want)
		}
	}
}

// A constant image under kernels of sum zero flags every output that the
// padding does not touch; all come out as +0.
func TestEverythingFlagged(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	src := makers[7].make(r, fp16.Float32, 1, 4, 8, 8)
	weight := makers[0].make(r, fp16.Float32, 4, 4, 3, 3)
	for i := 1; i < len(weight.Data); i += 2 {
		weight.Data[i] = -weight.Data[i-1]
	}
	dst := makers[0].make(r, fp16.Float32, 1, 4, 8, 8)
	k, p := NewKernel(weight, nil), Square(1, 1, Circular)
	Forward(dst, src, k, p)
	sameBits(t, dst, tensor.New(fp16.Float32, 1, 4, 8, 8), "constant")
	if open := flagged(dst, src, k, p); open < 0.9 {
		t.Errorf("only %.3f of the outputs were flagged", open)
	}
}

// What the sum in three words decides is the exact sum rounded to odd; on data
// that cancels far down it must often decline.
func TestParsePadding(t *testing.T) {
	for _, p := range []Padding{Zeros, Circular, Reflect, Replicate} {
		if got, err := ParsePadding(p.String()); err != nil || got != p {
			t.Errorf("ParsePadding(%q) = %v, %v", p.String(), got, err)
		}
	}
	for _, name := range []string{"", "Zeros", "same", "Padding(4)"} {
		if _, err := ParsePadding(name); err == nil {
			t.Errorf("ParsePadding(%q) gave no error", name)
		}
	}
}

func TestMisusePanics(t *testing.T) {
	x := func(f fp16.Format, n, c, h, w int) *tensor.Tensor { return tensor.New(f, n, c, h, w) }
	k := NewKernel(x(fp16.Float32, 2, 3, 3, 3), nil)
	kt := NewTransposedKernel(x(fp16.Float32, 3, 2, 3, 3), nil)
	beyond := x(fp16.Float64, 2, 3, 3, 3)
	beyond.Data[5] = 0.1
	src, dst := x(fp16.Float32, 1, 3, 4, 4), x(fp16.Float32, 1, 2, 4, 4)
	for name, f := range map[string]func(){
		"stride":         func() { Forward(dst, src, k, Square(-1, 1, Zeros)) },
		"pad":            func() { Forward(dst, src, k, Square(1, -1, Zeros)) },
		"size":           func() { Forward(dst, src, k, Params{}) },
		"channels":       func() { Forward(dst, x(fp16.Float32, 1, 2, 4, 4), k, Square(1, 1, Zeros)) },
		"samples":        func() { Forward(dst, x(fp16.Float32, 2, 3, 4, 4), k, Square(1, 1, Zeros)) },
		"too small":      func() { Forward(x(fp16.Float32, 1, 2, 0, 0), x(fp16.Float32, 1, 3, 2, 2), k, Params{}) },
		"reflect":        func() { Forward(x(fp16.Float32, 1, 2, 10, 10), src, k, Square(1, 4, Reflect)) },
		"circular":       func() { Forward(x(fp16.Float32, 1, 2, 12, 12), src, k, Square(1, 5, Circular)) },
		"padding":        func() { Forward(dst, src, k, Square(1, 1, 9)) },
		"kind":           func() { Forward(dst, src, kt, Square(1, 1, Zeros)) },
		"kind back":      func() { Transposed(dst, src, k, Square(1, 1, Zeros)) },
		"size back":      func() { Transposed(dst, src, kt, Square(2, 1, Zeros)) },
		"stride back":    func() { Transposed(dst, src, kt, Square(-1, 1, Zeros)) },
		"float64 source": func() { Forward(dst, x(fp16.Float64, 1, 3, 4, 4), k, Square(1, 1, Zeros)) },
		"float64 kernel": func() { Forward(dst, src, NewKernel(beyond, nil), Square(1, 1, Zeros)) },
		"bias":           func() { NewKernel(beyond, make([]float64, 3)) },
		"empty":          func() { NewKernel(x(fp16.Float32, 0, 3, 3, 3), nil) },
	} {
		func() {
			defer func() {
				if r := recover(); r == nil {
					t.Errorf("%s: no panic", name)
				} else if s, ok := r.(string); !ok || s[:6] != "conv: " {
					t.Errorf("%s: panics with %v", name, r)
				}
			}()
			f()
		}()
	}
}
