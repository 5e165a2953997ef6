package layers

import (
	"iter"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/winograd"
	"github.com/refrun/refrun/tensor"
)

// convAnswers: the sum of n products and a bias, in any order of additions, of
// which the longest chain has n+1 (Higham, section 4.2): with S the sum of the
// products' sizes, the device is within g_(n+1)(v) (S + |b|), where v is 2u, as
// some hardware truncates; products of float32 operands round too, n+2.
//
// The claim's operands come first; then, where the claim rounds them, others as
// good or better. A bias is added to the rounded sum or before, one after the
// other. Last comes Winograd's method, whose error is that of its whole tile.
func (g *layerGate) convAnswers(i int, in layerValue) iter.Seq[*answer] {
	return g.convolved(&g.m.Nodes[i], in, nil)
}

// convolved is convAnswers of convolution n, which need not be a node of the operator. off is
// how far a device's weights may be from its weights, nil if they are the same.
func (g *layerGate) convolved(n *operator.Node, in layerValue, off *unsure) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		ways := g.operands(n, in)
		for k, o := range ways {
			s := g.sums(n, in, o)
			s.loosen(off)
			for _, a := range s.answers(g, n, o) {
				a.unrounded = o.Wide
				a.follows = slices.ContainsFunc(ways[k:], func(w emulate.Way) bool { return w.Wide })
				if off != nil {
					a.how = join("batch norm folded into the convolution", a.how)
				}
				if !yield(a) {
					return
				}
			}
		}
	}
}

// operands are the ways to take the operands that differ for these inputs.
func (g *layerGate) operands(n *operator.Node, in layerValue) []emulate.Way {
	f, _, err := n.Formats(g.mode, fp16.Float32)
	return slices.DeleteFunc(emulate.Ways(g.mode), func(w emulate.Way) bool {
		switch {
		case w.Wide:
			return err != nil || evidence.OnFormat(f, in.Data)
		case w.Flat:
			return emulate.Flush(in.Tensor) == in.Tensor && !flushes(n)
		}
		return false
	})
}

// weights returns those of a convolution.
func weights(n *operator.Node) *tensor.Tensor {
	return tensor.Of(fp16.Float64, n.Weight.Data, n.Weight.Shape...)
}

// flushes reports whether a convolution has weights that are lost to a device without
// subnormal operands.
func flushes(n *operator.Node) bool {
	w := weights(n)
	return emulate.Flush(w) != w
}

// sums is a convolution without its bias, and what its error depends on.
type sums struct {
	x, weights    *tensor.Tensor // the operands
	geometry      conv.Params
	y             *tensor.Tensor // the exact sums
	bound, sd     []float64      // of a device's sums
	far           []float64      // sd of the worst sum within reach of a Winograd tile, nil if there is none
	bias          []float64      // as an operand, nil if there is none
	operand       fp16.Format
	unrounded     bool // the input is not rounded to emulate.Way
	rounded       bool // the operands are of a half type
	slack         float64
	size, squares []float64 // of the products: the sums of magnitudes and of squares
	inBound, inSD []float64 // of the input's uncertainty, nil if there is none
}

// sums evaluates the convolution of node n and the model of its error.
//
// The model: with S_k the partial sums and a rounding error of roundingSD u of
// each, the variance is (roundingSD u)^2 times the sum of S_k^2. Over all orders
// of n products p the mean of S_k^2 is (k/n) Q + k(k-1)/(n(n-1)) (y^2 - Q) with
// Q the sum of p^2, and the sum over k
//
//	(n+1) (Q/6 + y^2/3).
//
// What certain orders make of these very numbers is simulated (legalSums).
func (g *layerGate) sums(n *operator.Node, in layerValue, o emulate.Way) *sums {
	f, _, err := n.Formats(o.Mode, fp16.Float32)
	if err != nil {
		panic("oracle: " + err.Error()) // no rule refuses a convolution
	}
	x := in.Tensor
	if !o.Wide {
		x = emulate.Operand(o.Mode, x, f)
	}
	w := emulate.Operand(o.Mode, weights(n), f)
	if o.Flat {
		x, w = emulate.Flush(x), emulate.Flush(w)
	}
	s := &sums{operand: f, x: x, weights: w, geometry: n.Geometry, unrounded: o.Wide, rounded: f.Half()}
	square := func(v float64) float64 { return v * v }
	magnitudes, squares := mapped(w, math.Abs), mapped(w, square)
	s.y = s.run(x, w)
	s.size, s.squares = s.run(mapped(x, math.Abs), magnitudes).Data, s.run(mapped(x, square), squares).Data
	if in.bound != nil {
		b, d := tensor.Like(x), tensor.Like(x)
		for k := range b.Data {
			b.Data[k], d.Data[k] = in.bound[k], in.sd[k]
			if r := x.Data[k]; !o.Wide && f != fp16.Float32 && f != fp16.Float64 && !math.IsInf(r, 0) && r == r {
				// A neighbour may round to another operand.
				if lo, hi := f.Round(in.Data[k]-in.bound[k]), f.Round(in.Data[k]+in.bound[k]); lo != hi {
					b.Data[k] = max(hi-r, r-lo)
					d.Data[k] = measure.RootSum(d.Data[k], f.Ulp(r)/math.Sqrt(12))
				} else {
					b.Data[k], d.Data[k] = 0, 0
				}
			}
		}
		s.inBound, s.inSD = s.run(b, magnitudes).Data, s.run(mapped(d, square), squares).Data
	}
	terms := float64(w.C() * w.H() * w.W())
	h, v := terms+2, 2*g.u
	if f == fp16.Float16 { // V100's units: blocks of 4, and 2.5u a term
		h, v = 4*math.Ceil(terms/4)+2, 2.5*g.u
	}
	if f == fp16.Float64 {
		v = 4 * g.u // the evaluation here is float64 too
	}
	hv := float64(h * v)
	gamma := hv / (1 - hv)
	if !(hv < 0.5) {
		gamma = math.Inf(1)
	}
	s.bound, s.sd = make([]float64, len(s.y.Data)), make([]float64, len(s.y.Data))
	if n.Bias != nil {
		s.bias = make([]float64, len(n.Bias.Data))
		copy(s.bias, n.Bias.Data)
		if s.rounded {
			f.RoundSlice(s.bias, n.Bias.Data)
		}
	}
	hw := s.y.H() * s.y.W()
	grain := 0.0 // what all products and biases are multiples of
	if in.bound == nil {
		grain = grainOf(x.Data) * grainOf(w.Data)
		if s.bias != nil {
			grain = min(grain, grainOf(s.bias))
		}
	}
	for k, y := range s.y.Data {
		b := 0.0
		if s.bias != nil {
			b = s.bias[k/hw%s.y.C()]
		}
		q, total := s.squares[k], y+b
		s.bound[k] = float64(gamma*(s.size[k]+math.Abs(b))) + tiny
		if s.size[k]+math.Abs(b) <= grain/(2*g.u) {
			s.bound[k] = 0 // every sum on the way is a multiple that float32 holds
		}
		s.sd[k] = roundingSD * g.u * math.Sqrt(float64((terms+1)*(q/6+float64(total*total)/3))+q)
		if s.inBound != nil {
			s.bound[k] += float64((1 + gamma) * s.inBound[k])
			s.sd[k] = math.Sqrt(float64(s.sd[k]*s.sd[k]) + s.inSD[k])
		}
	}
	if s.slack = g.legalSums(x, w, n.Geometry, s); s.slack > usualSlack {
		s.paths(g.u)
		s.slack = g.legalSums(x, w, n.Geometry, s)
	}
	if w.H() == 3 && w.W() == 3 && n.Geometry.Stride[0] <= 1 {
		s.far = reach(s.y, s.sd, 4)
	}
	return s
}

// run is the convolution of x with w.
func (s *sums) run(x, w *tensor.Tensor) *tensor.Tensor {
	return emulate.Conv(x, conv.NewKernel(w, nil), s.geometry)
}

// grainOf returns the greatest power of two that all numbers are multiples of;
// 0 if it is too small to matter.
func grainOf(v []float64) float64 {
	grain := 1.0
	for _, x := range v {
		for x != math.Floor(x/grain)*grain {
			if grain /= 2; grain < 0x1p-30 || x != x {
				return 0
			}
		}
	}
	return grain
}

// mapped returns x with f of each number; x itself for nil.
func mapped(x *tensor.Tensor, f func(float64) float64) *tensor.Tensor {
	if f == nil {
		return x
	}
	y := tensor.Like(x)
	for i, v := range x.Data {
		y.Data[i] = f(v)
	}
	return y
}

// winogradTail is how many standard deviations of the worst place of a tile of F(4x4), the coarsest form
// of Winograd's method that float32 devices use, no element exceeds: of ten million normal numbers two do.
const winogradTail = 5.2

// answers combines the sums with the bias.
func (s *sums) answers(g *layerGate, n *operator.Node, o emulate.Way) []*answer {
	var all []*answer
	add := func(how string, bound, sd []float64, apart bool) {
		how = join(o.How, how)
		y := make([]float64, len(s.y.Data))
		hw := s.y.H() * s.y.W()
		if !apart {
			for k, v := range s.y.Data {
				if y[k] = v; s.bias != nil {
					y[k] += s.bias[k/hw%s.y.C()]
				}
			}
			a := around(how, y, bound, sd)
			a.wide = s.slack
			all = append(all, a)
			return
		}
		a := &answer{how: how, mid: y, lo: make([]float64, len(y)), hi: make([]float64, len(y)),
			sd: make([]float64, len(y)), flip: make([]float64, len(y)), wide: s.slack}
		for k, v := range s.y.Data {
			b := s.bias[k/hw%s.y.C()]
			y[k] = s.operand.Round(v) + b
			a.lo[k], a.hi[k] = s.operand.Round(v-bound[k])+b, s.operand.Round(v+bound[k])+b
			a.flip[k] = flipChance(s.operand, v, sd[k]*flipSlack(s.slack))
		}
		all = append(all, a)
	}
	methods := []func(how string, apart bool){func(how string, apart bool) { add(how, s.bound, s.sd, apart) }}
	if s.far != nil {
		methods = append(methods, func(how string, apart bool) {
			bound := make([]float64, len(s.bound))
			worst := winogradTail * winograd.F4.Worst(s.weights.C())
			for k, b := range s.bound {
				bound[k] = max(b, worst*s.far[k])
			}
			add(join(how, "Winograd's method"), bound, s.far, apart)
		})
	}
	for _, method := range methods {
		if n.Bias == nil || !s.rounded {
			method("", false)
			continue
		}
		apart := g.mode.BiasApart()
		method("", apart)
		method(map[bool]string{true: "bias added before rounding", false: "bias added after rounding"}[apart], !apart)
	}
	return all
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// reach returns the greatest number within r pixels of each, along both axes.
func reach(like *tensor.Tensor, v []float64, r int) []float64 {
	rows, out := make([]float64, len(v)), make([]float64, len(v))
	w, hw := like.W(), like.H()*like.W()
	for k := range v {
		x := k % w
		for j := max(0, x-r); j <= min(w-1, x+r); j++ {
			rows[k] = max(rows[k], v[k-x+j])
		}
	}
	for k := range v {
		y := k % hw / w
		for j := max(0, y-r); j <= min(like.H()-1, y+r); j++ {
			out[k] = max(out[k], rows[k+(j-y)*w])
		}
	}
	return out
}
