package act_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

// TestRows: rows have the bits of tensors, on every instruction set.
func TestRows(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(41, 1))
	for _, f := range act.All() {
		for _, format := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			for _, pixels := range []int{1, 2, 7, 8, 9, 500} {
				x := tensor.New(format, 1, 1, 1, 8*pixels)
				row := make([]float32, 8*pixels)
				for i := range x.Data {
					v := 3 * r.NormFloat64()
					if i%11 == 0 {
						v = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-149,
							-0x1p-149, -14.5, 0x1p120, -0x1p120, 1e-3}[i/11%11]
					}
					x.Data[i] = format.Round(v)
					row[i] = float32(x.Data[i])
				}
				want := tensor.Like(x)
				act.Forward(want, x, f)
				for _, isa := range asm.ISAs() {
					if err := asm.Use(isa); err != nil {
						t.Fatal(err)
					}
					dst := make([]float32, len(row))
					act.NewRows(f, format).Apply(dst, row, act.NewSpace(pixels))
					for i, w := range want.Data {
						g, w := math.Float32bits(dst[i]), math.Float32bits(float32(w))
						if w != g && !(w&0x7fffffff > 0x7f800000 && g == 0x7fc00000) {
							t.Fatalf("%s, %v to %v: x %x gives %x, want %x", isa, f, format, row[i], dst[i], want.Data[i])
						}
					}
				}
			}
		}
	}
}
