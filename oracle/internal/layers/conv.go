package layers

import (
	"iter"
	"math"
	"slices"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
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
	n := &g.m.Nodes[i]
	return func(yield func(*answer) bool) {
		for _, o := range g.operands(n, in) {
			s := g.sums(n, in, o)
			for _, a := range s.answers(g, n, o) {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// operands is how a convolution rounds what it multiplies.
type operands struct {
	how  string
	mode operator.Mode
	wide bool // the input is not rounded
	flat bool // subnormal operands are zero, as MI200's units have it
}

func (g *layerGate) operands(n *operator.Node, in layerValue) []operands {
	m := g.mode
	all := []operands{{"", m, false, false}}
	single := operands{"float32 operands", operator.Mode{Precision: fp16.Float32}, false, false}
	switch m.Precision {
	case fp16.TF32:
		for _, r := range []fp16.Rounding{fp16.NearestEven, fp16.NearestAway, fp16.TowardZero} {
			if r != m.TF32 {
				all = append(all, operands{"TF32 operands rounded by " + r.String(), operator.Mode{Precision: fp16.TF32, TF32: r}, false, false})
			}
		}
		all = append(all, single)
	case fp16.Float16, fp16.BFloat16:
		if f, _, err := n.Formats(m, fp16.Float32); err == nil && !evidence.OnFormat(f, in.Data) {
			all = append(all, operands{"input not rounded to operands", m, true, false})
		}
		if m.Precision == fp16.Float16 && (subnormal(in.Data) || subnormal(n.Weight.Data)) {
			all = append(all, operands{"subnormal operands flushed", m, false, true})
		}
		all = append(all, single)
	}
	return all
}

// leastNormal is that of float16: what is below it MI200's units take for zero.
const leastNormal = 0x1p-14

func subnormal(v []float64) bool {
	return slices.ContainsFunc(v, func(x float64) bool { return x != 0 && math.Abs(x) < leastNormal })
}

// sums is a convolution without its bias, and what its error depends on.
type sums struct {
	y             *tensor.Tensor // the exact sums
	bound, sd     []float64      // of a device's sums
	far           []float64      // sd of the worst sum within reach of a Winograd tile, nil if there is none
	bias          []float64      // as an operand, nil if there is none
	operand       fp16.Format
	unrounded     bool // the input is not rounded to operands
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
func (g *layerGate) sums(n *operator.Node, in layerValue, o operands) *sums {
	f, _, err := n.Formats(o.mode, fp16.Float32)
	if err != nil {
		panic("oracle: " + err.Error()) // no rule refuses a convolution
	}
	x := in.Tensor
	if !o.wide {
		x = emulate.Operand(o.mode, x, f)
	}
	w := emulate.Operand(o.mode, tensor.Of(fp16.Float64, n.Weight.Data, n.Weight.Shape[0], n.Weight.Shape[1], n.Weight.Shape[2], n.Weight.Shape[3]), f)
	if o.flat {
		flat := func(v float64) float64 {
			if math.Abs(v) < leastNormal {
				return 0
			}
			return v
		}
		x, w = mapped(x, flat), mapped(w, flat)
	}
	run := func(x *tensor.Tensor, of func(float64) float64, xs func(float64) float64) *tensor.Tensor {
		return emulate.Conv(mapped(x, xs), conv.NewKernel(mapped(w, of), nil), n.Geometry)
	}
	square := func(v float64) float64 { return v * v }
	s := &sums{y: run(x, nil, nil), operand: f, unrounded: o.wide, rounded: f == fp16.Float16 || f == fp16.BFloat16}
	s.size, s.squares = run(x, math.Abs, math.Abs).Data, run(x, square, square).Data
	if in.bound != nil {
		b, d := tensor.Like(x), tensor.Like(x)
		for k := range b.Data {
			b.Data[k], d.Data[k] = in.bound[k], in.sd[k]
			if r := x.Data[k]; !o.wide && f != fp16.Float32 && f != fp16.Float64 && !math.IsInf(r, 0) && r == r {
				// A neighbour may round to another operand.
				if lo, hi := f.Round(in.Data[k]-in.bound[k]), f.Round(in.Data[k]+in.bound[k]); lo != hi {
					b.Data[k] = max(hi-r, r-lo)
					d.Data[k] = measure.RootSum(d.Data[k], f.Ulp(r)/math.Sqrt(12))
				} else {
					b.Data[k], d.Data[k] = 0, 0
				}
			}
		}
		s.inBound, s.inSD = run(b, math.Abs, nil).Data, run(d, square, square).Data
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
	s.slack = g.legalSums(x, w, n.Geometry, s)
	if w.H() == 3 && w.W() == 3 && n.Geometry.Stride[0] <= 1 {
		s.far = reach(s.y, s.sd, 4)
	}
	return s
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

// winogradFactor is how far the errors of F(4x4), the worst form of Winograd's
// method that float32 devices use, are above the model of a sum; winogradTail
// how many standard deviations of them no element exceeds.
const winogradFactor, winogradTail = 4.5, 12

// answers combines the sums with the bias.
func (s *sums) answers(g *layerGate, n *operator.Node, o operands) []*answer {
	var all []*answer
	add := func(how string, bound, sd []float64, apart bool) {
		how = join(o.how, how)
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
		a := &answer{how: how, mid: y, lo: make([]float64, len(y)), hi: make([]float64, len(y)), sd: make([]float64, len(y)), flip: make([]float64, len(y)), wide: s.slack}
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
			for k, b := range s.bound {
				bound[k] = max(b, winogradTail*winogradFactor*s.far[k])
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
