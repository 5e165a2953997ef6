package conv

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

// hard returns numbers of a kind that strains a bound in its own way.
func hard(r *rand.Rand, kind, n, channels, plane int) []float64 {
	v := make([]float64, n)
	for i := range v {
		c := i / plane % channels
		x := r.NormFloat64()
		switch kind {
		case 1: // a large mean: the transforms cancel
			x += 1000
		case 2: // channels of very different size
			x = math.Ldexp(x, c*7%41-20)
		case 3: // any exponent
			x = math.Ldexp(x, r.IntN(200)-100)
		case 4: // integers: ties and exact zeros
			x = math.Round(3 * x)
		case 5: // constant
			x = 0.7
		case 6: // isolated peaks
			if i%13 != 0 {
				x = 0
			}
			x = math.Ldexp(x, i%13)
		case 7: // worst signs for the points: alternating
			x = math.Copysign(1+r.Float64(), float64(i%2)-0.5)
		}
		v[i] = fp16.Float32.Round(x)
	}
	return v
}

const hardKinds = 8

// eachForm runs a test for every form that the kernels of this CPU have.
func eachForm(t *testing.T, run func(t *testing.T, f *asm.Form)) {
	for _, taps := range []int{3, 5, 7} {
		f := asm.WinogradForm(taps)
		if f.Kernels() != nil { // otherwise the direct sum has its own test
			t.Run(fmt.Sprintf("%dx%d", taps, taps), func(t *testing.T) { run(t, f) })
		}
	}
}

// newTestWino returns a convolution of x of h x w outputs, and memory for its
// tiles as a unit.
func newTestWino(k *Kernel, f *asm.Form, x *tensor.Tensor, h, w, pad int) (*wino, *worker) {
	src := NewImage(fp16.Float32, x.N(), x.C(), h, w, f.Taps/2, make([]float32, ImageSize(x.N(), x.C(), h, w, f.Taps/2)))
	j := &job{src: x, rows: squareAxis(x.H(), pad, Zeros), cols: squareAxis(x.W(), pad, Zeros)}
	j.pack(src)
	dst := NewImage(fp16.Float32, x.N(), k.oc, h, w, 0, make([]float32, ImageSize(x.N(), k.oc, h, w, 0)))
	kernels := f.Kernels()
	g := newWino(k, f, kernels, asm.Float32, dst, src, new(Space))
	s := new(worker)
	g.prepare(s)
	return g, s
}

// TestWinogradBound holds the float64 results of the transforms, before any
// rounding to a format, to the exact values: every error lies within the bound
// that the guard uses, and the bound is not vacuous. It is not less than what the
// errors of the steps add up to for the numbers at hand, point by point.
func TestWinogradBound(t *testing.T) {
	eachForm(t, func(t *testing.T, f *asm.Form) {
		w := f.Kernels()
		r := rand.New(rand.NewPCG(8, 9))
		largest, closest := 0.0, 0.0
		taps, points := f.Taps, f.Side*f.Side
		for trial := range map[int]int{3: 6, 5: 3, 7: 2}[taps] * hardKinds {
			ic, oc := []int{1, 5, 24, 70}[(trial+trial/hardKinds)%4]*3/taps+1, 9
			x := tensor.Of(fp16.Float32, hard(r, trial%hardKinds, ic*42, ic, 42), 1, ic, 6, 7)
			k := tensor.Of(fp16.Float32, hard(r, trial/3%hardKinds, oc*ic*taps*taps, ic, taps*taps), oc, ic, taps, taps)
			bias := hard(r, trial%2, oc, 1, 1)
			kernel := NewKernel(k, bias)
			pad := taps / 2
			exact := bigref.Conv2d(x, k, bias, 1, pad, "zeros")
			g, s := newTestWino(kernel, f, x, 6, 7, pad)
			tiles := g.th * g.tw
			g.measure(s, 0, tiles)
			for tile := range tiles {
				g.Input(&g.src.data[g.corner(g.place(tile))], g.src.line*4, g.src.plane*4, &s.v[g.at(0, tile)],
					g.vPoint*8, g.blocks, &s.t[0])
				s.k[tile] = g.weigh(s, tile, 0)
			}
			g.bound(s, tiles)
			for tile := range tiles {
				_, y0, x0 := g.place(tile)
				z, off := tileNorms(g, s, tile)
				for o := range oc {
					sums, norms := weightNorms(g, o)
					m := make([]float64, points)
					for p := range m {
						g.Multiply(&s.v[p*g.vPoint], g.weights.panel(o/w.Outputs, p), &s.m[p*g.mPoint], g.blocks,
							g.weights.chain, 1, g.weights.panel(0, 0), &g.src.data[g.corner(g.place(0))])
						m[p] = s.m[p*g.mPoint+tile*w.Outputs+o%w.Outputs]
					}
					table := g.weights.tables[o/block*18*block+o%block:]
					for ij, v := range f.Output(m) {
						i, c := ij/4, ij%4
						if y0+i >= 6 || x0+c >= 7 {
							continue
						}
						v += table[16*block]
						e := math.FMA(s.k[tile], table[ij*block], table[17*block])
						steps := 2 * math.Abs(bias[o])
						for p := range points {
							a := math.Abs(f.A[i][p/f.Side] * f.A[c][p%f.Side])
							out := f.OutRoundings[i][p/f.Side] + f.OutRoundings[c][p%f.Side]
							steps += a * ((sums[p]+(3+out)*norms[p])*z[p] + norms[p]*off[p])
						}
						if steps *= 0x1p-53; !(steps <= e) {
							t.Fatalf("trial %d, output %d, pixel %d,%d: the steps add up to %g, bound %g", trial, o, y0+i, x0+c, steps, e)
						}
						if table[ij*block] > 0 {
							closest = max(closest, steps/e)
						}
						d := new(big.Rat).Sub(bigref.Rat(v), exact.Values[(o*6+y0+i)*7+x0+c])
						size, _ := d.Abs(d).Float64()
						if !(size <= e) {
							t.Fatalf("trial %d, output %d, pixel %d,%d: error %g, bound %g", trial, o, y0+i, x0+c, size, e)
						}
						if e > 0 {
							largest = max(largest, size/e)
						}
					}
				}
			}
		}
		t.Logf("largest error: %.2g of the bound; sum of the steps: %.2g", largest, closest)
		if largest < 1e-3 {
			t.Errorf("largest error is %.2g of the bound: a bound so wide guards something else", largest)
		}
	})
}

// tileNorms returns, point by point, the norms over the channels of t Z and of t
// times what the roundings of Z add up to, in units of u, for a tile of the first
// group and the first sample.
func tileNorms(g *wino, s *worker, tile int) (z, off []float64) {
	n := g.form.Side
	z, off = make([]float64, n*n), make([]float64, n*n)
	_, y0, x0 := g.place(tile)
	for c := range g.k.ic {
		t := g.k.scale[c]
		half := make([]traced, n*n)
		for x := range n {
			column := make([]traced, n)
			for y := range column {
				column[y].v = float64(g.src.data[g.src.at(0, c/block, y0+y-g.form.Taps/2, x0+x-g.form.Taps/2)+c%block])
			}
			for y, v := range tracedLine(g.form, column) {
				half[y*n+x] = v
			}
		}
		for y := range n {
			for x, v := range tracedLine(g.form, half[y*n:][:n]) {
				if got := s.v[(y*n+x)*g.vPoint+(c/block*g.Tiles+tile)*block+c%block]; got != v.v {
					panic("not the transform's operations")
				}
				z[y*n+x] += t * v.v * t * v.v
				off[y*n+x] += t * v.off * t * v.off
			}
		}
	}
	for p := range z {
		z[p], off[p] = math.Sqrt(z[p]), math.Sqrt(off[p])
	}
	return z, off
}

// traced is a number and a bound of its error in units of u.
type traced struct{ v, off float64 }

// tracedLine is inputLine of package asm.
func tracedLine(f *asm.Form, d []traced) []traced {
	fma := func(c float64, x, y traced) traced {
		v := math.FMA(c, x.v, y.v)
		return traced{v, math.Abs(c)*x.off + y.off + math.Abs(v)}
	}
	n := f.Side
	sum := func(row []float64, from int) traced {
		last := from
		for j := from; j < n; j += 2 {
			if row[j] != 0 {
				last = j
			}
		}
		s := d[last]
		for j := last - 2; j >= from; j -= 2 {
			s = fma(row[j], d[j], s)
		}
		return s
	}
	r := make([]traced, n)
	r[0], r[n-1] = sum(f.B[0], 0), sum(f.B[n-1], 1)
	for l := 1; l < n-1; l += 2 {
		p, even := f.Points[l], make([]float64, n)
		for j := 2; j < n; j += 2 {
			even[j-1] = f.B[l][j] // the same coefficients, times p
		}
		odd, rest := sum(even, 1), sum(f.B[l], 2)
		r[l], r[l+1] = fma(p, odd, rest), fma(-p, odd, rest)
	}
	return r
}

// weightNorms returns, point by point, what the roundings of the channels' sums add
// up to for a Z of norm 1, and the norm of U/t.
func weightNorms(g *wino, o int) (sums, norms []float64) {
	n := g.form.Side
	sums, norms = make([]float64, n*n), make([]float64, n*n)
	for p := range sums {
		var all, part, inner, squares, ends float64
		for c := range g.k.ic {
			u := g.weights.panels[(p*g.weights.groups+o/g.Outputs)*g.weights.size+c*g.Outputs+o%g.Outputs] / g.k.scale[c]
			if c > 0 && c%(g.weights.chain*block) == 0 {
				squares += inner * inner
				if c > g.weights.chain*block {
					ends += math.Sqrt(all)
				}
				part, inner = 0, 0
			}
			all += u * u
			part += u * u
			inner += math.Sqrt(part)
		}
		squares += inner * inner
		if g.k.ic > g.weights.chain*block {
			ends += math.Sqrt(all)
		}
		sums[p], norms[p] = math.Sqrt(squares)+ends, math.Sqrt(all)
	}
	return sums, norms
}

// TestWinogradWindow: every pixel of a window takes part in its norm, and a NaN
// or an infinity anywhere leaves all open.
func TestWinogradWindow(t *testing.T) {
	eachForm(t, func(t *testing.T, f *asm.Form) {
		n := f.Side
		k := tensor.New(fp16.Float32, 1, 1, f.Taps, f.Taps)
		k.Data[0] = 1
		kernel := NewKernel(k, nil)
		for at := range n * n {
			for _, v := range []float64{3, math.NaN(), math.Inf(1)} {
				x := tensor.New(fp16.Float32, 1, 1, n, n)
				x.Data[(at+5)%(n*n)], x.Data[at] = 1, v
				g, s := newTestWino(kernel, f, x, 4, 4, 0)
				g.Input(&g.src.data[g.corner(g.place(0))], g.src.line*4, g.src.plane*4, &s.v[g.at(0, 0)], g.vPoint*8,
					g.blocks, &s.t[0])
				s.k[0] = g.weigh(s, 0, 0)
				g.measure(s, 0, 1)
				g.bound(s, 1)
				least := 3.0
				if m := g.weights.measured; m != nil {
					least *= m.rho
				}
				if got := s.k[0]; v-v == 0 && !(got >= least) || v-v != 0 && got <= math.MaxFloat64 {
					t.Errorf("pixel %d is %v: norm %v, want %v or more", at, v, got, least)
				}
			}
		}
	})
}

// TestWinogradTies: sums next to a tie of float32 that the direct float64 sum
// cannot tell from it.
func TestWinogradTies(t *testing.T) {
	for _, taps := range []int{3, 5, 7} {
		for line := range taps {
			k := tensor.New(fp16.Float32, 1, 1, taps, taps)
			// two words lose the fourth
			copy(k.Data[line*taps:(line+1)*taps], []float64{1, 0x1p-24, 0x1p-60, 0x1p-120, -0x1p-60})
			x := tensor.New(fp16.Float32, 1, 1, taps+3, taps+4)
			for i := range x.Data {
				x.Data[i] = 1
			}
			y := tensor.New(fp16.Float32, 1, 1, 4, 5)
			Forward(y, x, NewKernel(k, nil), Params{})
			for i, v := range y.Data {
				if v != 1+0x1p-23 {
					t.Fatalf("%d taps, line %d, pixel %d: %v", taps, line, i, v)
				}
			}
		}
	}
}

// TestWinogradRows: by rows of points or not, and in either order, a unit's tiles have
// the same norms and outputs.
func TestWinogradRows(t *testing.T) {
	if w := asm.WinogradForm(3).Kernels(); w == nil || w.InputRow == nil {
		return // there are no rows
	}
	defer func(far int, large, v [2]int, small bool) {
		farU, largeV, bytesV, smallCache = far, large, v, small
	}(farU, largeV, bytesV, smallCache)
	r := rand.New(rand.NewPCG(14, 15))
	for trial := range 3 * hardKinds {
		taps := 3 + trial/hardKinds%3*2
		f := asm.WinogradForm(taps)
		ic, oc := 1+r.IntN(20), 1+r.IntN(40)
		x := tensor.Of(fp16.Float32, hard(r, trial%hardKinds, ic*120, ic, 120), 1, ic, 10, 12)
		kernel := NewKernel(tensor.Of(fp16.Float32, hard(r, 0, oc*ic*taps*taps, ic, taps*taps), oc, ic, taps, taps), nil)
		var norms [2][]float64
		var out [2]*Image
		for i := range 2 {
			some := (1 - i) << 30
			smallCache = trial%2 == 0
			farU, largeV, bytesV = 0, [2]int{some, some}, [2]int{some, some}
			g, s := newTestWino(kernel, f, x, 10, 12, taps/2)
			if g.rows != (i == 1) || g.pointwise != (i == 1 && smallCache) {
				t.Fatal("the other way")
			}
			tiles := min(g.th*g.tw, g.groups*g.Tiles)
			g.unit(s, 0, tiles)
			norms[i], out[i] = s.k[:tiles], g.dst
			for i := range s.open { // the rest is undecided
				at := s.place(i)
				g.dst.data[g.dst.at(0, at.o/block, at.y, at.x)+at.o%block] = 0
			}
		}
		for i, a := range norms[0] {
			if b := norms[1][i]; math.Abs(a-b) > 1e-12*a {
				t.Fatalf("trial %d, tile %d: norm %v by rows, %v else", trial, i, b, a)
			}
		}
		for b := range out[0].Blocks() {
			for y := range 10 {
				for i, v := range out[0].Row(0, b, y) {
					if w := out[1].Row(0, b, y)[i]; v != w && v != 0 && w != 0 {
						t.Fatalf("trial %d, block %d, line %d, number %d: %v by rows, %v else", trial, b, y, i, w, v)
					}
				}
			}
		}
	}
}

// TestWinogradWeights holds the transformed weights to exact arithmetic: each
// is rounded once, but for 2^-93 of the sum of magnitudes. What they are made of
// is exact: the denominators, and the products of a weight and powers.
func TestWinogradWeights(t *testing.T) {
	for _, taps := range []int{3, 5, 7} {
		f := asm.WinogradForm(taps)
		r := rand.New(rand.NewPCG(10, 11))
		n, squared := f.Side, taps*taps
		den := exactDenominators(f)
		factors := newTransform(f)
		for trial := range map[int]int{3: 80, 5: 16, 7: 8}[taps] {
			g := hard(r, trial%hardKinds, squared, 1, squared)
			for p := range n * n {
				sum := new(big.Rat)
				for i := range g {
					x := bigref.Rat(g[i])
					x.Mul(x, new(big.Rat).Mul(exactPower(f, p/n, i/taps), exactPower(f, p%n, i%taps)))
					if bigref.Rat(g[i]*factors.powers[p*squared+i]).Cmp(x) != 0 {
						t.Fatalf("%d taps, trial %d, point %d: the product %d is not exact", taps, trial, p, i)
					}
					sum.Add(sum, x)
				}
				d := new(big.Rat).Mul(den[p/n], den[p%n])
				if bigref.Rat(factors.divisor[p]).Cmp(d) != 0 {
					t.Fatalf("%d taps: denominator of point %d: %v, want %s", taps, p, factors.divisor[p], d)
				}
				u, size := factors.weight(g, p)
				off, _ := d.Abs(d.Sub(bigref.Rat(u), sum.Quo(sum, d))).Float64()
				if limit := 0x1p-53*math.Abs(u) + 0x1p-93*size; !(off <= limit) {
					t.Fatalf("%d taps, trial %d, point %d: off by %g of %g", taps, trial, p, off, u)
				}
			}
		}
		// The matrices belong together: the convolution of unit vectors.
		for tap := range taps {
			for at := range n {
				g, d, m := make([]float64, squared), make([]float64, n*n), make([]float64, n*n)
				g[taps*tap], d[at*n] = 1, 1 // a column of taps
				for p, z := range f.Input(d) {
					u, _ := factors.weight(g, p)
					m[p] = u * z
				}
				for ij, v := range f.Output(m) {
					want := 0.0
					if ij/4+tap == at && ij%4 == 0 {
						want = 1
					}
					if math.Abs(v-want) > 1e-11 {
						t.Errorf("%d taps, tap %d, input %d, output %d: %v", taps, tap, at, ij, v)
					}
				}
			}
		}
	}
}

func exactDenominators(f *asm.Form) (d []*big.Rat) {
	for p, q := range f.Points {
		d = append(d, big.NewRat(1, 1))
		for r, s := range f.Points {
			if r != p {
				d[p].Mul(d[p], new(big.Rat).Sub(bigref.Rat(q), bigref.Rat(s)))
			}
		}
	}
	return append(d, big.NewRat(1, 1))
}

func exactPower(f *asm.Form, p, i int) *big.Rat {
	v := big.NewRat(1, 1)
	if p == f.Side-1 {
		return v.SetInt64(int64(i / (f.Taps - 1)))
	}
	for range i {
		v.Mul(v, bigref.Rat(f.Points[p]))
	}
	return v
}

// TestLargeKernels: convolutions of the sizes that the forms are for, of all
// kinds of data, paddings, formats and shapes, are the judge's.
func TestLargeKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 13))
	for trial := range 2 * len(makers) {
		xs, ws := makers[trial%len(makers)], makers[r.IntN(len(makers))]
		taps := 5 + 2*(trial/len(makers))
		p := Square(1, r.IntN(taps/2+1), Padding(r.IntN(4)))
		n, ic, oc := 1+trial%2, 1+r.IntN(9), 1+r.IntN(9)
		h, w := taps+r.IntN(6), taps+r.IntN(9)
		src, weight := xs.make(r, fp16.Float32, n, ic, h, w), ws.make(r, fp16.Float32, oc, ic, taps, taps)
		bias := ws.make(r, fp16.Float32, 1, 1, 1, oc).Data
		exact := judge(src, weight, bias, judged(p, 1), formats...)
		k := NewKernel(weight, bias)
		for _, f := range formats {
			dst := tensor.New(f, exact.N, exact.C, exact.H, exact.W)
			Forward(dst, src, k, p)
			sameBits(t, dst, exact.Round(f), fmt.Sprintf("trial %d: %s * %s, %s, weight %s, %+v, %v", trial,
				xs.name, ws.name, src.Dims(), weight.Dims(), p, f))
		}
	}
}

// TestWinogradRepeats: in a field that is constant but for some pixels, under kernels
// whose sum is zero, all is open, and tiles with equal windows share their outputs.
func TestWinogradRepeats(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for trial := range 12 {
		taps := 3 + trial%3*2
		ic, oc := 1+r.IntN(9), 9+r.IntN(20)
		x := tensor.New(fp16.Float32, 1, ic, 13, 30)
		for i := range x.Data {
			x.Data[i] = float64(float32(0.3))
		}
		for range trial {
			x.Data[r.IntN(len(x.Data))] = float64(float32(r.NormFloat64()))
		}
		w := tensor.New(fp16.Float32, oc, ic, taps, taps)
		for i := range w.Data {
			if w.Data[i] = float64(float32(r.NormFloat64())); i%2 == 1 {
				w.Data[i] = -w.Data[i-1]
			}
		}
		exact := bigref.Conv2d(x, w, nil, 1, taps/2, "circular")
		y := tensor.New(fp16.Float32, 1, oc, 13, 30)
		Forward(y, x, NewKernel(w, nil), Square(1, taps/2, Circular))
		sameBits(t, y, exact.Round(fp16.Float32), fmt.Sprintf("trial %d, %d taps", trial, taps))
	}
}

// TestWinogradOpenRepeats: what repeats is not copied while it is open. Three words do not tell
// what these sums round to: one term has all of the bits that a result has, and others lie far
// below it; all of them are open in float16, as they overflow.
func TestWinogradOpenRepeats(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for range 10 {
		x, w := tensor.New(fp16.Float32, 1, 1, 5, 30), tensor.New(fp16.Float32, 16, 1, 3, 3)
		for i := range x.Data {
			x.Data[i] = float64(float32(0.1))
		}
		for i := range w.Data {
			w.Data[i] = float64(float32(math.Ldexp(r.NormFloat64(), -60-r.IntN(30))))
			if i%9 == 4 {
				w.Data[i] = float64(float32(math.Ldexp(1+r.Float64(), 25+r.IntN(20))))
			}
		}
		for _, f := range []fp16.Format{fp16.Float32, fp16.Float16} {
			y := tensor.New(f, 1, 16, 5, 30)
			Forward(y, x, NewKernel(w, nil), Square(1, 1, Circular))
			sameBits(t, y, bigref.Conv2d(x, w, nil, 1, 1, "circular").Round(f), f.String())
		}
	}
}
