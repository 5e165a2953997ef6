package graph

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestConvolutionsOfOneWeight: convolutions of one weight that differ in the bias, in groups
// or in direction do not take each other's kernel.
func TestConvolutionsOfOneWeight(t *testing.T) {
	x, w, b, other := rough(1, 1, 4, 5, 5), rough(2, 4, 4, 3, 3), rough(3, 4), rough(4, 4)
	mode := Mode{Precision: fp16.Float32}
	g := New(&Kept{})
	in, weight := g.Input("x"), g.Constant("w", w)
	biases := []*tensor.Tensor{b, other, nil, b, b}
	wide, half := rough(5, 1, 8, 5, 5), g.Input("wide")
	ops := []Op{Conv{}, Conv{}, Conv{}, ConvTranspose{}, Conv{Groups: 2}}
	for i, op := range ops {
		v := []int{in, weight}
		if i == 4 {
			v[0] = half
		}
		if biases[i] != nil {
			v = append(v, g.Constant("b", biases[i]))
		}
		g.Outputs = append(g.Outputs, g.Add(op, "y", v...))
	}
	p, err := g.Infer(mode, Type{x.Shape, x.Format}, Type{wide.Shape, wide.Format})
	if err != nil {
		t.Fatal(err)
	}
	y, err := p.Run(new(Run), x, wide)
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range ops {
		v := []*tensor.Tensor{x, w}
		if i == 4 {
			v[0] = wide
		}
		if biases[i] != nil {
			v = append(v, biases[i])
		}
		want, err := evaluated(t, mode, op, v...)
		if err != nil || !slices.Equal(y[i].Data, want.Data) {
			t.Errorf("output %d: %v, %v: want %v", i, y[i].Data[:5], err, want.Data[:5])
		}
	}
}
