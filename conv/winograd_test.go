package conv

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/bigref"
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

// TestWinogradBound holds the float64 results of the transforms, before any
// rounding to a format, to the exact values: every error lies within the bound
// that the guard uses, and the bound is not vacuous.
func TestWinogradBound(t *testing.T) {
	w := asm.WinogradKernels()
	if w == nil {
		return // the direct sum has its own test
	}
	r := rand.New(rand.NewPCG(8, 9))
	largest := 0.0
	for trial := range 6 * hardKinds {
		ic, oc := []int{1, 5, 24, 70}[trial%4], 9
		x := tensor.Of(fp16.Float32, hard(r, trial%hardKinds, 2*ic*42, ic, 42), 2, ic, 6, 7)
		k := tensor.Of(fp16.Float32, hard(r, trial/3%hardKinds, oc*ic*9, ic, 9), oc, ic, 3, 3)
		bias := hard(r, trial%2, oc, 1, 1)
		kernel := NewKernel(k, bias)
		exact := bigref.Conv2d(x, k, bias, 1, 1, "zeros")
		y := tensor.New(fp16.Float32, 2, oc, 6, 7)
		j := &job{dst: y, src: x, k: kernel, rows: paddedAxis(6, 1, Zeros), cols: paddedAxis(7, 1, Zeros), stride: 1}
		g := j.newWinograd(w, w.Output[asm.Float32])
		j.memory = new(images)
		g.pack()
		s := g.newSpace(1)
		for tile := range 2 * g.th * g.tw {
			g.window(s, tile, tile%w.Tiles)
			n, y0, x0 := g.place(tile)
			for o := range oc {
				for p := range 36 {
					g.Multiply(&s.v[p*w.Tiles*block], g.weights.panel(o/w.Outputs, p), &s.m[p*w.Tiles*w.Outputs], g.blocks, 1)
				}
				var m [6][6]float64
				for p := range 36 {
					m[p/6][p%6] = s.m[(p*w.Tiles+tile%w.Tiles)*w.Outputs+o%w.Outputs]
				}
				table := g.weights.tables[o/block*18*block+o%block:]
				for i, row := range asm.WinogradOutput(m) {
					for c, v := range row {
						if y0+i >= 6 || x0+c >= 7 {
							continue
						}
						v += table[16*block]
						e := math.FMA(s.k[tile%w.Tiles], table[(4*i+c)*block], table[17*block])
						d := new(big.Rat).Sub(bigref.Rat(v), exact.Values[((n*oc+o)*6+y0+i)*7+x0+c])
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
	}
	t.Logf("largest error: %.2g of the bound", largest)
	if largest < 1e-3 {
		t.Errorf("largest error is %.2g of the bound: a bound so wide guards something else", largest)
	}
}

// TestWinogradWeights holds the transformed weights to exact arithmetic: each
// is the nearest float64, or its neighbour where the quotient is within 2^-40
// of a tie.
func TestWinogradWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 11))
	den := denominators()
	for trial := range 400 {
		var g [9]float64
		copy(g[:], hard(r, trial%hardKinds, 9, 1, 9))
		for p := range 6 {
			for q := range 6 {
				sum := new(big.Rat)
				for i := range 3 {
					for j := range 3 {
						x := bigref.Rat(g[3*i+j])
						x.Mul(x, bigref.Rat(power(p, i)))
						sum.Add(sum, x.Mul(x, bigref.Rat(power(q, j))))
					}
				}
				sum.Quo(sum, new(big.Rat).Mul(bigref.Rat(den[p]), bigref.Rat(den[q])))
				u, size := transformed(&g, p, q, den)
				d := new(big.Rat).Sub(bigref.Rat(u), sum)
				off, _ := d.Abs(d).Float64()
				if limit := 0x1p-53*math.Abs(u) + 0x1p-93*size; !(off <= limit) {
					t.Fatalf("trial %d, point %d,%d: off by %g of %g", trial, p, q, off, u)
				}
			}
		}
	}
	// The matrices belong together: the convolution of unit vectors.
	for tap := range 3 {
		for at := range 6 {
			var g [9]float64
			var d [6][6]float64
			g[3*tap] = 1 // a column of taps
			d[at][0] = 1
			var m [6][6]float64
			z := asm.WinogradInput(d)
			for p := range 36 {
				u, _ := transformed(&g, p/6, p%6, den)
				m[p/6][p%6] = u * z[p/6][p%6]
			}
			for i, row := range asm.WinogradOutput(m) {
				for j, v := range row {
					want := 0.0
					if i+tap == at && j == 0 {
						want = 1
					}
					if math.Abs(v-want) > 1e-13 {
						t.Errorf("tap %d, input %d, output %d,%d: %v", tap, at, i, j, v)
					}
				}
			}
		}
	}
}
