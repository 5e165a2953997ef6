package refrun_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
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

// eachISA runs a benchmark of that many multiplications on every instruction
// set of this CPU, and on purego only if that takes less than about 2 s.
func eachISA(b *testing.B, name string, macs float64, run func(*testing.B)) {
	const long = 5e9
	defer asm.Use(asm.ISA())
	for _, isa := range asm.ISAs() {
		if isa == "purego" && macs > long {
			continue
		}
		b.Run(name+"/"+isa, func(b *testing.B) {
			if err := asm.Use(isa); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run(b)
		})
	}
}

// gflops reports the rate of the definition's multiplications and additions.
func gflops(b *testing.B, macs float64) {
	b.ReportMetric(2*macs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchmarkConv is one convolution of stride 1, by kernel, channels and image.
func BenchmarkConv(b *testing.B) {
	for _, s := range []struct{ n, k, in, out, side int }{
		{1, 3, 3, 64, 64}, {1, 3, 16, 16, 64}, {1, 3, 32, 32, 64}, {1, 3, 64, 64, 64}, {1, 3, 64, 64, 128}, {1, 3, 256, 256, 64}, {5, 3, 64, 64, 128},
		{1, 1, 64, 128, 64}, {1, 5, 32, 32, 64}, {1, 7, 32, 32, 64},
	} {
		macs := float64(s.k*s.k*s.in*s.out) * float64(s.n*s.side*s.side)
		eachISA(b, fmt.Sprintf("%dx%d/%dto%d/%dx%dx%d", s.k, s.k, s.in, s.out, s.n, s.side, s.side), macs, func(b *testing.B) {
			x, k := inputs(s.n, s.in, s.side, s.side), conv.NewKernel(normal(9, s.out, s.in, s.k, s.k), nil)
			y := tensor.New(fp16.Float32, s.n, s.out, s.side, s.side)
			conv.Forward(y, x[0], k, conv.Square(1, s.k/2, conv.Zeros)) // prepares the weights
			i := 0
			for b.Loop() {
				i++
				conv.Forward(y, x[i%len(x)], k, conv.Square(1, s.k/2, conv.Zeros))
			}
			gflops(b, macs)
		})
	}
}

// elementwise is what a benchmark of cheap operations runs on.
var elementwise = []struct{ n, c, side int }{{1, 16, 64}, {1, 64, 128}, {5, 64, 128}}

// BenchmarkNorm is one instance norm.
func BenchmarkNorm(b *testing.B) {
	for _, s := range elementwise {
		eachISA(b, fmt.Sprintf("%dx%dx%dx%d", s.n, s.c, s.side, s.side), 0, func(b *testing.B) {
			x := inputs(s.n, s.c, s.side, s.side)
			y, i := tensor.Like(x[0]), 0
			for b.Loop() {
				i++
				norm.Instance(y, x[i%len(x)], nil, nil, 1e-5)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(y.Data)), "ns/elem")
		})
	}
}

// BenchmarkActivation is one activation function.
func BenchmarkActivation(b *testing.B) {
	for _, f := range []act.Func{act.GELU, act.SiLU, act.Tanh, act.ReLU} {
		for _, s := range elementwise {
			eachISA(b, fmt.Sprintf("%v/%dx%dx%dx%d", f, s.n, s.c, s.side, s.side), 0, func(b *testing.B) {
				x := inputs(s.n, s.c, s.side, s.side)
				y, i := tensor.Like(x[0]), 0
				for b.Loop() {
					i++
					act.Forward(y, x[i%len(x)], f)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(y.Data)), "ns/elem")
			})
		}
	}
}

// BenchmarkBlock is one hidden block of an operator, convolution, instance norm
// and GELU, at several widths; GFLOP/s counts the convolution.
func BenchmarkBlock(b *testing.B) {
	for _, s := range []struct{ n, c, side int }{{1, 16, 64}, {1, 64, 64}, {5, 64, 128}} {
		macs := 9 * float64(s.n*s.c*s.c*s.side*s.side)
		eachISA(b, fmt.Sprintf("%dx%dx%dx%d", s.n, s.c, s.side, s.side), macs, func(b *testing.B) {
			x := inputs(s.n, s.c, s.side, s.side)
			k := conv.NewKernel(normal(9, s.c, s.c, 3, 3), nil)
			y, z := tensor.Like(x[0]), tensor.Like(x[0])
			conv.Forward(y, x[0], k, conv.Square(1, 1, conv.Zeros))
			i := 0
			for b.Loop() {
				i++
				conv.Forward(y, x[i%len(x)], k, conv.Square(1, 1, conv.Zeros))
				norm.Instance(z, y, nil, nil, 1e-5)
				act.Forward(y, z, act.GELU)
			}
			gflops(b, macs)
		})
	}
}

// BenchmarkOperator is one application of the whole operator by its plan, noise
// included, by mode, width, image and batch. It allocates nothing, but in float64
// mode, which has no plans.
func BenchmarkOperator(b *testing.B) {
	for _, mode := range [][2]string{{"float32", ""}, {"tf32", ""}, {"float16", "cuda"}, {"bfloat16", "cuda"}, {"bfloat16", "cpu"}, {"float64", ""}} {
		m, err := operator.ParseMode(mode[0], mode[1])
		if err != nil {
			b.Fatal(err)
		}
		for _, base := range []int{8, 16, 32, 64} {
			op, err := operator.Init(operator.Config{NumLayers: 4, BaseChannels: base, InputChannels: 3, OutputChannels: 3,
				KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.01}, 0)
			if err != nil {
				b.Fatal(err)
			}
			for _, s := range []struct{ side, n int }{{64, 1}, {64, 5}, {128, 1}, {128, 5}} {
				macs := float64(op.MACs(s.side, s.side)) * float64(s.n)
				eachISA(b, fmt.Sprintf("%v/base%d/%dx%d/batch%d", m, base, s.side, s.side, s.n), macs, func(b *testing.B) {
					g, err := noise.NewTorchCPU("2.x", false)
					if err != nil {
						b.Fatal(err)
					}
					x := inputs(s.n, 3, s.side, s.side)
					p, i := op.Plan(m, s.n, s.side, s.side), 0
					step := func() {
						i++
						if err := p.Forward(p.Result(), x[i%len(x)], g, noise.Time{}); err != nil {
							b.Fatal(err)
						}
					}
					step() // prepares the weights
					step()
					for b.Loop() {
						step()
					}
					b.ReportMetric(float64(b.N*s.n)/b.Elapsed().Seconds(), "sample-steps/s")
					b.ReportMetric(float64(p.Arena())/1e6, "MB-arena")
					gflops(b, macs)
				})
			}
		}
	}
}

// hardData is data for which rounding is harder to decide than for normal
// numbers: each case changes an image, and kernels to go with it.
var hardData = []struct {
	name           string
	image, kernels func(x *tensor.Tensor)
}{
	{"normal", nil, nil},
	{"zeros", func(x *tensor.Tensor) { clear(x.Data) }, nil},
	{"constant-zero-sum", func(x *tensor.Tensor) { replace(x, func(int, float64) float64 { return 0.25 }) }, func(k *tensor.Tensor) {
		replace(k, func(i int, v float64) float64 {
			if i%2 == 1 {
				return -k.Data[i-1]
			}
			return v
		})
	}},
	{"small-integers", integers, integers},
	{"bfloat16-numbers", bfloat16s, bfloat16s},
	{"one-NaN", func(x *tensor.Tensor) { x.Data[len(x.Data)/2] = math.NaN() }, nil},
	{"one-Inf", func(x *tensor.Tensor) { x.Data[len(x.Data)/2] = math.Inf(1) }, nil},
	{"1e-30", func(x *tensor.Tensor) { replace(x, func(_ int, v float64) float64 { return v * 1e-30 }) }, nil},
	{"1e+30", func(x *tensor.Tensor) { replace(x, func(_ int, v float64) float64 { return v * 1e30 }) }, nil},
}

// replace sets every number to f of its index and itself, rounded to float32.
func replace(x *tensor.Tensor, f func(i int, v float64) float64) {
	for i, v := range x.Data {
		x.Data[i] = fp16.Float32.Round(f(i, v))
	}
}

func integers(x *tensor.Tensor) {
	replace(x, func(_ int, v float64) float64 { return math.Round(3 * v) })
}

func bfloat16s(x *tensor.Tensor) {
	replace(x, func(_ int, v float64) float64 { return fp16.BFloat16.Round(v) })
}

// BenchmarkData is each operation of a block, float32, on data that is hard for
// it, with the best kernels of this CPU.
func BenchmarkData(b *testing.B) {
	const c, side = 64, 64
	for _, op := range []string{"conv3x3", "conv5x5", "norm", "gelu"} {
		for _, data := range hardData {
			b.Run(op+"/"+data.name, func(b *testing.B) {
				x, size := inputs(1, c, side, side), 3
				if op == "conv5x5" {
					size = 5
				}
				w := normal(9, c, c, size, size)
				if data.image != nil {
					for _, t := range x {
						data.image(t)
					}
				}
				if data.kernels != nil {
					data.kernels(w)
				}
				k, y := conv.NewKernel(w, nil), tensor.Like(x[0])
				step := map[string]func(x *tensor.Tensor){
					"conv3x3": func(x *tensor.Tensor) { conv.Forward(y, x, k, conv.Square(1, 1, conv.Zeros)) },
					"conv5x5": func(x *tensor.Tensor) { conv.Forward(y, x, k, conv.Square(1, 2, conv.Zeros)) },
					"norm":    func(x *tensor.Tensor) { norm.Instance(y, x, nil, nil, 1e-5) },
					"gelu":    func(x *tensor.Tensor) { act.Forward(y, x, act.GELU) },
				}[op]
				step(x[0])
				i := 0
				for b.Loop() {
					i++
					step(x[i%len(x)])
				}
			})
		}
	}
}
