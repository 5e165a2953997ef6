package pointwise

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestShort: operations that take a short way have the bits of those that are evaluated with a bound and settled, for
// every operation, in every format of operands and results, on numbers of every magnitude, whole ones around 2^53, ends
// and numbers that are not finite.
func TestShort(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	numbers := []float64{0, math.Copysign(0, -1), 1, -1, 2, 3, 0.5, 255, math.Inf(1), math.Inf(-1), fp16.NaN,
		math.MaxFloat32, -math.MaxFloat32, 0x1p-149, -0x1p-149, 0x1p-75, 1e30}
	whole := []float64{0, 1, -1, 7, 255, -256, 1 << 31, 1<<53 - 1, 1 << 53, -1 << 53, 94906267, -94906265}
	number := func(f fp16.Format) float64 {
		switch {
		case f == fp16.Int64 && r.IntN(2) == 0:
			return whole[r.IntN(len(whole))]
		case f == fp16.Int64:
			return float64(r.IntN(1<<27) - 1<<26)
		case r.IntN(2) == 0:
			return f.Round(numbers[r.IntN(len(numbers))])
		}
		return f.Round(float64(math.Float32frombits(r.Uint32())))
	}
	formats := []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16, fp16.Float64, fp16.Int64}
	short := 0
	for op := range operations {
		o := &operations[op]
		for _, to := range formats {
			for _, a := range formats {
				for _, b := range formats {
					if (a == fp16.Float64 || b == fp16.Float64) && to != fp16.Float64 && to != fp16.Int64 ||
						to == fp16.Int64 && (a != to || b != to) && Op(op) < Equal {
						continue
					}
					x, y, z := tensor.New(a, 90), tensor.New(b, 90), tensor.New(to, 90)
					for i := range x.Data {
						if x.Data[i], y.Data[i] = number(a), number(b); i%5 == 0 {
							y.Data[i] = b.Round(2)
						}
					}
					Binary(z, x, y, Op(op))
					if o.short(to, Op(op), a, b) != nil {
						short++
					}
					if line := Lines(Op(op), to, a, b); line != nil {
						w, n := make([]float64, 90), b.Round(3)
						line(w, x.Data, []float64{n})
						for i, got := range w {
							if want := o.at(x.Data[i], n, to); math.Float64bits(got) != math.Float64bits(want) {
								t.Fatalf("%s of %v %v and %v to %v: %v, want %v", o.name, a, x.Data[i], n, to, got, want)
							}
						}
						if line(w, x.Data, y.Data); !slices.EqualFunc(w, z.Data,
							func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
							t.Fatalf("%s of %v and %v to %v: a line differs", o.name, a, b, to)
						}
					}
					for i, got := range z.Data {
						if want := o.at(x.Data[i], y.Data[i], to); math.Float64bits(got) != math.Float64bits(want) {
							t.Fatalf("%s of %v %v and %v %v to %v: %v, want %v", o.name, a, x.Data[i], b, y.Data[i], to, got, want)
						}
					}
				}
			}
		}
	}
	if short < 200 {
		t.Errorf("only %d ways are short", short)
	}
}
