package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// routed computes a router and two experts in float32, as kernels do: each value in its turn is stored in a format, or
// kept. The values are the scores, their softmax, the two products, the gate, its product with the other, the experts'
// results and these times the softmax. Of a wrong one the second expert has no gate.
func routed(in []*tensor.Tensor, f fp16.Format, stored [8]bool, wrong bool) *tensor.Tensor {
	x, router, gate, up, down := in[0], in[1], in[2], in[3], in[4]
	rows, n, m := x.Shape[0], x.Shape[1], gate.Shape[2]
	store := func(k int, v float32) float32 {
		if stored[k] {
			return float32(f.Round(float64(v)))
		}
		return v
	}
	dot := func(n int, a, b func(i int) float64) (s float32) {
		for i := range n {
			s += float32(float32(a(i)) * float32(b(i)))
		}
		return s
	}
	out := tensor.New(f, rows, n)
	for r := range rows {
		row := func(i int) float64 { return x.Data[r*n+i] }
		var p [2]float32
		for e := range p {
			p[e] = store(0, dot(n, row, func(i int) float64 { return router.Data[e*n+i] }))
		}
		most := max(p[0], p[1])
		a, b := float32(math.Exp(float64(p[0]-most))), float32(math.Exp(float64(p[1]-most)))
		p[0], p[1] = store(1, a/(a+b)), store(1, b/(a+b))
		var sum = make([]float32, n)
		for e := range p {
			h := make([]float64, m)
			for j := range h {
				column := func(w *tensor.Tensor) func(i int) float64 {
					return func(i int) float64 { return w.Data[(e*n+i)*m+j] }
				}
				g := store(2, dot(n, row, column(gate)))
				s := store(4, g/(1+float32(math.Exp(-float64(g)))))
				if wrong && e == 1 {
					s = g
				}
				h[j] = float64(store(5, s*store(3, dot(n, row, column(up)))))
			}
			for c := range n {
				y := store(6, dot(m, func(i int) float64 { return h[i] }, func(i int) float64 { return down.Data[(e*m+i)*n+c] }))
				sum[c] += store(7, y*p[e])
			}
		}
		for c, v := range sum {
			out.Data[r*n+c] = f.Round(float64(v))
		}
	}
	return out
}

// experts is the graph of that.
func experts() *graph.Graph {
	g := graph.New(nil)
	x, router, gate, up, down := g.Input("x"), g.Input("router"), g.Input("gate"), g.Input("up"), g.Input("down")
	silu, _ := graph.Bind("silu", nil)
	times := graph.Binary{Of: pointwise.Mul}
	p := g.Add(graph.Softmax{Axis: -1}, "softmax", g.Add(graph.Linear{}, "scores", x, router))
	h := g.Add(times, "hidden", g.Add(silu, "silu", g.Add(graph.MatMul{}, "gated", x, gate)),
		g.Add(graph.MatMul{}, "raised", x, up))
	y := g.Add(graph.MatMul{}, "expert", h, down)
	each := g.Add(graph.Unsqueeze{Axes: graph.Ints{-1}}, "of_each", g.Add(graph.Transpose{A: 0, B: 1}, "turned", p))
	g.Outputs = []int{g.Add(graph.Reduction{Of: "sum", Axes: graph.Ints{0}}, "output", g.Add(times, "routed", y, each))}
	return g
}

// TestStoredValues: whichever values of a chain a kernel stores in half, in any combination, its contract is found; and
// none excuses a fault.
func TestStoredValues(t *testing.T) {
	const rows, n, m = 10, 40, 24
	all, products := [8]bool{true, true, true, true, true, true, true, true},
		[8]bool{true, false, true, true, false, false, true, false}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		r := rand.New(rand.NewPCG(46, uint64(f)))
		for k := range 7 {
			if !share.All() && k > 2 && (k+int(f))%2 > 0 { // in the other half type
				continue
			}
			in := []*tensor.Tensor{drawn(r, f, rows, n), drawn(r, f, 2, n), drawn(r, f, 2, n, m), drawn(r, f, 2, n, m),
				drawn(r, f, 2, m, n)}
			for i, scale := range []float64{1, .16, .16, .16, .2} {
				for j, v := range in[i].Data {
					in[i].Data[j] = f.Round(v * scale)
				}
			}
			stored := [8]bool{}
			switch k {
			case 0:
			case 1:
				stored = all
			case 2:
				stored = products
			default:
				for i := range stored {
					stored[i] = r.IntN(2) == 0
				}
			}
			for _, wrong := range slices.Compact([]bool{false, k < 2}) { // a wrong kernel takes longer
				name := fmt.Sprintf("%v, stored %v, wrong %v", f, stored, wrong)
				a, err := Check(Question{Graph: experts(), Inputs: in, Output: routed(in, f, stored, wrong), Shallow: true})
				if err != nil || (a.Verdict == Pass) == wrong {
					t.Errorf("%s: %+v, %v", name, a, err)
				}
			}
		}
	}
}

// TestSomeElements: a kernel that stores a step of the last columns alone, which no whole vector holds, has a contract,
// inside a chain too; one that leaves the step out there fails.
func TestSomeElements(t *testing.T) {
	const rows, cols, whole = 24, 37, 32
	g := graph.New(nil)
	tanh, _ := graph.Bind("tanh", nil)
	three := 3.0
	s := g.Add(graph.Softmax{Axis: 0}, "softmax", g.Add(tanh, "first", g.Input("x")))
	g.Outputs = []int{g.Add(tanh, "last", g.Add(graph.Binary{Of: pointwise.Mul, Other: &three}, "times", s))}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		for _, wrong := range []bool{false, true} {
			r := rand.New(rand.NewPCG(9, uint64(f)))
			x, out := drawn(r, f, rows, cols), tensor.New(f, rows, cols)
			for c := range cols {
				var e [rows]float32
				most, sum := math.Inf(-1), float32(0)
				for i := range rows {
					most = max(most, f.Round(math.Tanh(x.Data[i*cols+c])))
				}
				for i := range rows {
					e[i] = float32(math.Exp(f.Round(math.Tanh(x.Data[i*cols+c])) - most))
					sum += e[i]
				}
				for i, v := range e {
					if c >= whole {
						v = float32(f.Round(float64(v)))
					}
					if wrong && c >= whole {
						v = e[(i+1)%rows]
					}
					p := f.Round(float64(v / sum))
					out.Data[i*cols+c] = f.Round(math.Tanh(f.Round(p * three)))
				}
			}
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: out, Shallow: true})
			if err != nil || (a.Verdict == Pass) == wrong || !wrong && !slices.Contains(a.Contract.Round, "softmax.exp_stored") {
				t.Errorf("%v, wrong %v: %+v, %v", f, wrong, a, err)
			}
		}
	}
}

// TestStoredMean: the variance of a batch norm of bfloat16 may be about the mean as it is stored, as PyTorch's on a CPU
// is, which shows far from 0; times 1.02 it is wrong, and so is the square of the mean in its place.
func TestStoredMean(t *testing.T) {
	const rows, channels = 24, 40
	f := fp16.BFloat16
	x := drawn(rand.New(rand.NewPCG(21, 22)), f, rows, channels)
	for i, v := range x.Data {
		x.Data[i] = f.Round(v + 30)
	}
	for name, c := range map[string]struct {
		variance func(square, mean float64) float64
		want     string
	}{
		"right":      {func(v, _ float64) float64 { return v }, Pass},
		"times 1.02": {func(v, _ float64) float64 { return 1.02 * v }, Fail},
		"the mean":   {func(_, m float64) float64 { return m * m }, Fail},
	} {
		y := tensor.New(f, rows, channels)
		for k := range channels {
			mean, sum := 0.0, 0.0
			for i := range rows {
				mean += x.Data[i*channels+k] / rows
			}
			mean = f.Round(mean)
			for i := range rows {
				d := x.Data[i*channels+k] - mean
				sum += d * d
			}
			rstd := f.Round(1 / math.Sqrt(c.variance(f.Round(f.Round(sum)/rows), mean)+1e-5))
			for i := range rows {
				y.Data[i*channels+k] = f.Round((x.Data[i*channels+k] - mean) * rstd)
			}
		}
		if a := ask(t, "batch_norm", `{"training": true}`, x, y); a.Verdict != c.want {
			t.Errorf("%s: %s, %s, %v", name, a.Verdict, a.Reason, a.Contract)
		}
	}
}
