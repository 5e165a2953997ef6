package asm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// eachPixels runs a test for every backend of this CPU that has pixel kernels.
func eachPixels(t *testing.T, run func(t *testing.T, r *rand.Rand, k *Pixels)) {
	for _, b := range backends {
		if k := b.pixels; k != nil {
			t.Run(b.name, func(t *testing.T) { run(t, rand.New(rand.NewPCG(21, 22)), k) })
		}
	}
}

// normal fills memory with float32 numbers.
func normal[T float32 | float64 | uint8](r *rand.Rand, g *guarded[T]) *guarded[T] {
	for i := range g.data() {
		g.data()[i] = T(float32(r.NormFloat64()))
	}
	return g
}

func TestPixelNorms(t *testing.T) {
	eachPixels(t, func(t *testing.T, r *rand.Rand, k *Pixels) {
		for _, pixels := range []int{4, 12} {
			for _, blocks := range []int{1, 2, 5} {
				image := pixels*8 + 24
				src := normal(r, newGuarded[float32](blocks*image-24, 7))
				scale, out := newGuarded[float64](blocks*8, 7), newGuarded[float64](pixels, 7)
				for i := range scale.data() {
					scale.data()[i] = math.Ldexp(1, r.IntN(200)-100)
				}
				k.Norms(src.at(0), image*4, scale.at(0), blocks, out.at(0), pixels)
				out.check(t, "out")
				for x, got := range out.data() {
					var s [8]float64
					for i := range blocks * 8 {
						v := float64(src.data()[i/8*image+x*8+i%8]) * scale.data()[i]
						s[i%8] = math.FMA(v, v, s[i%8])
					}
					want := math.Sqrt(((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])))
					if got != want {
						t.Fatalf("%d blocks, pixel %d: %v, want %v", blocks, x, got, want)
					}
				}
			}
		}
	})
}

func TestPixelWiden(t *testing.T) {
	eachPixels(t, func(t *testing.T, r *rand.Rand, k *Pixels) {
		for i, pixels := range []int{1, 5, k.Tiles} {
			const blocks = 3
			step := 8 * (1 + i%2)
			image := pixels*step + 16
			src := normal(r, newGuarded[float32](blocks*image-16, 7))
			dst := newGuarded[float64](blocks*k.Tiles*8, 9)
			k.Widen(src.at(0), image*4, step*4, dst.at(0), blocks, pixels)
			dst.check(t, "dst")
			for i, got := range dst.data() {
				b, x, c := i/8/k.Tiles, i/8%k.Tiles, i%8
				want := 9.0
				if x < pixels {
					want = float64(src.data()[b*image+x*step+c])
				}
				if got != want {
					t.Fatalf("block %d, pixel %d, channel %d: %v, want %v", b, x, c, got, want)
				}
			}
		}
	})
}

func TestPixelTaps(t *testing.T) {
	eachPixels(t, func(t *testing.T, r *rand.Rand, k *Pixels) {
		for _, groups := range []int{1, 3} {
			for _, n := range []int{1, 2, 27} {
				taps, reach := make([]int, n), 100
				for i := range taps {
					taps[i] = 8 * r.IntN(reach)
				}
				src := normal(r, newGuarded[float64](reach+groups*k.Tiles, 7))
				u := normal(r, newGuarded[float64](n*k.Outputs, 7))
				m := newGuarded[float64](groups*k.Tiles*k.Outputs, 7)
				k.Taps(src.at(0), &taps[0], n, u.at(0), m.at(0), groups)
				m.check(t, "m")
				for i, got := range m.data() {
					x, o, want := i/k.Outputs, i%k.Outputs, 0.0
					for j, tap := range taps {
						want = math.FMA(src.data()[tap/8+x], u.data()[j*k.Outputs+o], want)
					}
					if got != want {
						t.Fatalf("%d taps, pixel %d, output %d: %v, want %v", n, x, o, got, want)
					}
				}
			}
		}
	})
}

func TestPixelWords(t *testing.T) {
	twoSum := func(a, b float64) (s, e float64) {
		s = a + b
		z := s - a
		return s, (a - (s - z)) + (b - z)
	}
	eachPixels(t, func(t *testing.T, r *rand.Rand, k *Pixels) {
		for _, taps := range []int{1, 3, 5} {
			for _, blocks := range []int{1, 4} {
				line, image := 8*(taps+3), 8*(taps+3)*taps+16
				src, w := newGuarded[float32](blocks*image, 7), newGuarded[float32](blocks*taps*taps*8, 7)
				for _, g := range []*guarded[float32]{src, w} {
					for i := range g.data() {
						g.data()[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
					}
				}
				var out [24]float64
				k.Words(src.at(8), line*4, image*4, w.at(0), taps, blocks, &out)
				for c := range 8 {
					var s, l, lost float64
					for i := range blocks * taps * taps {
						b, y, x := i/taps/taps, i/taps%taps, i%taps
						var e float64
						s, e = twoSum(s, float64(src.data()[8+b*image+y*line+x*8+c])*float64(w.data()[i*8+c]))
						l, e = twoSum(l, e)
						lost += math.Abs(e)
					}
					if out[c] != s || out[8+c] != l || out[16+c] != lost {
						t.Fatalf("%d taps, %d blocks, channel %d: %v, %v, %v, want %v, %v, %v",
							taps, blocks, c, out[c], out[8+c], out[16+c], s, l, lost)
					}
					if blocks == 4 && taps > 1 && lost == 0 {
						t.Fatal("nothing lost: the numbers are too alike")
					}
				}
			}
		}
	})
}

func TestPixelExact(t *testing.T) {
	eachPixels(t, func(t *testing.T, r *rand.Rand, k *Pixels) {
		for _, n := range []int{1, 2, 27} {
			taps, reach := make([]int, n), 100
			for i := range taps {
				taps[i] = 4 * r.IntN(reach)
			}
			src := normal(r, newGuarded[float32](reach+3*8, 7))
			u := normal(r, newGuarded[float64](n*k.Outputs, 7))
			anchor := newGuarded[float64](k.Outputs, 7)
			for i := range anchor.data() {
				anchor.data()[i] = math.Ldexp(1.5, 8+r.IntN(20))
			}
			out := newGuarded[float64](4*2*k.Outputs, 7)
			k.Exact(src.at(0), &taps[0], n, u.at(0), anchor.at(0), out.at(0))
			out.check(t, "out")
			for x := range 4 {
				for o := range k.Outputs {
					s := anchor.data()[o]
					sum, l := s, 0.0
					for j, tap := range taps {
						a, b := float64(src.data()[tap/4+8*x]), u.data()[j*k.Outputs+o]
						next := math.FMA(a, b, sum)
						l += math.FMA(a, b, -(next - sum))
						sum = next
					}
					got := out.data()[x*2*k.Outputs+o:]
					if got[0] != sum-s || got[k.Outputs] != l {
						t.Fatalf("%d taps, pixel %d, output %d: %v and %v, want %v and %v", n, x, o, got[0], got[k.Outputs], sum-s, l)
					}
				}
			}
		}
	})
}

// TestPixelOutput: the bias, the guard and its roundings, on numbers of ordinary
// size and on those that a format cannot hold.
func TestPixelOutput(t *testing.T) {
	formats := [Formats]struct {
		p          uint
		emin, emax int
	}{Float32: {24, -126, 127}, Float16: {11, -14, 15}, BFloat16: {8, -126, 127}}
	eachPixels(t, func(t *testing.T, r *rand.Rand, k *Pixels) {
		open, decided := 0, 0
		for f, g := range formats {
			for trial := range 200 {
				pixels := 1 + trial%7
				scale := []float64{1, 1e-3, 0x1p-16, 0x1p-140, 0x1p16, 0x1p120, 0}[trial%7]
				m, norms, table := newGuarded[float64]((pixels-1)*k.Outputs+8, 7), newGuarded[float64](pixels, 7),
					newGuarded[float64](24, 7)
				for i := range m.data() {
					m.data()[i] = scale * r.NormFloat64()
				}
				for i := range norms.data() {
					norms.data()[i] = math.Ldexp(scale, -r.IntN(60)-1)
				}
				for c := range 8 {
					table.data()[c] = math.Ldexp(1+r.Float64(), -r.IntN(8))
					bias := float64(float32(scale * r.NormFloat64()))
					table.data()[8+c], table.data()[16+c] = bias, math.Abs(bias)*0x1p-53
				}
				if trial%31 == 0 {
					m.data()[r.IntN(len(m.data()))] = math.NaN()
				}
				dst, flags := newGuarded[float32](pixels*8, 7), newGuarded[uint8](pixels, 7)
				k.Output[f](m.at(0), norms.at(0), table.at(0), dst.at(0), pixels, flags.at(0))
				dst.check(t, "dst")
				flags.check(t, "flags")
				for i, got := range dst.data() {
					x, c := i/8, i%8
					y := m.data()[x*k.Outputs+c] + table.data()[8+c]
					e := math.FMA(norms.data()[x], table.data()[c], table.data()[16+c])
					lo, hi := y-e, y+e
					var same bool
					if f == Float32 {
						a, b := float32(lo), float32(hi)
						lo, same = float64(a), math.Float32bits(a) == math.Float32bits(b)
					} else {
						a, ok := round(lo, g.p, g.emin, g.emax)
						b, _ := round(hi, g.p, g.emin, g.emax)
						lo, same = a, ok && math.Float64bits(a) == math.Float64bits(b)
					}
					flag := flags.data()[x] >> c & 1
					at := fmt.Sprintf("format %d, trial %d, pixel %d, channel %d", f, trial, x, c)
					if y == y && same != (flag == 0) {
						t.Fatalf("%s: flag %d of %v +- %v", at, flag, y, e)
					}
					if same && y == y && float64(got) != lo {
						t.Fatalf("%s: %v, want %v", at, got, lo)
					}
					if same {
						decided++
					} else {
						open++
					}
				}
			}
		}
		if open < 100 || decided < 100 {
			t.Fatalf("%d open, %d decided", open, decided)
		}
	})
}
