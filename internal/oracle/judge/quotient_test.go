package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestQuotients: the forms in which libraries make whole quotients and remainders pass, beside edges too, where they
// differ by 1 or by the divisor; what is rounded to the nearest whole number, or cut off the other way, fails.
func TestQuotients(t *testing.T) {
	type function func(a, b float64) float64
	single := func(x float64) float64 { return float64(float32(x)) }
	sign := func(a, b float64) float64 { // of a remainder that is cut off, 1 where the floor is one less
		if r := math.Mod(a, b); r*b < 0 {
			return 1
		}
		return 0
	}
	left := func(to, whole func(float64) float64) function { // floor_divide of PyTorch and of JAX
		return func(a, b float64) float64 { return whole(to(to(to(a-math.Mod(a, b))/b) - sign(a, b))) }
	}
	down := func(q float64) float64 { return math.Ceil(q - .5) }
	divided := func(whole func(float64) float64) function {
		return func(a, b float64) float64 { return whole(single(a / b)) }
	}
	floor := func(a, b float64) float64 { return math.Floor((a-math.Mod(a, b))/b - sign(a, b) + .5) }
	rest := func(a, b float64) float64 { return math.Mod(a, b) + sign(a, b)*b }
	for name, c := range map[string]struct {
		of     pointwise.Op
		format fp16.Format
		by     function
		want   string
	}{
		"floor, exact":    {pointwise.FloorDivide, fp16.Float32, floor, Pass},
		"floor, divided":  {pointwise.FloorDivide, fp16.Float32, divided(math.Floor), Pass},
		"floor, eager":    {pointwise.FloorDivide, fp16.Float32, left(single, down), Pass},
		"floor, bfloat16": {pointwise.FloorDivide, fp16.BFloat16, left(fp16.BFloat16.Round, down), Pass},
		"floor, JAX":      {pointwise.FloorDivide, fp16.BFloat16, left(fp16.BFloat16.Round, math.Round), Pass},
		"floor, half up": {pointwise.FloorDivide, fp16.BFloat16, left(fp16.BFloat16.Round, func(q float64) float64 {
			return math.Floor(q + 1)
		}), Fail},
		"floor, cut off":   {pointwise.FloorDivide, fp16.Float32, divided(math.Trunc), Fail},
		"floor, nearest":   {pointwise.FloorDivide, fp16.Float32, divided(math.RoundToEven), Fail},
		"trunc, divided":   {pointwise.TruncDivide, fp16.Float32, divided(math.Trunc), Pass},
		"trunc, floor":     {pointwise.TruncDivide, fp16.Float32, floor, Fail},
		"remainder, exact": {pointwise.Remainder, fp16.Float32, rest, Pass},
		"remainder, compiled": {pointwise.Remainder, fp16.Float32, func(a, b float64) float64 {
			return a - single(floor(a, b)*b)
		}, Pass},
		"remainder, cut off": {pointwise.Remainder, fp16.Float32, math.Mod, Fail},
		"fmod":               {pointwise.FMod, fp16.Float32, math.Mod, Pass},
		"fmod, rounded down": {pointwise.FMod, fp16.Float32, rest, Fail},
	} {
		r := rand.New(rand.NewPCG(11, 5))
		x, z := tensor.New(c.format, 600), tensor.New(c.format, 600)
		y := tensor.New(c.format, 600)
		for i := range x.Data {
			x.Data[i], z.Data[i] = c.format.Round(.1*float64(i-300)), c.format.Round(.1)
			if i%2 == 0 {
				x.Data[i], z.Data[i] = c.format.Round(100*r.NormFloat64()), c.format.Round(r.NormFloat64())
			}
			y.Data[i] = c.format.Round(c.by(x.Data[i], z.Data[i]))
		}
		g := graph.New(nil)
		g.Outputs = []int{g.Add(graph.Binary{Of: c.of}, "output", g.Input("x"), g.Input("z"))}
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, z}, Output: y})
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != c.want {
			t.Errorf("%s: %s: %s (%v)", name, a.Verdict, a.Reason, a.Contract)
		}
	}
}

// TestQuotientsOfSums: of numbers that a kernel computed, the whole quotient and the remainder may be on either side of
// an edge, and nowhere else.
func TestQuotientsOfSums(t *testing.T) {
	x := tensor.New(fp16.Float32, 64, 3)
	r := rand.New(rand.NewPCG(3, 9))
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(4 * r.NormFloat64())
	}
	copy(x.Data, []float64{fp16.Float32.Round(.7), fp16.Float32.Round(.2), fp16.Float32.Round(.1)}) // 1 - 2^-27
	one := 1.0
	for of, by := range map[pointwise.Op]func(x float64) float64{
		pointwise.FloorDivide: math.Floor, pointwise.TruncDivide: math.Trunc,
		pointwise.Remainder: func(x float64) float64 { return x - math.Floor(x) },
		pointwise.FMod:      func(x float64) float64 { return math.Mod(x, 1) },
	} {
		g := graph.New(nil)
		sum := g.Add(graph.Reduction{Of: "sum", Axes: graph.Ints{1}}, "sum", g.Input("x"))
		g.Outputs = []int{g.Add(graph.Binary{Of: of, Other: &one}, "output", sum)}
		for _, wrong := range []bool{false, true} {
			y := tensor.New(fp16.Float32, 64)
			for i := range y.Data {
				row := x.Data[3*i:]
				y.Data[i] = fp16.Float32.Round(by(float64(float32(row[0]+row[1]) + float32(row[2]))))
			}
			want := Pass
			if wrong {
				y.Data[9]++
				want = Fail
			}
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict != want {
				t.Errorf("%v: %s: %s, want %s", of, a.Verdict, a.Reason, want)
			}
		}
	}
}
