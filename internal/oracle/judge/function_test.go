package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// TestCancelledActivations: a softplus as x + log(1 + e^-x) and a mish as x (1 - 2/((1 + e^x)^2 + 1)) in float32, as
// OpenVINO has them, lose what is small below 0, and pass, with the number next to ln 2 at 0. Ten times their errors
// fail, and so does ln 2 sixteen places off.
func TestCancelledActivations(t *testing.T) {
	single := func(v float64) float64 { return float64(float32(v)) }
	for op, of := range map[string]func(x float64) float64{
		"softplus": func(x float64) float64 { return single(x + single(math.Log(single(1+single(math.Exp(-x)))))) },
		"mish": func(x float64) float64 {
			e := single(1 + single(math.Exp(x)))
			return single(x * single(1-single(2/single(single(e*e)+1))))
		},
	} {
		x := tensor.New(fp16.Float32, 40, 60)
		r := rand.New(rand.NewPCG(5, 7))
		for i := range x.Data {
			x.Data[i] = single(4 * r.NormFloat64())
			if i%9 == 0 {
				x.Data[i] = 0
			}
		}
		y, wrong := tensor.New(fp16.Float32, 40, 60), tensor.New(fp16.Float32, 40, 60)
		for i, v := range x.Data {
			if y.Data[i] = of(v); v == 0 && op == "softplus" {
				y.Data[i] += fp16.Float32.Ulp(y.Data[i])
			}
			exact := elem.Log1p(elem.Exp(v))
			if op == "mish" {
				exact = v * elem.Tanh(exact)
			}
			wrong.Data[i] = single(exact + 10*(y.Data[i]-exact))
		}
		if a := ask(t, op, "{}", x, y); a.Verdict != Pass {
			t.Errorf("%s: %s, %s, %v", op, a.Verdict, a.Reason, a.Contract)
		}
		if a := ask(t, op, "{}", x, wrong); a.Verdict != Fail {
			t.Errorf("%s, errors times 10: %s, %v", op, a.Verdict, a.Contract)
		}
		if op == "softplus" {
			y.Data[9] += 16 * fp16.Float32.Ulp(y.Data[9])
			if a := ask(t, op, "{}", x, y); a.Verdict != Fail {
				t.Errorf("ln 2 sixteen places off: %s, %v", a.Verdict, a.Contract)
			}
		}
	}
}

// TestMinusOne: e^x - 1 by a subtraction, as of kernels without expm1, passes after ELU, CELU and SELU of numbers of
// every size, next to which 1 is all there is of e^x, alone and before what follows; half of the negative ones twice
// as large fail where float32 tells.
func TestMinusOne(t *testing.T) {
	for _, op := range []string{"elu", "celu", "selu"} {
		for k, exponent := range []int{-130, -126, -60, -40, -25, -12, -3, 0} {
			r, scale := rand.New(rand.NewPCG(uint64(k), 3)), map[bool]float64{true: 1.0507009873554805, false: 1}[op == "selu"]
			alpha := map[bool]float64{true: 1.6732632423543772, false: 1}[op == "selu"]
			x := tensor.New(fp16.Float32, 19, 60)
			y, wrong := tensor.New(fp16.Float32, 19, 60), tensor.New(fp16.Float32, 19, 60)
			for i := range x.Data {
				x.Data[i] = float64(float32(math.Ldexp(r.NormFloat64(), exponent)))
				v := float32(scale) * float32(x.Data[i])
				if x.Data[i] < 0 {
					v = float32(scale*alpha) * (float32(elem.Exp(x.Data[i])) - 1)
				}
				y.Data[i], wrong.Data[i] = float64(v), float64(v)
				if x.Data[i] < 0 && i%2 == 0 {
					wrong.Data[i] *= 2
				}
			}
			g := graph.New(nil)
			g.Outputs = []int{g.Add(unary("abs"), "size", g.Add(unary(op), "function", g.Input("input")))}
			size := tensor.New(fp16.Float32, 19, 60)
			for i, v := range y.Data {
				size.Data[i] = math.Abs(v)
			}
			what := fmt.Sprintf("%s of 2^%d", op, exponent)
			if a := ask(t, op, "", x, y); a.Verdict == Fail {
				t.Errorf("%s: %+v", what, a)
			}
			if a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: size}); err != nil || a.Verdict == Fail {
				t.Errorf("%s, and its size: %+v, %v", what, a, err)
			}
			if a := ask(t, op, "", x, wrong); (a.Verdict == Fail) != (exponent > -25) {
				t.Errorf("%s, twice as large: %+v", what, a)
			}
		}
	}
}

// TestInfiniteShares: what an activation that is its input times a share of it has of -inf may be 0, or NaN where
// the share is 0, as PyTorch and JAX have it; -inf is wrong, and so is NaN elsewhere.
func TestInfiniteShares(t *testing.T) {
	for op, of := range map[string]func(x float64) float64{
		"silu":      func(x float64) float64 { return x / (1 + math.Exp(-x)) },
		"gelu":      func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) },
		"hardswish": func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 },
		"mish":      func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) },
		"gelu_tanh": func(x float64) float64 {
			return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		},
	} {
		x, y := tensor.New(fp16.Float32, 40, 7), tensor.New(fp16.Float32, 40, 7)
		r := rand.New(rand.NewPCG(17, 18))
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(2 * r.NormFloat64())
			y.Data[i] = fp16.Float32.Round(of(x.Data[i]))
		}
		x.Data[5], x.Data[6] = math.Inf(-1), math.Inf(1)
		y.Data[6] = math.Inf(1)
		for got, want := range map[[2]float64]string{{0, y.Data[7]}: Pass, {math.NaN(), y.Data[7]}: Pass,
			{math.Inf(-1), y.Data[7]}: Fail, {math.NaN(), math.NaN()}: Fail} {
			y.Data[5], y.Data[7] = got[0], got[1]
			name, attributes := op, "{}"
			if op == "gelu_tanh" {
				name, attributes = "gelu", `{"approximate": "tanh"}`
			}
			if a := ask(t, name, attributes, x, y); a.Verdict != want {
				t.Errorf("%s of -inf is %v: %s, %s, want %s", op, got, a.Verdict, a.Reason, want)
			}
		}
	}
}

// TestComplementOfErf: far below 0, where it is 2, erfc has no more errors than a number of its size. One that is
// off by a thousandth there is wrong.
func TestComplementOfErf(t *testing.T) {
	g, _, err := Kernel("erfc", nil, []string{"input"})
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.New(fp16.Float32, 50, 40)
	for i := range x.Data {
		x.Data[i] = -float64(float32(math.Exp(float64(i) / 100))) // to -5e8
	}
	for by, want := range map[float64]string{1: Pass, 1.001: Fail} {
		q := Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: tensor.New(fp16.Float32, 50, 40)}
		for i, v := range x.Data {
			q.Output.Data[i] = float64(float32(math.Erfc(v)))
		}
		q.Output.Data[1990] = float64(float32(2 * by))
		if r, err := Check(q); err != nil || r.Verdict != want {
			t.Errorf("times %v: %+v, %v: want %s", by, r, err, want)
		}
	}
}
