package refrun_test

import (
	"fmt"
	"testing"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/norm"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// normal returns a tensor of standard normals of a seed of its own.
func normal(seed uint64, n, c, h, w int) *tensor.Tensor {
	g, err := noise.NewTorchCPU("2.x", false)
	if err != nil {
		panic(err)
	}
	g.Seed(seed)
	x := tensor.New(fp16.Float32, n, c, h, w)
	g.Normal(x.Data)
	return x
}

// inputs are a few different tensors, so that no iteration repeats the last.
func inputs(n, c, h, w int) [3]*tensor.Tensor {
	return [3]*tensor.Tensor{normal(1, n, c, h, w), normal(2, n, c, h, w), normal(3, n, c, h, w)}
}

// BenchmarkBlock is one hidden block of an operator, convolution, instance norm
// and GELU, at several widths; GFLOP/s counts the convolution.
func BenchmarkBlock(b *testing.B) {
	for _, s := range []struct{ n, c, side int }{{1, 16, 64}, {1, 64, 64}, {5, 64, 128}} {
		b.Run(fmt.Sprintf("%dx%dx%dx%d", s.n, s.c, s.side, s.side), func(b *testing.B) {
			x := inputs(s.n, s.c, s.side, s.side)
			k := conv.NewKernel(normal(9, s.c, s.c, 3, 3), nil)
			y, z := tensor.Like(x[0]), tensor.Like(x[0])
			i := 0
			for b.Loop() {
				conv.Forward(y, x[i%len(x)], k, conv.Params{Pad: 1})
				norm.Instance(z, y, nil, nil, 1e-5)
				act.Forward(y, z, act.GELU)
				i++
			}
			flop := 2 * 9 * float64(s.n*s.c*s.c*s.side*s.side)
			b.ReportMetric(flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkOperator is one application of the whole operator, noise included.
func BenchmarkOperator(b *testing.B) {
	for _, s := range []struct{ n, base, side int }{{1, 8, 32}, {5, 8, 32}, {1, 16, 64}, {1, 32, 64}} {
		b.Run(fmt.Sprintf("base%d/%dx%d/batch%d", s.base, s.side, s.side, s.n), func(b *testing.B) {
			op, err := operator.Init(operator.Config{NumLayers: 4, BaseChannels: s.base, InputChannels: 3, OutputChannels: 3,
				KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.01}, 0)
			if err != nil {
				b.Fatal(err)
			}
			g, err := noise.NewTorchCPU("2.x", false)
			if err != nil {
				b.Fatal(err)
			}
			x := inputs(s.n, 3, s.side, s.side)
			p := &operator.Pass{Mode: operator.Mode{Precision: fp16.Float32}, Draws: g}
			i := 0
			for b.Loop() {
				if _, err := op.Forward(p, x[i%len(x)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
			per := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(per*float64(s.n), "sample-steps/s")
			b.ReportMetric(2*float64(op.MACs(s.side, s.side))*per*float64(s.n)/1e9, "GFLOP/s")
		})
	}
}
