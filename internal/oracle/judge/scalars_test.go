package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// numbers are a scalar as kernels have it, and as none has it.
func numbers(c float64, f fp16.Format) map[string]float64 {
	return map[string]float64{"float64": c, "float32": float64(float32(c)), "half": f.Round(c), "wrong": c * 1.03}
}

// TestAttributes: an attribute is a float32 number in a right kernel, or a float64 one, or of half numbers the inputs'
// format; and one that is off by 3 % is none of them.
func TestAttributes(t *testing.T) {
	for _, k := range []struct {
		op, attributes string // with %v for the scalar
		c              float64
		f              func(x, c float64) float64
	}{
		{"leaky_relu", `{"negative_slope": %v}`, .013, func(x, c float64) float64 { return max(x, 0) + c*min(x, 0) }},
		{"elu", `{"alpha": %v}`, 1.3, func(x, c float64) float64 { return max(x, 0) + c*math.Expm1(min(x, 0)) }},
		{"celu", `{"alpha": %v}`, 1.3, func(x, c float64) float64 { return max(x, 0) + c*math.Expm1(min(x, 0)/c) }},
		{"softplus", `{"beta": %v}`, 1.7, func(x, c float64) float64 { return math.Log1p(math.Exp(c*x)) / c }},
		{"hardtanh", `{"min_val": -1, "max_val": %v}`, .7, func(x, c float64) float64 { return min(max(x, -1), c) }},
		{"clamp", `{"min": %v}`, -.3, func(x, c float64) float64 { return max(x, c) }},
		{"pad", `{"before": [1], "after": [2], "value": %v}`, .3, nil},
		{"layer_norm", `{"normalized_shape": [25], "eps": %v}`, .013, nil},
	} {
		for _, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			r := rand.New(rand.NewPCG(21, uint64(f)))
			x := drawn(r, f, 16, 25)
			if k.op == "layer_norm" { // of which eps is a part
				for i, v := range x.Data {
					x.Data[i] = f.Round(v * .1)
				}
			}
			for name, c := range numbers(k.c, f) {
				var out *tensor.Tensor
				switch k.op {
				case "pad":
					out = padded(x, c)
				case "layer_norm":
					out = layerNormed(x, c)
				default:
					out = tensor.New(f, x.Shape...)
					for i, v := range x.Data {
						out.Data[i] = f.Round(float64(float32(k.f(v, c))))
					}
				}
				if k.op == "pad" && name == "half" && f == fp16.Float32 {
					continue // where it is another number
				}
				want := map[bool]string{true: Pass, false: Fail}[name != "wrong"]
				a, err := Check(question(t, k.op, fmt.Sprintf(k.attributes, k.c), out, x))
				if err != nil || a.Verdict != want {
					t.Errorf("%s of %v numbers, a scalar of %s: %+v, %v: want %s", k.op, f, name, a, err, want)
				}
			}
		}
	}
}

func padded(x *tensor.Tensor, c float64) *tensor.Tensor {
	out := tensor.New(x.Format, x.Shape[0], x.Shape[1]+3)
	for i := range out.Data {
		out.Data[i] = x.Format.Round(c)
		if j := i%(x.Shape[1]+3) - 1; j >= 0 && j < x.Shape[1] {
			out.Data[i] = x.Data[i/(x.Shape[1]+3)*x.Shape[1]+j]
		}
	}
	return out
}

func layerNormed(x *tensor.Tensor, eps float64) *tensor.Tensor {
	out, n := tensor.New(x.Format, x.Shape...), x.Shape[1]
	for row := range x.Shape[0] {
		line := x.Data[row*n : (row+1)*n]
		mean, variance := 0.0, 0.0
		for _, v := range line {
			mean += v / float64(n)
		}
		for _, v := range line {
			variance += (v - mean) * (v - mean) / float64(n)
		}
		for i, v := range line {
			out.Data[row*n+i] = x.Format.Round(float64(float32((v - mean) / math.Sqrt(variance+eps))))
		}
	}
	return out
}

// TestNumberedInputs: an input of one number in float64, as a Python number is, is a kernel's in any of these formats.
func TestNumberedInputs(t *testing.T) {
	for op, of := range map[string]func(x, c float64) float64{
		"mul": func(x, c float64) float64 { return x * c }, "add": func(x, c float64) float64 { return x + c },
		"pow": func(x, c float64) float64 { return math.Pow(x, c) },
		"sub": func(x, c float64) float64 { return x - c }, "div": func(x, c float64) float64 { return x / c },
		"maximum": math.Max,
	} {
		for _, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			x := drawn(rand.New(rand.NewPCG(23, uint64(f))), f, 16, 25)
			for i, v := range x.Data {
				x.Data[i] = math.Abs(v)
			}
			for _, constant := range []bool{false, true} {
				for name, c := range numbers(.3, f) {
					out := tensor.New(f, x.Shape...)
					for i, v := range x.Data {
						out.Data[i] = f.Round(float64(float32(of(v, c))))
					}
					q := question(t, op, "", out, x, tensor.Of(fp16.Float64, []float64{.3}))
					if constant {
						g := graph.New(nil)
						g.Outputs = []int{g.Add(q.Graph.Nodes[0].Op, "output", g.Input("x"), g.Constant("c", q.Inputs[1]))}
						q.Graph, q.Inputs = g, q.Inputs[:1]
					}
					a, err := Check(q)
					if err != nil || (a.Verdict == Pass) != (name != "wrong") {
						t.Errorf("%s of %v and a number of %s, constant %v: %+v, %v", op, f, name, constant, a, err)
					}
				}
			}
		}
	}
}

// TestScalarsOfAll: the scalars of every operation that has some are rounded by one rule, of those inside another
// too, and nothing else of it changes.
func TestScalarsOfAll(t *testing.T) {
	scale := .3
	for _, op := range []graph.Op{
		graph.RMSNorm{Eps: &scale}, graph.GroupNorm{Groups: 2, Eps: .3}, graph.Attention{Scale: &scale},
		someQueries{Attention: graph.Attention{Scale: &scale}, from: 3},
		graph.Binary{Other: &scale}, graph.Binary{Alpha: &scale}, graph.Pad{Value: .3}, graph.Gemm{Alpha: .3, Beta: 1},
		graph.AddMM{Alpha: .3, Beta: 1},
	} {
		to, changed := scalarsIn(op, fp16.BFloat16)
		if _, again := scalarsIn(to, fp16.BFloat16); !changed || again || scale != .3 {
			t.Errorf("%T: %+v, changed %v, again %v", op, to, changed, again)
		}
	}
	for _, op := range []graph.Op{graph.Interpolate{Scale: graph.Floats{1.3}, Outside: .3}, graph.Attention{}} {
		if _, changed := scalarsIn(op, fp16.BFloat16); changed {
			t.Errorf("%T: changed", op)
		}
	}
	if q := (someQueries{
		Attention: graph.Attention{Scale: &scale}, from: 3,
	}); !slices.Equal([]int{withScalars(q, fp16.BFloat16).(someQueries).from}, []int{3}) {
		t.Error("what is no scalar is lost")
	}
}
