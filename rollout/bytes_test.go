package rollout

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// TestAppendAs: kernels store the bytes that package fp16 does.
func TestAppendAs(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(6, 6))
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
			for _, n := range []int{0, 1, 7, 8, 9, 31, 1000, together, together + 1, 3*together + 77} {
				for _, wide := range []float64{0, 0.001, 1} { // how many are no float32 numbers
					x := make([]float64, n)
					for i := range x {
						x[i] = float64(math.Float32frombits(r.Uint32()))
						if r.IntN(2) == 0 {
							x[i] = float64(float32(r.NormFloat64()))
						}
						if r.Float64() < wide {
							x[i] = []float64{r.NormFloat64(), math.NaN(), math.Float64frombits(r.Uint64()), 1e-300, -1e300}[r.IntN(5)]
						}
					}
					before := []byte("before")
					got, want := appendAs(f, bytes.Clone(before), x), f.Append(before, x)
					if !bytes.Equal(got, want) {
						t.Fatalf("%s, %v: %d numbers, %v of them wide: other bytes", isa, f, n, wide)
					}
				}
			}
		}
	}
}
