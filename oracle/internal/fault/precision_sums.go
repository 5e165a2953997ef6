package fault

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// productFaults form products of float32 numbers from those of their halves,
// and leave some out.
func productFaults() []*trial.Fault {
	split := func(row *table.Row, high func(float64) float64, weights bool) *trial.Fault {
		return &trial.Fault{Row: row, At: emulate.IsConv, Node: func(v *trial.View, i int) *tensor.Tensor {
			if p := v.Device.Mode.Precision; p != fp16.Float32 {
				return nil
			}
			n, x := &v.Machine.Nodes[i], v.In(i, 0)
			low := func(u float64) float64 { return high(u - high(u)) }
			w := tensor.Of(fp16.Float64, n.Weight.Data, 1, 1, 1, len(n.Weight.Data))
			part := func(x, w *tensor.Tensor, bias float64) *tensor.Tensor {
				return convolve(v, i, convolution{x: x, weights: w.Data, bias: bias, geometry: n.Geometry})
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
	return []*trial.Fault{
		split(Named("precision.three-bfloat16-products-for-one-of-float32"), fp16.BFloat16.Round, true),
		split(Named("precision.two-tf32-products-for-one-of-float32"), tf32, false),
		split(Named("precision.two-bfloat16-products-for-one-of-float32"), fp16.BFloat16.Round, false),
	}
}

// accumulatorFaults are sums of convolutions that are kept in less than
// float32. Where the order of the terms is none of those here they do not fit,
// and nothing is said.
func accumulatorFaults() []*trial.Fault {
	var l []*trial.Fault
	add := func(row *table.Row, f func(x float64) float64, of func(n *operator.Node) *grouping) {
		l = append(l,
			&trial.Fault{Row: row, At: emulate.IsConv, Node: func(v *trial.View, i int) *tensor.Tensor {
				if p := v.Device.Mode.Precision; !p.Half() {
					return nil
				}
				g := f
				if g == nil {
					g = v.Device.Mode.Precision.Round
				}
				n := &v.Machine.Nodes[i]
				by := of(n)
				if by == nil {
					return nil
				}
				return accumulate(v, i, v.In(i, 0), n, by, g)
			}})
	}
	for _, block := range []int{1, 4, 8, 16, 32} {
		row := Named("precision.accumulator-in-the-half-type-by-blocks", block)
		if block == 1 {
			row = Named("precision.accumulator-in-the-half-type")
		}
		add(row, nil, func(n *operator.Node) *grouping { return blocks(n, block) })
	}
	for _, block := range []int{1, 4, 8, 16, 32} {
		add(Named("precision.accumulator-in-bfloat16-rounded-after-each-terms", block), fp16.BFloat16.Round,
			func(n *operator.Node) *grouping { return blocks(n, block) })
	}
	// Kernels cut sums into equal parts, or parts of whole tiles; the terms come as the
	// weights lie, or with the channels innermost, as implicit GEMM has it.
	for _, parts := range []int{2, 4, 8} {
		for _, last := range []bool{false, true} {
			for _, tile := range []int{1, 16, 32} {
				add(Named("precision.partial-sums-in-the-half-type", parts), nil,
					func(n *operator.Node) *grouping { return parted(n, parts, tile, last) })
			}
		}
	}
	return l
}

// A grouping says in which order the terms of a sum are added up, and after which of them
// it is rounded.
type grouping struct {
	last  bool   // channels innermost: (row, column, channel), not (channel, row, column)
	split bool   // each group is a sum of its own, and they are added in float32
	ends  []bool // by term
}

// blocks rounds a sum after each block of terms.
func blocks(n *operator.Node, block int) *grouping {
	g := &grouping{ends: make([]bool, terms(n))}
	for t := range g.ends {
		g.ends[t] = (t+1)%block == 0 || t == len(g.ends)-1
	}
	return g
}

// parted is a sum of so many parts, each of as many tiles but the last, which may have fewer;
// tiles of one term are parts as equal as can be. It is nil if there are not so many, or if
// other tiles or the other order have the same.
func parted(n *operator.Node, parts, tile int, last bool) *grouping {
	of := terms(n)
	if s := n.Weight.Shape; last && s[2]*s[3] == 1 || parts > of {
		return nil
	}
	g := &grouping{last: last, split: true, ends: make([]bool, of)}
	g.ends[of-1] = true
	tiles := (of + tile - 1) / tile
	each, equal := (tiles+parts-1)/parts*tile, tile > 1
	if tile > 1 && (parts-1)*each >= of {
		return nil
	}
	for p := 1; p < parts; p++ {
		at := p * each
		if tile == 1 {
			at = of * p / parts
		}
		g.ends[at-1] = true
		equal = equal && at == of*p/parts
	}
	if equal {
		return nil
	}
	return g
}

func terms(n *operator.Node) int { return n.Weight.Shape[1] * n.Weight.Shape[2] * n.Weight.Shape[3] }

// accumulate evaluates a convolution of stride 1 whose sums, or the parts of whose sums, f
// rounds as a grouping says.
func accumulate(
	v *trial.View, i int, x *tensor.Tensor, n *operator.Node, by *grouping, f func(float64) float64,
) *tensor.Tensor {
	s, g := n.Weight.Shape, n.Geometry
	k, terms := s[2], terms(n)
	if g.Stride[0] > 1 {
		return nil
	}
	mode := v.Device.ModeOf(i)
	format, _, err := n.Formats(mode, fp16.Float32)
	if err != nil {
		return nil
	}
	x = emulate.Operand(mode, x, format)
	w := emulate.Operand(mode, tensor.Of(fp16.Float64, n.Weight.Data, 1, 1, 1, len(n.Weight.Data)), format).Data
	src := gather(x, axis(x.H(), g.Pad[0], g.Padding), axis(x.W(), g.Pad[0], g.Padding))
	y := tensor.New(fp16.Float64, x.N(), s[0], src.H()-k+1, src.W()-k+1)
	half := format.Half()
	line, total := make([]float64, y.W()), make([]float64, y.W())
	for at := range y.N() * y.C() * y.H() {
		row, o, b := at%y.H(), at/y.H()%y.C(), at/(y.H()*y.C())
		clear(line)
		clear(total)
		for t := range terms {
			c, tap := t/(k*k), t%(k*k)
			if by.last {
				c, tap = t%s[1], t/s[1]
			}
			dy, dx := tap/k, tap%k
			from := src.Plane(b, c)[(row+dy)*src.W()+dx:]
			u := w[o*terms+c*k*k+tap]
			for j := range line {
				line[j] += float64(u * from[j])
			}
			if !by.ends[t] {
				continue
			}
			for j, q := range line {
				line[j] = f(fp16.Float32.Round(q))
			}
			if by.split {
				for j, q := range line {
					total[j] = fp16.Float32.Round(total[j] + q)
				}
				clear(line)
			}
		}
		if by.split {
			copy(line, total)
		}
		if n.Bias != nil {
			bias := n.Bias.Data[o]
			if half {
				bias = format.Round(bias)
			}
			apart := v.Device.Apart(i, format) && v.Stored(i) == format
			for j, q := range line {
				if apart {
					q = format.Round(q)
				}
				line[j] = q + bias
			}
		}
		copy(y.Plane(b, o)[row*y.W():], line)
	}
	return y
}
