package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// linearLayer is one recorded layer: a linear one of float32 numbers, 64 by 16, of a right device, in a format.
func linearLayer(f fp16.Format) *Question {
	r := rand.New(rand.NewPCG(11, 12))
	x, w := drawn(r, fp16.Float32, 64, 16), drawn(r, fp16.Float32, 16, 16)
	g := graph.New(nil)
	y := g.Add(graph.Linear{}, "linear", g.Input("input"), g.Constant("weight", w))
	if f != fp16.Float32 {
		y = g.Add(graph.Cast{Dtype: f.String()}, "stored", y)
	}
	g.Outputs = []int{y}
	q := &Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: tensor.New(f, 64, 16), Written: true,
		Narrow: fp16.Float32}
	sums := make([]float32, 16)
	for row := range 64 {
		sumsOf(x.Data[row*16:(row+1)*16], w.Data, sums)
		for k, s := range sums {
			q.Output.Data[row*16+k] = float64(s)
		}
	}
	return q
}

// under judges one evaluation under the plain contract.
func under(t *testing.T, q *Question, bounds bool) *Joint {
	t.Helper()
	j, err := (&Many{N: 1, Bounds: bounds, At: func(int) (Question, error) { return *q, nil }}).Under(Contract{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestBounds: where bounds are asked for, a number that no right kernel returns is a violation, and its place is told;
// a right kernel is within them. Otherwise statistics judge all numbers.
func TestBounds(t *testing.T) {
	q := linearLayer(fp16.Float32)
	for _, bounds := range []bool{false, true} {
		if j := under(t, q, bounds); !j.Passes() || j.Each[0].Reach > 1 {
			t.Errorf("bounds %v: right: %+v", bounds, j.Each[0])
		}
	}
	wrong := *q
	wrong.Output = q.Output.Clone()
	for _, i := range []int{77, 903} {
		wrong.Output.Data[i] += 0x1p-15
	}
	e := under(t, &wrong, true).Each[0]
	if e.Violations != 2 || !slices.Equal(e.Wrong, []int{77, 903}) || !(e.Reach > 1) {
		t.Errorf("two numbers off: %d violations at %v, reach %v", e.Violations, e.Wrong, e.Reach)
	}
	if e := under(t, &wrong, false).Each[0]; e.Violations != 0 {
		t.Errorf("two numbers off, without bounds: %d violations", e.Violations)
	}
}

// TestBias: numbers that are cut off when they are stored have a bias toward zero of many deviations, and rounded ones
// have none.
func TestBias(t *testing.T) {
	q := linearLayer(fp16.BFloat16)
	cut := *q
	cut.Output = q.Output.Clone()
	for i, v := range q.Output.Data {
		q.Output.Data[i] = fp16.BFloat16.Round(v)
	}
	truncate(fp16.BFloat16, cut.Output.Data, cut.Output.Data)
	if b := under(t, q, true).Each[0].Bias; math.Abs(b) > 6 {
		t.Errorf("rounded: bias %v", b)
	}
	if b := under(t, &cut, true).Each[0].Bias; b > -30 {
		t.Errorf("cut off: bias %v", b)
	}
}

// TestInexact: draws that a kernel has computed itself may be two units in the last place off, and no farther; draws
// that are given may not.
func TestInexact(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	x, n := drawn(r, fp16.Float32, 64, 16), drawn(r, fp16.Float32, 64, 16)
	g := graph.New(nil)
	g.Outputs = []int{g.Add(graph.Multiplication, "noise", g.Input("input"), g.Input("draws"))}
	for _, c := range []struct {
		inexact bool
		units   int
		right   bool
	}{{true, 0, true}, {true, 2, true}, {true, 8, false}, {false, 0, true}, {false, 8, false}} {
		q := &Question{Graph: g, Inputs: []*tensor.Tensor{x, n}, Output: tensor.New(fp16.Float32, 64, 16), Written: true,
			Narrow: fp16.Float32, Inexact: []bool{false, c.inexact}}
		for i, v := range n.Data {
			v += float64(r.IntN(2*c.units+1)-c.units) * fp16.Float32.Ulp(v)
			q.Output.Data[i] = float64(float32(x.Data[i] * v))
		}
		if j := under(t, q, true); j.Passes() != c.right {
			t.Errorf("%+v: passes %v: %+v", c, j.Passes(), j.Each[0])
		}
	}
}
