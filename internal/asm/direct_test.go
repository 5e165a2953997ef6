package asm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestDirect: sums, bias, guard and roundings of the direct kernels against
// plain Go.
func TestDirect(t *testing.T) {
	formats := [Formats]struct {
		p          uint
		emin, emax int
	}{Float32: {24, -126, 127}, Float16: {11, -14, 15}, BFloat16: {8, -126, 127}}
	r := rand.New(rand.NewPCG(1, 2))
	for _, b := range backends {
		k := b.direct
		if k == nil {
			continue
		}
		open, decided := 0, 0
		for f := range k.Convolve {
			for trial := range 60 {
				taps := 1 + trial%7
				src := newGuarded[float64](taps*100+k.Pixels, 7)
				scale := []float64{1, 1e-3, 0x1p-70, 0x1p8, 0}[trial%5]
				for i := range src.data() {
					src.data()[i] = float64(float32(scale * r.NormFloat64()))
				}
				if trial%13 == 0 {
					src.data()[r.IntN(len(src.data()))] = math.NaN()
				}
				at := make([]int, taps)
				for i := range at {
					at[i] = 8 * (i*100 + r.IntN(100))
				}
				w := newGuarded[float64](taps*k.Outputs, 7)
				for i := range w.data() {
					w.data()[i] = float64(float32(r.NormFloat64()))
				}
				table := newGuarded[float64](3*k.Outputs, 7)
				for i := range k.Outputs {
					table.data()[i] = float64(float32(scale * r.NormFloat64()))
					table.data()[k.Outputs+i] = math.Ldexp(r.Float64(), -20-r.IntN(30))
					table.data()[2*k.Outputs+i] = math.Ldexp(scale, -60)
				}
				window := newGuarded[float64](k.Pixels, 7)
				for i := range window.data() {
					window.data()[i] = scale * r.Float64()
				}
				out := newGuarded[float64](k.Outputs*k.Pixels, 7)
				flags := newGuarded[uint8](k.Outputs*3, 7)
				k.Convolve[f](src.at(0), &at[0], taps, w.at(0), table.at(0), window.at(0), out.at(0), flags.at(0))
				for what, g := range map[string]interface{ check(*testing.T, string) }{
					"src": src, "w": w, "table": table, "window": window, "out": out, "flags": flags,
				} {
					g.check(t, what)
				}
				for o := range k.Outputs {
					for x := range k.Pixels {
						y := 0.0
						for i, a := range at {
							v, c := src.data()[a/8+x], w.data()[i*k.Outputs+o]
							if f == ToFloat64 {
								y += float64(v * c)
							} else {
								y = math.FMA(v, c, y)
							}
						}
						y += table.data()[o]
						got, flag := out.data()[o*k.Pixels+x], flags.data()[o*3+x/k.Lanes()]>>(x%k.Lanes())&1
						where := fmt.Sprintf("%s, format %d, trial %d, output %d, pixel %d", b.name, f, trial, o, x)
						if y != y {
							if f == ToFloat64 && flag == 0 {
								t.Fatalf("%s: NaN is not open", where)
							}
							continue
						}
						if f == ToFloat64 {
							if got != y || flag != 0 {
								t.Fatalf("%s: %v (%d), want %v", where, got, flag, y)
							}
							continue
						}
						e := math.FMA(table.data()[k.Outputs+o], window.data()[x], table.data()[2*k.Outputs+o])
						lo, hi := y-e, y+e
						var same bool
						if f == Float32 {
							a, b := float32(lo), float32(hi)
							lo, same = float64(a), math.Float32bits(a) == math.Float32bits(b)
						} else {
							g := formats[f]
							a, ok := round(lo, g.p, g.emin, g.emax)
							b, _ := round(hi, g.p, g.emin, g.emax)
							lo, same = a, ok && math.Float64bits(a) == math.Float64bits(b)
						}
						if same != (flag == 0) || same && got != lo {
							t.Fatalf("%s: %v, flag %d, of %v +- %v, want %v", where, got, flag, y, e, lo)
						}
						if same {
							decided++
						} else {
							open++
						}
					}
				}
			}
		}
		if open < 500 || decided < 500 {
			t.Errorf("%s: %d open, %d decided: both should happen", b.name, open, decided)
		}
		for _, n := range []int{8, 40} {
			x, sums := newGuarded[float64](n, 7), newGuarded[float64](n, 3)
			for i := range n {
				x.data()[i] = r.NormFloat64()
			}
			k.AddSquares(x.at(0), 0.25, sums.at(0), n)
			x.check(t, "x")
			sums.check(t, "sums")
			for i, v := range x.data() {
				if want := math.FMA(0.25*v, 0.25*v, 3); sums.data()[i] != want {
					t.Fatalf("%s: sum %d is %v, want %v", b.name, i, sums.data()[i], want)
				}
			}
		}
	}
}

// TestSumSquares: 24 sums of squares against plain Go.
func TestSumSquares(t *testing.T) {
	const width = 24
	r := rand.New(rand.NewPCG(7, 8))
	for _, b := range backends {
		if b.direct == nil {
			continue
		}
		for _, n := range []int{width, 2 * width, 5 * width} {
			x, sums := newGuarded[float64](n, 7), newGuarded[float64](width, 3)
			var want [width]float64
			for i := range want {
				want[i] = sums.data()[i]
			}
			for i := range x.data() {
				v := r.NormFloat64()
				x.data()[i], want[i%width] = v, math.FMA(v, v, want[i%width])
			}
			b.direct.SumSquares(x.at(0), n, sums.at(0))
			x.check(t, "x")
			sums.check(t, "sums")
			if got := [width]float64(sums.data()); got != want {
				t.Fatalf("%s: %d numbers: %v, want %v", b.name, n, got, want)
			}
		}
	}
}

// TestDirectAdd: sums that are added to against plain Go.
func TestDirectAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, b := range backends {
		k := b.direct
		if k == nil {
			continue
		}
		for n := 1; n < 40; n++ {
			src, w := newGuarded[float64](n*k.Pixels, 7), newGuarded[float64](n*k.Outputs, 7)
			sums := newGuarded[float64](k.Outputs*k.Pixels, 7)
			for _, g := range [][]float64{src.data(), w.data(), sums.data()} {
				for i := range g {
					g[i] = r.NormFloat64()
				}
			}
			before := append([]float64{}, sums.data()...)
			k.Add(src.at(0), w.at(0), n, sums.at(0), new(float32))
			src.check(t, "src")
			w.check(t, "w")
			sums.check(t, "sums")
			for o := range k.Outputs {
				for x := range k.Pixels {
					want := 0.0
					for i := range n {
						want = math.FMA(src.data()[i*k.Pixels+x], w.data()[i*k.Outputs+o], want)
					}
					want += before[o*k.Pixels+x]
					if got := sums.data()[o*k.Pixels+x]; got != want {
						t.Fatalf("%s: %d products, output %d, pixel %d: %v, want %v", b.name, n, o, x, got, want)
					}
				}
			}
		}
	}
}

// TestDirectAddLine: the first output's sums of one panel, and of four, are those of Add, and no other number changes.
func TestDirectAddLine(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, b := range backends {
		k := b.direct
		if k == nil || k.AddLine == nil {
			continue
		}
		for n := 1; n < 40; n++ {
			for _, panels := range []int{1, DirectPanels} {
				step, tile := n*k.Pixels+3*k.Pixels, k.Outputs*k.Pixels
				src, w := newGuarded[float32](panels*step, 7), newGuarded[float64](n*k.Outputs, 7)
				sums := newGuarded[float64](panels*tile, 7)
				for i := range src.data() {
					src.data()[i] = float32(r.NormFloat64())
				}
				for _, g := range [][]float64{w.data(), sums.data()} {
					for i := range g {
						g[i] = r.NormFloat64()
					}
				}
				w.data()[0], src.data()[0] = []float64{1, math.Inf(1), math.NaN(), 0}[n%4],
					[]float32{1, 0, 1, float32(math.Inf(1))}[n%4]
				want := append([]float64{}, sums.data()...)
				for p := range panels {
					for x := range k.Pixels {
						sum := 0.0
						for i := range n {
							sum = math.FMA(float64(src.data()[p*step+i*k.Pixels+x]), w.data()[i*k.Outputs], sum)
						}
						want[p*tile+x] += sum
					}
				}
				add := k.AddLine
				if panels > 1 {
					add = k.AddLines
				}
				add(src.at(0), 4*step, w.at(0), n, sums.at(0))
				src.check(t, "src")
				w.check(t, "w")
				sums.check(t, "sums")
				for i, got := range sums.data() {
					if got != want[i] && (got == got || want[i] == want[i]) {
						t.Fatalf("%s: %d products, %d panels, sum %d: %v, want %v", b.name, n, panels, i, got, want[i])
					}
				}
			}
		}
	}
}

// TestDirectRound: sums that are rounded where they belong against Convolve, which rounds
// the same sums of one product each.
func TestDirectRound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, b := range backends {
		k := b.direct
		if k == nil {
			continue
		}
		taps, eye := make([]int, k.Outputs), make([]float64, k.Outputs*k.Outputs)
		for o := range k.Outputs {
			taps[o], eye[o*k.Outputs+o] = 8*o*k.Pixels, 1
		}
		open := 0
		for f, round := range k.Round {
			for trial := range 60 {
				sums, slope, window := newGuarded[float64](k.Outputs*k.Pixels, 7), newGuarded[float64](k.Outputs, 7),
					newGuarded[float64](k.Pixels, 7)
				scale := []float64{1, 0x1p-30, 0x1p-130, 0}[trial%4]
				for i := range sums.data() {
					sums.data()[i] = scale*r.NormFloat64() + 0 // no sum of products from zero is -0
				}
				table := make([]float64, 3*k.Outputs)
				for o := range k.Outputs {
					slope.data()[o] = math.Ldexp(r.Float64(), -20-r.IntN(30))
					table[k.Outputs+o] = slope.data()[o]
				}
				for i := range window.data() {
					window.data()[i] = scale * r.Float64()
				}
				line := k.Pixels + trial%5
				dst := newGuarded[float64]((k.Outputs-1)*line+k.Pixels, 7)
				const untouched = 5.5 // between the lines
				for i := range dst.data() {
					dst.data()[i] = untouched
				}
				flags, want, wantFlags := newGuarded[uint8](3*k.Outputs, 7), make([]float64, k.Outputs*k.Pixels),
					make([]uint8, 3*k.Outputs)
				any := round(sums.at(0), slope.at(0), window.at(0), dst.at(0), 8*line, flags.at(0))
				k.Convolve[f](sums.at(0), &taps[0], k.Outputs, &eye[0], &table[0], window.at(0), &want[0], &wantFlags[0])
				dst.check(t, "dst")
				flags.check(t, "flags")
				for o := range k.Outputs {
					for x := range line {
						if o*line+x >= len(dst.data()) {
							break
						}
						expect := untouched
						if x < k.Pixels {
							expect = want[o*k.Pixels+x]
						}
						if got := dst.data()[o*line+x]; math.Float64bits(got) != math.Float64bits(expect) {
							t.Fatalf("%s, format %d, trial %d, output %d, pixel %d: %v, want %v", b.name, f, trial, o, x, got, expect)
						}
					}
				}
				all := uint8(0)
				for i, w := range wantFlags {
					if flags.data()[i] != w {
						t.Fatalf("%s, format %d, trial %d: flags %d are %b, want %b", b.name, f, trial, i, flags.data()[i], w)
					}
					all |= w
				}
				if (all != 0) != (any != 0) {
					t.Fatalf("%s, format %d, trial %d: flags combined %b, want %b", b.name, f, trial, any, all)
				}
				open += int(any & 1)
			}
		}
		if open == 0 {
			t.Errorf("%s: nothing was open", b.name)
		}
	}
}

// TestDirectWiden: numbers converted, the least and the special ones among them.
func TestDirectWiden(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, b := range backends {
		k := b.direct
		if k == nil {
			continue
		}
		for groups := 1; groups < 12; groups++ {
			n := groups * k.Pixels
			src, dst := newGuarded[float32](n, 7), newGuarded[float64](n, 7)
			for i := range src.data() {
				src.data()[i] = math.Float32frombits(r.Uint32())
			}
			copy(src.data(), []float32{0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, float32(math.Inf(-1))})
			k.Widen(dst.at(0), src.at(0), n)
			src.check(t, "src")
			dst.check(t, "dst")
			for i, v := range src.data() {
				if got := dst.data()[i]; got != float64(v) && v == v || math.Signbit(got) != math.Signbit(float64(v)) ||
					got != got && v == v {
					t.Fatalf("%s: number %d of %d: %v, want %v", b.name, i, n, got, v)
				}
			}
		}
	}
}
