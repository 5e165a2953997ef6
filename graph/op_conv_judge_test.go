package graph

import (
	"encoding/json"
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("graph.elements", 3000, "outputs of each convolution that the judge sees")

// TestConvolutionsJudged: convolutions of lines, images and volumes, and transposed ones, are
// their definition's sums, rounded once.
func TestConvolutionsJudged(t *testing.T) {
	makers := []func(r *rand.Rand) float64{
		(*rand.Rand).NormFloat64,
		func(r *rand.Rand) float64 { return float64(r.IntN(9) - 4) },
		func(r *rand.Rand) float64 { return (float64(r.IntN(2))*2 - 1) * (1 + float64(r.IntN(8))*0x1p-23) }, // cancels
		func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(100)-50) },
		func(r *rand.Rand) float64 { return []float64{1, 0x1p-12, 3, -0x1p-12, 0x1p-60, 0}[r.IntN(6)] }, // ties
		func(r *rand.Rand) float64 { return math.Ldexp(float64(r.IntN(65)-32), -149) },
	}
	hashed.OnEach(t, *elements, func(o *hashed.Outputs) {
		for axes := 1; axes <= 3; axes++ {
			for _, transposed := range []bool{false, true} {
				name := []string{
					"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
				}[axes-1+3*map[bool]int{true: 1}[transposed]]
				r := rand.New(rand.NewPCG(uint64(axes), uint64(len(name))))
				for trial, seen := 0, 0; seen < *elements; trial++ {
					c := newConvolution(r, axes, transposed)
					for _, x := range c.in {
						for i := range x.Data {
							x.Data[i] = fp16.Float32.Round(makers[trial%len(makers)](r))
						}
					}
					text, err := json.Marshal(c.attributes)
					if err != nil {
						t.Fatal(err)
					}
					y, err := evaluated(t, Mode{Precision: fp16.Float32}, bound(t, name, string(text)), c.in...)
					if err != nil {
						t.Fatalf("%s %s of %v by %v: %v", name, text, c.in[0].Shape, c.in[1].Shape, err)
					}
					o.Add(name, y.Data...)
					if seen += len(y.Data); !o.Judge {
						continue
					}
					for i, got := range y.Data {
						if want := c.judge(y.Shape, i); math.Float64bits(got) != math.Float64bits(want) {
							t.Fatalf("%s %s of %v by %v: number %d is %v, want %v", name, text, c.in[0].Shape, c.in[1].Shape, i, got, want)
						}
					}
				}
			}
		}
	})
}

// A judgedConv is a convolution with its operands; attributes have a number for each axis.
type judgedConv struct {
	transposed               bool
	in                       []*tensor.Tensor
	stride, padding, dilated []int
	groups                   int
	attributes               map[string]any
}

func newConvolution(r *rand.Rand, axes int, transposed bool) *judgedConv {
	c := &judgedConv{transposed: transposed, groups: 1 + r.IntN(2)}
	x, w := []int{1 + r.IntN(2), c.groups * (1 + r.IntN(3))}, []int{c.groups * (1 + r.IntN(3)), 0}
	out := w[0]
	w[1] = x[1] / c.groups
	if transposed {
		w[0], w[1] = x[1], 1+r.IntN(3)
		out = w[1] * c.groups
	}
	var extra []int
	for range axes {
		k := 1 + r.IntN(3)
		c.stride, c.dilated = append(c.stride, 1+r.IntN(3)), append(c.dilated, 1+r.IntN(2))
		c.padding = append(c.padding, r.IntN(min(2, k)))
		w, x = append(w, k), append(x, (k-1)*2+1+r.IntN([]int{30, 9, 4}[axes-1]))
		extra = append(extra, r.IntN(c.stride[len(c.stride)-1]))
	}
	c.attributes = map[string]any{"stride": c.stride, "padding": c.padding, "dilation": c.dilated, "groups": c.groups}
	if transposed {
		c.attributes["output_padding"] = extra
	}
	c.in = []*tensor.Tensor{tensor.New(fp16.Float32, x...), tensor.New(fp16.Float32, w...)}
	if r.IntN(2) == 0 {
		c.in = append(c.in, tensor.New(fp16.Float32, out))
	}
	return c
}

// judge returns number i of a result of that shape, as a sum over all channels of a group and
// all taps, of which it asks for each where it reads.
func (c *judgedConv) judge(shape []int, i int) float64 {
	x, w := c.in[0], c.in[1]
	at := make([]int, len(shape))
	for a, rest := len(shape)-1, i; a >= 0; a-- {
		at[a], rest = rest%shape[a], rest/shape[a]
	}
	taps := tensor.Size(w.Shape[2:])
	each := x.Shape[1] / c.groups // channels of a group
	group := at[1] / (shape[1] / c.groups)
	var sum bigref.Ball
	var products [][2]float64
	for channel := range each {
		for tap := range taps {
			from, inside := at[0]*x.Shape[1]+group*each+channel, true
			rest, step := tap, taps
			for a := range c.stride {
				step /= w.Shape[2+a]
				k := rest / step
				rest %= step
				p := at[2+a]*c.stride[a] - c.padding[a] + k*c.dilated[a]
				if c.transposed {
					p = at[2+a] + c.padding[a] - k*c.dilated[a]
					inside = inside && p%c.stride[a] == 0
					p /= c.stride[a]
					inside = inside && at[2+a]+c.padding[a] >= k*c.dilated[a]
				}
				inside = inside && p >= 0 && p < x.Shape[2+a]
				from = from*x.Shape[2+a] + p
			}
			if !inside {
				continue
			}
			weight := (at[1]*w.Shape[1]+channel)*taps + tap
			if c.transposed {
				weight = ((group*each+channel)*w.Shape[1]+at[1]%w.Shape[1])*taps + tap
			}
			products = append(products, [2]float64{x.Data[from], w.Data[weight]})
		}
	}
	if len(c.in) > 2 {
		products = append(products, [2]float64{c.in[2].Data[at[1]], 1})
	}
	for _, p := range products {
		sum = sum.Add(bigref.Exactly(p[0]).Mul(bigref.Exactly(p[1])))
	}
	return sum.Or(fp16.Float32, func() float64 {
		sum := new(big.Rat)
		for _, p := range products {
			sum.Add(sum, new(big.Rat).Mul(bigref.Rat(p[0]), bigref.Rat(p[1])))
		}
		return bigref.Round(sum, fp16.Float32)
	})
}
