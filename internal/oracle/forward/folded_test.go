package forward_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/forward"
	"github.com/refrun/refrun/tensor"
)

// TestFolded: what a network in float16 has of constants alone may be made and stored in float16 before it runs, as by
// ONNX Runtime and OpenVINO: a batch norm in the weights of the convolution before it, or as a product and a sum; the
// numbers of a product in its weights; 1/3 of a mean of three. Folded in bfloat16 they fail, and so does one more.
func TestFolded(t *testing.T) {
	const n, size = 5, 300
	r := rand.New(rand.NewPCG(51, 52))
	draw := func(least float64, shape ...int) *tensor.Tensor {
		x := tensor.New(fp16.Float16, shape...)
		for i := range x.Data {
			if x.Data[i] = fp16.Float16.Round(r.NormFloat64()); least > 0 {
				x.Data[i] = fp16.Float16.Round(least + r.Float64())
			}
		}
		return x
	}
	x, w, bias := draw(0, size, n, 1, 1), draw(0, n, n, 1, 1), draw(0, n)
	other := draw(0, size, n)
	gamma, beta, mean, variance := draw(.5, n), draw(0, n), draw(0, n), draw(.5, n)
	conv, err := graph.Bind("conv2d", nil)
	if err != nil {
		t.Fatal(err)
	}
	norm := func(g *graph.Graph, v int) int {
		return g.Add(graph.BatchNorm{Eps: 1e-5}, "norm", v, g.Constant("gamma", gamma), g.Constant("beta", beta),
			g.Constant("mean", mean), g.Constant("variance", variance))
	}
	flat := func(x *tensor.Tensor) *tensor.Tensor { return tensor.Of(x.Format, x.Data, len(x.Data)/n, n) }
	for name, c := range map[string]struct {
		input *tensor.Tensor
		graph func(g *graph.Graph, x int) int
		of    func(to func(float64) float64, row []float64, k int) float64 // nil for the mean, which reads other
	}{
		"convolution": {x, func(g *graph.Graph, x int) int {
			return norm(g, g.Add(conv, "conv", x, g.Constant("w", w), g.Constant("b", bias)))
		}, func(to func(float64) float64, row []float64, k int) float64 {
			a := to(gamma.Data[k] / to(math.Sqrt(to(variance.Data[k]+1e-5))))
			y := to(to(to(bias.Data[k]-mean.Data[k])*a) + beta.Data[k])
			for j, v := range row {
				y += v * to(w.Data[k*n+j]*a)
			}
			return y
		}},
		"norm": {x, norm, func(to func(float64) float64, row []float64, k int) float64 {
			a := to(gamma.Data[k] / to(math.Sqrt(to(variance.Data[k]+1e-5))))
			return row[k]*a + to(beta.Data[k]-to(mean.Data[k]*a))
		}},
		"product": {flat(x), func(g *graph.Graph, x int) int {
			of := graph.Gemm{Alpha: .7, Beta: .3, TransB: true}
			return g.Add(of, "gemm", x, g.Constant("w", flat(w)), g.Constant("b", bias))
		}, func(to func(float64) float64, row []float64, k int) float64 {
			y := to(bias.Data[k] * to(.3))
			for j, v := range row {
				y += v * to(w.Data[k*n+j]*to(.7))
			}
			return y
		}},
		"mean": {flat(x), func(g *graph.Graph, x int) int {
			of := graph.Reduction{Of: "mean", Axes: graph.Ints{0}}
			return g.Add(of, "mean", g.Add(graph.Stack{}, "all", x, x, g.Constant("other", other)))
		}, nil},
	} {
		g := graph.New(nil)
		g.Outputs = []int{c.graph(g, g.Input("x"))}
		for _, want := range []struct {
			format fp16.Format
			more   float64
			passes bool
		}{{fp16.Float16, 1, true}, {fp16.Float16, 1.02, false}, {fp16.BFloat16, 1, false}} {
			y := tensor.New(fp16.Float16, c.input.Shape...)
			for i := range y.Data {
				if to := want.format.Round; c.of != nil {
					y.Data[i] = fp16.Float16.Round(c.of(to, x.Data[i/n*n:][:n], i%n))
				} else {
					y.Data[i] = fp16.Float16.Round((2*x.Data[i] + other.Data[i]) * to(1./3))
				}
			}
			y.Data[7] = fp16.Float16.Round(want.more * y.Data[7])
			a, err := forward.Check(context.Background(), forward.Question{Graph: g, Inputs: []*tensor.Tensor{c.input},
				Outputs: []*tensor.Tensor{y},
				Claim:   forward.Claim{Mode: graph.Mode{Precision: fp16.Float32}, Pure: true, Half: fp16.Float16}})
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict.Passed() != want.passes || !want.passes && !a.Verdict.Failed() {
				t.Errorf("%s, folded in %v, one number times %v: %s, %s", name, want.format, want.more, a.Verdict, a.Reason)
			}
		}
	}
}
