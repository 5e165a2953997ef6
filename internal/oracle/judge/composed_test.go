package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// TestComposed: an activation whose elementary operations are stored each, as JAX 0.10 has it on a CPU, passes in half
// types, and fails times 1.02, and if it is another one.
func TestComposed(t *testing.T) {
	t.Parallel()
	relu := func(x float64) float64 { return max(x, 0) }
	for op, of := range map[string]func(f fp16.Format, x float64) float64{
		"sigmoid": func(f fp16.Format, x float64) float64 { return 1 / f.Round(1+f.Round(math.Exp(-x))) },
		"silu":    func(f fp16.Format, x float64) float64 { return x * f.Round(1/f.Round(1+f.Round(math.Exp(-x)))) },
		"gelu":    func(f fp16.Format, x float64) float64 { return x / 2 * f.Round(math.Erfc(x*f.Round(-math.Sqrt2/2))) },
		"softplus": func(f fp16.Format, x float64) float64 {
			return max(x, 0) + f.Round(math.Log1p(f.Round(math.Exp(-math.Abs(x)))))
		},
		"exp2": func(f fp16.Format, x float64) float64 { return math.Exp(f.Round(x * f.Round(math.Ln2))) },
		"acos": func(f fp16.Format, x float64) float64 {
			return math.Atan2(f.Round(math.Sqrt(f.Round(f.Round(1-x)*f.Round(1+x)))), x)
		},
		"asinh": func(f fp16.Format, x float64) float64 {
			size := math.Abs(x)
			square := f.Round(size * size)
			quotient := f.Round(square / f.Round(f.Round(math.Sqrt(f.Round(square+1)))+1))
			return math.Copysign(f.Round(math.Log1p(f.Round(size+quotient))), x)
		},
		"acosh": func(f fp16.Format, x float64) float64 {
			s, t := f.Round(math.Sqrt(f.Round(x-1))), f.Round(math.Sqrt(f.Round(x+1)))
			return math.Log1p(f.Round(s * f.Round(t+s)))
		},
		"mish": func(f fp16.Format, x float64) float64 {
			return x * f.Round(math.Tanh(f.Round(max(x, 0)+f.Round(math.Log1p(f.Round(math.Exp(-math.Abs(x))))))))
		},
		"hardswish": func(f fp16.Format, x float64) float64 {
			return x * f.Round(min(max(f.Round(x+3), 0), 6)*f.Round(1./6))
		},
	} {
		for i, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
			if !share.All() && i != len(op)%2 {
				continue
			}
			r := rand.New(rand.NewPCG(91, 92))
			x := drawn(r, f, 40, 30)
			for i, v := range x.Data {
				switch op {
				case "acos":
					x.Data[i] = f.Round(math.Tanh(v))
				case "acosh":
					x.Data[i] = f.Round(1 + math.Abs(v))
				}
			}
			for _, c := range []struct {
				name string
				make func(x float64) float64
				want string
			}{
				{"right", func(x float64) float64 { return of(f, x) }, Pass},
				{"times 1.02", func(x float64) float64 { return 1.02 * of(f, x) }, Fail},
				{"ReLU", relu, Fail},
			} {
				y := tensor.New(f, 40, 30)
				for i, v := range x.Data {
					y.Data[i] = f.Round(c.make(v))
				}
				if a := ask(t, op, "{}", x, y); a.Verdict != c.want {
					t.Errorf("%s of %s in %v: %s, %s, %v", c.name, op, f, a.Verdict, a.Reason, a.Contract)
				}
			}
		}
	}
}

// TestComposedParameters: an activation in elementary operations is the same function, whatever its parameters.
func TestComposedParameters(t *testing.T) {
	x := tensor.Of(fp16.Float16, []float64{-9, -1, -.25, 0, .5, 1, 3, 15, 30}, 9)
	for _, c := range []struct{ op, attributes string }{
		{"softplus", `{}`}, {"softplus", `{"beta":0.3}`}, {"softplus", `{"threshold":1}`},
		{"softplus", `{"threshold":1e30}`}, {"exp2", `{}`}, {"elu", `{"alpha":2}`},
		{"celu", `{"alpha":0.5}`}, {"selu", `{}`}, {"mish", `{}`}, {"gelu", `{"approximate":"tanh"}`}, {"gelu", `{}`},
		{"hardswish", `{}`}, {"hardsigmoid", `{}`}, {"asinh", `{}`}, {"silu", `{}`}, {"sigmoid", `{}`}, {"expm1", `{}`},
	} {
		q := question(t, c.op, c.attributes, tensor.New(fp16.Float16, 9), x)
		q.Narrow = fp16.Float16
		want, err := q.made(Contract{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.made(Contract{Form: Form{Composed: true}})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if d := math.Abs(v - want[i]); !(d <= 1e-7*max(1, math.Abs(want[i]))) {
				t.Errorf("%s %s of %v in elementary operations: %v, want %v", c.op, c.attributes, x.Data[i], v, want[i])
			}
		}
	}
}

// TestComposedLogSigmoid: -softplus(-x) without a threshold is made of stored operations as well.
func TestComposedLogSigmoid(t *testing.T) {
	t.Parallel()
	f := fp16.BFloat16
	x := drawn(rand.New(rand.NewPCG(95, 96)), f, 40, 30)
	for _, by := range []float64{1, 1.02} {
		y := tensor.New(f, 40, 30)
		for i, v := range x.Data {
			y.Data[i] = f.Round(by * (max(v, 0) + f.Round(math.Log1p(f.Round(math.Exp(-math.Abs(v)))))))
		}
		if a := ask(t, "softplus", `{"threshold":1e30}`, x, y); (a.Verdict == Pass) != (by == 1) {
			t.Errorf("times %v: %s, %s, %v", by, a.Verdict, a.Reason, a.Contract)
		}
	}
}

// TestComposedNorms: squares and their sum may be stored in bfloat16, and not in float16, where squares overflow.
func TestComposedNorms(t *testing.T) {
	t.Parallel()
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		x := drawn(rand.New(rand.NewPCG(97, 98)), f, 64, 48)
		y := tensor.New(f, 64)
		for i := range y.Data {
			sum := 0.
			for _, v := range x.Data[i*48:][:48] {
				sum += f.Round(v * v)
			}
			y.Data[i] = f.Round(math.Sqrt(f.Round(sum)))
		}
		g := graph.New(nil)
		g.Outputs = []int{g.Add(graph.VectorNorm{Order: 2, Axes: graph.Ints{1}}, "norm", g.Input("x"))}
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil || (a.Verdict == Pass) != (f == fp16.BFloat16) {
			t.Errorf("%v: %s, %s, %v, %v", f, a.Verdict, a.Reason, a.Contract, err)
		}
	}
}

// TestHalvedAngles: XLA makes asin of half types of half its angle, which it stores: a subnormal number with an odd
// last place becomes an even one, by way of a number in the middle of two in float32. Errors of a place elsewhere fail.
func TestHalvedAngles(t *testing.T) {
	r := rand.New(rand.NewPCG(93, 94))
	f := fp16.Float16
	place := f.Smallest()
	x, y, wrong := tensor.New(f, 8, 64), tensor.New(f, 8, 64), tensor.New(f, 8, 64)
	for i := range x.Data {
		x.Data[i] = f.Round(1e-6 * r.NormFloat64())
		y.Data[i] = 2 * f.Round(x.Data[i]/2)
		wrong.Data[i] = x.Data[i] + place*float64(r.IntN(2))
	}
	if a := ask(t, "asin", "{}", x, y); a.Verdict != Pass {
		t.Errorf("%s, %s, %v", a.Verdict, a.Reason, a.Contract)
	}
	if a := ask(t, "asin", "{}", x, wrong); a.Verdict != Fail {
		t.Errorf("a place off: %s, %v", a.Verdict, a.Contract)
	}
}

// TestHypot: the length of two numbers by the greater of them, each operation stored, as JAX has it, passes in half
// types, of zeros and infinities too; without the square it fails, and so does the greater alone.
func TestHypot(t *testing.T) {
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		x := drawn(rand.New(rand.NewPCG(31, 32)), f, 300, 2)
		copy(x.Data, []float64{0, 0, 0, 3, math.Inf(1), 1, math.Inf(-1), math.Inf(1)})
		for name, c := range map[string]struct {
			make func(greater, less float64) float64
			want string
		}{
			"right": {func(a, b float64) float64 {
				q := f.Round(b / a)
				return a * f.Round(math.Sqrt(f.Round(1+f.Round(q*q))))
			}, Pass},
			"without a square": {func(a, b float64) float64 { return a * math.Sqrt(1+b/a) }, Fail},
			"the greater":      {func(a, b float64) float64 { return a }, Fail},
		} {
			y := tensor.New(f, 300)
			for i := range y.Data {
				a, b := math.Abs(x.Data[2*i]), math.Abs(x.Data[2*i+1])
				if a, b = max(a, b), min(a, b); a > 0 && a <= math.MaxFloat64 {
					a = f.Round(c.make(a, b))
				}
				y.Data[i] = a
			}
			if r := ask(t, "linalg_vector_norm", `{"dim": [-1]}`, x, y); r.Verdict != c.want {
				t.Errorf("%s in %v: %s, %s, %v", name, f, r.Verdict, r.Reason, r.Contract)
			}
		}
	}
}
