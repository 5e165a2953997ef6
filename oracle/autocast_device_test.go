package oracle

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// plain is an operator as a device evaluates it under a CPU's autocast: every
// operation in float32, in the most obvious order, and one rounding to the half
// type. It shares nothing with package operator but the weights. How far it is
// from exact operations with the same roundings is how far a device may be.
type plain struct {
	half   fp16.Format
	config operator.Config
	params map[string]*operator.Param
	// narrow rounds every operation of SiLU and the noise scale to the half type,
	// as PyTorch 1.13 does.
	narrow bool
}

func newPlain(op *operator.Operator, m graph.Mode) *plain {
	p := &plain{half: m.Precision, config: op.Config, params: map[string]*operator.Param{},
		narrow: m.Autocast == graph.CPU113}
	for _, w := range op.Params() {
		p.params[w.Name] = w
	}
	return p
}

func (p *plain) forward(x *tensor.Tensor, d noise.Draws) (*tensor.Tensor, error) {
	x = p.block("conv_blocks.0", x)
	for i := 1; i <= p.config.NumLayers; i++ {
		name := fmt.Sprintf("conv_blocks.%d", i)
		if p.config.NumLayers <= 3 {
			x = p.block(name, x)
			continue
		}
		y, short := p.block(name+".blocks.1", p.block(name+".blocks.0", x)), x
		if p.params[name+".projection.weight"] != nil {
			short = p.conv(name+".projection", x)
		}
		x = p.each(y, func(i int, v float64) float64 { return v + short.Data[i] })
	}
	x, err := p.noise(x, d)
	if err != nil {
		return nil, err
	}
	return p.conv("output_layer.conv", x), nil
}

// each applies an operation to every number and rounds.
func (p *plain) each(x *tensor.Tensor, f func(i int, v float64) float64) *tensor.Tensor {
	y := tensor.New(p.half, x.N(), x.C(), x.H(), x.W())
	for i, v := range x.Data {
		y.Data[i] = p.half.Round(f(i, v))
	}
	return y
}

func (p *plain) block(name string, x *tensor.Tensor) *tensor.Tensor {
	x = p.conv(name+".block.0", x)
	if p.config.Normalization != "none" {
		x = p.norm(name+".block.1", x)
	}
	return p.each(x, func(_ int, v float64) float64 { return p.activation(v) })
}

// conv adds the taps by channel, row and column of the kernel, then the bias.
func (p *plain) conv(name string, x *tensor.Tensor) *tensor.Tensor {
	w := p.params[name+".weight"]
	out, in, k := w.Shape[0], w.Shape[1], w.Shape[2]
	r := func(v float64) float32 { return float32(p.half.Round(v)) }
	y := tensor.New(p.half, x.N(), out, x.H(), x.W())
	acc := make([]float32, x.H()*x.W())
	for at := range x.N() * out {
		n, o := at/out, at%out
		clear(acc)
		for tap := range in * k * k {
			dy, dx, v := tap/k%k-k/2, tap%k-k/2, r(w.Data[o*in*k*k+tap])
			plane := x.Plane(n, tap/(k*k))
			for i := max(0, -dy); i < min(x.H(), x.H()-dy); i++ {
				for j := max(0, -dx); j < min(x.W(), x.W()-dx); j++ {
					acc[i*x.W()+j] += float32(v * r(plane[(i+dy)*x.W()+j+dx]))
				}
			}
		}
		bias := float32(0)
		if b := p.params[name+".bias"]; b != nil {
			bias = r(b.Data[o])
		}
		for i, v := range acc {
			y.Plane(n, o)[i] = p.half.Round(float64(v + bias))
		}
	}
	return y
}

// norm: mean, then squares about it, x*a + (beta - mean*a).
func (p *plain) norm(name string, x *tensor.Tensor) *tensor.Tensor {
	channels := 1 // of a group
	switch p.config.Normalization {
	case "layer":
		channels = x.C()
	case "group":
		channels = x.C() / min(32, x.C())
	}
	hw, weight, bias := x.H()*x.W(), p.params[name+".weight"].Data, p.params[name+".bias"].Data
	m := hw * channels
	y := tensor.New(p.half, x.N(), x.C(), x.H(), x.W())
	for g := 0; g*m < len(x.Data); g++ {
		xs := x.Data[g*m : (g+1)*m]
		var mean, variance float32
		if p.config.Normalization == "batch" {
			mean = float32(p.params[name+".running_mean"].Data[g%x.C()])
			variance = float32(p.params[name+".running_var"].Data[g%x.C()])
		} else {
			for _, v := range xs {
				mean += float32(v)
			}
			mean /= float32(m)
			for _, v := range xs {
				d := float32(v) - mean
				variance += float32(d * d)
			}
			variance /= float32(m)
		}
		inverse := float32(1 / math.Sqrt(float64(variance)+1e-5))
		for i, v := range xs {
			c := (g*m + i) / hw % x.C()
			a := float32(inverse * float32(weight[c]))
			b := float32(bias[c]) - float32(mean*a)
			y.Data[g*m+i] = p.half.Round(float64(float32(float32(v)*a) + b))
		}
	}
	return y
}

// activation: erf is formula 7.1.26 of Abramowitz and Stegun, as in oneDNN;
// e^x and tanh are right to float32.
func (p *plain) activation(v float64) float64 {
	x := float32(v)
	switch p.config.Activation {
	case "relu":
		return max(v, 0)
	case "tanh":
		return float64(float32(elem.Tanh(v)))
	case "silu":
		if p.narrow {
			r := p.half.Round
			return v / r(1+r(elem.Exp(-v)))
		}
		return float64(x / (1 + float32(elem.Exp(-v))))
	}
	z := float32(x * float32(1/math.Sqrt2))
	t := 1 / (1 + float32(0.3275911*max(z, -z)))
	sum := float32(0)
	for _, c := range []float32{1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592} {
		sum = float32(sum*t) + c
	}
	erf := 1 - float32(float32(sum*t)*float32(elem.Exp(float64(-float32(z*z)))))
	if x < 0 {
		erf = -erf
	}
	return float64(float32(x / 2 * (1 + erf)))
}

func (p *plain) noise(x *tensor.Tensor, d noise.Draws) (*tensor.Tensor, error) {
	shape, kinds := []int{x.N(), x.C(), x.H(), x.W()}, []noise.Kind{noise.Normal}
	switch p.config.NoiseType {
	case "laplace":
		kinds = []noise.Kind{noise.Exponential, noise.Normal}
	case "dropout":
		shape, kinds = []int{x.N(), x.C(), 1, 1}, []noise.Kind{noise.Bernoulli}
	}
	var draws [][]float64
	for _, kind := range kinds {
		draw := make([]float64, shape[0]*shape[1]*shape[2]*shape[3])
		if err := d.Draw(kind, 1-p.config.NoiseScale, shape, draw); err != nil {
			return nil, err
		}
		draws = append(draws, draw)
	}
	r, s := p.half.Round, float64(float32(p.config.NoiseScale))
	if p.narrow {
		s = r(s)
	}
	return p.each(x, func(i int, v float64) float64 {
		switch p.config.NoiseType {
		case "dropout":
			return v * r(draws[0][i/(x.H()*x.W())]*r(1/(1-p.config.NoiseScale)))
		case "laplace":
			n := draws[0][i]
			switch m := draws[1][i]; {
			case m < 0:
				n = -n
			case m == 0:
				n = 0
			}
			return v + r(float64(float32(n*s)))
		case "multiplicative":
			return v * r(1+r(float64(float32(draws[0][i]*s))))
		}
		return v + r(float64(float32(draws[0][i]*s)))
	}), nil
}
