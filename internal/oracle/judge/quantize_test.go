package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestQuantizeLinear: a quotient may be rounded before it is rounded to a whole number, or be a product with the
// reciprocal: near the middle of two, both are right. One more elsewhere, another zero point, and numbers cut off fail.
func TestQuantizeLinear(t *testing.T) {
	type device func(x, scale float64) float64
	single := fp16.Float32.Round
	for _, c := range []struct {
		name   string
		f      fp16.Format
		of     device
		passes bool
	}{
		{"exact quotient", fp16.Float32, func(x, s float64) float64 { return math.RoundToEven(x / s) }, true},
		{"reciprocal", fp16.Float32,
			func(x, s float64) float64 { return math.RoundToEven(single(x * single(1/s))) }, true},
		{"cut off", fp16.Float32, func(x, s float64) float64 { return math.Trunc(x / s) }, false},
		{"up from the middle", fp16.Float32, func(x, s float64) float64 { return math.Floor(x/s + .5) }, false},
		{"exact quotient", fp16.Float16, func(x, s float64) float64 { return math.RoundToEven(x / s) }, true},
		{"stored quotient", fp16.Float16,
			func(x, s float64) float64 { return math.RoundToEven(fp16.Float16.Round(x / s)) }, true},
		{"scale in bfloat16", fp16.Float16,
			func(x, s float64) float64 { return math.RoundToEven(x / fp16.BFloat16.Round(s)) }, false},
	} {
		for _, axis := range []bool{false, true} {
			r := rand.New(rand.NewPCG(7, 8))
			x, y := tensor.New(c.f, 500, 4), tensor.New(fp16.Int64, 500, 4)
			scale, zero := tensor.New(c.f), tensor.New(fp16.Int64)
			if axis {
				scale, zero = tensor.New(c.f, 4), tensor.New(fp16.Int64, 4)
			}
			for k := range scale.Data {
				if scale.Data[k], zero.Data[k] = c.f.Round(.03+.01*float64(k)), float64(128-k); c.name == "up from the middle" {
					scale.Data[k] = math.Ldexp(1, -5-k) // whose quotients are exact by every method
				}
			}
			for i := range x.Data {
				k := i % 4 % len(scale.Data)
				x.Data[i] = c.f.Round(r.NormFloat64())
				if i%3 == 0 { // beside the middle
					x.Data[i] = c.f.Round(scale.Data[k] * (float64(r.IntN(40)) + .5))
				}
				if i%48 == 0 {
					x.Data[i] = 50 * r.NormFloat64()
					x.Data[i] = c.f.Round(x.Data[i])
				}
				y.Data[i] = max(0, min(255, c.of(x.Data[i], scale.Data[k])+zero.Data[k]))
			}
			g := graph.New(nil)
			g.Outputs = []int{g.Add(graph.QuantizeLinear{Quantization: graph.Quantization{Axis: 1}, Dtype: "uint8"}, "y",
				g.Input("x"), g.Input("scale"), g.Input("zero"))}
			ask := func() string {
				a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, scale, zero}, Output: y})
				if err != nil {
					t.Fatal(err)
				}
				return a.Verdict
			}
			if v := ask(); (v == Pass) != c.passes {
				t.Errorf("%s, %v, axis %v: %s", c.name, c.f, axis, v)
			}
			if y.Data[5]++; c.passes && ask() != Fail {
				t.Errorf("%s, %v, axis %v: one more passes", c.name, c.f, axis)
			}
		}
	}
}

// TestDequantizeLinear: (x - zero) scale is exact but for its product; without the zero point it is wrong.
func TestDequantizeLinear(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		x, y := tensor.New(fp16.Int64, 4, 50), tensor.New(fp16.Float32, 4, 50)
		scale := tensor.Of(fp16.Float32, []float64{fp16.Float32.Round(.03)}, 1)
		zero := tensor.Of(fp16.Int64, []float64{7}, 1)
		for i := range x.Data {
			x.Data[i] = float64(i - 100)
			y.Data[i] = fp16.Float32.Round((x.Data[i] - 7) * scale.Data[0])
			if forgets {
				y.Data[i] = fp16.Float32.Round(x.Data[i] * scale.Data[0])
			}
		}
		g := graph.New(nil)
		g.Outputs = []int{g.Add(graph.DequantizeLinear{Dtype: "float32"}, "y", g.Input("x"), g.Input("scale"),
			g.Input("zero"))}
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, scale, zero}, Output: y})
		if err != nil {
			t.Fatal(err)
		}
		if (a.Verdict == Pass) == forgets {
			t.Errorf("forgets the zero point %v: %s, %s", forgets, a.Verdict, a.Reason)
		}
	}
}

// TestDynamicQuantizeLinear: numbers, scale and zero point pass, with products with reciprocals too; of a range without
// 0 in it, and cut off, they fail, and so does one more.
func TestDynamicQuantizeLinear(t *testing.T) {
	single := fp16.Float32.Round
	x := drawn(rand.New(rand.NewPCG(9, 10)), fp16.Float32, 30, 40)
	for i := range x.Data {
		x.Data[i] = single(math.Abs(x.Data[i]) + .5) // so that 0 is one end
	}
	reciprocal := func(x, s float64) float64 { return single(x * single(1/s)) }
	quotient := func(x, s float64) float64 { return single(x / s) }
	for _, c := range []struct {
		name   string
		least  float64
		by     func(x, s float64) float64
		whole  func(float64) float64
		passes bool
	}{
		{"right", 0, quotient, math.RoundToEven, true}, {"reciprocal", 0, reciprocal, math.RoundToEven, true},
		{"without 0", .5, quotient, math.RoundToEven, false}, {"cut off", 0, quotient, math.Trunc, false},
	} {
		most := 0.0
		for _, v := range x.Data {
			most = max(most, v)
		}
		scale := single((most - c.least) / 255)
		zero := max(0, c.whole(c.by(-c.least, scale)))
		y := tensor.New(fp16.Int64, 30, 40)
		for i, v := range x.Data {
			y.Data[i] = max(0, min(255, c.whole(c.by(v, scale))+zero))
		}
		outputs := []*tensor.Tensor{y, tensor.Of(fp16.Float32, []float64{scale}), tensor.Of(fp16.Int64, []float64{zero})}
		for k, out := range outputs {
			g := graph.New(nil)
			g.Outputs = g.AddNode(graph.DynamicQuantizeLinear{}, "y", 3, g.Input("x"))[k : k+1]
			ask := func() string {
				a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: out})
				if err != nil {
					t.Fatal(err)
				}
				return a.Verdict
			}
			if v := ask(); k == 0 && (v == Pass) != c.passes || c.passes && v == Fail {
				t.Errorf("%s, output %d: %s", c.name, k, v)
			}
			if out.Data[0] = out.Data[0]*1.01 + 1; c.passes && ask() != Fail {
				t.Errorf("%s, output %d: one more passes", c.name, k)
			}
		}
	}
}

// TestBlocks: numbers with a scale for each block of an axis, the last of which is shorter, pass; with the scale of the
// block before they fail.
func TestBlocks(t *testing.T) {
	const rows, columns, block = 6, 50, 16
	x := drawn(rand.New(rand.NewPCG(11, 12)), fp16.Float32, rows, columns)
	scale := tensor.New(fp16.Float32, rows, 4)
	for i := range scale.Data {
		scale.Data[i] = fp16.Float32.Round(.01 + .003*float64(i))
	}
	of := graph.Quantization{Axis: 1, BlockSize: block}
	for _, shift := range []int{0, 1} {
		q, y := tensor.New(fp16.Int64, rows, columns), tensor.New(fp16.Float32, rows, columns)
		for i, v := range x.Data {
			s := scale.Data[i/columns*4+(max(i%columns/block-shift, 0))]
			q.Data[i] = max(-128, min(127, math.RoundToEven(v/s)))
			y.Data[i] = fp16.Float32.Round(q.Data[i] * s)
		}
		for op, c := range map[graph.Op][2]*tensor.Tensor{
			graph.QuantizeLinear{Quantization: of, Dtype: "int8"}: {x, q}, graph.DequantizeLinear{Quantization: of}: {q, y},
		} {
			g := graph.New(nil)
			g.Outputs = []int{g.Add(op, "y", g.Input("x"), g.Input("scale"))}
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{c[0], scale}, Output: c[1]})
			if err != nil {
				t.Fatal(err)
			}
			if (a.Verdict == Pass) != (shift == 0) || shift > 0 && a.Verdict != Fail {
				t.Errorf("%s, scales from %d blocks before: %s, %s", op.Name(), shift, a.Verdict, a.Reason)
			}
		}
	}
}

// TestOneSide: of a quotient a little below the middle of two whole numbers the greater one is right as well, and one
// less is not; of one above it is the other way.
func TestOneSide(t *testing.T) {
	scale := fp16.Float32.Round(.1)
	x, y := tensor.New(fp16.Float32, 40), tensor.New(fp16.Int64, 40)
	g := graph.New(nil)
	g.Outputs = []int{g.Add(graph.QuantizeLinear{Dtype: "int8"}, "y", g.Input("x"), g.Input("scale"))}
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(scale * (float64(i) + .5)) // each a little to one side
		y.Data[i] = math.RoundToEven(x.Data[i] / scale)
	}
	for i := range x.Data {
		right := y.Data[i]
		other := 2*float64(i) + 1 - right
		for got, want := range map[float64]string{right: Pass, other: Pass, 2*right - other: Fail, 2*other - right: Fail} {
			y.Data[i] = got
			a, err := Check(Question{Graph: g, Output: y,
				Inputs: []*tensor.Tensor{x, tensor.Of(fp16.Float32, []float64{scale})}})
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict != want {
				t.Errorf("%v of a quotient of %v: %s, want %s", got, x.Data[i]/scale, a.Verdict, want)
			}
		}
		y.Data[i] = right
	}
}
