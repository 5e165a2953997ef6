package steps

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// TestLookAlikes counts pixels with the same surroundings.
func TestLookAlikes(t *testing.T) {
	t.Parallel()
	const n, c, h, w = 2, 3, 5, 7
	fill := func(v func(c, y, x int) float64) *tensor.Tensor {
		s := tensor.New(fp16.Float64, n, c, h, w)
		for i := range s.Data {
			s.Data[i] = v(i/(h*w)%c, i/w%h, i%w)
		}
		return s
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []struct {
		name  string
		x     *tensor.Tensor
		reach int
		want  float64
	}{
		// Of 5x7 pixels, 15 have no border near by, 2 x 5 and 2 x 3 have one, 4 have two.
		{"a constant", fill(func(c, _, _ int) float64 { return float64(c) }), 1, n * (15*15 + 2*25 + 2*9 + 4) / 35.},
		{"columns", fill(func(_, _, x int) float64 { return float64(x) }), 1, n * 7 * (9 + 1 + 1) / 35.},
		{"columns, each pixel by itself", fill(func(_, _, x int) float64 { return float64(x) }), 0, n * 5},
		{"below half an ulp", fill(func(_, y, x int) float64 { return 1 + 1e-4*float64(y*w+x)/35 }), 1,
			n * (15*15 + 2*25 + 2*9 + 4) / 35.},
		{"random numbers", fill(func(int, int, int) float64 { return r.NormFloat64() }), 1, 1},
	} {
		if got := lookAlikes(s.x, fp16.Float16, s.reach); math.Abs(got-s.want) > 1e-12 {
			t.Errorf("%s: %.6g pixels are alike: want %.6g", s.name, got, s.want)
		}
	}
}

// TestFirstReach: the first convolutions are those of the input and of what norms,
// activations and sums make of it.
func TestFirstReach(t *testing.T) {
	t.Parallel()
	conv := func(k int, in ...int) operator.Node {
		return operator.Node{Op: operator.OpConv, In: in, Weight: &operator.Param{Shape: []int{2, 2, k, k}}}
	}
	norm := func(in ...int) operator.Node { return operator.Node{Op: operator.OpNorm, In: in} }
	for _, k := range []struct {
		nodes []operator.Node
		want  int
	}{
		{[]operator.Node{conv(1, operator.Input), conv(3, 0)}, 0},
		{[]operator.Node{conv(3, operator.Input), conv(1, 0)}, 1},
		{[]operator.Node{norm(operator.Input), conv(1, 0), conv(3, 1)}, 0},
		{[]operator.Node{conv(5, operator.Input), norm(0), conv(1, operator.Input)}, 0},
		{[]operator.Node{conv(5, operator.Input), norm(0), conv(1, 1)}, 1},
	} {
		if got := firstReach(k.nodes); got != k.want {
			t.Errorf("%+v: %d, want %d", k.nodes, got, k.want)
		}
	}
}

// TestLookReach: names are held against the pixels that the first convolutions round
// alike.
func TestLookReach(t *testing.T) {
	t.Parallel()
	var alike []float64
	for _, size := range []int{1, 3} {
		b := newStepBench(t, "bfloat16", "cpu", "instance", convex(.5))
		b.build(operator.Config{NumLayers: 1, BaseChannels: 4, InputChannels: 3, OutputChannels: 3, KernelSize: size}, "none")
		b.run()
		if _, _, err := b.gate.measureAll(); err != nil {
			t.Fatal(err)
		}
		for m := range b.gate.e.States.M {
			for k, v := range b.gate.e.States.At(m, 0) {
				b.gate.e.States.At(m, 0)[k] = math.Copysign(1, v)
			}
		}
		s, err := b.gate.look(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		alike = append(alike, s.Alike)
	}
	// Three signs have eight forms.
	if !(alike[0] >= 2*20*24/8 && alike[1] < alike[0]/2) {
		t.Errorf("%v of %d pixels are alike for 1x1 and 3x3", alike, 2*20*24)
	}
}
