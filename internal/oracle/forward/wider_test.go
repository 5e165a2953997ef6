package forward_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// net is a network of random weights that a test makes.
func net(seed uint64, shape []int, make func(g *graph.Graph, x int, w func(...int) int) int) fixture {
	r := rand.New(rand.NewPCG(seed, 7))
	random := func(shape ...int) *tensor.Tensor {
		t := tensor.New(fp16.Float32, shape...)
		for i := range t.Data {
			t.Data[i] = fp16.Float32.Round(0.4 * r.NormFloat64())
		}
		return t
	}
	f := fixture{graph: graph.New(nil), inputs: []*tensor.Tensor{random(shape...)}}
	x := f.graph.Input("x")
	y := make(f.graph, x, func(shape ...int) int { return f.graph.Constant("w", random(shape...)) })
	f.graph.Outputs = []int{y}
	return f
}

// attending is an attention with a linear layer before and after it, of heads whose scale is no power of 2.
func attending() fixture {
	return net(2, []int{2, 19, 24}, func(g *graph.Graph, x int, w func(...int) int) int {
		q, k := g.Add(graph.Linear{}, "q", x, w(24, 24), w(24)), g.Add(graph.Linear{}, "k", x, w(24, 24), w(24))
		y := g.Add(graph.Attention{}, "attention", q, k, x)
		return g.Add(graph.Linear{}, "out", y, w(20, 24), w(20))
	})
}

// TestOwnAttention: what a claim's own arithmetic gives of an attention is right under that claim; times 1.02 it fails.
func TestOwnAttention(t *testing.T) {
	f := attending()
	for _, claim := range [][2]string{{"tf32", ""}, {"bfloat16", "cpu"}} {
		mode, err := graph.ParseMode(claim[0], claim[1])
		if err != nil {
			t.Fatal(err)
		}
		out, _ := f.run(t, mode, nil)
		if r := check(t, f, claim[0], claim[1], out, nil); !r.Verdict.Passed() {
			t.Errorf("%v: %s: %s", claim, r.Verdict, r.Reason)
		}
		for i, v := range out.Data {
			out.Data[i] = out.Format.Round(1.02 * v)
		}
		if r := check(t, f, claim[0], claim[1], out, nil); !r.Verdict.Failed() {
			t.Errorf("times 1.02, %v: %s: %s", claim, r.Verdict, r.Reason)
		}
	}
}

// TestWiderThanTF32: a device that leaves operands in float32, of all products or of some operations' alone, is as
// accurate as a claim of TF32; one that has them in bfloat16 is not.
func TestWiderThanTF32(t *testing.T) {
	f := attending()
	single, err := graph.ParseMode("float32", "")
	if err != nil {
		t.Fatal(err)
	}
	tf32, err := graph.ParseMode("tf32", "")
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := f.run(t, single, nil)
	some, _ := f.run(t, single, func(i int, n *graph.Node, in []*tensor.Tensor) graph.Op {
		if n.Op.Name() != "linear" {
			return nil
		}
		for k := range in[:2] {
			in[k] = in[k].Clone()
			for j, v := range in[k].Data {
				in[k].Data[j] = fp16.TF32.Round(v)
			}
		}
		return n.Op
	})
	coarse, _ := f.run(t, tf32, func(i int, n *graph.Node, in []*tensor.Tensor) graph.Op {
		in[0] = in[0].Clone()
		for j, v := range in[0].Data {
			in[0].Data[j] = fp16.BFloat16.Round(v)
		}
		return n.Op
	})
	for _, c := range []struct {
		name string
		out  *tensor.Tensor
		want report.Verdict
		says string
	}{
		{"float32", plain, report.PassAccurate, "operands of products kept in float32"},
		{"TF32 of linear layers", some, report.PassAccurate, "operands of attention kept in float32"},
		{"bfloat16", coarse, report.FailPrecision, ""},
	} {
		if r := check(t, f, "tf32", "", c.out, nil); r.Verdict != c.want || !strings.Contains(r.Contract, c.says) {
			t.Errorf("%s: %s, %q: %s", c.name, r.Verdict, r.Contract, r.Reason)
		}
	}
}
