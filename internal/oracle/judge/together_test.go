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
	"github.com/refrun/refrun/tensor"
)

// attended is x + blocks of attention and of a linear layer of their queries, keys and values, all results stored in a
// half type. What one layer rounds, all numbers behind it show.
type attended struct {
	layersOf
	tokens, width int
}

func (a *attended) graph() *graph.Graph {
	g := graph.New(nil)
	cast := func(x int) int { return g.Add(graph.Cast{Dtype: a.f.String()}, "", x) }
	x := g.Input("state")
	y := cast(x)
	for k, w := range a.weight {
		qkv := cast(g.Add(graph.Linear{}, fmt.Sprint("linear", k), y, g.Constant("", w), g.Constant("", a.bias[k])))
		part := func(i int) int {
			return g.Add(graph.Slice{
				Axes: graph.Ints{-1}, Start: graph.Ints{i * a.width}, End: graph.Ints{(i + 1) * a.width},
			}, "", qkv)
		}
		y = cast(g.Add(graph.Addition, "", y,
			cast(g.Add(graph.Attention{}, fmt.Sprint("attention", k), part(0), part(1), part(2)))))
	}
	g.Outputs = []int{g.Add(graph.Addition, "sum", x, y)}
	return g
}

func (a *attended) run(x *tensor.Tensor, apart []bool) *tensor.Tensor {
	out, n, each := tensor.New(fp16.Float32, x.Shape...), a.width, a.tokens*a.width
	for from := 0; from < len(x.Data); from += each {
		y := make([]float64, each)
		a.f.RoundSlice(y, x.Data[from:from+each])
		for k, w := range a.weight {
			qkv := make([][]float64, a.tokens)
			for t := range qkv {
				sums := make([]float32, 3*n)
				sumsOf(y[t*n:(t+1)*n], w.Data, sums)
				for j, s := range sums {
					v := float64(s)
					if apart[k] {
						v = a.f.Round(v)
					}
					qkv[t] = append(qkv[t], a.f.Round(float64(float32(v)+float32(a.bias[k].Data[j]))))
				}
			}
			for t := range qkv {
				a.attend(y[t*n:(t+1)*n], qkv[t][:n], qkv)
			}
		}
		for j, v := range y {
			out.Data[from+j] = float64(float32(x.Data[from+j]) + float32(v))
		}
	}
	return out
}

// attend adds to a token what its query makes of all keys and values.
func (a *attended) attend(y, query []float64, qkv [][]float64) {
	scores := make([]float64, len(qkv))
	for i, of := range qkv {
		for j, q := range query {
			scores[i] += float64(q*of[a.width+j]) / math.Sqrt(float64(a.width))
		}
	}
	total, most, sums := 0.0, slices.Max(scores), make([]float64, len(y))
	for i, of := range qkv {
		weight := math.Exp(scores[i] - most)
		total += weight
		for j := range sums {
			sums[j] += float64(weight * of[2*a.width+j])
		}
	}
	for j, s := range sums {
		y[j] = a.f.Round(y[j] + a.f.Round(s/total))
	}
}

// TestContractsTogether: of a network that mixes all it computes, one rounding that is missing hides what the others
// do. A device that stores some of its products is found all the same, and one with another bias has no contract.
func TestContractsTogether(t *testing.T) {
	right, wrong := 0, 0
	for seed, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		r := rand.New(rand.NewPCG(5+uint64(seed), uint64(f)))
		a := &attended{layersOf{f: f}, 8, 12}
		for range 5 {
			w := drawn(r, f, 3*a.width, a.width)
			for i := range w.Data {
				w.Data[i] = f.Round(w.Data[i] * .4)
			}
			a.weight, a.bias = append(a.weight, w), append(a.bias, drawn(r, f, 3*a.width))
		}
		x := drawn(r, fp16.Float32, 16, a.tokens, a.width)
		passes := func(device *attended, apart []bool) bool {
			return hasContract(t, a.graph(), f, x, device.run(x, apart))
		}
		for i, apart := range [][]bool{
			{true, true, true, true, true}, {true, false, true, false, true}, {true, false, false, true, false},
		} {
			if !share.All() && i%2 != seed {
				continue
			}
			if right++; !passes(a, apart) {
				t.Errorf("seed %d, %v: products stored %v: no contract", seed, f, apart)
			}
		}
		if !share.All() && seed == 0 {
			continue
		}
		other := &attended{layersOf{f, a.weight, append([]*tensor.Tensor{tensor.New(f, 3*a.width)}, a.bias[1:]...)},
			a.tokens, a.width}
		if wrong++; passes(other, []bool{true, true, true, true, true}) {
			t.Errorf("seed %d, %v: no first bias: passes", seed, f)
		}
	}
	t.Logf("%d right, %d wrong", right, wrong)
}

// hasContract reports whether there is a contract under which an output is right.
func hasContract(t *testing.T, g *graph.Graph, f fp16.Format, x, y *tensor.Tensor) bool {
	t.Helper()
	m := &Many{N: 1, At: func(int) (Question, error) {
		return Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y, Written: true, Narrow: f}, nil
	}}
	contracts, err := m.Contracts(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contracts {
		j, err := m.Under(c)
		if err != nil {
			t.Fatal(err)
		}
		if j.Passes() {
			return true
		}
	}
	return false
}
