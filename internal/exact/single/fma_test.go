package single

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/internal/judges/bigref"
)

// cases returns triples whose exact results crowd around the midpoints of
// the float32 grid, in every binade, and random ones.
func cases() [][3]float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	var cases [][3]float32
	add := func(a, b, c float32) { cases = append(cases, [3]float32{a, b, c}) }

	// a*b is half an ulp of c times 1 - i^2 2^-46: the float64 sum lands on the
	// midpoint next to c if c is normal, though the exact one misses it. With
	// j = i it misses by more, or hits.
	for e := -149; e <= 127; e++ {
		ulp := max(e, -126) - 23
		for range 12 {
			m := uint32(rng.Uint32() & (1<<23 - 1))
			c := float32(math.Ldexp(float64(1<<23|m), e-23)) // rounded if e < -126
			i, j := rng.IntN(4), rng.IntN(4)
			k := ulp/2 + rng.IntN(20) - 10
			a := float32(math.Ldexp(1+math.Ldexp(float64(i), -23), k))
			b := float32(math.Ldexp(1-math.Ldexp(float64(j), -23), ulp-1-k))
			for _, s := range []float32{1, -1} {
				add(a, b, s*c)
				add(-a, b, s*c)
			}
		}
	}
	// Overflow begins at the midpoint beyond the largest number.
	for i := range 8 {
		a := float32(1 + math.Ldexp(float64(i), -23))
		for j := range 8 {
			b := float32(math.Ldexp(1-math.Ldexp(float64(j), -24), 103))
			add(a, b, math.MaxFloat32)
			add(a, -b, -math.MaxFloat32)
		}
	}
	// Products around the midpoints of the subnormal grid, and no addend.
	for range 2000 {
		a := float32(math.Ldexp(float64(1<<23|rng.Uint32N(1<<23)), -23-75))
		b := float32(math.Ldexp(float64(2*rng.Uint32N(1<<(rng.UintN(20)))+1), -75)) / (a * 0x1p75)
		add(a, b, 0)
		add(-a, b, float32(math.Copysign(0, -1)))
		add(a, b, math.Float32frombits(rng.Uint32N(1<<10)))
	}
	for range 20000 {
		t := [3]float32{}
		for i := range t {
			t[i] = math.Float32frombits(rng.Uint32())
			for t[i] != t[i] || math.IsInf(float64(t[i]), 0) {
				t[i] = math.Float32frombits(rng.Uint32())
			}
		}
		add(t[0], t[1], t[2])
		add(t[0], 1/t[0], -1+t[1]*0x1p-149)
	}
	zero, minus := float32(0), float32(math.Copysign(0, -1))
	for _, a := range []float32{zero, minus, 1, -1, 0x1p-149, -0x1p-149} {
		for _, b := range []float32{zero, minus, 1, -1, 0x1p-149, 0x1p-1} {
			for _, c := range []float32{zero, minus, 1, -1, 0x1p-149, -0x1p-149} {
				add(a, b, c)
			}
		}
	}
	finite := cases[:0]
	for _, t := range cases {
		if s := t[0] + t[1] + t[2]; s-s == 0 {
			finite = append(finite, t)
		}
	}
	return finite
}

func TestFMA(t *testing.T) {
	twice, subnormal, zero := 0, 0, 0
	for _, x := range cases() {
		a, b, c := x[0], x[1], x[2]
		want := bigref.FMA32(a, b, c)
		bits := math.Float32bits(want)
		if got := FMA(a, b, c); math.Float32bits(got) != bits {
			t.Fatalf("FMA(%x, %x, %x) = %#08x, want %#08x", a, b, c, math.Float32bits(got), bits)
		}
		if got := Settle(a, b, c); math.Float32bits(got) != bits {
			t.Fatalf("Settle(%x, %x, %x) = %#08x, want %#08x", a, b, c, math.Float32bits(got), bits)
		}
		if float32(math.FMA(float64(a), float64(b), float64(c))) != want {
			twice++
		}
		switch abs := math.Abs(float64(want)); {
		case abs == 0:
			zero++
		case abs < 0x1p-126:
			subnormal++
		}
	}
	t.Logf("%d results are wrong if rounded twice, %d are subnormal, %d zero", twice, subnormal, zero)
	if twice < 1000 || subnormal < 1000 || zero < 100 {
		t.Error("too few hard cases")
	}
}

// Infinities and NaNs go the way of IEEE 754.
func TestSpecial(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, x := range [][4]float32{
		{inf, 1, 1, inf}, {inf, -2, 1, -inf}, {1, 1, inf, inf}, {1, 1, -inf, -inf},
		{inf, 1, -inf, nan}, {inf, 0, 1, nan}, {nan, 1, 1, nan}, {1, 1, nan, nan},
		{0x1p100, 0x1p100, 0, inf}, {0x1p100, 0x1p100, -inf, -inf},
		{math.MaxFloat32, math.MaxFloat32, -math.MaxFloat32, inf},
	} {
		for _, got := range []float32{FMA(x[0], x[1], x[2]), Settle(x[0], x[1], x[2])} {
			if got != x[3] && (got == got || x[3] == x[3]) {
				t.Errorf("FMA(%g, %g, %g) = %g, want %g", x[0], x[1], x[2], got, x[3])
			}
		}
	}
}
