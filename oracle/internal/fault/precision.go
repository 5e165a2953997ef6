package fault

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// precisionFaults are faults of how numbers are rounded in convolutions and
// where they are stored. They are none where the claim rounds as much.
func precisionFaults() []*trial.Fault {
	return slices.Concat(operandFaults(), eightFaults(), productFaults(), storeFaults(), accumulatorFaults())
}

// significant is the number of significant bits of a format.
func significant(f fp16.Format) int {
	return map[fp16.Format]int{fp16.Float64: 53, fp16.Float32: 24, fp16.TF32: 11, fp16.Float16: 11, fp16.BFloat16: 8}[f]
}

// truncate rounds x toward zero to f.
func truncate(x float64, f fp16.Format) float64 {
	y := f.Round(x)
	if math.Abs(y) <= math.Abs(x) {
		return y
	}
	return math.Copysign(math.Abs(y)-below(math.Abs(y), f), y)
}

// below returns the distance from y > 0 to the next smaller number of f.
func below(y float64, f fp16.Format) float64 {
	if math.IsInf(y, 0) {
		return 0
	}
	if frac, _ := math.Frexp(y); frac == 0.5 && y > f.SmallestNormal() {
		return f.Ulp(y) / 2
	}
	return f.Ulp(y)
}

// operands are those of a convolution, which are rounded by f.
type operands struct {
	p     int    // significant bits that f needs to change anything
	only  string // "weights" or "input", "" for both
	f     func(x float64) float64
	twice bool // rounded as claimed, and then by f
}

func (o operands) convolve(v *trial.View, i int) *tensor.Tensor {
	n := &v.Machine.Nodes[i]
	has, _, _ := n.Formats(v.Device.ModeOf(i), fp16.Float32)
	if significant(has) < o.p || o.twice && has == fp16.Float32 {
		return nil
	}
	first := func(x *tensor.Tensor) *tensor.Tensor { return x }
	if o.twice {
		first = func(x *tensor.Tensor) *tensor.Tensor { return emulate.Operand(v.Device.ModeOf(i), x, has) }
	}
	c := convolution{x: v.In(i, 0), weights: n.Weight.Data, bias: 1, geometry: n.Geometry}
	if o.only != "weights" {
		c.x = rounded(first(c.x), o.f)
	}
	if o.only != "input" {
		c.weights = rounded(first(tensor.Of(fp16.Float64, c.weights, 1, 1, 1, len(c.weights))), o.f).Data
	}
	return convolve(v, i, c)
}

// operandFaults round the operands of convolutions to less than the claim.
func operandFaults() []*trial.Fault {
	var l []*trial.Fault
	one := func(row *table.Row, o operands) *trial.Fault {
		h := &trial.Fault{Row: row, At: emulate.IsConv, Node: o.convolve}
		l = append(l, h)
		return h
	}
	// The device may round what the claim has rounded already, or not.
	both := func(row *table.Row, p int, only string, f func(x float64) float64) *trial.Fault {
		h := one(row, operands{p, only, f, false})
		second := *row
		// the first speaks for both
		second.Small, second.TF32, second.Slow, second.Probe, second.Needs = false, false, false, "", ""
		one(&second, operands{p, only, f, true})
		return h
	}
	tf32 := func(r fp16.Rounding) func(float64) float64 {
		return func(x float64) float64 { return fp16.RoundTF32(fp16.Float32.Round(x), r) }
	}
	both(Named("precision.operands-in-tf32"), 12, "", tf32(fp16.NearestEven))
	both(Named("precision.operands-in-tf32-ties-away-from-zero"), 12, "", tf32(fp16.NearestAway))
	both(Named("precision.operands-truncated-to-tf32"), 12, "", tf32(fp16.TowardZero))
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		p := significant(f) + 1
		both(Named("precision.operands-in", f), p, "", f.Round)
		both(Named("precision.weights-in", f), p, "weights", f.Round)
		both(Named("precision.convolution-inputs-in", f), p, "input", f.Round)
		cut := func(x float64) float64 { return truncate(x, f) }
		both(Named("precision.operands-truncated-to", f), p-1, "", cut)
		both(Named("precision.weights-truncated-to", f), p-1, "weights", cut)
		both(Named("precision.convolution-inputs-truncated-to", f), p-1, "input", cut)
	}
	for p := 23; p > 11; p-- {
		both(Named("precision.convolution-inputs-truncated-to-bits", p), 24, "input",
			func(x float64) float64 { return cutBits(x, p) })
		one(Named("precision.operands-of-bits", p),
			operands{24, "", func(x float64) float64 { return roundBits(x, p) }, false})
	}
	quantized := func(row *table.Row, per func(s []int) int) {
		h := &trial.Fault{Row: row, At: emulate.IsConv, Node: func(v *trial.View, i int) *tensor.Tensor {
			n := &v.Machine.Nodes[i]
			w := append([]float64(nil), n.Weight.Data...)
			for k, size := 0, per(n.Weight.Shape); k < len(w); k += size {
				top := 0.0
				for _, x := range w[k : k+size] {
					top = max(top, math.Abs(x))
				}
				for j, x := range w[k : k+size] {
					w[k+j] = math.RoundToEven(x/(top/127)) * (top / 127)
				}
			}
			return convolve(v, i, convolution{x: v.In(i, 0), weights: w, bias: 1, geometry: n.Geometry})
		}}
		l = append(l, h)
	}
	quantized(Named("precision.weights-of-8-bits-per-output-channel"), func(s []int) int { return s[1] * s[2] * s[3] })
	quantized(Named("precision.weights-of-8-bits"), func(s []int) int { return s[0] * s[1] * s[2] * s[3] })
	return l
}

// cutBits truncates x to p significant bits.
func cutBits(x float64, p int) float64 {
	f, e := math.Frexp(x)
	return math.Ldexp(math.Trunc(math.Ldexp(f, p)), e-p)
}

// roundBits rounds x to p significant bits, as if there were no least exponent.
func roundBits(x float64, p int) float64 {
	f, e := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(f, p)), e-p)
}

func rounded(x *tensor.Tensor, f func(float64) float64) *tensor.Tensor {
	y := tensor.Like(x)
	for i, v := range x.Data {
		y.Data[i] = f(v)
	}
	return y
}
