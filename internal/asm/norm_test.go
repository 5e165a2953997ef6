package asm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// eachNorm runs a test for every backend of this CPU that has kernels for norms.
func eachNorm(t *testing.T, run func(t *testing.T, k *Norm)) {
	n := 0
	for _, b := range backends {
		if b.norm != nil {
			n++
			t.Run(b.name, func(t *testing.T) { run(t, b.norm) })
		}
	}
	t.Logf("%d backends with kernels", n)
}

// normLengths are multiples of 8.
var normLengths = []int{8, 16, 24, 32, 40, 56, 64, 72, 200, 2048}

// normData fills v with numbers of any size that a float32 has, special ones
// among them if odd says so.
func normData(r *rand.Rand, v []float64, odd bool) {
	for i := range v {
		v[i] = float64(float32(math.Ldexp(r.NormFloat64(), r.IntN(20)-10)))
		if odd && r.IntN(9) == 0 {
			v[i] = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), -math.NaN(),
				0x1p-149, -0x1p-149, math.MaxFloat32, -math.MaxFloat32}[r.IntN(10)]
		}
	}
}

func TestNormTop(t *testing.T) {
	eachNorm(t, func(t *testing.T, k *Norm) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range normLengths {
			for trial := range 40 {
				x := newGuarded[float64](n, math.NaN())
				normData(r, x.data(), trial&1 == 1)
				var want [16]uint32
				for i, v := range x.data() {
					b := math.Float64bits(v) &^ (1 << 63)
					want[2*(i%8)] = max(want[2*(i%8)], uint32(b))
					want[2*(i%8)+1] = max(want[2*(i%8)+1], uint32(b>>32))
				}
				out := struct{ before, top, after [16]uint32 }{top: [16]uint32{1: 1 << 31}}
				k.Top(x.at(0), n, &out.top)
				if out.top != want {
					t.Fatalf("%d numbers: %x, want %x", n, out.top, want)
				}
				if out.before != [16]uint32{} || out.after != [16]uint32{} {
					t.Fatal("wall written")
				}
			}
		}
	})
}

// normSums is the kernel Sums in plain Go.
func normSums(x []float64, acc *[6][8]float64) {
	add := func(r float64, a *float64) float64 {
		t := *a + r
		r -= t - *a
		*a = t
		return r
	}
	for i, v := range x {
		l := i % 8
		q := float64(v * v)
		left := add(add(v, &acc[0][l]), &acc[1][l])
		acc[4][l] += add(add(q, &acc[2][l]), &acc[3][l])
		acc[5][l] = math.Float64frombits(math.Float64bits(acc[5][l]) | math.Float64bits(left))
	}
}

func TestNormSums(t *testing.T) {
	eachNorm(t, func(t *testing.T, k *Norm) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range normLengths {
			for trial := range 40 {
				x := newGuarded[float64](n, 7)
				normData(r, x.data(), false)
				if trial%5 == 0 { // a number that is not finite is seen by its lane
					x.data()[r.IntN(n)] = math.Inf(1)
				}
				var want [6][8]float64
				for i := range 5 {
					for l := range 8 {
						want[i][l] = math.Ldexp(1+r.Float64(), []int{20, -2, 30, -10, 0}[i])
					}
				}
				out := struct{ before, acc, after [6][8]float64 }{acc: want}
				normSums(x.data(), &want)
				k.Sums(x.at(0), n, &out.acc)
				for i := range want {
					for l, w := range want[i] {
						if g := out.acc[i][l]; math.Float64bits(g) != math.Float64bits(w) && (g == g || w == w) {
							t.Fatalf("%d numbers, accumulator %d of lane %d: %x, want %x", n, i, l, g, w)
						}
					}
				}
				if out.before != [6][8]float64{} || out.after != [6][8]float64{} {
					t.Fatal("wall written")
				}
			}
		}
	})
}

// normApply is the kernel Apply for one number in plain Go, for a format of p
// bits.
func normApply(x float64, line [6]float64, p, emin, emax int) (stored uint64, open bool) {
	d := float64(float64((x-line[0])-line[1]) * line[2])
	y := d + line[3]
	w := math.FMA(math.Abs(d), line[4], float64(math.Abs(y)*line[5]))
	lo, hi := math.Float64bits(y-w), math.Float64bits(y+w)
	if y-w != y+w { // so is a NaN
		half := uint64(1) << (52 - p)
		cut := 2*half - 1
		abs := (lo + half) &^ cut &^ (1 << 63)
		least, beyond := uint64(emin+1023)<<52, uint64(emax+1024)<<52
		open = (lo+half)&^cut != (hi+half)&^cut || abs < least || abs >= beyond
	}
	return (lo + 1<<(52-p)) &^ (1<<(53-p) - 1), open
}

func TestNormApply(t *testing.T) {
	formats := [Formats]struct{ p, emin, emax int }{
		Float32: {24, -126, 127}, Float16: {11, -14, 15}, BFloat16: {8, -126, 127},
	}
	eachNorm(t, func(t *testing.T, k *Norm) {
		r := rand.New(rand.NewPCG(5, 6))
		opened, decided := 0, 0
		for f, g := range formats {
			for _, n := range normLengths {
				for trial := range 30 {
					src, dst := newGuarded[float64](n, 7), newGuarded[float64](n, 7)
					flags := newGuarded[uint8](n/8, 7)
					normData(r, src.data(), trial&1 == 1)
					scale := math.Ldexp(1+r.Float64(), []int{0, 0, -20, 20, -140, 130}[trial%6])
					line := [6]float64{r.NormFloat64(), math.Ldexp(r.NormFloat64(), -r.IntN(60)), scale, scale * r.NormFloat64(),
						math.Ldexp(1, -r.IntN(40)-10), math.Ldexp(1, -r.IntN(40)-12)}
					if trial%7 == 0 { // x = mu, and beta = 0
						line[1], line[3] = 0, 0
						src.data()[r.IntN(n)] = line[0]
					}
					before := append([]float64(nil), src.data()...)
					any := k.Apply[f](dst.at(0), src.at(0), n, &line, flags.at(0))
					src.check(t, "src")
					dst.check(t, "dst")
					flags.check(t, "open")
					seen := false
					for i, x := range before {
						want, open := normApply(x, line, g.p, g.emin, g.emax)
						at := fmt.Sprintf("format %d, %d numbers, x %x, line %x", f, n, x, line)
						if got := flags.data()[i/8]>>(i%8)&1 == 1; got != open {
							t.Fatalf("%s: open %v, want %v", at, got, open)
						}
						if got := math.Float64bits(dst.data()[i]); !open && got != want {
							t.Fatalf("%s: %x, want %x", at, got, want)
						}
						if seen = seen || open; open {
							opened++
						} else {
							decided++
						}
					}
					if seen != (any != 0) {
						t.Fatalf("format %d, %d numbers: any is %x", f, n, any)
					}
					// In place.
					k.Apply[f](src.at(0), src.at(0), n, &line, flags.at(0))
					src.check(t, "dst in place")
					for i, want := range dst.data() {
						if got := src.data()[i]; math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
							t.Fatalf("format %d, %d numbers, in place: %x, want %x", f, n, got, want)
						}
					}
				}
			}
		}
		if opened < 10000 || decided < 10000 {
			t.Errorf("%d open, %d decided: both should happen", opened, decided)
		}
	})
}

// TestNormApplyRow: each number as Apply has it with its own slope and beta, and those near
// the mean are open.
func TestNormApplyRow(t *testing.T) {
	formats := [Formats]struct{ p, emin, emax int }{
		Float32: {24, -126, 127}, Float16: {11, -14, 15}, BFloat16: {8, -126, 127},
	}
	eachNorm(t, func(t *testing.T, k *Norm) {
		r := rand.New(rand.NewPCG(7, 8))
		opened, near, decided := 0, 0, 0
		for f, g := range formats {
			if k.ApplyRow[f] == nil {
				return
			}
			for _, n := range normLengths {
				for trial := range 30 {
					src, dst := newGuarded[float64](n, 7), newGuarded[float64](n, 7)
					gamma, beta := newGuarded[float64](n, 7), newGuarded[float64](n, 7)
					flags := newGuarded[uint8](n/8, 7)
					normData(r, src.data(), trial&1 == 1)
					scale := math.Ldexp(1+r.Float64(), []int{0, 0, -20, 20, -140, 130}[trial%6])
					for i := range n {
						gamma.data()[i], beta.data()[i] = r.NormFloat64(), float64(i%3)*scale*r.NormFloat64()
					}
					row := [6]float64{r.NormFloat64(), math.Ldexp(r.NormFloat64(), -r.IntN(60)), scale,
						math.Ldexp(r.Float64(), -r.IntN(40)), math.Ldexp(1, -r.IntN(40)-10),
						math.Ldexp(1, -r.IntN(40)-12)}
					any := k.ApplyRow[f](dst.at(0), src.at(0), gamma.at(0), beta.at(0), n, &row, flags.at(0))
					for _, m := range []*guarded[float64]{src, dst, gamma, beta} {
						m.check(t, "numbers")
					}
					flags.check(t, "open")
					seen := false
					for i, x := range src.data() {
						line := [6]float64{row[0], row[1], float64(gamma.data()[i] * row[2]), beta.data()[i], row[4], row[5]}
						want, open := normApply(x, line, g.p, g.emin, g.emax)
						if !(math.Abs((x-row[0])-row[1]) > row[3]) {
							open = true
							near++
						}
						at := fmt.Sprintf("format %d, %d numbers, x %x, line %x", f, n, x, line)
						if got := flags.data()[i/8]>>(i%8)&1 == 1; got != open {
							t.Fatalf("%s: open %v, want %v", at, got, open)
						}
						if got := math.Float64bits(dst.data()[i]); !open && got != want {
							t.Fatalf("%s: %x, want %x", at, got, want)
						}
						if seen = seen || open; open {
							opened++
						} else {
							decided++
						}
					}
					if seen != (any != 0) {
						t.Fatalf("format %d, %d numbers: any is %x", f, n, any)
					}
				}
			}
		}
		if opened < 10000 || decided < 10000 || near < 1000 {
			t.Errorf("%d open, %d near the mean, %d decided: all should happen", opened, near, decided)
		}
	})
}
