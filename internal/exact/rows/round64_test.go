package rows

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// TestRoundSlice: the kernel rounds as the definition does: all numbers of 16 bits, those half-way between two and next
// to these, subnormal and too large ones, NaNs with payloads, and numbers at random.
func TestRoundSlice(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(4, 4))
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16, fp16.TF32, fp16.Float32, fp16.Float64} {
			var x []float64
			for bits := range uint64(1 << 16) {
				v := fp16.Float16.FromBits(bits)
				if f == fp16.BFloat16 {
					v = fp16.BFloat16.FromBits(bits)
				}
				half := v + f.Ulp(v)/2
				x = append(x, v, half, math.Nextafter(half, 0), math.Nextafter(half, math.Inf(1)))
			}
			x = append(x, math.Float64frombits(0x7ff0000000000001), math.Float64frombits(0xfff8000000000abc),
				math.MaxFloat64, -math.MaxFloat64, 0x1p-1074, -0x1p-1074)
			for range 1 << 17 {
				x = append(x, math.Float64frombits(r.Uint64()), math.Ldexp(r.Float64()-.5, r.IntN(60)-40))
			}
			want := make([]float64, len(x))
			f.RoundSlice(want, x)
			got := make([]float64, len(x)+1)
			got[len(x)] = 7
			RoundSlice(f, got[:len(x)], x)
			inPlace := append([]float64(nil), x...)
			RoundSlice(f, inPlace, inPlace)
			for i, w := range want {
				if math.Float64bits(got[i]) != math.Float64bits(w) || math.Float64bits(inPlace[i]) != math.Float64bits(w) {
					t.Fatalf("%s, %v of %x: %x and, in place, %x, want %x", isa, f, math.Float64bits(x[i]),
						math.Float64bits(got[i]), math.Float64bits(inPlace[i]), math.Float64bits(w))
				}
			}
			if got[len(x)] != 7 {
				t.Errorf("%s, %v: wrote beyond the end", isa, f)
			}
			for n := range 40 { // all ends
				RoundSlice(f, got[:n], x[:n])
				for i := range n {
					if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
						t.Fatalf("%s, %v: number %d of %d", isa, f, i, n)
					}
				}
			}
		}
	}
}

func BenchmarkRoundSlice(b *testing.B) {
	x, y := make([]float64, 1<<13), make([]float64, 1<<13)
	r := rand.New(rand.NewPCG(4, 4))
	for i := range x {
		x[i] = r.NormFloat64()
	}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		b.Run(f.String()+"/definition", func(b *testing.B) {
			b.SetBytes(1 << 16)
			for range b.N {
				f.RoundSlice(y, x)
			}
		})
		b.Run(f.String()+"/kernel", func(b *testing.B) {
			b.SetBytes(1 << 16)
			for range b.N {
				RoundSlice(f, y, x)
			}
		})
	}
}
