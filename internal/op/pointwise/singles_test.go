package pointwise

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
)

// TestSingles: operations of float32 numbers as they are have the bits of Lines, with numbers of all
// kinds, lines and one number, on every instruction set.
func TestSingles(t *testing.T) {
	defer asm.Use(asm.ISA())
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), fp16.NaN, math.MaxFloat32, 0x1p-149, 1, -3}
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		tried := 0
		for op := range Op(len(operations)) {
			line, do := Lines(op, fp16.Float32, fp16.Float32, fp16.Float32), Singles(op)
			if (line == nil) != (do == nil) {
				t.Fatalf("%v: one of the two is nil", op)
			}
			if line == nil {
				continue
			}
			tried++
			for _, n := range []int{1, 5, 16, 33, 300} {
				for _, sizes := range [][2]int{{n, n}, {1, n}, {n, 1}} {
					var wide [2][]float64
					var in [2][]float32
					for k, size := range sizes {
						for range size {
							v := fp16.Float32.Round(r.NormFloat64())
							if r.IntN(4) == 0 {
								v = special[r.IntN(len(special))]
							}
							wide[k], in[k] = append(wide[k], v), append(in[k], float32(v))
						}
					}
					want, got := make([]float64, n), make([]float32, n)
					line(want, wide[0], wide[1])
					do(got, in[0], in[1])
					for i, v := range want {
						if math.Float32bits(got[i]) != math.Float32bits(float32(v)) {
							t.Fatalf("%s, %v, %d numbers: number %d is %v, want %v", isa, op, n, i, got[i], v)
						}
					}
				}
			}
		}
		if tried < 4 {
			t.Errorf("%d operations", tried)
		}
	}
}
