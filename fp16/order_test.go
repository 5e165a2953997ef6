package fp16_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// TestWideOrder compares neighbours and distances of the formats that are too
// large to visit with the standard library's, and TF32's with counting.
func TestWideOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	up := map[fp16.Format]func(float64) float64{
		fp16.Float64: func(v float64) float64 { return math.Nextafter(v, math.Inf(1)) },
		fp16.Float32: func(v float64) float64 { return float64(math.Nextafter32(float32(v), float32(math.Inf(1)))) },
		fp16.TF32: func(v float64) float64 {
			if v < 0 && v == -math.Ldexp(0.5, math.Ilogb(v)+1) { // the ulp below a power of two
				return v + max(fp16.TF32.Ulp(v)/2, limits[fp16.TF32][0])
			}
			return v + fp16.TF32.Ulp(v)
		},
	}
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.TF32} {
		next := up[f]
		vs := []float64{limits[f][0], limits[f][1], limits[f][2] - f.Ulp(limits[f][2]), 1, 2, limits[f][1] - limits[f][0]}
		for range 3000 {
			vs = append(vs, f.Round(math.Ldexp(1+r.Float64(), r.IntN(250)-140)))
		}
		for _, v := range vs {
			for _, v := range []float64{v, -v} {
				if v == 0 {
					continue
				}
				want := next(v)
				if got := f.NextUp(v); got != want {
					t.Fatalf("%v.NextUp(%x) = %x, want %x", f, v, got, want)
				}
				if got := f.NextDown(-v); got != -want {
					t.Fatalf("%v.NextDown(%x) = %x, want %x", f, -v, got, -want)
				}
				// Some steps up, counted.
				w, n := v, uint64(0)
				for k := r.IntN(20); k > 0 && !math.IsInf(w, 1); k-- {
					w, n = next(w), n+1
				}
				if got := f.Distance(v, w); got != n {
					t.Fatalf("%v.Distance(%x, %x) = %d, want %d", f, v, w, got, n)
				}
			}
		}
	}
}

func TestOrderRules(t *testing.T) {
	inf, negZero, nan := math.Inf(1), math.Copysign(0, -1), math.Float64frombits(0xfff8000000000123)
	numbers := map[fp16.Format]uint64{ // steps from 0 to +Inf
		fp16.Float64: 0x7ff << 52, fp16.Float32: 0xff << 23, fp16.TF32: 0xff << 10, fp16.Float16: 0x7c00,
		fp16.BFloat16: 0x7f80,
	}
	for _, f := range formats {
		least, normal, most := limits[f][0], limits[f][1], limits[f][2]
		if f.Smallest() != least || f.SmallestNormal() != normal || f.Largest() != most {
			t.Errorf("%v: limits %x, %x, %x, want %x, %x, %x",
				f, f.Smallest(), f.SmallestNormal(), f.Largest(), least, normal, most)
		}
		for _, c := range []struct{ v, up, down float64 }{
			{0, least, -least}, {negZero, least, -least},
			{least, 2 * least, 0}, {-least, negZero, -2 * least},
			{most, inf, most - f.Ulp(most)}, {inf, inf, most}, {-inf, -most, -inf},
			{normal, normal + least, normal - least},
			{nan, fp16.NaN, fp16.NaN},
		} {
			if up, down := f.NextUp(c.v), f.NextDown(c.v); !same(up, c.up) || !same(down, c.down) {
				t.Errorf("%v: neighbours of %x are %x and %x, want %x and %x", f, c.v, down, up, c.down, c.up)
			}
		}
		for _, c := range []struct {
			a, b float64
			want uint64
		}{
			{0, negZero, 0}, {least, -least, 2}, {most, inf, 1}, {inf, inf, 0}, {inf, -inf, 2 * numbers[f]},
			{0, -inf, numbers[f]},
			{nan, fp16.NaN, 0}, {nan, 0, math.MaxUint64}, {inf, nan, math.MaxUint64},
		} {
			if got := f.Distance(c.a, c.b); got != c.want {
				t.Errorf("%v.Distance(%x, %x) = %d, want %d", f, c.a, c.b, got, c.want)
			}
		}
	}
	// Beyond the numbers.
	f := fp16.Float16
	if f.NextDown(1e6) != 65504 || f.NextUp(1e6) != inf || f.NextUp(-1e6) != -65504 || f.NextUp(65505) != inf ||
		f.NextDown(65505) != 65504 {
		t.Errorf("neighbours of 1e6: %v, %v", f.NextDown(1e6), f.NextUp(1e6))
	}
	if !same(f.NextUp(-1e-9), negZero) || f.NextUp(1e-9) != 0x1p-24 || !same(f.NextDown(1e-9), 0) {
		t.Errorf("neighbours of -1e-9: %v", f.NextUp(-1e-9))
	}
}

func TestShapes(t *testing.T) {
	two, three := make([]float64, 2), make([]float64, 3)
	const length = "fp16: dst and src differ in length"
	mustPanic(t, length, func() { fp16.Float64.RoundSlice(two, three) })
	mustPanic(t, length, func() { fp16.Float16.RoundSlice(three, two) })
	mustPanic(t, length, func() { fp16.Pack(fp16.Float16, make([]uint16, 2), three) })
	mustPanic(t, length, func() { fp16.Unpack(fp16.Float16, three, make([]uint16, 2)) })
	mustPanic(t, "fp16: not a format of 16 bits", func() { fp16.Pack(fp16.TF32, make([]uint16, 2), two) })
	mustPanic(t, "fp16: not a format of 16 bits", func() { fp16.Unpack(fp16.Float32, two, make([]uint16, 2)) })
}
