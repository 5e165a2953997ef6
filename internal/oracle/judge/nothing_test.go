package judge

import (
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/randgraph"
	"github.com/refrun/refrun/tensor"
)

var nothings = flag.Int("judge.nothing", 0, "cases of each operation whose output is nothing, "+
	"each in every precision; 0 is one, whose outputs are each of one precision")

// TestNothing: kernels that compute nothing, zeros, ones, the input, its first number everywhere, never pass: of every
// operation that is judged, in every precision, of which one alone has each kind as a rule. What is right may be the
// input, of an identity; and zeros and constants may be right, but then they show nothing.
func TestNothing(t *testing.T) {
	judged := 0
	for k, name := range randgraph.Names() {
		known := false
		for seed := range uint64(max(1, *nothings)) {
			c := randgraph.Of(name, seed)
			if len(c.Graph.Outputs) == 0 {
				continue
			}
			for p, precision := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
				f := precision
				var claim *Contract
				if f == fp16.TF32 {
					f, claim = fp16.Float32, &Contract{Form: Form{Operands: "tf32"}}
				}
				r := rand.New(rand.NewPCG(seed, 3))
				q := Question{Graph: c.Graph, Claimed: claim, Narrow: f, Shallow: true, Brief: *nothings == 0}
				for _, of := range c.Types {
					x := tensor.New(f, of.Shape...)
					for i := range x.Data {
						x.Data[i] = f.Round(r.NormFloat64())
					}
					q.Inputs = append(q.Inputs, x)
				}
				g := *c.Graph
				g.Outputs = g.Outputs[:1]
				q.Graph = &g
				types, err := q.types()
				if err != nil || types[g.Outputs[0]].Format == fp16.Int64 || tensor.Size(types[g.Outputs[0]].Shape) == 0 {
					continue
				}
				y, err := exactly(expand(q.Graph, types, Form{}, built{}), q.Inputs, nil)
				if errors.Is(err, errNotJudged) {
					continue
				}
				if err != nil {
					t.Fatal(name, err)
				}
				right := make([]float64, len(y[0].Data))
				f.RoundSlice(right, y[0].Data)
				for i, out := range nothing(q.Inputs, types[g.Outputs[0]].Shape) {
					what := nothingKinds[i]
					if out == nil || what == "input" && slices.Equal(out, right) || *nothings == 0 && (k+i)%4 != p {
						continue
					}
					q.Output = tensor.Of(f, out, types[g.Outputs[0]].Shape...)
					a, err := Check(q)
					if errors.Is(err, errNotJudged) {
						continue
					}
					known = true
					if err != nil || a.Verdict == Pass {
						t.Errorf("%s, seed %d, %v: %s: %+v %v", name, seed, precision, what, a, err)
					}
				}
			}
		}
		if known {
			judged++
		}
	}
	t.Logf("%d operations", judged)
	if judged < 125 {
		t.Errorf("%d operations are judged", judged)
	}
}

// nothing are outputs that no computation is needed for.
func nothing(in []*tensor.Tensor, shape []int) (all [4][]float64) {
	n := tensor.Size(shape)
	all[0], all[1] = make([]float64, n), slices.Repeat([]float64{1}, n)
	if len(in) > 0 && len(in[0].Data) > 0 {
		all[2] = slices.Repeat(in[0].Data[:1], n)
		if len(in[0].Data) == n {
			all[3] = slices.Clone(in[0].Data)
		}
	}
	return all
}

var nothingKinds = [4]string{"zeros", "ones", "one number", "input"}
