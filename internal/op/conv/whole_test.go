package conv

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// TestWholeConvolutions: convolutions of whole numbers in float64, of any geometry, in groups and transposed, have the
// bits of sums in order, with what is not whole, too large or not finite among them too.
func TestWholeConvolutions(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	short, long := 0, 0
	for trial := range 300 {
		groups := []int{1, 1, 2, 3}[trial%4]
		ic, oc, kh, kw := groups*(1+r.IntN(5)), groups*(1+r.IntN(6)), 1+r.IntN(4), 1+r.IntN(4)
		h, w, n := kh+r.IntN(9), kw+r.IntN(20), 1+r.IntN(2)
		p := Params{Stride: [2]int{1 + r.IntN(3), 1 + r.IntN(3)}, Pad: [4]int{r.IntN(2), r.IntN(2), r.IntN(2), r.IntN(2)}}
		x, weight := tensor.New(fp16.Float64, n, ic, h, w), tensor.New(fp16.Float64, oc, ic/groups, kh, kw)
		if trial%5 == 0 {
			weight = tensor.New(fp16.Float64, ic, oc/groups, kh, kw)
		}
		bias := make([]float64, oc)
		for _, d := range [][]float64{x.Data, weight.Data, bias} {
			for i := range d {
				d[i] = float64(r.IntN(511) - 255)
			}
		}
		x.Data[0], bias[0] = math.Copysign(0, -1), []float64{0.3, 7, math.Copysign(0, -1), math.NaN()}[trial%16/4]
		odd := trial%3 == 0
		if odd {
			d := [][]float64{x.Data, weight.Data}[trial/3%2]
			d[r.IntN(len(d))] = []float64{0.5, 32768, math.Inf(-1), math.NaN(), 1 << 40}[trial/6%5]
		}
		forward := func(isa string) *tensor.Tensor {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			if trial%5 == 0 {
				oh, ow := p.TransposedSize(h, w, kh, kw, [2]int{})
				if min(oh, ow) < 1 {
					return nil
				}
				y := tensor.New(fp16.Float64, n, oc, oh, ow)
				Transposed(y, x, NewGroupedTransposedKernel(weight, bias, groups), p)
				return y
			}
			oh, ow := p.OutSize(h, w, kh, kw)
			y := tensor.New(fp16.Float64, n, oc, oh, ow)
			Forward(y, x, NewGroupedKernel(weight, bias, groups), p)
			return y
		}
		isa := asm.ISA()
		want := forward("purego")
		asm.Forget()
		got := forward(isa)
		if want == nil {
			continue
		}
		for i, v := range got.Data {
			if math.Float64bits(v) != math.Float64bits(want.Data[i]) {
				t.Fatalf("trial %d: number %d of %v is %v, want %v", trial, i, got.Shape, v, want.Data[i])
			}
		}
		if asm.WholeKernels() == nil {
			continue
		}
		ran := slices.ContainsFunc(asm.Kernels(),
			func(name string) bool { return strings.HasPrefix(name, "convolution of whole numbers") })
		if finite := bias[0] == bias[0]; groups == 1 && ran != (finite && !odd) {
			t.Fatalf("trial %d: the short way is %v; finite bias %v, odd numbers %v", trial, ran, finite, odd)
		}
		if ran {
			short++
		} else {
			long++
		}
	}
	if asm.WholeKernels() != nil && (short < 50 || long < 50) {
		t.Errorf("%d convolutions the short way, %d not: both should happen", short, long)
	}
}
