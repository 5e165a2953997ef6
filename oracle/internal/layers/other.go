package layers

import (
	"iter"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// otherAnswers: one answer for an operation that is none of the CNN's five, by its kind;
// none where it cannot be evaluated.
//
// Sums of n products are within g_(n+2)(2u) of the products' magnitudes, in any order, and
// weighted means of a few inputs likewise. A transform is a sum of as many products as its
// axes have numbers, all within its factor of the sum of the inputs' magnitudes, if it is
// computed axis by axis as it is written; fast ones are nearer.
func (g *layerGate) otherAnswers(i int, in []layerValue) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		if a := g.otherAnswer(i, in); a != nil {
			yield(a)
		}
	}
}

func (g *layerGate) otherAnswer(i int, in []layerValue) *answer {
	n := &g.m.Nodes[i]
	formats, _, err := n.Operands(g.mode, fp16.Float32)
	if err != nil {
		return nil
	}
	x, bounds, variances, sure := g.given(n, in, formats)
	y, err := g.m.Node(&emulate.Device{Mode: g.mode}, i, x, nil)
	if err != nil {
		return nil
	}
	bound, sd := make([]float64, len(y.Data)), make([]float64, len(y.Data))
	switch kind := emulate.KindOf(n.Other); kind {
	case emulate.Transform:
		g.transformed(n.Other.(graph.FFT), x[0], bounds[0], variances[0], y, bound, sd)
		return around("", y.Data, bound, sd)
	case emulate.Pointwise:
		if !g.pointwise(i, n.Other.(graph.Binary), x, bounds, variances, y, bound, sd, sure) {
			return nil
		}
	case emulate.Products, emulate.Mixes, emulate.Moves:
		if kind != emulate.Moves && !g.summed(i, x, y, bound, sd, kind) {
			return nil
		}
		if !sure && !g.linear(i, bounds, variances, bound, sd) {
			return nil
		}
	default:
		return nil
	}
	return around("", y.Data, bound, sd)
}

// given returns a node's inputs as it takes them, and how far a device may be from each
// of their numbers: bounds, and variances. sure says that all are as recorded.
func (g *layerGate) given(
	n *operator.Node, in []layerValue, formats []fp16.Format,
) (x, bounds, variances []*tensor.Tensor, sure bool) {
	sure = true
	for k, v := range in {
		f := formats[min(k, len(formats)-1)]
		half := f.Half() || f == fp16.TF32
		b, s := tensor.New(fp16.Float64, v.Shape...), tensor.New(fp16.Float64, v.Shape...)
		if v.bound != nil {
			sure = false
			for j, of := range v.bound {
				b.Data[j], s.Data[j] = of, v.sd[j]*v.sd[j]
				if half { // a neighbour may round to another operand
					ulp := f.Ulp(v.Data[j])
					b.Data[j], s.Data[j] = of+ulp, s.Data[j]+float64(ulp*ulp)/12
				}
			}
		}
		x, bounds, variances = append(x, v.Tensor), append(bounds, b), append(variances, s)
	}
	return x, bounds, variances, sure
}

// summed adds the errors of a node's own sums.
func (g *layerGate) summed(i int, x []*tensor.Tensor, y *tensor.Tensor, bound, sd []float64, kind emulate.Kind) bool {
	sizes, err := g.m.Each(i, x, emulate.Magnitude)
	if err != nil {
		return false
	}
	squares, err := g.m.Each(i, x, emulate.Square)
	if err != nil {
		return false
	}
	terms := 4
	if kind == emulate.Products {
		if terms, err = g.m.Terms(i, x); err != nil {
			return false
		}
	}
	t := float64(terms + 1)
	gamma := (t + 2) * 2 * g.u / (1 - float64((t+2)*2*g.u))
	for k, v := range y.Data {
		bound[k] = float64(gamma*sizes.Data[k]) + tiny
		sd[k] = roundingSD * g.u * math.Sqrt(float64((t+1)*(squares.Data[k]/6+float64(v*v)/3)))
	}
	return true
}

// linear adds what the errors of a node's inputs make of a sum of them.
func (g *layerGate) linear(i int, bounds, variances []*tensor.Tensor, bound, sd []float64) bool {
	b, err := g.m.Spread(i, bounds, emulate.Magnitude)
	if err != nil {
		return false
	}
	v, err := g.m.Spread(i, variances, emulate.Square)
	if err != nil {
		return false
	}
	for k := range bound {
		bound[k] += b.Data[k]
		sd[k] = math.Sqrt(float64(sd[k]*sd[k]) + v.Data[k])
	}
	return true
}

// pointwise adds the errors of a sum, a difference or a product. Of inputs that are spread
// to others, or beside parameters, only those as recorded and products are known.
func (g *layerGate) pointwise(
	i int, op graph.Binary, x, bounds, variances []*tensor.Tensor, y *tensor.Tensor, bound, sd []float64, sure bool,
) bool {
	alike := !slices.ContainsFunc(x, func(x *tensor.Tensor) bool { return !slices.Equal(x.Shape, y.Shape) })
	switch {
	case sure:
		g.own(bound, sd, y.Data)
		return true
	case op.Name() == "mul" && len(x) == 1:
		ok := g.linear(i, bounds, variances, bound, sd)
		g.own(bound, sd, y.Data)
		return ok
	case !alike:
		return false
	}
	for k := range y.Data {
		v := 0.0
		for j := range x {
			scale := 1.0
			if op.Name() == "mul" {
				scale = math.Abs(x[1-j].Data[k]) + bounds[1-j].Data[k]
			}
			bound[k] += float64(scale * bounds[j].Data[k])
			v += float64(scale * scale * variances[j].Data[k])
		}
		sd[k] = math.Sqrt(v)
	}
	g.own(bound, sd, y.Data)
	return true
}

// transformed adds the errors of a transform: each of its numbers has those of all.
func (g *layerGate) transformed(op graph.FFT, x, bounds, variances, y *tensor.Tensor, bound, sd []float64) {
	own := emulate.Transforms(op, y)
	each, from := len(y.Data)/max(1, len(own)), len(x.Data)/max(1, len(own))
	terms := 8.0
	for _, d := range y.Shape[max(0, len(y.Shape)-len(op.Axes)-1):] {
		terms += float64(d)
	}
	for t := range own {
		var size, wrong, variance float64
		for k := t * from; k < (t+1)*from; k++ {
			size += math.Abs(x.Data[k])
			wrong += bounds.Data[k]
			variance += variances.Data[k]
		}
		factor := 2.0 // numbers of half a spectrum stand for two
		n := float64(each)
		switch {
		case op.Norm == "ortho":
			factor /= math.Sqrt(n / 2)
		case (op.Norm == "backward") == (op.Kind == "ifft" || op.Kind == "irfft"):
			factor /= n / 2
		}
		for k := t * each; k < (t+1)*each; k++ {
			bound[k] = float64(factor*wrong) + float64(terms*2*g.u*factor*size) + tiny
			sd[k] = math.Sqrt(float64(factor*factor*variance)) + float64(g.u*own[t])
		}
	}
}
