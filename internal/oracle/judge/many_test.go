package judge

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// layersOf is x + linear(relu(linear(relu(linear(x))))) with the roundings of an autocast as casts, and what a device
// makes of an x of it: apart says of each layer whether its product is stored before its bias is added.
type layersOf struct {
	f            fp16.Format
	weight, bias []*tensor.Tensor
}

func (l *layersOf) graph() *graph.Graph {
	g := graph.New(nil)
	cast := func(x int) int { return g.Add(graph.Cast{Dtype: l.f.String()}, "", x) }
	x := g.Input("state")
	y := cast(x)
	for k, w := range l.weight {
		y = cast(g.Add(graph.Linear{}, fmt.Sprint("linear", k), y, g.Constant("", w), g.Constant("", l.bias[k])))
		if k+1 < len(l.weight) {
			y = cast(g.Add(unaryMax0(), "", y))
		}
	}
	g.Outputs = []int{g.Add(graph.Addition, "sum", x, y)}
	return g
}

func (l *layersOf) run(x *tensor.Tensor, apart []bool) *tensor.Tensor {
	n := x.Shape[1]
	out := tensor.New(fp16.Float32, x.Shape...)
	for row := 0; row < len(x.Data); row += n {
		y := make([]float64, n)
		l.f.RoundSlice(y, x.Data[row:row+n])
		for k, w := range l.weight {
			sums := make([]float32, n)
			sumsOf(y, w.Data, sums)
			for j, s := range sums {
				v := float64(s)
				if apart[k] {
					v = l.f.Round(v)
				}
				if y[j] = l.f.Round(float64(float32(v) + float32(l.bias[k].Data[j]))); k+1 < len(l.weight) {
					y[j] = max(y[j], 0)
				}
			}
		}
		for j, v := range y {
			out.Data[row+j] = float64(float32(x.Data[row+j]) + float32(v))
		}
	}
	return out
}

// TestBiasApart: a device that stores the products of some linear layers before it adds their bias, as PyTorch does
// where an input is strided, has a contract in which these are named, and one that leaves out a bias has none.
func TestBiasApart(t *testing.T) {
	right, wrong := 0, 0
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		r := rand.New(rand.NewPCG(3, uint64(f)))
		l := &layersOf{f: f}
		for range 3 {
			w := drawn(r, f, 16, 16)
			for i := range w.Data {
				w.Data[i] /= 4
			}
			l.weight, l.bias = append(l.weight, w), append(l.bias, drawn(r, f, 16))
		}
		x := []*tensor.Tensor{drawn(r, fp16.Float32, 200, 16), drawn(r, fp16.Float32, 200, 16)}
		passes := func(device *layersOf, apart []bool) bool {
			m := &Many{N: len(x), At: func(i int) (Question, error) {
				return Question{
					Graph: l.graph(), Inputs: x[i : i+1], Output: device.run(x[i], apart), Written: true, Narrow: f,
				}, nil
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
		for which := range 8 {
			apart := []bool{which&1 > 0, which&2 > 0, which&4 > 0}
			if !passes(l, apart) {
				t.Errorf("%v: products stored %v: no contract", f, apart)
			}
			right++
			other := &layersOf{f, l.weight, append([]*tensor.Tensor{tensor.New(f, 16)}, l.bias[1:]...)}
			if which%4 == 1 {
				if passes(other, apart) {
					t.Errorf("%v: products stored %v, no first bias: passes", f, apart)
				}
				wrong++
			}
		}
	}
	t.Logf("%d right, %d wrong", right, wrong)
}
