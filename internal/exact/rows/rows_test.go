package rows_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/rows"
)

// row returns numbers of a format, odd ones among them.
func row(r *rand.Rand, f fp16.Format, pixels int) []float32 {
	x := make([]float32, 8*pixels)
	for i := range x {
		v := math.Ldexp(r.NormFloat64(), r.IntN(40)-20)
		if r.IntN(9) == 0 {
			v = []float64{
				0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-149, -0x1p-24, 65504, -0x1p127,
			}[r.IntN(9)]
		}
		x[i] = float32(f.Round(v))
	}
	return x
}

// TestOperations: each operation rounds once, on every instruction set, in place and
// not.
func TestOperations(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(1, 1))
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for _, f := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
			o := rows.New(f)
			rn := f.Round
			for trial := range 60 {
				pixels := 1 + trial%9
				x, n := row(r, f, pixels), row(r, fp16.Float32, pixels)
				var s [8]float32
				for l := range s {
					s[l] = float32(r.NormFloat64())
				}
				slopes := [8]float32{0x1.8p-3, 0x1.8p-3, 0x1.8p-3, 0x1.8p-3, 0x1.8p-3, 0x1.8p-3, 0x1.8p-3, 0x1.8p-3}
				for name, op := range map[string]struct {
					run  func(dst, x, n []float32)
					want func(x, n, s float64) float64
				}{
					"add": {func(dst, x, n []float32) { o.Add(dst, x, n) }, func(x, n, s float64) float64 { return rn(x + n) }},
					"noise": {func(dst, x, n []float32) { o.Noise(dst, x, n, &s) },
						func(x, n, s float64) float64 { return rn(x + rn(rn(n)*s)) }},
					"modulate": {func(dst, x, n []float32) { o.Modulate(dst, x, n, &s) },
						func(x, n, s float64) float64 { return rn(x * rn(1+rn(rn(n)*s))) }},
					"mul": {func(dst, x, n []float32) { o.Mul(dst, x, n) }, func(x, n, s float64) float64 { return rn(x * n) }},
					"scale": {func(dst, x, n []float32) { o.Scale(dst, x, &s) },
						func(x, n, s float64) float64 { return rn(x * s) }},
					"shift": {func(dst, x, n []float32) { o.Shift(dst, x, &s) },
						func(x, n, s float64) float64 { return rn(x + s) }},
					"divide": {func(dst, x, n []float32) { o.Divide(dst, x, &s) },
						func(x, n, s float64) float64 { return rn(x / s) }},
					"most": {func(dst, x, n []float32) { o.Most(dst, x, &s) },
						func(x, n, s float64) float64 { return rn(max(x, s)) }},
					"least": {func(dst, x, n []float32) { o.Least(dst, x, &s) },
						func(x, n, s float64) float64 { return rn(min(x, s)) }},
					"leak": {func(dst, x, n []float32) { o.Leak(dst, x, &slopes) },
						func(x, n, s float64) float64 { return max(x, rn(x*0x1.8p-3)) }},
					"round": {func(dst, x, n []float32) { o.Round(dst, n) }, func(x, n, s float64) float64 { return rn(n) }},
				} {
					dst := make([]float32, len(x))
					op.run(dst, x, n)
					same := append([]float32(nil), x...)
					if name == "round" {
						same = append([]float32(nil), n...)
						op.run(same, x, same)
					} else {
						op.run(same, same, n)
					}
					for i := range dst {
						want := float32(op.want(float64(x[i]), float64(n[i]), float64(s[i%8])))
						if want != want {
							want = math.Float32frombits(0x7fc00000)
						}
						for _, got := range []float32{dst[i], same[i]} {
							if math.Float32bits(got) != math.Float32bits(want) {
								t.Fatalf("%s, %v, %s: x %x, n %x, s %x: %x, want %x", isa, f, name, x[i], n[i], s[i%8], got, want)
							}
						}
					}
				}
			}
		}
	}
}

// TestTF32: all ways of rounding, on every instruction set.
func TestTF32(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(3, 3))
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for _, how := range []fp16.Rounding{fp16.NearestEven, fp16.NearestAway, fp16.TowardZero} {
			for trial := range 300 {
				x := row(r, fp16.Float32, 1+trial%7)
				for i := range x {
					if i%3 == 0 { // ties and their neighbours, overflow, subnormal numbers
						b := r.Uint32()&^0x1fff | 0x1000
						x[i] = math.Float32frombits(b + uint32(r.IntN(3)) - 1)
						if i%2 == 0 {
							x[i] = []float32{math.MaxFloat32, -math.MaxFloat32, 0x1p-136, 0x1p-137, 0x1p-149, 0x1.8p-137}[i%6]
						}
					}
					if x[i] != x[i] {
						x[i] = math.Float32frombits(0x7fc00000)
					}
				}
				dst := make([]float32, len(x))
				rows.TF32(dst, x, how)
				for i, v := range dst {
					want := float32(fp16.RoundTF32(float64(x[i]), how))
					if want != want {
						want = math.Float32frombits(0x7fc00000)
					}
					if math.Float32bits(v) != math.Float32bits(want) {
						t.Fatalf("%s, %v: %x gives %x, want %x", isa, how, x[i], v, want)
					}
				}
			}
		}
	}
}

// TestLayout: lines become pixels and lines again; missing channels are 0.
func TestLayout(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(2, 2))
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for pixels := range 20 {
			for channels := range 9 {
				in, back := make([][]float64, channels), make([][]float64, channels)
				for c := range in {
					back[c] = make([]float64, pixels+1)
					for range pixels + 1 {
						in[c] = append(in[c], float64(float32(r.NormFloat64())))
					}
				}
				dst := row(r, fp16.Float32, pixels+1)
				rows.Gather(dst, in, new([8]*float64))
				for i, v := range dst {
					want := 0.0
					if i%8 < channels {
						want = in[i%8][i/8]
					}
					if float64(v) != want {
						t.Fatalf("%s, %d pixels, %d channels: channel %d of pixel %d is %v, want %v",
							isa, pixels+1, channels, i%8, i/8, v, want)
					}
				}
				rows.Scatter(back, dst)
				for c := range back {
					for x, v := range back[c] {
						if v != in[c][x] {
							t.Fatalf("scatter: %v, want %v", v, in[c][x])
						}
					}
				}
				if !rows.Finite(dst) {
					t.Fatal("not finite")
				}
				dst[r.IntN(len(dst))] = float32(math.Inf(1 - 2*r.IntN(2)))
				if rows.Finite(dst) {
					t.Fatal("finite")
				}
			}
		}
	}
}
