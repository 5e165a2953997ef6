package refrun_test

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// normal returns a tensor of standard normals of a seed of its own.
func normal(seed uint64, n, c, h, w int) *tensor.Tensor {
	g, err := noise.ParseTorchCPU("torch-cpu:2.x", "")
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
		b.Run(name+"/isa="+isa, func(b *testing.B) {
			if err := asm.Use(isa); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run(b)
		})
	}
}

// BenchmarkConv is one convolution of stride 1, by kernel, channels and image.
func BenchmarkConv(b *testing.B) {
	for _, s := range []struct{ n, k, in, out, side int }{
		{1, 3, 3, 64, 64}, {1, 3, 16, 16, 64}, {1, 3, 32, 32, 64}, {1, 3, 64, 64, 64}, {1, 3, 64, 64, 128},
		{1, 3, 256, 256, 64}, {5, 3, 64, 64, 128},
		{1, 1, 64, 128, 64}, {1, 5, 32, 32, 64}, {1, 7, 32, 32, 64},
	} {
		macs := float64(s.k*s.k*s.in*s.out) * float64(s.n*s.side*s.side)
		eachISA(b, fmt.Sprintf("kernel=%d/in=%d/out=%d/grid=%d/batch=%d", s.k, s.in, s.out, s.side, s.n), macs,
			func(b *testing.B) {
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

// BenchmarkNorm is one norm: instance, or group of 8 sets of channels.
func BenchmarkNorm(b *testing.B) {
	for _, kind := range []string{"instance", "group"} {
		for _, s := range elementwise {
			eachISA(b, fmt.Sprintf("norm=%s/channels=%d/grid=%d/batch=%d", kind, s.c, s.side, s.n), 0, func(b *testing.B) {
				x := inputs(s.n, s.c, s.side, s.side)
				y, i := tensor.Like(x[0]), 0
				for b.Loop() {
					i++
					if kind == "group" {
						norm.Group(y, x[i%len(x)], 8, nil, nil, 1e-5)
					} else {
						norm.Instance(y, x[i%len(x)], nil, nil, 1e-5)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(y.Data)), "ns/elem")
			})
		}
	}
}

// BenchmarkActivation is one activation function.
func BenchmarkActivation(b *testing.B) {
	for _, f := range []act.Func{act.GELU, act.SiLU, act.Tanh, act.ReLU} {
		for _, s := range elementwise {
			eachISA(b, fmt.Sprintf("act=%v/channels=%d/grid=%d/batch=%d", f, s.c, s.side, s.n), 0, func(b *testing.B) {
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
		eachISA(b, fmt.Sprintf("channels=%d/grid=%d/batch=%d", s.c, s.side, s.n), macs, func(b *testing.B) {
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
// mode, which has no plans. Beside time and rate it reports what the first call
// took, and how far the outputs are from float64 mode's, RMS over their standard
// deviation, on one image of 32x32.
func BenchmarkOperator(b *testing.B) {
	for _, mode := range [][2]string{
		{"float32", ""}, {"tf32", ""}, {"float16", "cuda"}, {"bfloat16", "cuda"}, {"bfloat16", "cpu"}, {"float64", ""},
	} {
		m, err := graph.ParseMode(mode[0], mode[1])
		if err != nil {
			b.Fatal(err)
		}
		name := "precision=" + mode[0]
		if mode[1] != "" {
			name += "/autocast=" + mode[1]
		}
		sizes := [][2]int{{64, 1}, {64, 5}, {128, 1}, {128, 5}} // grid and batch
		if mode[0] == "float32" {
			sizes = append(sizes, [][2]int{{128, 2}, {128, 8}, {128, 16}, {256, 1}}...)
		}
		for _, base := range []int{8, 16, 32, 64} {
			op, err := operator.Init(operator.Config{NumLayers: 4, BaseChannels: base, InputChannels: 3, OutputChannels: 3,
				KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.01}, 0)
			if err != nil {
				b.Fatal(err)
			}
			far := sync.OnceValue(func() float64 { return distance(b, op, m) })
			for _, s := range sizes {
				macs := float64(op.MACs(s[0], s[0])) * float64(s[1])
				eachISA(b, fmt.Sprintf("%s/base=%d/grid=%d/batch=%d", name, base, s[0], s[1]), macs, func(b *testing.B) {
					benchmarkPlan(b, op, m, s[0], s[1])
					b.ReportMetric(1e9*far(), "1e-9std-to-f64")
					gflops(b, macs)
				})
			}
		}
	}
}

func benchmarkPlan(b *testing.B, op *operator.Operator, m graph.Mode, side, n int) {
	g, err := noise.ParseTorchCPU("torch-cpu:2.x", "")
	if err != nil {
		b.Fatal(err)
	}
	x := inputs(n, 3, side, side)
	began := time.Now()
	p, i := op.Compile(m, n, side, side), 0
	step := func() {
		i++
		if err := p.Forward(p.Result(), x[i%len(x)], g, noise.Time{}); err != nil {
			b.Fatal(err)
		}
	}
	step() // compiles, and prepares the weights
	first := time.Since(began)
	step()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(first.Nanoseconds())/1e6, "ms-first-call")
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "sample-steps/s")
	b.ReportMetric(float64(p.Arena())/1e6, "MB-arena")
}

// distance returns how far an operator's output in a mode is from float64's, without its
// noise: RMS over the standard deviation.
func distance(b *testing.B, op *operator.Operator, m graph.Mode) float64 {
	x := normal(1, 1, 3, 32, 32)
	y, err := op.Forward(&operator.Pass{Mode: m}, x)
	if err != nil {
		b.Fatal(err)
	}
	exact, err := graph.ParseMode("float64", "")
	if err != nil {
		b.Fatal(err)
	}
	z, err := op.Forward(&operator.Pass{Mode: exact}, tensor.Of(fp16.Float64, x.Data, x.Shape...))
	if err != nil {
		b.Fatal(err)
	}
	return float64(diff.Compare(y.Data, z.Data, fp16.Float32).RMSOverStd)
}

// gflops reports the rate of the definition's multiplications and additions, and its share of
// what the innermost kernel reaches with all data in the first cache.
func gflops(b *testing.B, macs float64) {
	rate := 2 * macs * float64(b.N) / b.Elapsed().Seconds() / 1e9
	b.ReportMetric(rate, "GFLOP/s")
	if p := peakOf(asm.ISA()); p > 0 {
		b.ReportMetric(100*rate/p, "%peak")
	}
}

var peaks sync.Map // GFLOP/s by instruction set

// peakOf is the rate of float64 multiplications and additions of the 3x3 kernel's innermost
// loop on all threads, the best of a few short windows; 0 where there is no such kernel. The
// definition's rate may exceed it: Winograd's method multiplies less.
func peakOf(isa string) float64 {
	if p, ok := peaks.Load(isa); ok {
		return p.(float64)
	}
	w, best := asm.WinogradKernels(), 0.0
	for range 5 {
		if w == nil {
			break
		}
		const blocks, points, rounds = 8, 36, 2000
		var all sync.WaitGroup
		began := time.Now()
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				v, u, later := make([]float64, blocks*points*w.Tiles*8), make([]float64, blocks*8*w.Outputs), new(float32)
				out := make([]float64, points*w.Tiles*w.Outputs)
				for range rounds {
					w.Multiply(&v[0], &u[0], &out[0], blocks, blocks, 1, &u[0], later)
				}
			})
		}
		all.Wait()
		flop := 2 * float64(w.Tiles*w.Outputs*blocks*8) * rounds * float64(runtime.GOMAXPROCS(0))
		best = max(best, flop/time.Since(began).Seconds()/1e9)
	}
	peaks.Store(isa, best)
	return best
}

// hardData is data for which rounding is harder to decide than for normal
// numbers: each case changes an image, and kernels to go with it.
var hardData = []struct {
	name           string
	image, kernels func(x *tensor.Tensor)
}{
	{"normal", nil, nil},
	{"zeros", func(x *tensor.Tensor) { clear(x.Data) }, nil},
	{"constant-zero-sum", func(x *tensor.Tensor) { replace(x, func(int, float64) float64 { return 0.25 }) },
		func(k *tensor.Tensor) {
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
