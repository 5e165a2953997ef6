package norm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// flat is an image of one sample, by blocks and rows.
type flat struct {
	data []float32
	h, w int
}

func (f *flat) Row(_, b, y int) []float32 { return f.data[(b*f.h+y)*f.w*8:][:f.w*8] }

// rowData are ways to fill rows that strain the sums.
var rowData = []func(r *rand.Rand) float64{
	func(r *rand.Rand) float64 { return r.NormFloat64() },
	func(r *rand.Rand) float64 { return 1e3 + r.NormFloat64() },
	func(r *rand.Rand) float64 { return 1e4 + 1e-3*r.NormFloat64() },
	func(r *rand.Rand) float64 { return 1 + 0x1p-23*float64(r.IntN(4)) },
	func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(120)-60) },
	func(r *rand.Rand) float64 { return 0x1p-149 * float64(r.IntN(16)-8) },
	func(r *rand.Rand) float64 { return float64(r.IntN(9) - 4) },
	func(r *rand.Rand) float64 { return 7 },
	func(r *rand.Rand) float64 { return max(0, r.NormFloat64()) },
}

// TestRowBound holds what the kernels compute to w, by exact comparison with both
// ends of the interval, and the interval to a width that leaves little open.
func TestRowBound(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 1))
	var e Exact
	worst, usable := 0.0, 0
	for k, fill := range rowData {
		for trial := range 15 {
			h, w, perGroup := 1+r.IntN(9), 1+r.IntN(70), 1+trial%2
			const c = 4
			img := &flat{make([]float32, h*w*8), h, w}
			for i := range img.data {
				if i%8 < c {
					img.data[i] = float32(fill(r))
				}
			}
			gamma, beta := make([]float64, c), make([]float64, c)
			for i := range gamma {
				gamma[i], beta[i] = float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64()))*float64(r.IntN(2))
			}
			parts := 1 + r.IntN(3)
			rows := NewRows(fp16.Float32, 1, c, h, w, c/perGroup, gamma, beta, 1e-5, parts, &e)
			s := NewSpace(w)
			rows.Pivot(img, 0, 0, s)
			rows.SetPivots(0, 0, 1)
			for p := range parts {
				rows.Sum(img, 0, 0, p, s)
			}
			rows.SetLines(0, 0, 1)
			of := &rows.lines[0].of
			for ch := range c {
				var xs []float64
				for i, v := range img.data {
					if i%8 < c && i%8/perGroup == ch/perGroup {
						xs = append(xs, float64(v))
					}
				}
				judge := bigref.GroupNorm(xs, 1e-5)
				for range 12 {
					x := float64(img.data[8*r.IntN(h*w)+ch])
					y := math.FMA(x-of[ofPivot][ch], of[ofSlope][ch], of[ofOffset][ch])
					width := math.FMA(math.Abs(y), of[ofPart][ch], of[ofRest][ch])
					if math.IsInf(width, 1) {
						continue
					}
					usable++
					at, b := bigref.Rat(y), bigref.Rat(width)
					lo, hi := new(big.Rat).Sub(at, b), new(big.Rat).Add(at, b)
					if judge.Compare(x, gamma[ch], beta[ch], lo) < 0 || judge.Compare(x, gamma[ch], beta[ch], hi) > 0 {
						t.Fatalf("data %d, %dx%d, x %x: y %x is not within %x of the exact value", k, h, w, x, y, width)
					}
					if k == 0 && len(xs) > 50 {
						worst = max(worst, width/(math.Abs(y)+math.Abs(beta[ch])+math.Abs(gamma[ch])))
					}
				}
			}
		}
	}
	if usable < 5000 || worst > 0x1p-42 {
		t.Errorf("%d evaluations with a bound; of normal data the widest is 2^%.1f of what is added", usable,
			math.Log2(worst))
	}
}

// TestPrecise: what double-double arithmetic decides is the exact value rounded to
// odd, and it decides nearly everything, the mean itself included.
func TestPrecise(t *testing.T) {
	r := rand.New(rand.NewPCG(52, 1))
	decided, open := 0, 0
	for k, fill := range rowData {
		for range 60 {
			var m exact.Moments
			xs := make([]float64, 1+r.IntN(60))
			for i := range xs {
				xs[i] = float64(float32(fill(r)))
			}
			m.Add(xs)
			std := m.Standard(1e-5)
			spread, ok := m.Spread(1e-5)
			if !ok {
				t.Fatal("no spread")
			}
			for range 6 {
				x, gamma, beta := xs[r.IntN(len(xs))], float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64()))
				if k == 5 || r.IntN(2) == 0 { // next to a beta subnormal numbers are lost
					beta = 0
					gamma = math.Ldexp(1, r.IntN(5)-2)
				}
				y, ok := settleLine(m.Above(x), spread, gamma, beta)
				if !ok {
					open++
					continue
				}
				decided++
				if want := std.Settle(x, gamma, beta); math.Float64bits(y) != math.Float64bits(want) {
					t.Fatalf("data %d, x %x, gamma %x, beta %x: %x, want %x", k, x, gamma, beta, y, want)
				}
			}
		}
	}
	if decided < 50*open {
		t.Errorf("%d decided, %d open: want few", decided, open)
	}
}
