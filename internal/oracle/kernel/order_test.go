package kernel_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/kernel"
)

// multiplyAdd is a*b + c, rounded once to float32, by exact arithmetic; or twice.
func multiplyAdd(a, b, c float32, fused bool) float32 {
	if !fused {
		return float32(a*b) + c
	}
	x := new(big.Float).SetPrec(400).SetFloat64(float64(a))
	x.Mul(x, new(big.Float).SetFloat64(float64(b)))
	y, _ := x.Add(x, new(big.Float).SetFloat64(float64(c))).Float32()
	return y
}

// TestOrders: the order in which sums were made is told, of float32 and of half numbers, with a bias and without, and
// no other is as good.
func TestOrders(t *testing.T) {
	for _, c := range []struct {
		want            string
		tile, taps      int
		half, fused     bool
		biased, channel bool
	}{
		{want: "k ascending, fused multiply-adds", fused: true},
		{want: "k ascending"},
		{want: "k in tiles of 32, fused multiply-adds", tile: 32, fused: true},
		{want: "k in tiles of 16", tile: 16, half: true},
		{want: "k in 3 parts", tile: 48, half: true},
		{want: "k ascending of (kh, kw, c), fused multiply-adds", taps: 9, channel: true, fused: true},
		{want: "k ascending, fused multiply-adds", taps: 9, fused: true},
		{want: "k ascending, fused multiply-adds, the bias last", fused: true, biased: true},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		draw := func() float64 {
			if c.half {
				return fp16.Float16.Round(r.NormFloat64())
			}
			return float64(float32(r.NormFloat64()))
		}
		const n = 144
		var sums []kernel.Sum
		for range 60 {
			var s kernel.Sum
			for range n {
				s.A, s.B = append(s.A, draw()), append(s.B, draw())
			}
			if c.biased {
				s.Bias = draw()
			}
			var total, part float32
			for k := range n {
				if c.tile > 0 && k%c.tile == 0 {
					total, part = total+part, 0
				}
				at := k
				if c.channel {
					at = k%(n/c.taps)*c.taps + k/(n/c.taps)
				}
				part = multiplyAdd(float32(s.A[at]), float32(s.B[at]), part, c.fused)
			}
			s.Result = float64(total + part + float32(s.Bias))
			sums = append(sums, s)
		}
		o := kernel.Orders(sums, max(1, c.taps), fp16.Float32)
		if o == nil || o.Name != c.want || o.Equal != 60 || o.Of != 60 || len(o.Alike) > 0 || o.NextEqual > 30 {
			t.Errorf("%+v: want %s", o, c.want)
		}
	}
	if o := kernel.Orders([]kernel.Sum{{A: []float64{1, 2}, B: []float64{3, 4}, Result: 11}}, 1,
		fp16.Float32); o.Equal != 1 || len(o.Alike) > 0 && o.Next != "" {
		t.Errorf("%+v", o)
	}
	if o := kernel.Orders(nil, 1, fp16.Float32); o != nil {
		t.Errorf("%+v", o)
	}
}

// TestOrdersFused: fused multiply-adds are rounded once, also where a sum in float64 is a tie that it is not.
func TestOrdersFused(t *testing.T) {
	for _, s := range []kernel.Sum{
		{A: []float64{1 + 0x1p-23, 0x1p-12 + 0x1p-35}, B: []float64{1, 0x1p-12 - 0x1p-35}}, // 2^-70 below a tie
		{A: []float64{1, 0x1p-12 + 0x1p-35}, B: []float64{1, 0x1p-12}},
		{A: []float64{1, 0x1p-12}, B: []float64{1, 0x1p-12}},
	} {
		s.Result = float64(
			multiplyAdd(float32(s.A[1]), float32(s.B[1]), multiplyAdd(float32(s.A[0]), float32(s.B[0]), 0, true), true),
		)
		if o := kernel.Orders([]kernel.Sum{s}, 1, fp16.Float32); o.Equal != 1 {
			t.Errorf("%v: %+v", s, o)
		}
	}
}
