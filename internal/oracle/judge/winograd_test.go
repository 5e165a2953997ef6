package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/oracle/winograd"
	"github.com/refrun/refrun/tensor"
)

// tiling is a kernel that convolves by Winograd's method in float32, and what is wrong with it.
type tiling struct {
	form  *winograd.Form
	fault string
}

// sandwich is m x m^T of a square x, in float32.
func sandwich(m [][]float64, x []float32) []float32 {
	n := len(m[0])
	dot := func(row []float64, of func(k int) float32) (s float32) {
		for k, v := range row {
			if v != 0 {
				s += float32(float32(v) * of(k))
			}
		}
		return s
	}
	half, out := make([]float32, len(m)*n), make([]float32, len(m)*len(m))
	for i, row := range m {
		for j := range n {
			half[i*n+j] = dot(row, func(k int) float32 { return x[k*n+j] })
		}
	}
	for i := range m {
		for j, row := range m {
			out[i*len(m)+j] = dot(row, func(k int) float32 { return half[i*n+k] })
		}
	}
	return out
}

// convolve is the convolution of x with a padding of zeros, and its bias.
func (k tiling) convolve(x, w, bias *tensor.Tensor, pad int) *tensor.Tensor {
	m, n, channels, outputs := k.form.Tile, k.form.Tile+2, w.Shape[1], w.Shape[0]
	weights := k.form.Weights
	if k.fault == "constant" {
		weights = slices.Clone(weights)
		weights[1] = slices.Clone(weights[1])
		weights[1][2] *= 1.001
	}
	height, width := x.Shape[2], x.Shape[3]
	oh, ow := height+2*pad-2, width+2*pad-2
	y := tensor.New(fp16.Float32, x.Shape[0], outputs, oh, ow)
	small := make([][]float32, outputs*channels)
	for i := range small {
		g := make([]float32, 9)
		for j := range g {
			g[j] = float32(k.operand(w.Data[i*9+j]))
		}
		small[i] = sandwich(weights, g)
	}
	for item := range x.Shape[0] {
		for top := 0; top < oh; top += m {
			for left := 0; left < ow; left += m {
				sums := make([][]float32, outputs)
				for o := range sums {
					sums[o] = make([]float32, n*n)
				}
				for c := range channels {
					if k.fault == "channel" && c == channels-1 {
						continue
					}
					d := make([]float32, n*n)
					for i := range d {
						row, col := top+i/n-pad, left+i%n-pad
						if k.fault == "border" && left+m >= ow {
							col--
						}
						if row >= 0 && row < height && col >= 0 && col < width {
							d[i] = float32(k.operand(x.Data[((item*channels+c)*height+row)*width+col]))
						}
					}
					d = sandwich(k.form.Data, d)
					for o := range sums {
						for i, v := range d {
							sums[o][i] += float32(v * small[o*channels+c][i])
						}
					}
				}
				for o, s := range sums {
					for i, v := range sandwich(k.form.Out, s) {
						if row, col := top+i/m, left+i%m; row < oh && col < ow {
							if bias != nil {
								v += float32(bias.Data[o])
							}
							y.Data[((item*outputs+o)*oh+row)*ow+col] = float64(v)
						}
					}
				}
			}
		}
	}
	return y
}

func (k tiling) operand(v float64) float64 {
	if k.fault == "tf32" {
		return fp16.RoundTF32(v, fp16.NearestEven)
	}
	return v
}

// TestWinograd: float32 convolutions by Winograd's forms pass, of all paddings, of images that are no whole number of
// tiles, of numbers of both signs, of one and of all sizes; and with a wrong constant, border or channel, or with
// operands in TF32, they fail.
func TestWinograd(t *testing.T) {
	draws := map[string]func(r *rand.Rand) float64{
		"normal":    func(r *rand.Rand) float64 { return r.NormFloat64() },
		"uniform":   func(r *rand.Rand) float64 { return r.Float64() },
		"lognormal": func(r *rand.Rand) float64 { return math.Exp(2 * r.NormFloat64()) },
	}
	g, _, err := Kernel("conv2d", []byte(`{"padding":[1,1]}`), []string{"input", "weight", "bias"})
	if err != nil {
		t.Fatal(err)
	}
	free, _, err := Kernel("conv2d", nil, []string{"input", "weight"})
	if err != nil {
		t.Fatal(err)
	}
	for d, name := range []string{"normal", "uniform", "lognormal"} {
		draw := draws[name]
		for i, c := range []struct {
			batch, channels, outputs, height, width int
		}{{1, 3, 4, 12, 12}, {2, 16, 3, 9, 7}, {1, 40, 4, 7, 5}} {
			if !share.All() && (d+i)%3 != 0 {
				continue
			}
			r := rand.New(rand.NewPCG(uint64(i), uint64(len(name))))
			fill := func(draw func(r *rand.Rand) float64, shape ...int) *tensor.Tensor {
				x := tensor.New(fp16.Float32, shape...)
				for i := range x.Data {
					x.Data[i] = float64(float32(draw(r)))
				}
				return x
			}
			x := fill(draw, c.batch, c.channels, c.height, c.width)
			w, b := fill(draws["normal"], c.outputs, c.channels, 3, 3), fill(draws["normal"], c.outputs)
			for _, form := range []*winograd.Form{winograd.F2, winograd.F4} {
				for k, fault := range []string{"", "constant", "border", "channel", "tf32"} {
					for _, pad := range []int{0, 1} {
						if fault != "" && (pad == 0 || form == winograd.F2 || (d+i+k)%2 == 1) { // half of them, each with each numbers
							continue
						}
						q := Question{Graph: g, Inputs: []*tensor.Tensor{x, w, b}}
						if pad == 0 {
							q = Question{Graph: free, Inputs: []*tensor.Tensor{x, w}}
							q.Output = tiling{form, fault}.convolve(x, w, nil, pad)
						} else {
							q.Output = tiling{form, fault}.convolve(x, w, b, pad)
						}
						a, err := Check(q)
						if want := map[bool]string{true: Pass, false: Fail}[fault == ""]; err != nil || a.Verdict != want {
							t.Errorf("F%d of %s, %v, padding %d, %q: %+v %v", form.Tile, name, c, pad, fault, a, err)
						}
					}
				}
			}
		}
	}
}
