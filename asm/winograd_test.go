package asm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// each runs a test for every backend of this CPU that has Winograd kernels.
func each(t *testing.T, run func(t *testing.T, w *Winograd)) {
	n := 0
	for _, b := range backends {
		if b.winograd != nil {
			n++
			t.Run(b.name, func(t *testing.T) { run(t, b.winograd) })
		}
	}
	t.Logf("%d backends with kernels", n)
}

// guarded is memory between two walls of a pattern that no kernel may touch.
type guarded[T float32 | float64 | uint8] struct {
	all  []T
	wall T
}

const wall = 64

func newGuarded[T float32 | float64 | uint8](n int, pattern T) *guarded[T] {
	g := &guarded[T]{make([]T, n+2*wall), pattern}
	for i := range g.all {
		g.all[i] = pattern
	}
	return g
}

func (g *guarded[T]) data() []T   { return g.all[wall : len(g.all)-wall] }
func (g *guarded[T]) at(i int) *T { return &g.all[wall+i] }

func (g *guarded[T]) check(t *testing.T, what string) {
	t.Helper()
	for i, v := range g.all {
		if (i < wall || i >= len(g.all)-wall) && v != g.wall {
			t.Fatalf("%s: wall written at %d", what, i-wall)
		}
	}
}

// round is nearest even to p bits within a format's normal range, by big.Float;
// ok is false outside it.
func round(y float64, p uint, emin, emax int) (r float64, ok bool) {
	if y == 0 || y-y != 0 {
		return y, false
	}
	r, _ = new(big.Float).SetPrec(p).SetMode(big.ToNearestEven).SetFloat64(y).Float64()
	a := math.Abs(r)
	return r, a >= math.Ldexp(1, emin) && a < math.Ldexp(1, emax+1)
}

func TestWinogradInput(t *testing.T) {
	each(t, func(t *testing.T, w *Winograd) {
		r := rand.New(rand.NewPCG(1, 2))
		const height, width, blocks, tile = 9, 11, 3, 5
		image := newGuarded[float32](blocks*height*width*8, 7)
		for i := range image.data() {
			image.data()[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
		}
		plane := w.Tiles * 8
		v := newGuarded[float64](blocks*36*plane, 9)
		scratch := newGuarded[float64](36*8, 9)
		y0, x0 := 2, 4
		src := image.at((y0*width + x0) * 8)
		w.Input(src, width*32, height*width*32, v.at(tile*8), blocks, scratch.at(0))
		image.check(t, "image")
		v.check(t, "v")
		scratch.check(t, "scratch")
		written := 0
		for b := range blocks {
			for c := range 8 {
				var d [6][6]float64
				for y := range 6 {
					for x := range 6 {
						d[y][x] = float64(image.data()[((b*height+y0+y)*width+x0+x)*8+c])
					}
				}
				for p1, row := range WinogradInput(d) {
					for p2, want := range row {
						at := (b*36+6*p1+p2)*plane + tile*8 + c
						if got := v.data()[at]; math.Float64bits(got) != math.Float64bits(want) {
							t.Fatalf("block %d, channel %d, point %d,%d: %v, want %v", b, c, p1, p2, got, want)
						}
						v.data()[at] = 9
						written++
					}
				}
			}
		}
		for i, x := range v.data() {
			if x != 9 {
				t.Fatalf("number %d of V was written", i)
			}
		}
		if written != blocks*8*36 {
			t.Fatal(written)
		}
	})
}

func TestWinogradMultiply(t *testing.T) {
	each(t, func(t *testing.T, w *Winograd) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, blocks := range []int{1, 2, 5} {
			for _, groups := range []int{1, 3} {
				v := newGuarded[float64](groups*blocks*36*w.Tiles*8, 7)
				u := newGuarded[float64](blocks*8*w.Outputs, 7)
				m := newGuarded[float64](groups*36*w.Tiles*w.Outputs, 7)
				const point = 17
				for i := range v.data() {
					v.data()[i] = r.NormFloat64()
				}
				for i := range u.data() {
					u.data()[i] = r.NormFloat64()
				}
				w.Multiply(v.at(point*w.Tiles*8), u.at(0), m.at(point*w.Tiles*w.Outputs), blocks, groups)
				v.check(t, "v")
				u.check(t, "u")
				m.check(t, "m")
				for g := range groups {
					for tile := range w.Tiles {
						for o := range w.Outputs {
							want := 0.0
							for c := range blocks * 8 {
								want = math.FMA(v.data()[(((g*blocks+c/8)*36+point)*w.Tiles+tile)*8+c%8], u.data()[c*w.Outputs+o], want)
							}
							if got := m.data()[((g*36+point)*w.Tiles+tile)*w.Outputs+o]; got != want {
								t.Fatalf("%d blocks, group %d, tile %d, output %d: %v, want %v", blocks, g, tile, o, got, want)
							}
						}
					}
				}
			}
		}
	})
}

// TestWinogradOutput: the transform, the bias, the guard and its roundings, on
// numbers of ordinary size and on those that a format cannot hold.
func TestWinogradOutput(t *testing.T) {
	formats := [Formats]struct {
		p          uint
		emin, emax int
	}{Float32: {24, -126, 127}, Float16: {11, -14, 15}, BFloat16: {8, -126, 127}}
	each(t, func(t *testing.T, w *Winograd) {
		r := rand.New(rand.NewPCG(5, 6))
		open, decided := 0, 0
		for f, g := range formats {
			for trial := range 400 {
				plane := w.Tiles * w.Outputs
				m := newGuarded[float64](36*plane, 7)
				scale := []float64{1, 1e-3, 0x1p-16, 0x1p-140, 0x1p16, 0x1p120, 0}[trial%7]
				for i := range m.data() {
					m.data()[i] = scale * r.NormFloat64()
				}
				if trial%31 == 0 {
					m.data()[r.IntN(len(m.data()))] = math.NaN()
				}
				const tile, line = 2, 20
				table := newGuarded[float64](18*8, 7)
				k := math.Ldexp(scale, -r.IntN(60)-1)
				for i := range table.data() {
					table.data()[i] = math.Ldexp(1+r.Float64(), -r.IntN(8))
				}
				for c := range 8 {
					bias := float64(float32(scale * r.NormFloat64()))
					table.data()[16*8+c], table.data()[17*8+c] = bias, math.Abs(bias)*0x1p-53
				}
				dst := newGuarded[float32](4*line*8, 7)
				flags := newGuarded[uint8](16, 7)
				scratch := newGuarded[float64](24*8, 7)
				w.Output[f](m.at(tile*w.Outputs), k, table.at(0), dst.at(0), line*32, flags.at(0), scratch.at(0))
				for what, g := range map[string]interface{ check(*testing.T, string) }{"m": m, "table": table, "dst": dst, "flags": flags, "scratch": scratch} {
					g.check(t, what)
				}
				for c := range 8 {
					var d [6][6]float64
					for p := range 36 {
						d[p/6][p%6] = m.data()[p*plane+tile*w.Outputs+c]
					}
					for i, row := range WinogradOutput(d) {
						for j, y := range row {
							y += table.data()[16*8+c]
							e := math.FMA(k, table.data()[(4*i+j)*8+c], table.data()[17*8+c])
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
							got, flag := dst.data()[(i*line+j)*8+c], flags.data()[4*i+j]>>c&1
							at := fmt.Sprintf("format %d, trial %d, channel %d, pixel %d,%d", f, trial, c, i, j)
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
				for i, x := range dst.data() {
					if i/8%line >= 4 && x != 7 {
						t.Fatalf("pixel beyond the tile written: %d", i)
					}
				}
			}
		}
		if open < 1000 || decided < 1000 {
			t.Errorf("%d open, %d decided: both should happen", open, decided)
		}
	})
}

func TestWinogradDot(t *testing.T) {
	each(t, func(t *testing.T, w *Winograd) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, blocks := range []int{1, 2, 9} {
			const height, width, y0, x0 = 5, 7, 1, 3
			image := newGuarded[float32](blocks*height*width*8, 7)
			weights := newGuarded[float32](blocks*9*8, 7)
			for i := range image.data() {
				image.data()[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
			}
			for i := range weights.data() {
				weights.data()[i] = float32(r.NormFloat64())
			}
			var out [16]float64
			w.Dot(image.at((y0*width+x0)*8), width*32, height*width*32, weights.at(0), blocks, &out)
			image.check(t, "image")
			weights.check(t, "weights")
			for c := range 8 {
				var sum [3]float64
				var size float64
				for b := range blocks {
					for i := range 9 {
						p := float64(image.data()[((b*height+y0+i/3)*width+x0+i%3)*8+c]) * float64(weights.data()[(b*9+i)*8+c])
						sum[i/3] += p
						size += math.Abs(p)
					}
				}
				if want := (sum[0] + sum[1]) + sum[2]; out[c] != want || out[8+c] != size {
					t.Fatalf("%d blocks, channel %d: %v and %v, want %v and %v", blocks, c, out[c], out[8+c], want, size)
				}
			}
		}
	})
}

func TestWinogradLayout(t *testing.T) {
	each(t, func(t *testing.T, w *Winograd) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, pixels := range []int{8, 16, 40} {
			var in [8]*float64
			var lines [8]*guarded[float64]
			var scale [8]float64
			for c := range 8 {
				lines[c] = newGuarded[float64](pixels, 7)
				for i := range lines[c].data() {
					lines[c].data()[i] = float64(float32(r.NormFloat64()))
				}
				in[c], scale[c] = lines[c].at(0), math.Ldexp(1, r.IntN(9)-4)
			}
			out, sums := newGuarded[float32](pixels*8, 7), newGuarded[float64](pixels, 7)
			w.Pack(&in, &scale, out.at(0), sums.at(0), pixels)
			out.check(t, "out")
			sums.check(t, "sums")
			for x := range pixels {
				sum := 7.0
				for c := range 8 {
					v := lines[c].data()[x]
					if got := out.data()[x*8+c]; float64(got) != v {
						t.Fatalf("pixel %d, channel %d: %v, want %v", x, c, got, v)
					}
					sum = math.FMA(v*scale[c], v*scale[c], sum)
				}
				if got := sums.data()[x]; got != sum {
					t.Fatalf("pixel %d: sum %v, want %v", x, got, sum)
				}
			}
		}
		src := newGuarded[float32](16*8, 7)
		for i := range src.data() {
			src.data()[i] = float32(r.NormFloat64())
		}
		const line, plane = 9, 50
		dst := newGuarded[float64](7*plane+3*line+4, 11)
		w.Unpack(src.at(0), dst.at(0), plane*8, line*8)
		dst.check(t, "dst")
		for i, got := range dst.data() {
			c, y, x := i/plane, i%plane/line, i%plane%line
			want := 11.0
			if y < 4 && x < 4 && c < 8 {
				want = float64(src.data()[(4*y+x)*8+c])
			}
			if got != want {
				t.Fatalf("channel %d, pixel %d,%d: %v, want %v", c, y, x, got, want)
			}
		}
	})
}
