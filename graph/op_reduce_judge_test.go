package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// TestChoicesJudged: any and all of truths, the greatest and the least number along an axis and
// where it is, by a look at each number of a line.
func TestChoicesJudged(t *testing.T) {
	o := hashed.New(t, *elements)
	for _, name := range []string{"all", "any", "max", "min"} {
		r := rand.New(rand.NewPCG(27, uint64(name[1])))
		for seen := 0; seen < *elements; {
			outer, n, inner := 1+r.IntN(8), 1+r.IntN(9), 1+r.IntN(8)
			x := tensor.New(fp16.Float32, outer, n, inner)
			kinds := 4 + r.IntN(7)
			for i := range x.Data {
				x.Data[i] = []float64{0, math.Copysign(0, -1), 1, fp16.Float32.Round(r.NormFloat64()), -2, 0x1p-149,
					math.Inf(1), math.Inf(-1), fp16.NaN, 1, -1}[r.IntN(kinds)]
			}
			g := New(new(Kept))
			outputs := 1
			if name == "max" || name == "min" {
				outputs = 2
			}
			g.Outputs = g.AddNode(bound(t, name, `{"dim":1}`), "y", outputs, g.Input("x"))
			p, err := g.Infer(Mode{Precision: fp16.Float32}, Type{x.Shape, x.Format})
			if err != nil {
				t.Fatal(err)
			}
			y, err := p.Run(new(Run), x)
			if err != nil {
				t.Fatal(err)
			}
			for _, y := range y {
				o.Add(name, y.Data...)
			}
			seen += len(y[0].Data)
			for i := range y[0].Data {
				var line []float64
				for k := range n {
					line = append(line, x.Data[(i/inner*n+k)*inner+i%inner])
				}
				truths, best := 0, 0
				for k, v := range line {
					if v != 0 {
						truths++
					}
					if b := line[best]; b == b && (v != v || name == "max" && v > b || name == "min" && v < b) {
						best = k
					}
				}
				want := []float64{line[best], float64(best)}
				switch {
				case name == "any" && truths > 0, name == "all" && truths == n:
					want[0] = 1
				case name == "any", name == "all":
					want[0] = 0
				}
				for k, y := range y {
					if math.Float64bits(y.Data[i]) != math.Float64bits(want[k]) {
						t.Fatalf("%s of %v: output %d is %v, want %v", name, line, k, y.Data[i], want[k])
					}
				}
			}
		}
	}
}

// TestSameNumbersJudged: what only changes the shape keeps all numbers in their order.
func TestSameNumbersJudged(t *testing.T) {
	o := hashed.New(t, *elements)
	for _, c := range []struct {
		name, attributes string
		shape            func(a, b, c int) (from, to []int)
	}{
		{"reshape", `{"shape":[-1]}`, func(a, b, c int) (from, to []int) { return []int{a, b, c}, []int{a * b * c} }},
		{"flatten", `{"start_dim":1}`, func(a, b, c int) (from, to []int) { return []int{a, b, c}, []int{a, b * c} }},
		{"unflatten", `{"dim":1,"sizes":[3,-1]}`,
			func(a, b, c int) (from, to []int) { return []int{a, 3 * b, c}, []int{a, 3, b, c} }},
		{"squeeze", `{"dim":1}`, func(a, b, c int) (from, to []int) { return []int{a, 1, b, c}, []int{a, b, c} }},
		{"unsqueeze", `{"dim":2}`, func(a, b, c int) (from, to []int) { return []int{a, b, c}, []int{a, b, 1, c} }},
		{"identity", `{}`, func(a, b, c int) (from, to []int) { return []int{a, b, c}, []int{a, b, c} }},
	} {
		r := rand.New(rand.NewPCG(28, uint64(len(c.name))))
		for seen := 0; seen < *elements; {
			from, to := c.shape(1+r.IntN(9), 1+r.IntN(9), 1+r.IntN(9))
			x := tensor.New(fp16.Float32, from...)
			for i := range x.Data {
				if x.Data[i] = float64(math.Float32frombits(r.Uint32())); x.Data[i] != x.Data[i] {
					x.Data[i] = fp16.NaN
				}
			}
			want := x.Clone()
			y, err := evaluated(t, Mode{Precision: fp16.Float32}, bound(t, c.name, c.attributes), x)
			if err != nil || !slices.Equal(y.Shape, to) {
				t.Fatalf("%s of %v: %v, %v, want %v", c.name, from, y, err, to)
			}
			o.Add(c.name, y.Data...)
			seen += len(y.Data)
			for i, v := range want.Data {
				if math.Float64bits(y.Data[i]) != math.Float64bits(v) {
					t.Fatalf("%s of %v: number %d is %v, want %v", c.name, from, i, y.Data[i], v)
				}
			}
		}
	}
}
