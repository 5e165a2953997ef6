package asm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWinogradWide: the transforms of float64 numbers are those of Form, bit for
// bit, and touch nothing else.
func TestWinogradWide(t *testing.T) {
	ran := 0
	each(t, func(t *testing.T, f *Form, w *Winograd) {
		if (w.WideInput == nil) != (w.WideOutput == nil) {
			t.Fatal("half of the wide transforms")
		}
		if w.WideInput == nil {
			return // NEON, and larger kernels
		}
		ran++
		r := rand.New(rand.NewPCG(13, 14))
		n := f.Side
		const blocks, tile, y0, x0 = 3, 5, 2, 4
		height, width := n+3, n+5
		image := newGuarded[float64](blocks*height*width*8, 7)
		for i := range image.data() {
			image.data()[i] = math.Ldexp(r.NormFloat64(), r.IntN(60)-30)
		}
		plane := w.Tiles * 8
		point := blocks*plane + 8
		v := newGuarded[float64](n*n*point-8, 9)
		scratch := newGuarded[float64](n*n*8, 9)
		w.WideInput(image.at((y0*width+x0)*8), width*64, height*width*64, v.at(tile*8), point*8, blocks, scratch.at(0))
		image.check(t, "image")
		v.check(t, "v")
		scratch.check(t, "scratch")
		for b := range blocks {
			for c := range 8 {
				d := make([]float64, n*n)
				for i := range d {
					d[i] = image.data()[((b*height+y0+i/n)*width+x0+i%n)*8+c]
				}
				for p, want := range f.Input(d) {
					at := p*point + b*plane + tile*8 + c
					if got := v.data()[at]; math.Float64bits(got) != math.Float64bits(want) {
						t.Fatalf("input: block %d, channel %d, point %d: %v, want %v", b, c, p, got, want)
					}
					v.data()[at] = 9
				}
			}
		}
		for i, x := range v.data() {
			if x != 9 {
				t.Fatalf("number %d of V was written", i)
			}
		}

		step := w.Tiles*w.Outputs + 8
		m := newGuarded[float64](n*n*step-8, 7)
		bias := newGuarded[float64](8, 7)
		for _, g := range []*guarded[float64]{m, bias} {
			for i := range g.data() {
				g.data()[i] = r.NormFloat64()
			}
		}
		const line = 20
		dst := newGuarded[float64](4*line*8, 7)
		small := newGuarded[float64](4*n*8, 7)
		w.WideOutput(m.at(tile*w.Outputs), step*8, bias.at(0), dst.at(0), line*64, small.at(0))
		m.check(t, "m")
		bias.check(t, "bias")
		dst.check(t, "dst")
		small.check(t, "scratch")
		for c := range 8 {
			d := make([]float64, n*n)
			for p := range d {
				d[p] = m.data()[p*step+tile*w.Outputs+c]
			}
			for ij, y := range f.Output(d) {
				at := (ij/4*line+ij%4)*8 + c
				if want, got := y+bias.data()[c], dst.data()[at]; math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("output: channel %d, pixel %d: %v, want %v", c, ij, got, want)
				}
				dst.data()[at] = 7
			}
		}
		for i, x := range dst.data() {
			if x != 7 {
				t.Fatalf("number %d beyond the tile was written", i)
			}
		}
	})
	t.Logf("%d sets of kernels", ran)
}
