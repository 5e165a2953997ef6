package matmul

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var long = flag.Int("elements", 0, "elements that TestJudge and TestEinsum have judged at least")

// kinds of data, all on the grid of a format.
var kinds = []string{"random", "cancelling", "wide", "integers", "ties", "zeros", "constant", "specials", "subnormal"}

// fillKind fills operands a [m,k] and b [k,n] with numbers of a kind.
func fillKind(r *rand.Rand, kind string, f fp16.Format, a, b []float64, m, n, k int) {
	each := func(v []float64, make func() float64) {
		for i := range v {
			v[i] = f.Round(make())
		}
	}
	normal := r.NormFloat64
	switch kind {
	case "random":
		each(a, normal)
		each(b, normal)
	case "cancelling": // great products that come to nothing, and small ones that stay
		great := 1 << 30
		if f == fp16.Float16 {
			great = 1 << 8
		}
		each(a, func() float64 { return normal() * float64(great) })
		each(b, normal)
		half := (k - k/3) / 2
		for l := range k {
			for i := range m {
				switch {
				case l >= 2*half:
					a[i*k+l] = f.Round(math.Ldexp(normal(), -r.IntN(10)))
				case l >= half:
					a[i*k+l] = a[i*k+l-half]
				}
			}
			for j := range n {
				if l >= half && l < 2*half {
					b[l*n+j] = -b[(l-half)*n+j]
				}
			}
		}
	case "wide":
		spread := 12
		if f == fp16.Float32 || f == fp16.BFloat16 || f == fp16.TF32 {
			spread = 60
		}
		each(a, func() float64 { return math.Ldexp(normal(), r.IntN(2*spread)-spread) })
		each(b, func() float64 { return math.Ldexp(normal(), r.IntN(2*spread)-spread) })
	case "integers":
		each(a, func() float64 { return float64(r.IntN(9) - 4) })
		each(b, func() float64 { return float64(r.IntN(9) - 4) })
	case "ties": // few bits, and one term that is half an ulp of what the rest come to
		each(a, func() float64 { return float64(r.IntN(3) - 1) })
		each(b, func() float64 { return float64(1 + r.IntN(2)) })
		for i := range m {
			if k > 1 {
				a[i*k] = f.Round(float64(int(1) << (8 + r.IntN(6))))
				a[i*k+1] = f.Round(math.Ldexp(1, -r.IntN(20)))
			}
		}
	case "zeros":
		each(a, func() float64 { return normal() * float64(r.IntN(4)/3) })
		each(b, func() float64 { return normal() * float64(r.IntN(4)/3) })
		for i := range m {
			if i%3 == 0 {
				clear(a[i*k : (i+1)*k])
			}
		}
	case "constant":
		x := f.Round(normal())
		each(a, func() float64 { return x })
		for j := range n {
			for l := range k {
				b[l*n+j] = f.Round(0.3) * float64(1-2*(l%2))
			}
		}
	case "specials":
		special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}
		each(a, normal)
		each(b, normal)
		for range 1 + (len(a)+len(b))/40 {
			if len(a) > 0 {
				a[r.IntN(len(a))] = special[r.IntN(len(special))]
			}
			if len(b) > 0 {
				b[r.IntN(len(b))] = special[r.IntN(len(special))]
			}
		}
	case "subnormal":
		least := -140
		if f == fp16.Float16 {
			least = -20
		}
		each(a, func() float64 { return math.Ldexp(normal(), least+r.IntN(10)) })
		each(b, func() float64 { return math.Ldexp(normal(), r.IntN(8)-4) })
	}
}

var sizes = []int{0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 63, 64, 65}

var formats = []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

// transposed returns a matrix [rows,cols] as [cols,rows].
func transposed(x []float64, rows, cols int) []float64 {
	t := make([]float64, len(x))
	for i := range rows {
		for j := range cols {
			t[j*rows+i] = x[i*cols+j]
		}
	}
	return t
}

// TestJudge: random shapes, data, formats, factors and addends against exact sums.
func TestJudge(t *testing.T) {
	want := *long
	if want == 0 {
		want = 20000
	}
	r := rand.New(rand.NewPCG(1, 2))
	o := hashed.New(t, want)
	judged, wrong := map[string]int{}, 0
	for trial, total := 0, 0; total < want; trial++ {
		kind := kinds[trial%len(kinds)]
		in, out := formats[r.IntN(len(formats))], formats[r.IntN(len(formats))]
		if r.IntN(2) == 0 {
			in, out = fp16.Float32, fp16.Float32
		}
		m, n, k := sizes[r.IntN(len(sizes))], sizes[r.IntN(len(sizes))], sizes[r.IntN(len(sizes))]
		if m*n > 300 && trial%10 != 0 { // more trials
			m = 1 + r.IntN(9)
		}
		if trial%50 == 17 {
			m, n, k = 1+r.IntN(9), 1+r.IntN(25), 200+r.IntN(700)
		}
		a, b := make([]float64, m*k), make([]float64, k*n)
		fillKind(r, kind, in, a, b, m, n, k)
		p := Params{TransA: r.IntN(2) == 0, TransB: r.IntN(2) == 0}
		alpha, beta := 1.0, 1.0
		if r.IntN(3) == 0 {
			alpha = []float64{0.125, -2, 0, 1 / 3.0, -1e-3, 0x1p-600, 0x1p500, math.Pi}[r.IntN(8)]
			p.Alpha = &alpha
		}
		var c []float64
		if r.IntN(2) == 0 {
			if r.IntN(2) == 0 {
				beta = []float64{0.5, -1, 0, 0.1, 0x1p-700, 3}[r.IntN(6)]
				p.Beta = &beta
			}
			c = make([]float64, m*n)
			shape := [][]int{{m, n}, {n}, {m, 1}, {1}, {}}[r.IntN(5)]
			p.C = tensor.New(in, shape...)
			for i := range p.C.Data {
				p.C.Data[i] = in.Round(r.NormFloat64() * float64(r.IntN(3)))
				if kind == "specials" && r.IntN(30) == 0 {
					p.C.Data[i] = math.Inf(1 - 2*r.IntN(2))
				}
			}
			for i := range c {
				switch len(shape) {
				case 0:
					c[i] = p.C.Data[0]
				case 1:
					c[i] = p.C.Data[i%n%shape[0]]
				default:
					c[i] = p.C.Data[i/n*shape[1]+i%n%shape[1]]
				}
			}
		}
		x, y := tensor.Of(in, a, m, k), tensor.Of(in, b, k, n)
		if p.TransA {
			x = tensor.Of(in, transposed(a, m, k), k, m)
		}
		if p.TransB {
			y = tensor.Of(in, transposed(b, k, n), n, k)
		}
		dst := tensor.New(out, m, n)
		for i := range dst.Data {
			dst.Data[i] = 12345 // what was there before
		}
		Forward(dst, x, y, p)
		o.Add("matmul", dst.Data...)
		if total += m * n; !o.Judge {
			continue
		}
		for i, v := range bigref.Matmul(out, a, b, c, m, n, k, alpha, beta) {
			if got := dst.Data[i]; math.Float64bits(got) != math.Float64bits(v) {
				if wrong++; wrong < 10 {
					t.Errorf("%s, %v to %v, [%d,%d,%d], alpha %v, beta %v, C %v, trans %v %v: element %d is "+
						"%v, want %v", kind, in, out, m, n, k, alpha, beta, p.C != nil, p.TransA, p.TransB, i, got, v)
				}
			}
		}
		judged[kind] += m * n
	}
	t.Logf("%s: judged %v, %d wrong", asm.ISA(), judged, wrong)
}

// random returns a tensor of normal numbers.
func random(r *rand.Rand, f fp16.Format, shape ...int) *tensor.Tensor {
	x := tensor.New(f, shape...)
	for i := range x.Data {
		x.Data[i] = f.Round(r.NormFloat64())
	}
	return x
}

// naive is float64's product by definition, of operands whose leading dimensions index
// says.
func naive(a, b []float64, m, n, k int) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				out[i*n+j] += float64(a[i*k+l] * b[l*n+j])
			}
		}
	}
	return out
}

// TestFloat64: the definition's order, and its roundings, to the last bit.
func TestFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		m, n, k := sizes[r.IntN(len(sizes))], sizes[r.IntN(len(sizes))], sizes[r.IntN(len(sizes))]
		if r.IntN(10) == 0 {
			k = 600
		}
		a, b, c := random(r, fp16.Float64, m, k), random(r, fp16.Float64, k, n), random(r, fp16.Float64, n)
		dst := tensor.New(fp16.Float64, m, n)
		want := naive(a.Data, b.Data, m, n, k)
		Forward(dst, a, b, Params{})
		if !slices.Equal(dst.Data, want) {
			t.Fatalf("[%d,%d,%d] differs", m, n, k)
		}
		alpha, beta := 0.3, -1.7
		Forward(dst, a, b, Params{C: c, Alpha: &alpha, Beta: &beta})
		for i := range want {
			if v := float64(alpha*want[i]) + float64(beta*c.Data[i%n]); dst.Data[i] != v {
				t.Fatalf("[%d,%d,%d] with factors: element %d is %v, want %v", m, n, k, i, dst.Data[i], v)
			}
		}
		Forward(dst, a, b, Params{C: c})
		for i := range want {
			if v := want[i] + c.Data[i%n]; dst.Data[i] != v {
				t.Fatalf("[%d,%d,%d] with a bias: element %d is %v, want %v", m, n, k, i, dst.Data[i], v)
			}
		}
	}
}

// TestBroadcast: leading dimensions and operands of one dimension, as numpy has them.
func TestBroadcast(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		a, b, want []int
		add        []int
	}{
		{[]int{3}, []int{3}, []int{}, []int{}},
		{[]int{30}, []int{30, 40}, []int{40}, []int{40}},
		{[]int{40, 30}, []int{30}, []int{40}, []int{1}},
		{[]int{5, 1, 6, 7}, []int{3, 7, 4}, []int{5, 3, 6, 4}, []int{3, 1, 4}},
		{[]int{2, 5, 6, 7}, []int{7, 40}, []int{2, 5, 6, 40}, []int{5, 6, 1}},
		{[]int{2, 5, 6, 7}, []int{7}, []int{2, 5, 6}, []int{2, 1, 6}},
		{[]int{7}, []int{3, 7, 4}, []int{3, 4}, []int{3, 1}},
		{[]int{1, 6, 7}, []int{4, 7, 30}, []int{4, 6, 30}, []int{4, 6, 30}},
		{[]int{0, 6, 7}, []int{1, 7, 30}, []int{0, 6, 30}, nil},
		{[]int{2, 6, 0}, []int{2, 0, 3}, []int{2, 6, 3}, []int{3}},
		{[]int{12, 19, 64}, []int{12, 64, 19}, []int{12, 19, 19}, nil},
	} {
		for _, f := range []fp16.Format{fp16.Float32, fp16.Float64} {
			a, b := random(r, f, c.a...), random(r, f, c.b...)
			p := Params{}
			if c.add != nil {
				p.C = random(r, f, c.add...)
			}
			shape, err := Shape(c.a, c.b, p)
			if err != nil || !slices.Equal(shape, c.want) {
				t.Fatalf("%v %v: shape %v, %v, want %v", c.a, c.b, shape, err, c.want)
			}
			dst := tensor.New(f, shape...)
			Forward(dst, a, b, p)
			for at, got := range dst.Data {
				if want := element(f, a, b, p.C, c.want, at); got != want {
					t.Fatalf("%v %v %v: element %d is %v, want %v", f, c.a, c.b, at, got, want)
				}
			}
		}
	}
}

// element is one element of a product by its indices.
func element(f fp16.Format, a, b, c *tensor.Tensor, shape []int, at int) float64 {
	index := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i], at = at%shape[i], at/shape[i]
	}
	read := func(t *tensor.Tensor, index []int) float64 {
		at := 0
		for i, d := range t.Shape {
			at = at*d + index[len(index)-len(t.Shape)+i]%d
		}
		return t.Data[at]
	}
	added := 0.0
	if c != nil {
		added = read(c, index)
	}
	col, row := 0, 0
	if len(b.Shape) > 1 {
		col, index = index[len(index)-1], index[:len(index)-1]
	}
	if len(a.Shape) > 1 {
		row, index = index[len(index)-1], index[:len(index)-1]
	}
	inner := a.Shape[len(a.Shape)-1]
	x, y := make([]float64, inner), make([]float64, inner)
	for l := range inner {
		i, j := []int{row, l}, []int{l, col}
		if len(a.Shape) == 1 {
			i = []int{l}
		}
		if len(b.Shape) == 1 {
			j = []int{l}
		}
		x[l], y[l] = read(a, append(slices.Clone(index), i...)), read(b, append(slices.Clone(index), j...))
	}
	if f == fp16.Float64 {
		return naive(x, y, 1, 1, inner)[0] + added
	}
	return bigref.Matmul(f, x, y, []float64{added}, 1, 1, inner, 1, 1)[0]
}

// TestShapeErrors: what does not fit is said in one line.
func TestShapeErrors(t *testing.T) {
	for _, c := range []struct {
		a, b []int
		p    Params
		want string
	}{
		{[]int{}, []int{3}, Params{}, "matmul: shapes: [] and [3]: want one dimension or more each"},
		{[]int{2, 3}, []int{4, 5}, Params{},
			"matmul: shapes: [2 3] and [4 5]: want inner dimensions that agree, not 3 and 4"},
		{[]int{2, 2, 3}, []int{3, 3, 5}, Params{},
			"matmul: shapes: [2 2 3] and [3 3 5]: want leading dimensions that are equal or 1"},
		{[]int{2, 3}, []int{3, 5}, Params{C: tensor.New(fp16.Float32, 4)},
			"matmul: C: shape [4]: want one that can be broadcast to [2 5]"},
		{[]int{2, 3}, []int{3, 5}, Params{C: tensor.New(fp16.Float32, 3, 2, 5)},
			"matmul: C: shape [3 2 5]: want one that can be broadcast to [2 5]"},
	} {
		if _, err := Shape(c.a, c.b, c.p); err == nil || err.Error() != c.want {
			t.Errorf("%v %v: %v, want %s", c.a, c.b, err, c.want)
		}
	}
}

// TestSameBits: threads, blockings and a prepared operand change no bit.
func TestSameBits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(7, 8))
	const m, n, k = 150, 130, 300
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.TF32, fp16.Float64} {
		a, w, bias := random(r, f, m, k), random(r, f, n, k), random(r, f, n)
		want := tensor.New(f, m, n)
		runtime.GOMAXPROCS(1)
		Forward(want, a, w, Params{TransB: true, C: bias})
		kernel := NewKernel(w, true, bias.Data)
		for _, procs := range []int{1, 2, 7} {
			runtime.GOMAXPROCS(procs)
			for what, forward := range map[string]func(dst *tensor.Tensor){
				"forward":  func(d *tensor.Tensor) { Forward(d, a, w, Params{TransB: true, C: bias}) },
				"prepared": func(d *tensor.Tensor) { kernel.Forward(d, a) },
				"row by row": func(d *tensor.Tensor) {
					for i := range m {
						kernel.Forward(tensor.Of(f, d.Data[i*n:(i+1)*n], 1, n), tensor.Of(f, a.Data[i*k:(i+1)*k], 1, k))
					}
				},
				"column by column": func(d *tensor.Tensor) {
					col := tensor.New(f, m)
					for j := range n {
						Forward(col, a, tensor.Of(f, w.Data[j*k:(j+1)*k], k), Params{C: tensor.Of(f, bias.Data[j:j+1])})
						for i, v := range col.Data {
							d.Data[i*n+j] = v
						}
					}
				},
			} {
				got := tensor.New(f, m, n)
				forward(got)
				if !slices.Equal(got.Data, want.Data) {
					t.Errorf("%v, %d threads, %s: differs", f, procs, what)
				}
			}
		}
	}
}

// TestGreatest: a norm that is NaN is not forgotten, or the greatest before it would be.
func TestGreatest(t *testing.T) {
	nan := math.NaN()
	for _, v := range [][]float64{{nan, 1, 100}, {100, nan, 1}, {1, 100, nan}} {
		if g := greatest(v); g == g {
			t.Errorf("%v: %v, want NaN", v, g)
		}
	}
	if g := greatest([]float64{1, 100, 3}); g != 100 {
		t.Errorf("%v, want 100", g)
	}
}

// TestGolden: all instruction sets give these bits.
func TestGolden(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	a, b := random(r, fp16.Float32, 60, 500), random(r, fp16.Float32, 500, 70)
	got := ""
	for _, f := range append([]fp16.Format{fp16.Float64}, formats...) {
		dst := tensor.New(f, 60, 70)
		Forward(dst, a, b, Params{})
		h := uint64(14695981039346656037)
		for _, v := range dst.Data {
			h = (h ^ math.Float64bits(v)) * 1099511628211
		}
		got += fmt.Sprintf("%v %016x\n", f, h)
	}
	if got != golden {
		t.Errorf("got\n%s", got)
	}
}

const golden = `float64 d7b5de1b32161fbe
float32 3f1f99e9e003a145
tf32 200ccc7fa003a145
float16 200ccc7fa003a145
bfloat16 229b347fa003a145
`

// TestAllocations: a product in a space allocates nothing after the first.
func TestAllocations(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	a, b, dst := random(r, fp16.Float32, 2, 40, 300), random(r, fp16.Float32, 2, 300, 50),
		tensor.New(fp16.Float32, 2, 40, 50)
	w := NewKernel(random(r, fp16.Float32, 60, 300), true, make([]float64, 60))
	out := tensor.New(fp16.Float32, 2, 40, 60)
	s := NewSpace()
	if n := testing.AllocsPerRun(5, func() { s.Forward(dst, a, b, Params{}); s.Apply(out, a, w) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
