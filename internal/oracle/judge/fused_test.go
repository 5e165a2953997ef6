package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestFusedProducts: x + c (y - x), by one instruction for its product and its sum or by two, passes where they cancel:
// what is left is the rounding of c, of the product, or nothing. With another c it fails.
func TestFusedProducts(t *testing.T) {
	for seed, f := range []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.Float16} {
		for _, c := range []float64{.3, .7, 1. / 3} {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(c*1000)))
			x, y := drawn(r, f, 12, 100), drawn(r, f, 12, 100)
			for i := 0; i < len(x.Data); i += 40 { // where the sum is about 0
				k := float64(int(r.IntN(60) + 4))
				x.Data[i], y.Data[i] = c*k/64, -(1-c)*k/64
				f.RoundSlice(x.Data[i:i+1], x.Data[i:i+1])
				f.RoundSlice(y.Data[i:i+1], y.Data[i:i+1])
			}
			g := graph.New(nil)
			a, b := g.Input("a"), g.Input("b")
			g.Outputs = []int{g.Add(plus, "output", a,
				g.Add(graph.Binary{Of: pointwise.Mul, Other: &c}, "share", g.Add(sub, "way", b, a)))}
			for how, kernel := range map[string]func(x, y float32) float32{
				"two roundings": func(x, y float32) float32 { return x + float32(float32(c)*(y-x)) },
				"one rounding": func(x, y float32) float32 {
					return float32(math.FMA(float64(float32(c)), float64(y-x), float64(x)))
				},
				"another c": func(x, y float32) float32 { return x + float32(float32(c*1.02)*(y-x)) },
			} {
				out := tensor.New(f, x.Shape...)
				for i := range out.Data {
					out.Data[i] = f.Round(float64(kernel(float32(x.Data[i]), float32(y.Data[i]))))
				}
				a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, y}, Output: out})
				if err != nil || (a.Verdict == Pass) != (how != "another c") {
					t.Errorf("%v, c %v, %s: %+v, %v", f, c, how, a, err)
				}
			}
		}
	}
}

// TestTapsOfChains: a transposed convolution that stores what each tap gives, from the first to the last or back, or
// its product before the bias, passes with the operations behind it in float32; with a tap lost it fails.
func TestTapsOfChains(t *testing.T) {
	const n, c, m, h, k, stride = 2, 6, 4, 7, 3, 2
	const size = (h-1)*stride + k
	type kernel struct{ taps, back, lost bool }
	for seed, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		r := rand.New(rand.NewPCG(uint64(seed), 17))
		x, w, b := drawn(r, f, n, c, h, h), drawn(r, f, c, m, k, k), drawn(r, f, m)
		g := graph.New(nil)
		op := graph.ConvTranspose{Params: conv.Square(stride, 0, conv.Zeros)}
		image, weight, bias, scale := g.Input("x"), g.Input("w"), g.Input("b"), 1.7
		y := g.Add(op, "up", image, weight, bias)
		y = g.Add(graph.Softmax{Axis: 1}, "share", y)
		y = g.Add(graph.Binary{Of: pointwise.Mul, Other: &scale}, "scaled", y)
		y = g.Add(plus, "shifted", y, g.Add(graph.Reshape{Shape: []int{1, m, 1, 1}}, "shift", bias))
		g.Outputs = []int{g.Add(unary("sigmoid"), "output", y)}
		for _, how := range []kernel{{}, {taps: true}, {taps: true, back: true}, {taps: true, lost: true}} {
			out := tensor.New(f, n, m, size, size)
			for i := range out.Data {
				col, row, channel, item := i%size, i/size%size, i/size/size%m, i/size/size/m
				sum := 0.0
				for t := range k * k {
					if how.back {
						t = k*k - 1 - t
					}
					u, v := row-t/k, col-t%k
					if u < 0 || v < 0 || u%stride+v%stride > 0 || u/stride >= h || v/stride >= h || how.lost && t == 4 {
						continue
					}
					tap := 0.0
					for j := range c {
						tap += x.Data[((item*c+j)*h+u/stride)*h+v/stride] * w.Data[(j*m+channel)*k*k+t]
					}
					if sum += tap; how.taps {
						sum = f.Round(sum - tap + f.Round(tap))
					}
				}
				out.Data[i] = f.Round(f.Round(sum) + b.Data[channel])
			}
			behind(f, out, b.Data, scale)
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, w, b}, Output: out})
			if err != nil || (a.Verdict == Pass) == how.lost {
				t.Errorf("%v, %+v: %+v, %v", f, how, a, err)
			}
		}
	}
}

// behind is the sigmoid of a scaled softmax over channels and a shift, of which only the end is rounded.
func behind(f fp16.Format, y *tensor.Tensor, shift []float64, scale float64) {
	plane := y.Shape[2] * y.Shape[3]
	for i := range y.Shape[0] * plane {
		first, sum := i/plane*y.Shape[1]*plane+i%plane, 0.0
		for c := range y.Shape[1] {
			sum += math.Exp(y.Data[first+c*plane])
		}
		for c := range y.Shape[1] {
			v := &y.Data[first+c*plane]
			*v = f.Round(1 / (1 + math.Exp(-(math.Exp(*v)/sum*scale + shift[c]))))
		}
	}
}
