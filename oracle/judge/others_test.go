package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/pointwise"
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
	for name, small := range map[string]graph.Op{"a parameter": graph.Binary{Of: pointwise.Add, Other: new(float64)}, "a constant": graph.Addition} {
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
		for size, faulty := range map[float64]string{eps: "a small number is not added", 1: ""} { // of 1, 1e-8 is less than a rounding
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
	for name, attributes := range map[string]string{"softmax": "", "erf": "", "fft_rfft": "", "var": "", "glu": "", "max": `{"dim": 0}`, "prod": "", "hard_sigmoid": "", "linalg_vector_norm": `{"ord": 1}`} {
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

// TestScaledTerm: the interval of a sum's second term, times alpha, is not that of the term itself.
func TestScaledTerm(t *testing.T) {
	alpha := 0.125
	x := ball{v: tensor.Of(fp16.Float64, []float64{1, 2}, 2)}
	y := ball{v: tensor.Of(fp16.Float64, []float64{3, 5}, 2), r: tensor.Of(fp16.Float64, []float64{0.5, 0.25}, 2)}
	for range 2 {
		out, err := step(graph.Binary{Of: pointwise.Add, Alpha: &alpha}, []ball{x, y}, accumulator{u: u, narrow: fp16.Float32})
		if err != nil {
			t.Fatal(err)
		}
		if r := out[0].r.Data; y.r.Data[0] != 0.5 || r[0] < 0.0625 || r[0] > 0.0626 {
			t.Errorf("radii %v of the sum and %v of its term: want 0.0625 and a rounding, and 0.5", r, y.r.Data)
		}
	}
}
