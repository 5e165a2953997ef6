package asm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestChannelsConvolve: sums, bias, guard and rounding against plain Go, for all strides and ends of a line.
func TestChannelsConvolve(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, b := range backends {
		k := b.channels
		if k == nil {
			continue
		}
		open, decided := 0, 0
		for trial := range 400 {
			n, pixels, stride := 1+trial%11, 1+trial%14, 1+trial%3
			src := newGuarded[float32](8*((pixels-1)*stride+20), 7)
			scale := []float64{1, 1e-3, 0x1p-70, 0x1p8, 0}[trial%5]
			for i := range src.data() {
				src.data()[i] = float32(scale * r.NormFloat64())
			}
			if trial%13 == 0 {
				src.data()[r.IntN(len(src.data()))] = []float32{float32(math.NaN()), float32(math.Inf(1))}[trial%2]
			}
			taps, w, table := make([]int, n), newGuarded[float64](n*16, 7), newGuarded[float64](24, 7)
			for i := range n {
				taps[i] = 32 * r.IntN(20)
				for l := range 8 {
					v := float64(float32(r.NormFloat64()))
					w.data()[16*i+l], w.data()[16*i+8+l] = v, math.Abs(v)
				}
			}
			for l := range 8 {
				table.data()[l] = float64(float32(scale * r.NormFloat64()))
				table.data()[8+l] = math.Abs(table.data()[l])
				table.data()[16+l] = math.Ldexp(1, -20-r.IntN(30))
			}
			dst, flags := newGuarded[float32](8*pixels, 7), newGuarded[uint8](pixels, 7)
			any := k.Convolve(src.at(0), 32*stride, &taps[0], n, w.at(0), table.at(0), dst.at(0), pixels, flags.at(0))
			src.check(t, "src")
			w.check(t, "w")
			table.check(t, "table")
			dst.check(t, "dst")
			flags.check(t, "flags")
			all := uint8(0)
			for i, got := range dst.data() {
				p, l, y, a := i/8, i%8, 0.0, 0.0
				for j, tap := range taps {
					x := float64(src.data()[8*p*stride+tap/4+l])
					y = math.FMA(x, w.data()[16*j+l], y)
					a = math.FMA(math.Abs(x), w.data()[16*j+8+l], a)
				}
				y += table.data()[l]
				a = (a + table.data()[8+l]) * table.data()[16+l]
				lo, hi := float32(y-a), float32(y+a)
				flag := flags.data()[p] >> l & 1
				all |= flags.data()[p]
				if same := y == y && math.Float32bits(lo) == math.Float32bits(hi); same != (flag == 0) || same && got != lo {
					t.Fatalf("%s, trial %d, pixel %d, channel %d: %v, flag %d, of %v +- %v", b.name, trial, p, l, got, flag, y, a)
				}
				decided += int(1 - flag)
				open += int(flag)
			}
			if (all != 0) != (any != 0) {
				t.Fatalf("%s, trial %d: flags combined %b, want %b", b.name, trial, any, all)
			}
		}
		if open < 500 || decided < 500 {
			t.Errorf("%s: %d open, %d decided: both should happen", b.name, open, decided)
		}
	}
}
