package fault

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// eights are the types of 8 bits that operands are quantized to.
var eights = []eight{{"E4M3", fp16.E4M3}, {"E5M2", fp16.E5M2}}

type eight struct {
	name string
	fp16.Narrow
}

// round returns the number of the type nearest to x, of what is larger than all the largest.
func (f eight) round(x float64) float64 { return f.Decode(f.Encode(x, fp16.Saturated)) }

// of returns x in the type, over the scale that makes the largest of x the largest of the
// type, or as it is, and that scale. All its numbers are half numbers too.
func (f eight) of(x *tensor.Tensor, scaled bool) (*tensor.Tensor, float64) {
	s := 1.0
	if scaled {
		most := 0.0
		for _, v := range x.Data {
			most = max(most, math.Abs(v))
		}
		if s = fp16.Float32.Round(most / f.Largest()); s == 0 {
			s = 1
		}
	}
	return rounded(x, func(v float64) float64 { return f.round(fp16.Float32.Round(v / s)) }), s
}

// eightFaults round the operands of convolutions, as claimed, to a type of 8 bits.
func eightFaults() []*trial.Fault {
	var l []*trial.Fault
	for _, f := range eights {
		for _, scaled := range []bool{true, false} {
			l = append(l, &trial.Fault{Row: Named("precision.operands-in-fp8", f.name), At: emulate.IsConv,
				Node: func(v *trial.View, i int) *tensor.Tensor {
					n, mode := &v.Machine.Nodes[i], v.Device.ModeOf(i)
					has, _, _ := n.Formats(mode, fp16.Float32)
					x, w := emulate.Operand(mode, v.In(i, 0), has),
						emulate.Operand(mode, tensor.Of(fp16.Float64, n.Weight.Data, 1, 1, 1, len(n.Weight.Data)), has)
					qx, sx := f.of(x, scaled)
					qw, sw := f.of(w, scaled)
					return convolve(v, i, convolution{x: qx, weights: qw.Data, bias: 1, scale: sx * sw, geometry: n.Geometry})
				}})
		}
	}
	return l
}
