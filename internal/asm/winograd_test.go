package asm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// each runs a test for every backend of this CPU and every form that it has
// Winograd kernels of.
func each(t *testing.T, run func(t *testing.T, f *Form, w *Winograd)) {
	n := 0
	for _, b := range backends {
		for _, f := range []*Form{form3, form5, form7} {
			if w := b.form(f); w != nil {
				n++
				t.Run(fmt.Sprintf("%s/%dx%d", b.name, f.Taps, f.Taps), func(t *testing.T) { run(t, f, w) })
			}
		}
	}
	t.Logf("%d sets of kernels", n)
}

// guarded is memory between two walls of a pattern that no kernel may touch.
type guarded[T float32 | float64 | uint8 | int8 | int16 | int32] struct {
	all  []T
	wall T
}

const wall = 64

func newGuarded[T float32 | float64 | uint8 | int8 | int16 | int32](n int, pattern T) *guarded[T] {
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

// TestWinogradForms: A and B are exact in float64, and so are the numbers that
// the kernels make B of, which are its first row and the even places of others.
func TestWinogradForms(t *testing.T) {
	exact := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	for _, f := range []*Form{form3, form5, form7, form4, fast5} {
		n := f.Side
		if n != f.Taps+f.Tile-1 || len(f.Points) != n-1 {
			t.Fatalf("%d taps: side %d, %d points", f.Taps, n, len(f.Points))
		}
		for r := range n {
			// The polynomial, and the powers of the point (at infinity: the
			// coefficients of the highest degree).
			c, power := []*big.Rat{big.NewRat(1, 1)}, big.NewRat(1, 1)
			for q, p := range f.Points {
				if q == r {
					continue
				}
				c = append(c, new(big.Rat))
				for j := len(c) - 1; j >= 0; j-- {
					c[j] = new(big.Rat).Mul(c[j], exact(-p))
					if j > 0 {
						c[j].Add(c[j], c[j-1])
					}
				}
			}
			for j, got := range f.B[r] {
				want := new(big.Rat)
				if j < len(c) {
					want = c[j]
				}
				if exact(got).Cmp(want) != 0 {
					t.Errorf("%d taps: B[%d][%d] is %v, want %s", f.Taps, r, j, got, want)
				}
			}
			for i := range f.Tile {
				if r == n-1 {
					power.SetInt64(int64(i / (f.Tile - 1)))
				}
				if exact(f.A[i][r]).Cmp(power) != 0 {
					t.Errorf("%d taps: A[%d][%d] is %v, want %s", f.Taps, i, r, f.A[i][r], power)
				}
				if r < n-1 {
					power = new(big.Rat).Mul(power, exact(f.Points[r]))
				}
			}
		}
	}
}

func TestWinogradInput(t *testing.T) {
	each(t, func(t *testing.T, f *Form, w *Winograd) {
		r := rand.New(rand.NewPCG(1, 2))
		n := f.Side
		height, width := n+3, n+13
		const blocks, tile = 3, 5
		image := newGuarded[float32](blocks*height*width*8, 7)
		for i := range image.data() {
			image.data()[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
		}
		plane := w.Tiles * 8
		point := blocks*plane + 8
		v := newGuarded[float64](n*n*point-8, 9)
		scratch := newGuarded[float64](n*n*8, 9)
		y0, x0 := 2, 4
		src := image.at((y0*width + x0) * 8)
		w.Input(src, width*32, height*width*32, v.at(tile*8), point*8, blocks, scratch.at(0))
		image.check(t, "image")
		v.check(t, "v")
		scratch.check(t, "scratch")
		for tiles := 1; w.InputRow != nil && tiles <= 3; tiles++ { // the same, row by row
			first := tile + 1 - tiles
			all, rows := newGuarded[float64](n*n*point-8, 9), newGuarded[float64](n*n*point-8, 9)
			for i := range tiles {
				w.Input(image.at((y0*width+x0+4*i)*8), width*32, height*width*32, all.at((first+i)*8), point*8,
					blocks, scratch.at(0))
			}
			for r := range n {
				for b := range blocks {
					w.InputRow(image.at(((b*height+y0)*width+x0)*8), image.at(0), width*32,
						rows.at(r*n*point+b*plane+first*8), point*8, tiles, r)
				}
			}
			rows.check(t, "rows")
			for i, want := range all.data() {
				if got := rows.data()[i]; math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("%d tiles, number %d of V by rows: %v, want %v", tiles, i, got, want)
				}
			}
		}
		written := 0
		for b := range blocks {
			for c := range 8 {
				d := make([]float64, n*n)
				for y := range n {
					for x := range n {
						d[y*n+x] = float64(image.data()[((b*height+y0+y)*width+x0+x)*8+c])
					}
				}
				for p, want := range f.Input(d) {
					at := p*point + b*plane + tile*8 + c
					if got := v.data()[at]; math.Float64bits(got) != math.Float64bits(want) {
						t.Fatalf("block %d, channel %d, point %d: %v, want %v", b, c, p, got, want)
					}
					v.data()[at] = 9
					written++
				}
			}
		}
		for i, x := range v.data() {
			if x != 9 {
				t.Fatalf("number %d of V was written", i)
			}
		}
		if written != blocks*8*n*n {
			t.Fatal(written)
		}
	})
}

func TestWinogradMultiply(t *testing.T) {
	each(t, func(t *testing.T, f *Form, w *Winograd) {
		testMultiply(t, w)
		if w.Few != nil {
			testMultiply(t, w.Few)
		}
	})
}

func testMultiply(t *testing.T, w *Winograd) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, blocks := range []int{1, 2, 5} {
		for trial, groups := range []int{1, 3, 3} {
			chain := []int{blocks, 1, 2}[trial]
			v := newGuarded[float64](groups*blocks*w.Tiles*8, 7)
			u := newGuarded[float64](blocks*8*w.Outputs, 7)
			m := newGuarded[float64](groups*w.Tiles*w.Outputs, 7)
			for i := range v.data() {
				v.data()[i] = r.NormFloat64()
			}
			for i := range u.data() {
				u.data()[i] = r.NormFloat64()
			}
			w.Multiply(v.at(0), u.at(0), m.at(0), blocks, chain, groups, u.at(0), new(float32))
			v.check(t, "v")
			u.check(t, "u")
			m.check(t, "m")
			for g := range groups {
				for tile := range w.Tiles {
					for o := range w.Outputs {
						want, sum := 0.0, 0.0
						for c := range blocks * 8 {
							if c%(8*chain) == 0 {
								want, sum = want+sum, 0
							}
							sum = math.FMA(v.data()[((g*blocks+c/8)*w.Tiles+tile)*8+c%8], u.data()[c*w.Outputs+o], sum)
						}
						want += sum
						if got := m.data()[(g*w.Tiles+tile)*w.Outputs+o]; got != want {
							t.Fatalf("%d blocks, group %d, tile %d, output %d: %v, want %v", blocks, g, tile, o, got, want)
						}
					}
				}
			}
		}
	}
}

func TestWinogradWeigh(t *testing.T) {
	each(t, func(t *testing.T, f *Form, w *Winograd) {
		if w.Weigh == nil {
			return // the bound does without: NEON
		}
		r := rand.New(rand.NewPCG(11, 12))
		points := f.Side * f.Side
		for _, blocks := range []int{1, 3} {
			point := blocks*w.Tiles*8 + 8
			v := newGuarded[float64](points*point-8, 7)
			weights, scale := newGuarded[float64](points, 7), newGuarded[float64](blocks*8, 7)
			for _, g := range []*guarded[float64]{v, weights} {
				for i := range g.data() {
					g.data()[i] = r.ExpFloat64()
				}
			}
			for i := range scale.data() {
				scale.data()[i] = math.Ldexp(1, r.IntN(9)-4)
			}
			const tile = 4
			out := newGuarded[float64](8, 7)
			w.Weigh(v.at(tile*8), point*8, points, weights.at(0), scale.at(0), blocks, (*[8]float64)(out.data()))
			out.check(t, "out")
			for c, got := range out.data() {
				want := 0.0
				for b := range blocks {
					var sum [2]float64
					for p := range points {
						z := v.data()[p*point+(b*w.Tiles+tile)*8+c]
						sum[p%2] = math.FMA(float64(z*z), weights.data()[p], sum[p%2])
					}
					s := scale.data()[b*8+c]
					want = math.FMA(sum[0]+sum[1], s*s, want)
				}
				if got != want {
					t.Fatalf("%d blocks, channel %d: %v, want %v", blocks, c, got, want)
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
	each(t, func(t *testing.T, form *Form, w *Winograd) {
		n, points := form.Side, form.Side*form.Side
		r := rand.New(rand.NewPCG(5, 6))
		open, decided := 0, 0
		for f, g := range formats {
			for trial := range 200 {
				plane := w.Tiles*w.Outputs + 8
				m := newGuarded[float64](points*plane-8, 7)
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
				byRows := w.OutputRow != nil && trial%2 == 0
				var y [8][]float64
				for c := range 8 {
					d := make([]float64, points)
					for p := range d {
						d[p] = m.data()[p*plane+tile*w.Outputs+c]
					}
					if y[c] = form.Output(d); byRows {
						y[c] = form.OutputByRows(d)
					}
				}
				if trial%4 == 1 { // one pixel cancels, to the last bit
					clear(table.data())
					for c := range 8 {
						table.data()[16*8+c] = -y[c][trial/4%16]
					}
				}
				dst := newGuarded[float32](4*line*8, 7)
				flags := newGuarded[uint8](16, 7)
				scratch := newGuarded[float64](4*n*8, 7)
				if byRows {
					const tiles = 3
					column := tiles*w.Outputs + 8
					rows := newGuarded[float64](4*n*column-8, 7)
					for q := range n {
						w.OutputRow(m.at(q*n*plane), plane*8, rows.at(4*q*column), column*8, tiles)
					}
					rows.check(t, "rows")
					w.OutputColumns[f](rows.at(tile*w.Outputs), 4*column*8, column*8, k, table.at(0), dst.at(0), line*32, flags.at(0))
					rows.check(t, "rows")
				} else {
					w.Output[f](m.at(tile*w.Outputs), plane*8, k, table.at(0), dst.at(0), line*32, flags.at(0), scratch.at(0))
				}
				for what, g := range map[string]interface{ check(*testing.T, string) }{
					"m": m, "table": table, "dst": dst, "flags": flags, "scratch": scratch,
				} {
					g.check(t, what)
				}
				for c := range 8 {
					for ij, y := range y[c] {
						i, j := ij/4, ij%4
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
	each(t, func(t *testing.T, f *Form, w *Winograd) {
		k := f.Taps
		r := rand.New(rand.NewPCG(7, 8))
		for _, blocks := range []int{1, 2, 9} {
			height, width := k+2, k+4
			const y0, x0 = 1, 3
			image := newGuarded[float32](blocks*height*width*8, 7)
			weights := newGuarded[float32](blocks*k*k*8, 7)
			for i := range image.data() {
				image.data()[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
			}
			for i := range weights.data() {
				weights.data()[i] = float32(r.NormFloat64())
			}
			var out [8]float64
			w.Dot(image.at((y0*width+x0)*8), image.at(0), width*32, height*width*32, weights.at(0), blocks, &out)
			image.check(t, "image")
			weights.check(t, "weights")
			for c := range 8 {
				sum := make([]float64, k)
				for b := range blocks {
					for i := range k * k {
						p := float64(image.data()[((b*height+y0+i/k)*width+x0+i%k)*8+c]) * float64(weights.data()[(b*k*k+i)*8+c])
						sum[i/k] += p
					}
				}
				for _, s := range sum[1:] {
					sum[0] += s
				}
				if want := sum[0]; out[c] != want {
					t.Fatalf("%d blocks, channel %d: %v, want %v", blocks, c, out[c], want)
				}
			}
		}
	})
}

func TestWinogradLayout(t *testing.T) {
	each(t, func(t *testing.T, f *Form, w *Winograd) {
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
		const plane = 50
		for _, pixels := range []int{4, 16} {
			dst := newGuarded[float64](7*plane+pixels, 11)
			w.Unpack(src.at(0), dst.at(0), plane*8, pixels)
			dst.check(t, "dst")
			for i, got := range dst.data() {
				c, x := i/plane, i%plane
				want := 11.0
				if x < pixels {
					want = float64(src.data()[x*8+c])
				}
				if got != want {
					t.Fatalf("channel %d, pixel %d: %v, want %v", c, x, got, want)
				}
			}
		}
	})
}

// TestFormRoundings counts how many roundings of outputLine each number takes part in,
// operation by operation, and takes InRoundings from the partial sums of |B|.
func TestFormRoundings(t *testing.T) {
	type depth map[int]float64      // of the numbers in it
	sum := func(x, y depth) depth { // also a fused multiply-add
		z := depth{}
		for _, d := range []depth{x, y} {
			for i, k := range d {
				z[i] = k + 1
			}
		}
		return z
	}
	times := func(x depth) depth { return sum(x, nil) }
	for _, f := range []*Form{form3, form5, form7} {
		last := f.Side - 1
		pair := func(l int) depth { return sum(depth{l: 0}, depth{l + 1: 0}) }
		zero := depth{0: 0}
		for l := 1; l < last; l += 2 {
			zero = sum(zero, pair(l))
		}
		other, three := times(pair(last-2)), sum(pair(last-2), depth{last: 0})
		for l := last - 4; l > 0; l -= 2 {
			other, three = sum(pair(l), other), sum(pair(l), three)
		}
		for r, d := range []depth{zero, other, other, three} {
			for i, k := range d {
				if got := f.OutRoundings[r][i]; got != k {
					t.Errorf("%d taps: %v roundings of number %d in output %d, want %v", f.Taps, got, i, r, k)
				}
			}
		}
		for r, got := range f.InRoundings {
			want := 0.0
			for first := range 2 { // even and odd parts, from the last coefficient down
				size := 0.0
				for j := last - (last-first)%2; j >= 0; j -= 2 {
					c := math.Abs(f.B[r][j])
					if size > 0 && c > 0 {
						want += size + c
					}
					size += c
				}
				if r > 0 && r < last {
					want += size // the two together
				}
			}
			if math.Abs(got-want) > 1e-12*want {
				t.Errorf("%d taps, row %d: %v, want %v", f.Taps, r, got, want)
			}
		}
	}
}
