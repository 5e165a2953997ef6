package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// gauss returns a tensor of float32 normal numbers.
func gauss(r *rand.Rand, f fp16.Format, n, c, h, w int) *tensor.Tensor {
	t := tensor.New(f, n, c, h, w)
	for i := range t.Data {
		t.Data[i] = fp16.Float32.Round(r.NormFloat64())
	}
	return t
}

// benchmark times one convolution.
func benchmark(b *testing.B, dst, src *tensor.Tensor, k *Kernel, p Params) {
	b.Helper()
	for b.Loop() {
		Forward(dst, src, k, p)
	}
	macs := float64(len(dst.Data)) * float64(k.taps()) * float64(b.N)
	b.ReportMetric(macs/b.Elapsed().Seconds()/1e9, "GMAC/s")
	b.ReportMetric(flagged(dst, src, k, p), "flagged/output")
}

// flagged returns the fraction of outputs that the guard leaves open.
func flagged(dst, src *tensor.Tensor, k *Kernel, p Params) float64 {
	if dst.Format == fp16.Float64 {
		return 0
	}
	sums := tensor.New(fp16.Float64, dst.N(), dst.C(), dst.H(), dst.W())
	Forward(sums, src, k, p)
	j := &job{dst: dst, src: src, k: k, memory: new(images),
		rows: paddedAxis(src.H(), k.kh, dst.H(), &p, 0), cols: paddedAxis(src.W(), k.kw, dst.W(), &p, 1)}
	norms, hw, open := j.windows(), dst.H()*dst.W(), 0
	for i, v := range sums.Data {
		window := norms[i/hw/dst.C()*hw+i%hw]
		if _, ok := dst.Format.Decide(v, k.bound(i/hw%dst.C(), window)); !ok {
			open++
		}
	}
	return float64(open) / float64(len(sums.Data))
}

func BenchmarkForward(b *testing.B) {
	for _, c := range []struct{ ic, oc, k, size int }{
		{3, 64, 3, 64}, {16, 16, 3, 64}, {64, 64, 3, 64}, {256, 256, 3, 32}, {64, 64, 1, 64}, {64, 3, 1, 64},
	} {
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.BFloat16} {
			b.Run(fmt.Sprintf("%d-%d@%d/k%d/%v", c.ic, c.oc, c.size, c.k, f), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				src := gauss(r, fp16.Float32, 1, c.ic, c.size, c.size)
				k := NewKernel(gauss(r, fp16.Float32, c.oc, c.ic, c.k, c.k), nil)
				dst := tensor.New(f, 1, c.oc, c.size, c.size)
				benchmark(b, dst, src, k, Square(1, c.k/2, Zeros))
			})
		}
	}
}

// BenchmarkConstant is the worst case of the guard: a constant image under
// kernels of sum zero, so that every sum inside the image is exactly zero and
// nothing but the exact sum can tell.
func BenchmarkConstant(b *testing.B) {
	for _, c := range []int{16, 64} {
		for _, constant := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d-%d@32/constant=%v", c, c, constant), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				src := gauss(r, fp16.Float32, 1, c, 32, 32)
				weight := gauss(r, fp16.Float32, c, c, 3, 3)
				if constant {
					for i := range src.Data {
						src.Data[i] = fp16.Float32.Round(0.1)
					}
					for i := range weight.Data {
						if i%2 == 1 {
							weight.Data[i] = -weight.Data[i-1]
						}
					}
				}
				dst := tensor.New(fp16.Float32, 1, c, 32, 32)
				benchmark(b, dst, src, NewKernel(weight, nil), Square(1, 1, Circular))
			})
		}
	}
}
