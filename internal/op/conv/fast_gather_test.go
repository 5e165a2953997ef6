package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestFastGather: pixels of short lines, gathered, have the bits of plain Go, whatever the window,
// stride, padding, batch and the number of groups, with NaN and infinities among them.
func TestFastGather(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(1, 2))
	random := func(shape ...int) *tensor.Tensor {
		x := tensor.New(fp16.Float32, shape...)
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(r.NormFloat64())
		}
		return x
	}
	for _, c := range []struct{ n, ic, oc, h, w, k, stride, groups int }{
		{1, 8, 32, 7, 7, 1, 1, 1}, {3, 20, 40, 7, 7, 1, 2, 1}, {1, 40, 48, 14, 14, 3, 2, 1}, {2, 33, 40, 13, 9, 3, 2, 1},
		{5, 16, 64, 3, 5, 5, 2, 1}, {1, 64, 128, 1, 1, 1, 1, 1}, {2, 80, 96, 6, 7, 3, 2, 2},
	} {
		for _, padding := range []Padding{Zeros, Circular} {
			p := Square(c.stride, c.k/2, padding)
			x, b := random(c.n, c.ic, c.h, c.w), random(1, 1, 1, c.oc).Data
			x.Data[len(x.Data)/2], x.Data[len(x.Data)/3] = fp16.NaN, math.Inf(1)
			k := NewGroupedKernel(random(c.oc, c.ic/c.groups, c.k, c.k), b, c.groups).Fast()
			oh, ow := p.OutSize(c.h, c.w, c.k, c.k)
			var want *tensor.Tensor
			isas := asm.ISAs()
			for i := len(isas) - 1; i >= 0; i-- { // plain Go first
				if err := asm.Use(isas[i]); err != nil {
					t.Fatal(err)
				}
				g := k.parts()[0]
				if kernels := g.tapKernels(ow); isas[i] != "purego" && g.gatherKernels(kernels, ow) == nil {
					t.Errorf("%s, %+v: nothing is gathered", isas[i], c)
				}
				y := tensor.New(fp16.Float32, c.n, c.oc, oh, ow)
				Forward(y, x, k, p)
				if want == nil {
					want = y
				}
				for j, v := range y.Data {
					if math.Float64bits(v) != math.Float64bits(want.Data[j]) {
						t.Fatalf("%s, %+v, %v: number %d is %v, want %v", isas[i], c, padding, j, v, want.Data[j])
					}
				}
			}
		}
	}
}

// TestFastFewPixels: small images of many channels go tap by tap, as docs/NUMERICS.md says, and no
// others.
func TestFastFewPixels(t *testing.T) {
	for _, c := range []struct {
		ic, oc, k, pixels int
		taps              bool
	}{
		{512, 512, 3, 64, true},
		{512, 512, 3, 65, false},
		{256, 512, 3, 49, false},
		{512, 512, 5, 49, true},
		{512, 456, 3, 49, true},
		{512, 448, 3, 49, false},
	} {
		k := &Kernel{ic: c.ic, oc: c.oc, kh: c.k, kw: c.k, fast: true}
		if f := k.fastForm(1, c.pixels); (f == nil) != c.taps {
			t.Errorf("%+v: %s", c, map[bool]string{true: "tap by tap", false: "by Winograd's method"}[f == nil])
		}
	}
}
