package asm

import (
	"math"
	"math/rand/v2"
	"testing"
)

func eachSingles(t *testing.T, test func(t *testing.T, k *Singles)) {
	for _, b := range backends {
		if b.singles != nil {
			t.Run(b.name, func(t *testing.T) { test(t, b.singles) })
		}
	}
}

// one is a number with the one NaN.
func one(v float32) uint32 {
	if v != v {
		return 0x7fc00000
	}
	return math.Float32bits(v)
}

// TestSingles: sums, products and standardized numbers with the one NaN, in place too.
func TestSingles(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)),
		math.Float32frombits(0xffc00123), math.MaxFloat32, 0x1p-149, 0x1p-127}
	eachSingles(t, func(t *testing.T, k *Singles) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{16, 32, 48, 208} {
			for trial := range 20 {
				var in [3]*guarded[float32]
				for j := range in {
					in[j] = newGuarded[float32](n, 7)
					for i := range n {
						in[j].data()[i] = float32(r.NormFloat64())
						if trial%2 == 1 && r.IntN(3) == 0 {
							in[j].data()[i] = special[r.IntN(len(special))]
						}
					}
				}
				a, b, c, dst := in[0], in[1], in[2], newGuarded[float32](n, 7)
				line := [2]float64{r.NormFloat64(), r.NormFloat64()}
				for name, of := range map[string]struct {
					kernel func(dst *float32)
					want   func(i int) float32
				}{
					"add": {func(dst *float32) { k.Add(dst, a.at(0), b.at(0), n) },
						func(i int) float32 { return a.data()[i] + b.data()[i] }},
					"mul": {func(dst *float32) { k.Mul(dst, a.at(0), b.at(0), n) },
						func(i int) float32 { return a.data()[i] * b.data()[i] }},
					"scale": {func(dst *float32) { k.Scale(dst, a.at(0), b.at(0), n) },
						func(i int) float32 { return a.data()[i] * b.data()[0] }},
					"line": {func(dst *float32) { k.Line(dst, a.at(0), b.at(0), c.at(0), n, &line) }, func(i int) float32 {
						x := float64(float64(float64(a.data()[i])-line[0]) * line[1])
						return float32(math.FMA(x, float64(b.data()[i]), float64(c.data()[i])))
					}},
				} {
					want := make([]uint32, n)
					for i := range want {
						want[i] = one(of.want(i))
					}
					same := func(got []float32) {
						t.Helper()
						for i, v := range got {
							if math.Float32bits(v) != want[i] {
								t.Fatalf("%s, %d numbers: number %d is %x, want %x", name, n, i, math.Float32bits(v), want[i])
							}
						}
					}
					of.kernel(dst.at(0))
					dst.check(t, name)
					same(dst.data())
					before := append([]float32(nil), a.data()...)
					of.kernel(a.at(0))
					a.check(t, name)
					same(a.data())
					copy(a.data(), before)
				}
			}
		}
	})
}

// TestSinglesSums: the sums, squares and greatest numbers of each lane, from what is there on.
func TestSinglesSums(t *testing.T) {
	eachSingles(t, func(t *testing.T, k *Singles) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{16, 48, 208} {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			var most [16]float32
			var sums, squares, wantSums, wantSquares [16]float64
			for i := range most {
				most[i], sums[i], squares[i] = float32(r.NormFloat64()), r.NormFloat64(), r.NormFloat64()
			}
			wantMost, mean := most, 0.3
			wantSums, wantSquares = sums, squares
			for i, v := range x {
				d := float64(v) - mean
				wantMost[i%16] = max(wantMost[i%16], v)
				wantSums[i%16] += float64(v)
				wantSquares[i%16] = math.FMA(d, d, wantSquares[i%16])
			}
			k.Greatest(&x[0], n, &most)
			k.Sums(&x[0], n, &sums)
			k.Squares(&x[0], n, &mean, &squares)
			if most != wantMost || sums != wantSums || squares != wantSquares {
				t.Errorf("%d numbers: %v, %v and %v, want %v, %v and %v", n, most, sums, squares, wantMost, wantSums, wantSquares)
			}
		}
	})
}

// TestSinglesExp: exponentials are near, 0 far below the top, and what is added; no other
// memory changes. Package reduce holds their bits.
func TestSinglesExp(t *testing.T) {
	eachSingles(t, func(t *testing.T, k *Singles) {
		const n = 48
		src, dst, top := newGuarded[float32](n, 7), newGuarded[float32](n, 7), float32(1.5)
		var sums, want [16]float32
		for i := range n {
			src.data()[i] = top - float32(i*i)/20
		}
		k.Exp(dst.at(0), src.at(0), n, &top, &sums)
		dst.check(t, "exponentials")
		for i, y := range dst.data() {
			z := float64(src.data()[i] - top)
			e := math.Exp(z)
			if z < -87 {
				e = 0
			}
			if math.Abs(float64(y)-e) > 0x1.8p-23*e {
				t.Errorf("the exponential of %v is %v, want %v", z, y, e)
			}
			want[i%16] += y
		}
		if sums != want {
			t.Errorf("sums %v, want %v", sums, want)
		}
		k.Exp(src.at(0), src.at(0), n, &top, &sums)
		src.check(t, "in place")
		for i, y := range src.data() {
			if y != dst.data()[i] {
				t.Errorf("in place, number %d is %v, want %v", i, y, dst.data()[i])
			}
		}
	})
}
