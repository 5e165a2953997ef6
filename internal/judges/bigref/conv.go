package bigref

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Exact is a tensor [N,C,H,W] of exact values, row-major.
type Exact struct {
	N, C, H, W int
	Values     []*big.Rat
}

// Round returns the values rounded correctly to format f.
func (e *Exact) Round(f fp16.Format) *tensor.Tensor {
	t := tensor.New(f, e.N, e.C, e.H, e.W)
	par.For(len(t.Data), func(i int) { t.Data[i] = Round(e.Values[i], f) })
	return t
}

// integers returns v as integers times 2^exp, for the greatest exp not above 0
// that serves all of them. It panics on numbers that are not finite.
func integers(v []float64) (m []*big.Int, exp int) {
	for _, x := range v {
		if x == 0 {
			continue
		}
		frac, e := math.Frexp(x)
		n := int64(math.Ldexp(frac, 53))
		e -= 53
		for n%2 == 0 {
			n /= 2
			e++
		}
		exp = min(exp, e)
	}
	m = make([]*big.Int, len(v))
	for i, x := range v {
		r := Rat(x)
		r.Mul(r, pow2(-exp))
		m[i] = r.Num()
	}
	return m, exp
}

// exactly returns the integers times 2^exp as a tensor.
func exactly(m []*big.Int, exp, n, c, h, w int) *Exact {
	e := &Exact{N: n, C: c, H: h, W: w, Values: make([]*big.Rat, n*c*h*w)}
	for i := range e.Values {
		e.Values[i] = new(big.Rat).Mul(new(big.Rat).SetInt(m[i]), pow2(exp))
	}
	return e
}

// addBias adds bias[c], if there is one, to every value of channel c.
func (e *Exact) addBias(bias []float64) {
	if bias == nil {
		return
	}
	par.For(len(e.Values), func(i int) {
		e.Values[i].Add(e.Values[i], Rat(bias[i/(e.H*e.W)%e.C]))
	})
}

// mirror returns the coordinate inside [0,n) that PyTorch's padding mode
// ("circular", "reflect" or "replicate") reads for i.
func mirror(i, n int, mode string) int {
	switch mode {
	case "circular":
		return ((i % n) + n) % n
	case "reflect":
		if i < 0 {
			i = -i
		}
		if i >= n {
			i = 2*n - 2 - i
		}
		return i
	case "replicate":
		return max(0, min(i, n-1))
	}
	panic("bigref: unknown padding mode")
}

// Geometry is that of a convolution: of rows and columns, at least 1 each, and what is
// added above, left, below and right. Mode is PyTorch's padding_mode.
type Geometry struct {
	Stride, Dilation [2]int
	Pad              [4]int
	Groups           int
	Mode             string
}

// square is the usual geometry.
func square(stride, pad int, mode string) Geometry {
	return Geometry{
		Stride: [2]int{stride, stride}, Dilation: [2]int{1, 1}, Pad: [4]int{pad, pad, pad, pad}, Groups: 1, Mode: mode,
	}
}

// Conv2d is Convolution with one stride and padding for all sides.
func Conv2d(src, weight *tensor.Tensor, bias []float64, stride, pad int, mode string) *Exact {
	return Convolution(src, weight, bias, square(stride, pad, mode))
}

// Convolution returns the exact values of PyTorch's conv2d with a padding_mode:
// src is [N,IC,H,W], weight [OC,IC/groups,KH,KW], bias nil or OC numbers.
func Convolution(src, weight *tensor.Tensor, bias []float64, g Geometry) *Exact {
	x, ex := integers(src.Data)
	w, ew := integers(weight.Data)
	oh := (src.H()+g.Pad[0]+g.Pad[2]-(weight.H()-1)*g.Dilation[0]-1)/g.Stride[0] + 1
	ow := (src.W()+g.Pad[1]+g.Pad[3]-(weight.W()-1)*g.Dilation[1]-1)/g.Stride[1] + 1
	sums := make([]*big.Int, src.N()*weight.N()*oh*ow)
	products := newProducts(x, w, weight.C()*weight.H()*weight.W())
	par.For(len(sums), func(at int) {
		ox, oy, o, n := at%ow, at/ow%oh, at/ow/oh%weight.N(), at/ow/oh/weight.N()
		first := o / (weight.N() / g.Groups) * weight.C()
		var sum total
		p := new(big.Int)
		for c := range weight.C() {
			for i := range weight.H() {
				for j := range weight.W() {
					y, xx := oy*g.Stride[0]-g.Pad[0]+i*g.Dilation[0], ox*g.Stride[1]-g.Pad[1]+j*g.Dilation[1]
					if y < 0 || y >= src.H() || xx < 0 || xx >= src.W() {
						if g.Mode == "zeros" {
							continue
						}
						y, xx = mirror(y, src.H(), g.Mode), mirror(xx, src.W(), g.Mode)
					}
					products.add(&sum, ((n*src.C()+first+c)*src.H()+y)*src.W()+xx, ((o*weight.C()+c)*weight.H()+i)*weight.W()+j, p)
				}
			}
		}
		sums[at] = sum.value()
	})
	e := exactly(sums, ex+ew, src.N(), weight.N(), oh, ow)
	e.addBias(bias)
	return e
}

// ConvTranspose2d is Transposed with one stride and padding for all sides.
func ConvTranspose2d(src, weight *tensor.Tensor, bias []float64, stride, pad int) *Exact {
	return Transposed(src, weight, bias, square(stride, pad, "zeros"), [2]int{})
}

// Transposed returns the exact values of PyTorch's conv_transpose2d, by
// scattering: src is [N,IC,H,W], weight [IC,OC/groups,KH,KW], bias nil or OC numbers;
// extra are rows and columns more at the end.
func Transposed(src, weight *tensor.Tensor, bias []float64, g Geometry, extra [2]int) *Exact {
	x, ex := integers(src.Data)
	w, ew := integers(weight.Data)
	oh := (src.H()-1)*g.Stride[0] - g.Pad[0] - g.Pad[2] + (weight.H()-1)*g.Dilation[0] + 1 + extra[0]
	ow := (src.W()-1)*g.Stride[1] - g.Pad[1] - g.Pad[3] + (weight.W()-1)*g.Dilation[1] + 1 + extra[1]
	oc, each := weight.C()*g.Groups, src.C()/g.Groups
	totals := make([]total, src.N()*oc*oh*ow)
	products := newProducts(x, w, each*weight.H()*weight.W())
	par.For(src.N()*oc, func(no int) {
		n, o := no/oc, no%oc
		p := new(big.Int)
		for c := o / weight.C() * each; c < (o/weight.C()+1)*each; c++ {
			for y := range src.H() {
				for xx := range src.W() {
					for i := range weight.H() {
						for j := range weight.W() {
							oy, ox := y*g.Stride[0]-g.Pad[0]+i*g.Dilation[0], xx*g.Stride[1]-g.Pad[1]+j*g.Dilation[1]
							if oy < 0 || oy >= oh || ox < 0 || ox >= ow {
								continue
							}
							products.add(&totals[(no*oh+oy)*ow+ox], ((n*src.C()+c)*src.H()+y)*src.W()+xx,
								((c*weight.C()+o%weight.C())*weight.H()+i)*weight.W()+j, p)
						}
					}
				}
			}
		}
	})
	sums := make([]*big.Int, len(totals))
	for i := range totals {
		sums[i] = totals[i].value()
	}
	e := exactly(sums, ex+ew, src.N(), oc, oh, ow)
	e.addBias(bias)
	return e
}

// AvgPool2d returns the exact means of windows size by size, size apart.
func AvgPool2d(src *tensor.Tensor, size int) *Exact {
	e := &Exact{N: src.N(), C: src.C(), H: src.H() / size, W: src.W() / size}
	for nc := range src.N() * src.C() {
		for y := range e.H {
			for x := range e.W {
				sum := new(big.Rat)
				for i := range size {
					for j := range size {
						sum.Add(sum, Rat(src.Data[(nc*src.H()+y*size+i)*src.W()+x*size+j]))
					}
				}
				e.Values = append(e.Values, sum.Quo(sum, big.NewRat(int64(size*size), 1)))
			}
		}
	}
	return e
}

// Bilinear returns the exact values of PyTorch's bilinear upsampling by an
// integer factor, align_corners=False.
func Bilinear(src *tensor.Tensor, factor int) *Exact {
	e := &Exact{N: src.N(), C: src.C(), H: src.H() * factor, W: src.W() * factor}
	one, half := big.NewRat(1, 1), big.NewRat(1, 2)
	// along returns the first pixel, the second and the second's weight.
	along := func(i, n int) (int, int, *big.Rat) {
		p := new(big.Rat).Add(big.NewRat(int64(i), 1), half)
		p.Quo(p, big.NewRat(int64(factor), 1))
		p.Sub(p, half)
		if p.Sign() < 0 {
			p.SetInt64(0)
		}
		first := new(big.Int).Div(p.Num(), p.Denom())
		i0 := int(first.Int64())
		return i0, min(i0+1, n-1), p.Sub(p, new(big.Rat).SetInt(first))
	}
	mix := func(a, b, t *big.Rat) *big.Rat {
		l := new(big.Rat).Mul(a, new(big.Rat).Sub(one, t))
		return l.Add(l, new(big.Rat).Mul(b, t))
	}
	for nc := range src.N() * src.C() {
		at := func(y, x int) *big.Rat { return Rat(src.Data[(nc*src.H()+y)*src.W()+x]) }
		for y := range e.H {
			y0, y1, ty := along(y, src.H())
			for x := range e.W {
				x0, x1, tx := along(x, src.W())
				upper := mix(at(y0, x0), at(y0, x1), tx)
				e.Values = append(e.Values, mix(upper, mix(at(y1, x0), at(y1, x1), tx), ty))
			}
		}
	}
	return e
}
