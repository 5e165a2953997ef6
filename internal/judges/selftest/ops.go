package selftest

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/internal/op/pool"
	"github.com/refrun/refrun/internal/op/reduce"
	"github.com/refrun/refrun/internal/op/resize"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// seed is the counter stream's seed of all cases.
const seed = 2026

// normals returns n standard normals, float32 numbers, of one site each.
func normals(site, n int) []float64 {
	v := make([]float64, n)
	d, err := noise.Counter{Seed: seed}.At(site, 0, 1)
	if err == nil {
		err = d.Draw(noise.Normal, 0, []int{1, n}, v)
	}
	if err != nil {
		panic("selftest: " + err.Error())
	}
	return v
}

// field returns an image of numbers of a format that an operation may find
// hard: a plane each of normals, of great and small normals mixed, of small
// integers (sums and means that are exact, ties), and one that is constant.
func field(f fp16.Format, site, n, c, h, w int) *tensor.Tensor {
	t := tensor.Of(f, normals(site, n*c*h*w), n, c, h, w)
	for i := range n * c {
		for j, v := range t.Plane(i/c, i%c) {
			switch i % 4 {
			case 1:
				v = math.Ldexp(v, j%23-11)
			case 2:
				v = math.RoundToEven(3 * v)
			case 3:
				v = 0.7
			}
			t.Plane(i/c, i%c)[j] = f.Round(v)
		}
	}
	return t
}

// conversion is the formats of an operation's input and output.
type conversion struct {
	name     string
	src, dst fp16.Format
}

var conversions = []conversion{
	{"float64", fp16.Float64, fp16.Float64},
	{"float32", fp16.Float32, fp16.Float32},
	{"float16", fp16.Float16, fp16.Float16},
	{"bfloat16", fp16.BFloat16, fp16.BFloat16},
	{"float16-to-float32", fp16.Float16, fp16.Float32}, // a wide operation of an autocast
	{"bfloat16-to-float32", fp16.BFloat16, fp16.Float32},
}

// operations returns a case for every operation and conversion.
func operations() []Case {
	var all []Case
	for _, f := range conversions {
		for _, op := range ops {
			all = append(all, Case{op.name + "/" + f.name, func(int) (string, error) {
				y := op.apply(f.src, f.dst)
				return hashed(f.dst, y.Data), nil
			}})
		}
	}
	for _, r := range []fp16.Rounding{fp16.NearestEven, fp16.NearestAway, fp16.TowardZero} {
		all = append(all, Case{"tf32-operands/" + r.String(), func(int) (string, error) {
			x := field(fp16.Float32, 50, 1, 4, 16, 16)
			for i, v := range x.Data {
				if i%2 == 0 { // half of these are ties
					v = float64(math.Float32frombits(math.Float32bits(float32(v)) &^ (1<<12 - 1)))
				}
				x.Data[i] = fp16.RoundTF32(v, r)
			}
			return hashed(fp16.Float32, x.Data), nil
		}})
	}
	for _, c := range []struct{ k, stride int }{{1, 1}, {3, 1}, {5, 1}, {7, 1}, {3, 2}, {7, 2}} {
		all = append(all, Case{fmt.Sprintf("fast/conv%dx%d-stride%d", c.k, c.k, c.stride),
			func(int) (string, error) { return fast(c.k, c.stride), nil }})
	}
	for _, c := range []struct {
		name  string
		apply func() *tensor.Tensor
	}{{"products", fastProducts}, {"softmax", fastSoftmax}, {"layer-norm", fastLayer}} {
		all = append(all,
			Case{"fast/" + c.name, func(int) (string, error) { return hashed(fp16.Float32, c.apply().Data), nil }})
	}
	return all
}

func fastProducts() *tensor.Tensor {
	y := tensor.New(fp16.Float32, 2, 3, 31, 45)
	matmul.ForwardFast(y, field(fp16.Float32, 15, 2, 3, 31, 140), field(fp16.Float32, 16, 1, 3, 140, 45), nil)
	return y
}

func fastSoftmax() *tensor.Tensor {
	y := field(fp16.Float32, 17, 1, 2, 5, 197)
	reduce.ForwardFastSoftmax(y, y)
	return y
}

func fastLayer() *tensor.Tensor {
	y := field(fp16.Float32, 18, 1, 2, 5, 197)
	norm.NewFastLayer(197, field(fp16.Float32, 19, 1, 1, 1, 197).Data, nil, 1e-5).ForwardFast(y, y)
	return y
}

// fast returns the hash of a convolution in fast arithmetic.
func fast(k, stride int) string {
	p := conv.Square(stride, k/2, conv.Circular)
	h, w := p.OutSize(13, 18, k, k)
	x, weight, y := field(fp16.Float32, 13, 3, 20, 13, 18), field(fp16.Float32, 14, 28, 20, k, k),
		tensor.New(fp16.Float32, 3, 28, h, w)
	conv.Forward(y, x, conv.NewKernel(weight, field(fp16.Float32, 15, 1, 1, 1, 28).Data).Fast(), p)
	return hashed(fp16.Float32, y.Data)
}

// ops are the operations, each on inputs of its own.
var ops = []struct {
	name  string
	apply func(src, dst fp16.Format) *tensor.Tensor
}{
	{"conv3x3", convolution(3, 1, 1, conv.Zeros)},
	{"conv3x3-channels", channels(3, conv.Zeros)},
	{"conv3x3-channels-circular", channels(3, conv.Circular)},
	{"conv5x5-channels", channels(5, conv.Zeros)},
	{"conv7x7-channels", channels(7, conv.Replicate)},
	{"conv3x3-circular", convolution(3, 1, 1, conv.Circular)},
	{"conv3x3-reflect", convolution(3, 1, 1, conv.Reflect)},
	{"conv5x5-stride2", convolution(5, 2, 2, conv.Zeros)},
	{"conv1x1", convolution(1, 1, 0, conv.Zeros)},
	{"conv-transpose", func(src, dst fp16.Format) *tensor.Tensor {
		x, w := field(src, 1, 2, 4, 7, 9), field(narrow(src), 2, 4, 5, 2, 2)
		y := tensor.New(dst, 2, 5, 14, 18)
		conv.Transposed(y, x, conv.NewTransposedKernel(w, field(narrow(src), 3, 1, 1, 1, 5).Data),
			conv.Square(2, 0, conv.Zeros))
		return y
	}},
	{"avg-pool", func(src, dst fp16.Format) *tensor.Tensor {
		y := tensor.New(dst, 2, 4, 4, 5)
		pool.Average(y, field(src, 4, 2, 4, 13, 16), pool.Count{}, pool.Blocks(13, 3), pool.Blocks(16, 3))
		return y
	}},
	{"bilinear", func(src, dst fp16.Format) *tensor.Tensor {
		y := tensor.New(dst, 2, 4, 21, 27)
		resize.Linear(y, field(src, 5, 2, 4, 7, 9), resize.Axis{}, resize.Axis{})
		return y
	}},
	{"nearest", func(src, dst fp16.Format) *tensor.Tensor {
		y := tensor.New(dst, 2, 4, 14, 18)
		to := resize.Axis{Coordinates: resize.Asymmetric}
		resize.Nearest(y, field(src, 6, 2, 4, 7, 9), resize.Floor, to, to)
		return y
	}},
	{"instance-norm", normed(func(y, x *tensor.Tensor, gamma, beta []float64) { norm.Instance(y, x, gamma, beta, 1e-5) })},
	{"group-norm", normed(func(y, x *tensor.Tensor, gamma, beta []float64) { norm.Group(y, x, 4, gamma, beta, 1e-5) })},
	{"layer-norm", normed(func(y, x *tensor.Tensor, gamma, beta []float64) { norm.Group(y, x, 1, gamma, beta, 1e-5) })},
	{"batch-norm", normed(func(y, x *tensor.Tensor, gamma, beta []float64) {
		norm.Batch(y, x, beta, []float64{1, 0.5, 3, 0, 7, 0.01, 100, 2}, gamma, beta, 1e-5)
	})},
	{"relu", activation(act.ReLU)},
	{"gelu", activation(act.GELU)},
	{"gelu-tanh", activation(act.GELUTanh)},
	{"silu", activation(act.SiLU)},
	{"tanh", activation(act.Tanh)},
	{"noise-gaussian", stochastic(noise.Block{Type: noise.Gaussian, Scale: 0.3})},
	{"noise-laplace", stochastic(noise.Block{Type: noise.Laplace, Scale: 0.3})},
	{"noise-dropout", stochastic(noise.Block{Type: noise.Dropout, Scale: 0.3})},
	{"noise-multiplicative", stochastic(noise.Block{Type: noise.Multiplicative, Scale: 0.3})},
	{"noise-annealing", stochastic(noise.Block{Type: noise.Gaussian, Scale: 0.3, Schedule: noise.Annealing})},
	{"noise-correlated", stochastic(noise.Block{Type: noise.Gaussian, Scale: 0.3, Correlation: 0.1})},
}

// narrow returns the format of weights for a source.
func narrow(src fp16.Format) fp16.Format {
	if src == fp16.Float64 {
		return fp16.Float32
	}
	return src
}

func convolution(k, stride, pad int, padding conv.Padding) func(src, dst fp16.Format) *tensor.Tensor {
	p := conv.Square(stride, pad, padding)
	return func(src, dst fp16.Format) *tensor.Tensor { return convolved(src, dst, k, p) }
}

func convolved(src, dst fp16.Format, k int, p conv.Params) *tensor.Tensor {
	const h, w = 11, 18
	x, weight := field(src, 10, 2, 8, h, w), field(narrow(src), 11, 7, 8, k, k)
	oh, ow := p.OutSize(h, w, k, k)
	y := tensor.New(dst, 2, 7, oh, ow)
	conv.Forward(y, x, conv.NewKernel(weight, field(narrow(src), 12, 1, 1, 1, 7).Data), p)
	return y
}

// channels is a convolution of enough channels for fast kernels, and of
// sizes that none of their blocks divides.
func channels(k int, padding conv.Padding) func(src, dst fp16.Format) *tensor.Tensor {
	return func(src, dst fp16.Format) *tensor.Tensor {
		x, weight := field(src, 13, 3, 20, 13, 18), field(narrow(src), 14, 28, 20, k, k)
		y := tensor.New(dst, 3, 28, 13, 18)
		conv.Forward(y, x, conv.NewKernel(weight, field(narrow(src), 15, 1, 1, 1, 28).Data), conv.Square(1, k/2, padding))
		return y
	}
}

func normed(apply func(y, x *tensor.Tensor, gamma, beta []float64)) func(src, dst fp16.Format) *tensor.Tensor {
	return func(src, dst fp16.Format) *tensor.Tensor {
		x := field(src, 20, 2, 8, 13, 11)
		y := tensor.New(dst, 2, 8, 13, 11)
		apply(y, x, normals(21, 8), normals(22, 8))
		return y
	}
}

func activation(f act.Func) func(src, dst fp16.Format) *tensor.Tensor {
	return func(src, dst fp16.Format) *tensor.Tensor {
		x := field(src, 30, 4, 8, 16, 16)
		y := tensor.New(dst, 4, 8, 16, 16)
		act.Forward(y, x, f)
		return y
	}
}

func stochastic(b noise.Block) func(src, dst fp16.Format) *tensor.Tensor {
	return func(src, dst fp16.Format) *tensor.Tensor { return noisy(b, src, dst) }
}

func noisy(b noise.Block, src, dst fp16.Format) *tensor.Tensor {
	if b.Format(src) != src {
		dst = b.Format(src)
	}
	x := field(src, 40, 2, 4, 9, 10)
	y := tensor.New(dst, 2, 4, 9, 10)
	d, err := noise.Counter{Seed: seed}.At(41, 0, 2)
	if err == nil {
		step, most := 3, 10
		err = b.Apply(y, x, noise.Time{Step: &step, Max: &most}, d)
	}
	if err != nil {
		panic("selftest: " + err.Error())
	}
	return y
}
