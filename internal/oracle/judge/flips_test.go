package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// cached is a linear layer of normalized tokens, each of which is one row of a cache that is zero elsewhere: f is the
// format that autocast stores.
type cached struct {
	layersOf
	tokens, width, length int
}

func (c *cached) graph() *graph.Graph {
	g := graph.New(nil)
	cast := func(x int) int { return g.Add(graph.Cast{Dtype: c.f.String()}, "", x) }
	y := cast(g.Add(graph.LayerNorm{Eps: 1e-5}, "norm", g.Input("state")))
	y = cast(g.Add(graph.Linear{}, "linear", y, g.Constant("", c.weight[0]), g.Constant("", c.bias[0])))
	y = g.Add(graph.Reshape{Shape: []int{c.tokens, 1, c.width}}, "", y)
	here := tensor.New(fp16.Float32, c.tokens, c.length, 1)
	for i := range c.tokens {
		here.Data[i*c.length+i%c.length] = 1
	}
	g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Mul}, "cache", y, g.Constant("here", here))}
	return g
}

// run is a device's output, of tokens normalized in float32. Nudge changes a normalized number before it is stored.
func (c *cached) run(x *tensor.Tensor, nudge func(token int, y []float64)) *tensor.Tensor {
	out := tensor.New(fp16.Float32, c.tokens, c.length, c.width)
	for i := range c.tokens {
		row := x.Data[i*c.width : (i+1)*c.width]
		var mean, variance float32
		for _, v := range row {
			mean += float32(v)
		}
		mean /= float32(c.width)
		for _, v := range row {
			d := float32(v) - mean
			variance += float32(d * d)
		}
		scale := 1 / float32(math.Sqrt(float64(variance/float32(c.width)+1e-5)))
		y := make([]float64, c.width)
		for k, v := range row {
			y[k] = float64((float32(v) - mean) * scale)
		}
		exact := append([]float64(nil), y...)
		c.f.RoundSlice(y, exact)
		nudge(i, y)
		sums := make([]float32, c.width)
		sumsOf(y, c.weight[0].Data, sums)
		for j, s := range sums {
			out.Data[(i*c.length+i%c.length)*c.width+j] = c.f.Round(float64(s + float32(c.bias[0].Data[j])))
		}
	}
	return out
}

// TestFlipsOfFewNumbers: of few numbers a right device may have the one flip of an inner rounding that none of the
// simulated ones has, and it moves a whole row of a cache. The same change of a number that is not near an edge is
// no flip.
func TestFlipsOfFewNumbers(t *testing.T) {
	right, wrong := 0, 0
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, uint64(f)))
			c := &cached{layersOf{f: f}, 8, 48, 16}
			w := drawn(r, f, 48, 48)
			for i := range w.Data {
				w.Data[i] = f.Round(w.Data[i] / 7)
			}
			c.weight, c.bias = []*tensor.Tensor{w}, []*tensor.Tensor{drawn(r, f, 48)}
			x := drawn(r, fp16.Float32, 8, 48)
			under := func(y *tensor.Tensor) *Joint {
				m := &Many{N: 1, At: func(int) (Question, error) {
					return Question{Graph: c.graph(), Inputs: []*tensor.Tensor{x}, Output: y, Written: true, Narrow: f}, nil
				}}
				plain, err := m.Plain(0)
				if err != nil {
					t.Fatal(err)
				}
				j, err := m.Under(plain)
				if err != nil {
					t.Fatal(err)
				}
				return j
			}
			if right++; !under(c.run(x, func(int, []float64) {})).Passes() {
				t.Errorf("%v, seed %d: a right device fails", f, seed)
			}
			if seed%4 > 0 {
				continue
			}
			token, k := r.IntN(8), r.IntN(48)
			other := c.run(x, func(i int, y []float64) {
				if i == token { // where it says something
					for math.Abs(y[k]) < .5 {
						k = (k + 1) % len(y)
					}
					y[k] += 16 * f.Ulp(y[k])
				}
			})
			if wrong++; under(other).Passes() {
				t.Errorf("%v, seed %d: a number sixteen places off in its row passes", f, seed)
			}
		}
	}
	t.Log(fmt.Sprint(right, " right, ", wrong, " wrong"))
}
