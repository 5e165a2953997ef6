package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestTransform: a plain sum in float32, with roots of unity that are rounded, is within the bound of a
// Fourier transform, and a part of the line that is left out is not.
func TestTransform(t *testing.T) {
	const n = 48
	op, err := graph.Bind("fft_fft", []byte(`{"dim": 0, "norm": "ortho"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	x := tensor.New(fp16.Float32, n, 2)
	for i := range x.Data {
		x.Data[i] = float64(float32(r.NormFloat64()))
	}
	plain := func(terms int) *tensor.Tensor {
		y := tensor.New(fp16.Float32, n, 2)
		for k := range n {
			var re, im float32
			for j := range terms {
				s, c := math.Sincos(-2 * math.Pi * float64(j*k%n) / n)
				a, b := float32(x.Data[2*j]), float32(x.Data[2*j+1])
				re += float32(a*float32(c)) - float32(b*float32(s))
				im += float32(a*float32(s)) + float32(b*float32(c))
			}
			scale := float32(1 / math.Sqrt(n))
			y.Data[2*k], y.Data[2*k+1] = float64(re*scale), float64(im*scale)
		}
		return y
	}
	g := graph.New(nil)
	g.Outputs = []int{g.Add(op, "y", g.Input("x"))}
	for terms, want := range map[int]string{n: Pass, n - 1: Fail} {
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: plain(terms)})
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != want {
			t.Errorf("%d of %d terms: %s: %s", terms, n, a.Verdict, a.Reason)
		}
	}
}

// TestSmallTermMissing: a root of x + 1e-8 without that is named where x is as small, and unseen where it is not.
func TestSmallTermMissing(t *testing.T) {
	const eps = 1e-8
	for name, small := range map[string]graph.Op{
		"a parameter": graph.Binary{Of: pointwise.Add, Other: new(float64)}, "a constant": graph.Addition,
	} {
		g := graph.New(nil)
		in := []int{g.Input("x")}
		if op := small.(graph.Binary); op.Other != nil {
			*op.Other = eps
		} else {
			in = append(in, g.Constant("eps", tensor.Of(fp16.Float32, []float64{fp16.Float32.Round(eps)}, 1)))
		}
		root, err := graph.Bind("sqrt", nil)
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = []int{g.Add(root, "root", g.Add(small, "sum", in...))}
		// of 1, 1e-8 is less than a rounding
		for size, faulty := range map[float64]string{eps: "a small number is not added", 1: ""} {
			x := tensor.New(fp16.Float32, 64)
			for i := range x.Data {
				x.Data[i] = fp16.Float32.Round(size * float64(i+1) / 16)
			}
			for with, want := range map[float64]string{eps: "", 0: faulty} {
				y := tensor.New(fp16.Float32, 64)
				for i, v := range x.Data {
					y.Data[i] = float64(float32(math.Sqrt(float64(float32(v + with)))))
				}
				r, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
				if err != nil {
					t.Fatal(err)
				}
				if r.Fault != want || (r.Verdict == Fail) != (want != "") {
					t.Errorf("%s, x of %g, %g added: %s, fault %q, want %q", name, size, with, r.Verdict, r.Fault, want)
				}
			}
		}
	}
}

// TestKnows: whatever Knows knows has a bound, and what it does not know is refused.
func TestKnows(t *testing.T) {
	for name, attributes := range map[string]string{"softmax": "", "erf": "", "fft_rfft": "",
		"var": "", "glu": "", "max": `{"dim": 0}`, "prod": "", "hard_sigmoid": "", "linalg_vector_norm": `{"ord": 1}`,
		"swish": `{"alpha": 1.7}`, "sum_squares": "", "log_sum": "", "inverse_std": "", "lp_normalize": ""} {
		op, err := graph.Bind(name, []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.New(fp16.Float32, 4, 6)
		for i := range x.Data {
			x.Data[i] = float64(i%7) / 4
		}
		p, err := op.Infer(graph.Mode{Precision: fp16.Float32}, []graph.Type{{Shape: x.Shape, Format: x.Format}})
		if err != nil {
			t.Fatal(err)
		}
		g := graph.New(nil)
		out := g.AddNode(op, "y", len(p.Out), g.Input("x"))
		g.Outputs = out[:1]
		_, err = Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: tensor.New(fp16.Float32, p.Out[0].Shape...)})
		if known := err == nil; known != Knows(op) {
			t.Errorf("%s: judged %v (%v), known %v", name, known, err, Knows(op))
		}
	}
}

// TestScalars: a number that is written in a graph is float32's in a right kernel, or float64's, or of half
// numbers the inputs' format, if all of them are; and a number that is off by a millionth is none of them.
func TestScalars(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	power := func(x, c float64) float64 { return math.Pow(math.Abs(x), c) }
	for _, k := range []struct {
		op, attributes string
		alone          bool // whether other numbers than float32's and half ones are wrong
		f              func(x, c float64) float64
	}{
		{"mul", `{"other": 0.3}`, false, func(x, c float64) float64 { return x * c }},
		{"add", `{"other": 0.3}`, false, func(x, c float64) float64 { return x + c }},
		{"sub", `{"self": 0.3}`, false, func(x, c float64) float64 { return c - x }},
		{"div", `{"other": 0.3}`, false, func(x, c float64) float64 { return x / c }},
		{"pow", `{"other": 0.3}`, false, power},
		{"fmod", `{"other": 0.3}`, true, math.Mod},
	} {
		for _, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			x := drawn(r, f, 16, 25)
			if k.op == "pow" {
				for i, v := range x.Data {
					x.Data[i] = math.Abs(v)
				}
			}
			for name, c := range map[string]float64{
				"float64": 0.3, "float32": float64(float32(0.3)), "half": f.Round(0.3), "wrong": 0.3 * 1.02,
			} {
				if k.alone && name == "float64" {
					continue
				}
				out := tensor.New(f, x.Shape...)
				for i, v := range x.Data {
					out.Data[i] = f.Round(float64(float32(k.f(v, c))))
				}
				want := map[bool]string{true: Pass, false: Fail}[name != "wrong"]
				a, err := Check(question(t, k.op, k.attributes, out, x))
				if err != nil || a.Verdict != want || name == "half" && f != fp16.Float32 && a.Contract.Scalars == "" {
					t.Errorf("%s of %v numbers, a scalar of %s: %+v, %v: want %s", k.op, f, name, a, err, want)
				}
			}
		}
	}
}

// TestComparedScalar: a number is compared with one of its own format.
func TestComparedScalar(t *testing.T) {
	x := tensor.New(fp16.BFloat16, 4, 8)
	out := tensor.New(fp16.BFloat16, 4, 8)
	for i := range x.Data {
		if x.Data[i] = fp16.BFloat16.Round(0.1); i%3 == 0 {
			x.Data[i] = 1
			out.Data[i] = 1
		}
	}
	g := graph.New(nil)
	v, c := g.Input("input"), 0.1
	g.Outputs = []int{g.Add(graph.Where{}, "where", g.Add(graph.Binary{Of: pointwise.Greater, Other: &c}, "greater", v),
		v, g.Constant("zero", tensor.New(fp16.Float32, 1)))}
	q := Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: out}
	if a, err := Check(q); err != nil || a.Verdict != Pass {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestScaledTerm: a sum's second term times alpha is a step of its own, and the term's interval stays.
func TestScaledTerm(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 11))
	for _, rounds := range []bool{false, true} {
		x, y := drawn(r, fp16.BFloat16, 20, 30), drawn(r, fp16.BFloat16, 20, 30)
		out, alpha := tensor.New(fp16.BFloat16, 20, 30), 0.3
		for i, v := range y.Data {
			p := float64(float32(v * float64(float32(alpha))))
			if rounds {
				p = fp16.BFloat16.Round(p)
			}
			out.Data[i] = fp16.BFloat16.Round(x.Data[i] + p)
		}
		a, err := Check(question(t, "add", `{"alpha": 0.3}`, out, x, y))
		if err != nil || a.Verdict != Pass || rounds != slices.Equal(a.Contract.Round, []string{"scaled"}) {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// TestClampedScalar: the ends of a clamp are float32 numbers in kernels, also where something follows.
func TestClampedScalar(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 13))
	x, y, out := drawn(r, fp16.Float32, 40, 50), drawn(r, fp16.Float32, 40, 50), tensor.New(fp16.Float32, 40, 50)
	f, err := pointwise.Parse("clip", map[string]float64{"min": -0.3, "max": 0.7})
	if err != nil {
		t.Fatal(err)
	}
	g := graph.New(nil)
	in, other := g.Input("x"), g.Input("y")
	g.Outputs = []int{g.Add(plus, "sum", g.Add(graph.Unary{Func: f}, "clamp", in), other)}
	for _, end := range []float32{0.7, 0.70001} {
		for i, v := range x.Data {
			out.Data[i] = float64(max(-0.3, min(float32(v), end)) + float32(y.Data[i]))
		}
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, y}, Output: out})
		if err != nil || (a.Verdict == Pass) != (end == 0.7) {
			t.Errorf("%v: %+v, %v", end, a, err)
		}
	}
}

// TestCutOff: a sum that is cast to whole numbers is cut off, and beside a whole number both sides are right.
func TestCutOff(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	x := tensor.New(fp16.Float32, 64, 3)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(4 * r.NormFloat64())
	}
	copy(x.Data, []float64{fp16.Float32.Round(.7), fp16.Float32.Round(.2), fp16.Float32.Round(.1)}) // 1 - 2^-27
	g := graph.New(nil)
	sum := g.Add(graph.Reduction{Of: "sum", Axes: graph.Ints{1}}, "sum", g.Input("x"))
	g.Outputs = []int{g.Add(graph.Cast{Dtype: "int64"}, "whole", sum)}
	of := func(whole func(float64) float64) *tensor.Tensor {
		y := tensor.New(fp16.Int64, 64)
		for i := range y.Data {
			row := x.Data[3*i:]
			y.Data[i] = whole(row[0] + row[1] + row[2])
		}
		return y
	}
	other := of(math.Trunc)
	other.Data[0]++
	wrong := of(math.Trunc)
	wrong.Data[9]++
	for name, c := range map[string]struct {
		y    *tensor.Tensor
		want string
	}{
		"cut off": {of(math.Trunc), Pass}, "the other side": {other, Pass},
		"rounded": {of(math.RoundToEven), Fail}, "down": {of(math.Floor), Fail}, "one more": {wrong, Fail},
	} {
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: c.y})
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != c.want {
			t.Errorf("%s: %s: %s", name, a.Verdict, a.Reason)
		}
	}
}

// TestWholeArithmetic: sums and products of whole numbers are exact beyond what float32 has, and so is what a jump
// makes of them.
func TestWholeArithmetic(t *testing.T) {
	x, y := tensor.New(fp16.Int64, 64), tensor.New(fp16.Int64, 64)
	for i := range x.Data {
		n := 1<<30 + 1234567*i
		x.Data[i], y.Data[i] = float64(n), float64((3*n+1)%4096)
	}
	three, one, by := 3.0, 1.0, 4096.0
	g := graph.New(nil)
	v := g.Add(graph.Binary{Of: pointwise.Mul, Other: &three}, "times", g.Input("x"))
	v = g.Add(graph.Binary{Of: pointwise.Add, Other: &one}, "more", v)
	g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Remainder, Other: &by}, "rest", v)}
	for _, want := range []string{Pass, Fail} {
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != want {
			t.Errorf("%s: want %s: %s", a.Verdict, want, a.Reason)
		}
		y.Data[5]++
	}
}

// TestExactQuotients: a kernel that multiplies by the reciprocal of 7, as PyTorch's GPU kernels divide by a number, may
// miss quotients that float32 has. By 8 it may not, whose reciprocal is exact, and by 7 not by six places.
func TestExactQuotients(t *testing.T) {
	for _, c := range []struct {
		by     float64
		places int // that one quotient is off by beside
		want   string
	}{{7, 0, Pass}, {7, 6, Fail}, {8, 0, Pass}, {8, 1, Fail}} {
		x, y := tensor.New(fp16.Float32, 4096), tensor.New(fp16.Float32, 4096)
		over := float32(1 / c.by)
		for i := range x.Data {
			x.Data[i] = c.by * float64(i+1)
			y.Data[i] = float64(float32(x.Data[i]) * over)
		}
		y.Data[99] = 100
		for range c.places {
			y.Data[99] = float64(math.Nextafter32(float32(y.Data[99]), 200))
		}
		g := graph.New(nil)
		g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Div, Other: &c.by}, "quotient", g.Input("x"))}
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != c.want {
			t.Errorf("by %g, one off by %d: %s: want %s: %s", c.by, c.places, a.Verdict, c.want, a.Reason)
		}
	}
}

// TestExactRoots: a kernel that multiplies squares by their reciprocal roots may miss the roots, and not by six places.
func TestExactRoots(t *testing.T) {
	root, err := pointwise.Parse("sqrt", nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y, missed := tensor.New(fp16.Float32, 4096), tensor.New(fp16.Float32, 4096), 0
	for i := range x.Data {
		k := float64(i + 1)
		x.Data[i] = k * k
		if y.Data[i] = float64(float32(x.Data[i]) * float32(1/k)); y.Data[i] != k {
			missed++
		}
	}
	g := graph.New(nil)
	g.Outputs = []int{g.Add(graph.Unary{Func: root}, "root", g.Input("x"))}
	for _, want := range []string{Pass, Fail} {
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != want || missed == 0 {
			t.Errorf("%d roots missed: %s: want %s: %s", missed, a.Verdict, want, a.Reason)
		}
		y.Data[99] = 100 * (1 + 6*0x1p-23)
	}
}

// TestVectorNorms: the sum of sizes and the greatest and least size are judged; a norm of another order fails.
func TestVectorNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 3))
	x := tensor.New(fp16.Float32, 40, 50)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(r.NormFloat64())
	}
	orders := []graph.Order{1, 2, graph.Order(math.Inf(1)), graph.Order(math.Inf(-1))}
	for _, order := range orders {
		for _, of := range orders {
			y, err := one(graph.VectorNorm{Order: of, Axes: graph.Ints{1}}, x)
			if err != nil {
				t.Fatal(err)
			}
			y.Format = fp16.Float32
			for i, v := range y.Data {
				y.Data[i] = fp16.Float32.Round(v)
			}
			want := Fail
			if of == order {
				want = Pass
			}
			g := graph.New(nil)
			g.Outputs = []int{g.Add(graph.VectorNorm{Order: order, Axes: graph.Ints{1}}, "norm", g.Input("x"))}
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict != want {
				t.Errorf("order %v for %v: %s: %s", of, order, a.Verdict, a.Reason)
			}
		}
	}
}

// TestErf: 7.1.26 of Abramowitz and Stegun in float32 passes, as PyTorch compiles erf on a CPU, which is up to 9.5
// units off about 0; with a coefficient of four digits it fails.
func TestErf(t *testing.T) {
	single := func(v float64) float64 { return float64(float32(v)) }
	fma := func(a, b, c float64) float64 { return single(math.FMA(a, b, c)) }
	r := rand.New(rand.NewPCG(7, 126))
	x := tensor.New(fp16.Float32, 200_000)
	for i := range x.Data {
		x.Data[i] = single(.04 + .02*r.Float64())
		if i%8 == 0 {
			x.Data[i] = single(r.NormFloat64())
		}
	}
	for _, first := range []float64{.254829592, .2548} {
		y := tensor.New(fp16.Float32, len(x.Data))
		for i, v := range x.Data {
			size := math.Abs(v)
			s := single(1 / fma(single(.3275911), size, 1))
			p := fma(single(1.061405429), s, single(-1.453152027))
			for _, a := range []float64{1.421413741, -.284496736, first} {
				p = fma(p, s, single(a))
			}
			y.Data[i] = math.Copysign(fma(single(single(math.Exp(-single(size*size)))*-s), p, 1), v)
		}
		want := Pass
		if first == .2548 {
			want = Fail
		}
		g := graph.New(nil)
		g.Outputs = []int{g.Add(unary("erf"), "output", g.Input("x"))}
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != want {
			t.Errorf("%v: %s: %s, want %s", first, a.Verdict, a.Reason, want)
		}
	}
}
