package oracle

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// precisionFaults are faults of how numbers are rounded in convolutions and
// where they are stored. They are none where the claim rounds as much.
func precisionFaults() []*hypothesis {
	l := append(operandFaults(), modeFaults()...)
	l = append(l, productFaults()...)
	l = append(l, storeFaults()...)
	return append(l, accumulatorFaults()...)
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

// operandFaults round the operands of convolutions to less than the claim.
func operandFaults() []*hypothesis {
	var l []*hypothesis
	one := func(name string, p int, only string, f func(x float64) float64, twice bool) *hypothesis {
		h := &hypothesis{name: name, verdict: FailPrecision, probe: "integer-fill", at: isConv, rounding: true}
		h.node = func(v *view, r *run, i int) *tensor.Tensor {
			n := &v.m.Nodes[i]
			has, _, _ := v.d.Mode.Formats(n, fp16.Float32)
			if significant(has) < p || twice && has == fp16.Float32 {
				return nil
			}
			first := func(x *tensor.Tensor) *tensor.Tensor { return x }
			if twice {
				first = func(x *tensor.Tensor) *tensor.Tensor { return emulate.Operand(v.d.Mode, x, has) }
			}
			c := convolution{x: r.in(i, 0), weights: n.Weight.Data, bias: 1, geometry: n.Geometry}
			if only != "weights" {
				c.x = rounded(first(c.x), f)
			}
			if only != "input" {
				c.weights = rounded(first(tensor.Of(fp16.Float64, c.weights, 1, 1, 1, len(c.weights))), f).Data
			}
			return v.convolve(i, c)
		}
		l = append(l, h)
		return h
	}
	// The device may round what the claim has rounded already, or not.
	operands := func(name string, p int, only string, f func(x float64) float64) *hypothesis {
		h := one(name, p, only, f, false)
		one(name, p, only, f, true)
		return h
	}
	tf32 := func(r fp16.Rounding) func(float64) float64 {
		return func(x float64) float64 { return fp16.RoundTF32(fp16.Float32.Round(x), r) }
	}
	operands("operands in tf32", 12, "", tf32(fp16.NearestEven)).small = true
	operands("operands in tf32, ties away from zero", 12, "", tf32(fp16.NearestAway))
	operands("operands truncated to tf32", 12, "", tf32(fp16.TowardZero))
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		p := significant(f) + 1
		operands(fmt.Sprintf("operands in %v", f), p, "", f.Round).small = true
		operands(fmt.Sprintf("weights in %v", f), p, "weights", f.Round).small = true
		operands(fmt.Sprintf("convolution inputs in %v", f), p, "input", f.Round)
		cut := func(x float64) float64 { return truncate(x, f) }
		operands(fmt.Sprintf("operands truncated to %v", f), p-1, "", cut)
		operands(fmt.Sprintf("weights truncated to %v", f), p-1, "weights", cut).small = true
		operands(fmt.Sprintf("convolution inputs truncated to %v", f), p-1, "input", cut)
	}
	for p := 23; p > 11; p-- {
		operands(fmt.Sprintf("convolution inputs truncated to %d bits", p), 24, "input", func(x float64) float64 { return cutBits(x, p) }).slow = true
	}
	quantized := func(name string, per func(s []int) int) {
		h := &hypothesis{name: name, verdict: FailPrecision, probe: "integer-fill", at: isConv, node: func(v *view, r *run, i int) *tensor.Tensor {
			n := &v.m.Nodes[i]
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
			return v.convolve(i, convolution{x: r.in(i, 0), weights: w, bias: 1, geometry: n.Geometry})
		}}
		l = append(l, h)
	}
	quantized("weights of 8 bits per output channel", func(s []int) int { return s[1] * s[2] * s[3] })
	quantized("weights of 8 bits", func(s []int) int { return s[0] * s[1] * s[2] * s[3] })
	return l
}

// modeFaults are devices that run in another mode than the claimed one, with
// all that its contract rounds.
func modeFaults() []*hypothesis {
	var l []*hypothesis
	for _, mode := range []operator.Mode{
		{Precision: fp16.Float16, Autocast: operator.CUDA2}, {Precision: fp16.Float16, Autocast: operator.CPU2},
		{Precision: fp16.BFloat16, Autocast: operator.CUDA2}, {Precision: fp16.BFloat16, Autocast: operator.CPU2},
	} {
		other := func(v *view, d emulate.Device) *emulate.Device {
			had := d.Mode.Precision
			if half := had == fp16.Float16 || had == fp16.BFloat16; had == mode.Precision || had == fp16.BFloat16 && half {
				return nil
			}
			of, err := v.m.Formats(mode, fp16.Float32)
			if err != nil {
				return nil
			}
			return &emulate.Device{Mode: mode, Store: of, State: v.m.Config.StateFormat(mode.Output()), Perturb: d.Perturb}
		}
		l = append(l, &hypothesis{name: mode.String() + " in place of the claimed mode", verdict: FailPrecision, probe: "integer-fill", rounding: true, whole: true,
			at: func(*operator.Node) bool { return true }, device: other,
			advance: func(v *view, out *tensor.Tensor) *tensor.Tensor {
				d := other(v, *v.d)
				if d == nil {
					return nil
				}
				return v.m.Advance(d, v.x, out)
			}})
	}
	return l
}

// productFaults form products of float32 numbers from those of their halves,
// and leave some out.
func productFaults() []*hypothesis {
	split := func(name string, high func(float64) float64, weights bool) *hypothesis {
		return &hypothesis{name: name, verdict: FailPrecision, probe: "integer-fill", at: isConv, rounding: true, node: func(v *view, r *run, i int) *tensor.Tensor {
			if p := v.d.Mode.Precision; p != fp16.Float32 {
				return nil
			}
			n, x := &v.m.Nodes[i], r.in(i, 0)
			low := func(u float64) float64 { return high(u - high(u)) }
			w := tensor.Of(fp16.Float64, n.Weight.Data, 1, 1, 1, len(n.Weight.Data))
			part := func(x, w *tensor.Tensor, bias float64) *tensor.Tensor {
				return v.convolve(i, convolution{x: x, weights: w.Data, bias: bias, geometry: n.Geometry})
			}
			y := part(rounded(x, high), rounded(w, high), 1)
			parts := []*tensor.Tensor{part(rounded(x, low), rounded(w, high), 0)}
			if weights {
				parts = append(parts, part(rounded(x, high), rounded(w, low), 0))
			}
			for _, p := range parts {
				for k, u := range p.Data {
					y.Data[k] += u
				}
			}
			return y
		}}
	}
	tf32 := func(x float64) float64 { return fp16.TF32.Round(x) }
	return []*hypothesis{
		split("three bfloat16 products for one of float32", fp16.BFloat16.Round, true),
		split("two tf32 products for one of float32", tf32, false),
		split("two bfloat16 products for one of float32", fp16.BFloat16.Round, false),
	}
}

// cutBits truncates x to p significant bits.
func cutBits(x float64, p int) float64 {
	f, e := math.Frexp(x)
	return math.Ldexp(math.Trunc(math.Ldexp(f, p)), e-p)
}

func rounded(x *tensor.Tensor, f func(float64) float64) *tensor.Tensor {
	y := tensor.Like(x)
	for i, v := range x.Data {
		y.Data[i] = f(v)
	}
	return y
}

// storeFaults store results otherwise than the claim does.
func storeFaults() []*hypothesis {
	var l []*hypothesis
	kinds := []struct {
		name string
		at   func(n *operator.Node) bool
	}{
		{"convolutions", isConv}, {"norms", isNorm}, {"activations", isAct}, {"residual sums", isAdd},
	}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		for _, k := range kinds {
			l = append(l, &hypothesis{name: fmt.Sprintf("results of %s stored in %v", k.name, f), verdict: FailPrecision, probe: "integer-fill", at: k.at, rounding: true,
				device: narrower(f)})
		}
		l = append(l, &hypothesis{name: fmt.Sprintf("all results stored in %v", f), verdict: FailPrecision, probe: "integer-fill", at: func(*operator.Node) bool { return true }, rounding: true,
			device: narrower(f)})
	}
	l = append(l, &hypothesis{name: "residual sum of float16 numbers, in float16", verdict: FailPrecision, at: isAdd, rounding: true,
		node: func(v *view, r *run, i int) *tensor.Tensor {
			if significant(v.d.Mode.Precision) <= 11 && v.d.Mode.Precision != fp16.TF32 {
				return nil
			}
			f := fp16.Float16
			a, b := r.in(i, 0), r.in(i, 1)
			y := tensor.Like(a)
			for k, u := range a.Data {
				y.Data[k] = f.Round(f.Round(u) + f.Round(b.Data[k]))
			}
			return y
		}})
	stores := func(n *operator.Node) bool { return isConv(n) || isNorm(n) || isAct(n) }
	rounds := func(name string, at func(*operator.Node) bool, f func(x float64, f fp16.Format) float64) {
		l = append(l, &hypothesis{name: name, verdict: FailPrecision, probe: "integer-fill", at: at, rounding: true,
			device: func(v *view, d emulate.Device) *emulate.Device {
				if d.Store == nil {
					return nil
				}
				plain := d
				d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) { return v.m.Plain(&plain, i, in, nil) }
				d.Round = func(_ int, y []float64, to fp16.Format) {
					if to == fp16.Float32 {
						to.RoundSlice(y, y)
						return
					}
					for i, u := range y {
						y[i] = f(u, to)
					}
				}
				return &d
			}})
	}
	up := func(x float64, f fp16.Format) float64 {
		if y := f.Round(x); y >= x {
			return y
		} else if y > 0 {
			return y + f.Ulp(y)
		} else if y < 0 {
			return y + below(-y, f)
		}
		return f.Smallest()
	}
	twice := func(extra int) func(x float64, f fp16.Format) float64 {
		return func(x float64, f fp16.Format) float64 {
			m, e := math.Frexp(x)
			return f.Round(math.Ldexp(math.RoundToEven(math.Ldexp(m, significant(f)+extra)), e-significant(f)-extra))
		}
	}
	for _, k := range []struct {
		name string
		at   func(n *operator.Node) bool
	}{{"", stores}, {" of convolutions", isConv}, {" of norms", isNorm}, {" of activations", isAct}} {
		rounds("results"+k.name+" truncated when stored", k.at, truncate)
		rounds("results"+k.name+" rounded up when stored", k.at, up)
	}
	for _, extra := range []int{1, 2, 3} {
		rounds(fmt.Sprintf("results of convolutions rounded twice, by %d more bits first", extra), isConv, twice(extra))
	}
	rounds("subnormal numbers flushed to zero", stores, func(x float64, f fp16.Format) float64 {
		if y := f.Round(x); math.Abs(y) >= f.SmallestNormal() {
			return y
		}
		return math.Copysign(0, x)
	})
	return l
}

// narrower stores in f what is stored in a wider format.
func narrower(f fp16.Format) func(v *view, d emulate.Device) *emulate.Device {
	return func(v *view, d emulate.Device) *emulate.Device {
		if half := d.Mode.Precision == fp16.Float16 || d.Mode.Precision == fp16.BFloat16; half && significant(d.Mode.Precision) <= significant(f) {
			return nil
		}
		d.Store = make([]fp16.Format, len(v.m.Nodes))
		for i := range d.Store {
			d.Store[i] = f
		}
		d.BiasTogether = true
		return &d
	}
}

// accumulatorFaults are sums of convolutions that are kept in less than
// float32. Where the order of the terms is not the one here they do not fit,
// and nothing is said.
func accumulatorFaults() []*hypothesis {
	var l []*hypothesis
	add := func(name string, block int, f func(x float64) float64, half bool, split bool) {
		l = append(l, &hypothesis{name: name, verdict: FailPrecision, probe: "accumulator-width", at: isConv, rounding: true, slow: true,
			node: func(v *view, r *run, i int) *tensor.Tensor {
				if p := v.d.Mode.Precision; half && p != fp16.Float16 && p != fp16.BFloat16 {
					return nil
				}
				g := f
				if g == nil {
					g = v.d.Mode.Precision.Round
				}
				n := &v.m.Nodes[i]
				return v.accumulate(i, r.in(i, 0), n, block, split, g)
			}})
	}
	for _, block := range []int{1, 4, 8, 16, 32} {
		name := fmt.Sprintf("accumulator in the half type, rounded after each %d terms", block)
		if block == 1 {
			name = "accumulator in the half type"
		}
		add(name, block, nil, true, false)
	}
	for _, block := range []int{1, 4, 8, 16, 32} {
		add(fmt.Sprintf("accumulator in bfloat16, rounded after each %d terms", block), block, fp16.BFloat16.Round, true, false)
	}
	for _, parts := range []int{2, 4, 8} {
		add(fmt.Sprintf("%d partial sums in the half type", parts), parts, nil, true, true)
	}
	return l
}

// accumulate evaluates a convolution of stride 1 with an accumulator that f
// rounds after each block of terms (channel by channel, row by row), or, if it
// is split, by that many partial sums that f rounds.
func (v *view) accumulate(i int, x *tensor.Tensor, n *operator.Node, block int, split bool, f func(float64) float64) *tensor.Tensor {
	if n.Geometry.Stride > 1 {
		return nil
	}
	format, _, err := v.d.Mode.Formats(n, fp16.Float32)
	if err != nil {
		return nil
	}
	x = emulate.Operand(v.d.Mode, x, format)
	w := emulate.Operand(v.d.Mode, tensor.Of(fp16.Float64, n.Weight.Data, 1, 1, 1, len(n.Weight.Data)), format).Data
	s, g := n.Weight.Shape, n.Geometry
	src := gather(x, axis(x.H, g.Pad, g.Padding), axis(x.W, g.Pad, g.Padding))
	k, terms := s[2], s[1]*s[2]*s[3]
	y := tensor.New(fp16.Float64, x.N, s[0], src.H-k+1, src.W-k+1)
	ends := make([]bool, terms) // after which terms the sum is rounded
	if split {
		for p := 1; p <= block; p++ {
			ends[terms*p/block-1] = true
		}
	} else {
		for t := range ends {
			ends[t] = (t+1)%block == 0 || t == terms-1
		}
	}
	half := format == fp16.Float16 || format == fp16.BFloat16
	line, total := make([]float64, y.W), make([]float64, y.W)
	for at := range y.N * y.C * y.H {
		row, o, b := at%y.H, at/y.H%y.C, at/(y.H*y.C)
		clear(line)
		clear(total)
		for t := range terms {
			c, dy, dx := t/(k*k), t/k%k, t%k
			from := src.Plane(b, c)[(row+dy)*src.W+dx:]
			u := w[o*terms+t]
			for j := range line {
				line[j] += float64(u * from[j])
			}
			if !ends[t] {
				continue
			}
			for j, q := range line {
				line[j] = f(fp16.Float32.Round(q))
			}
			if split {
				for j, q := range line {
					total[j] = fp16.Float32.Round(total[j] + q)
				}
				clear(line)
			}
		}
		if split {
			copy(line, total)
		}
		if n.Bias != nil {
			bias := n.Bias.Data[o]
			if half {
				bias = format.Round(bias)
			}
			apart := !v.d.BiasTogether && v.d.Mode.BiasApart() && v.stored(i) == format
			for j, q := range line {
				if apart {
					q = format.Round(q)
				}
				line[j] = q + bias
			}
		}
		copy(y.Plane(b, o)[row*y.W:], line)
	}
	return y
}
