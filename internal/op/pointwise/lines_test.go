package pointwise

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// TestVectored: functions that have kernels have the bits of their evaluation number by number, in every instruction
// set and format, for all lengths, in place and apart, in lines and in rows, with numbers of every magnitude and those
// that are not finite.
func TestVectored(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	r := rand.New(rand.NewPCG(51, 52))
	number := func() float64 {
		switch r.IntN(6) {
		case 0:
			return float64(math.Float32frombits(r.Uint32()))
		case 1:
			return float64(float32(120 * r.NormFloat64()))
		case 2:
			return []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), fp16.NaN, math.MaxFloat32, -0x1p-149,
				-103.97, -104, 16.6, 17.33, -700, -88}[r.IntN(13)]
		}
		return float64(float32(3 * r.NormFloat64()))
	}
	for name := range vectored {
		f, err := Parse(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			for _, format := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16, fp16.Float64} {
				for n := range 150 {
					x, want := tensor.New(format, n), make([]float64, n)
					for i := range x.Data {
						x.Data[i] = format.Round(number())
						want[i] = f.fn.at(x.Data[i], f.in(format), format)
					}
					y, over := tensor.New(format, n), x.Clone()
					Unary(y, x, f)
					f.Lines(format)(over.Data, over.Data)
					for i := range want {
						for _, got := range []float64{y.Data[i], over.Data[i]} {
							if math.Float64bits(got) != math.Float64bits(want[i]) {
								t.Fatalf("%s, %s, %v: %x of %d becomes %x, want %x", name, isa, format, x.Data[i], n, got, want[i])
							}
						}
					}
					if n%8 != 0 || n == 0 || format == fp16.Float64 || format == fp16.TF32 {
						continue
					}
					src, dst := make([]float32, n), make([]float32, n+8)
					for i, v := range x.Data {
						src[i] = float32(v)
					}
					dst[n] = 7
					f.Rows(format)(dst[:n], src)
					for i, v := range want {
						if math.Float32bits(dst[i]) != math.Float32bits(float32(v)) || dst[n] != 7 {
							t.Fatalf("%s, %s, %v, a row: %x of %d becomes %x, want %x", name, isa, format, src[i], n, dst[i], v)
						}
					}
				}
			}
		}
	}
}

// TestRowsOfOperations: functions that rows have without a kernel of lines have the bits of their evaluation number by
// number, in every instruction set and format, with ends that are zeros, infinities, or the wrong way round.
func TestRowsOfOperations(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	r := rand.New(rand.NewPCG(53, 54))
	for _, c := range []struct {
		name   string
		params map[string]float64
	}{
		{"leaky_relu", nil}, {"leaky_relu", map[string]float64{"negative_slope": 1}},
		{"leaky_relu", map[string]float64{"negative_slope": 0}}, {"leaky_relu", map[string]float64{"negative_slope": -0.3}},
		{"leaky_relu", map[string]float64{"negative_slope": 3}}, {"relu6", nil}, {"hardtanh", nil},
		{"clip", map[string]float64{"min": 0.3}}, {"clip", map[string]float64{"max": 0.1}},
		{"clip", map[string]float64{"min": 0, "max": math.Copysign(0, -1)}},
		{"clip", map[string]float64{"min": 2, "max": -0.7}},
		{"hardswish", nil}, {"hardsigmoid", nil},
	} {
		f, err := Parse(c.name, c.params)
		if err != nil {
			t.Fatal(err)
		}
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			for _, format := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
				for n := 8; n < 2000; n *= 2 {
					src, dst := make([]float32, n), make([]float32, n)
					for i := range src {
						v := []float64{3 * r.NormFloat64(), float64(math.Float32frombits(r.Uint32())), math.Ldexp(r.NormFloat64(), -30),
							[]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), fp16.NaN, -3, 3, 1, -1.5}[r.IntN(9)]}[r.IntN(4)]
						src[i] = float32(format.Round(float64(float32(v))))
					}
					f.Rows(format)(dst, src)
					for i, x := range src {
						want := float32(f.fn.at(float64(x), f.in(format), format))
						if math.Float32bits(dst[i]) != math.Float32bits(want) {
							t.Fatalf("%s, %v, %v: %x becomes %x, want %x", f, isa, format, x, dst[i], want)
						}
					}
				}
			}
		}
	}
}
