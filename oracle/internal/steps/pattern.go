package steps

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// device returns the emulation of a pattern; legal, if not nil, disturbs it.
// Numbers that are stored in float32 are not rounded: their errors are legal's.
func (g *stepGate) device(p emulate.Pattern, t int, l *emulate.Legal) *emulate.Device {
	nodes := g.e.Machine.Nodes
	d := &emulate.Device{Mode: p.Mode, BiasTogether: p.Points&emulate.AtBias == 0, BiasApart: p.Points&emulate.AtBias !=
		0, Wide: p.Wide, Flat: p.Flat, Store: make([]fp16.Format, len(nodes)), Operands: p.Modes(len(nodes))}
	if l != nil {
		l.Half, l.Apart, l.Modes = p.Half(), p.Half() && p.Points&emulate.AtBias != 0, d.Operands
		d.Perturb, d.Sum = l.Disturb, l.Sum
	}
	of := p.Formats(nodes, g.input(p, t))
	for i, f := range of {
		if at := emulate.PointOf(nodes, i); p.Half() && f == p.Mode.Precision && at != 0 && (p.Points&at != 0) != p.IsOdd(i) {
			d.Store[i] = f
		}
	}
	// The machine rounds the contract's noise by itself.
	if fewer := p.Half() && (p.Added || p.Once || p.Constants&emulate.OfNoise != 0 ||
		!p.Whole(nodes, g.e.Case.Rollout)); g.draws != nil && (l != nil || fewer) {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if nodes[i].Op != operator.OpNoise {
				return nil, nil
			}
			b := emulate.Noise(&nodes[i], p.Mode)
			return g.noisy(i, &b, g.draws, in[0], p, of[i], l)
		}
	}
	if noisy := d.Replace; p.Narrow {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if nodes[i].Op == operator.OpAct && nodes[i].Act == act.SiLU && of[i] == p.Mode.Precision {
				return emulate.NarrowSiLU(in[0], of[i]), nil
			}
			if noisy == nil {
				return nil, nil
			}
			return noisy(i, in)
		}
	}
	if other := d.Replace; p.Plain {
		plain := emulate.PlainNorms(g.e.Op.Config, nodes, p.Mode)
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if plain[i] && of[i] == p.Mode.Precision {
				return g.plainNorm(i, of[i], in[0]), nil
			}
			if other == nil {
				return nil, nil
			}
			return other(i, in)
		}
	}
	if other := d.Replace; p.Folded {
		norms, folded := emulate.Folds(nodes), map[int]bool{}
		for _, i := range norms {
			folded[i] = i > 0
		}
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			switch {
			case norms[i] > 0:
				n := emulate.Fold(&nodes[i], &nodes[norms[i]])
				return d.Convolve(&n, in[0])
			case folded[i]:
				return in[0].Clone(), nil
			case other == nil:
				return nil, nil
			}
			return other(i, in)
		}
	}
	if other := d.Replace; p.Split {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			switch {
			case emulate.Splits(nodes[i]) && of[i] == p.Mode.Precision:
				return g.e.Machine.SplitNorm(i, of[i], in[0], l), nil
			case other == nil:
				return nil, nil
			}
			return other(i, in)
		}
	}
	d.Update = func(x, o *tensor.Tensor) *tensor.Tensor { return g.advance(x, o, p, l) }
	return d
}

// input returns the format of the states before step t.
func (g *stepGate) input(p emulate.Pattern, t int) fp16.Format {
	if t == 1 {
		return g.e.Case.Rollout.StartFormat(p.Mode)
	}
	return g.e.Case.Rollout.StateFormat(g.output(p))
}

// output returns the format of the operator's output.
func (g *stepGate) output(p emulate.Pattern) fp16.Format {
	nodes := g.e.Machine.Nodes
	return p.Formats(nodes, p.Mode.Wide())[len(nodes)-1]
}

// noisy applies noise node i to x, rounding draw and product to f where the
// pattern does. b is the node's block, all the step's draws, unless a fault is
// tried.
func (g *stepGate) noisy(
	i int, b *noise.Block, all *emulate.Draws, x *tensor.Tensor, p emulate.Pattern, f fp16.Format, l *emulate.Legal,
) (*tensor.Tensor, error) {
	d := g.drawsOf(i, all)
	narrow := func(at emulate.Points) fp16.Format {
		if p.Half() && f == p.Mode.Precision && p.Points&at != 0 {
			return f
		}
		return fp16.Float64
	}
	draw, product := narrow(emulate.AtDraw), narrow(emulate.AtProduct)
	if b.Type == noise.Dropout { // what becomes of 1: 0, or 1/(1-p) in the tensor's type
		if p.Once {
			f = fp16.Float32
		}
		y := tensor.New(f, x.N(), x.C(), x.H(), x.W())
		for k := range y.Data {
			y.Data[k] = 1
		}
		err := b.Apply(y, y, noise.Time{}, d)
		for k, v := range x.Data {
			y.Data[k] *= v
		}
		y.Format = fp16.Float64
		return y, err
	}
	if b.Correlation != 0 {
		y := tensor.Like(x)
		return y, b.Apply(y, x, noise.Time{}, d)
	}
	s := b.Scale
	if b.NarrowScale || p.Constants&emulate.OfNoise != 0 {
		s = f.Round(s)
	}
	y := x.Clone()
	w := slices.Clone(d.Data[0])
	salt := uint64(0)
	if l != nil {
		salt = l.Salt(i, -3)
		for k, v := range w { // a float32 ulp beside the draw
			w[k] = v + float64(l.U*v)*1.2*emulate.Deviate(salt, v)
		}
	}
	rows.RoundSlice(draw, w, w)
	if b.Type == noise.Laplace {
		for k, sign := range d.Data[1] {
			switch sign = draw.Round(sign); { // a normal number below 3e-8 is 0 in float16, and has no sign
			case sign < 0:
				w[k] = -w[k]
			case sign == 0:
				w[k] = 0
			}
		}
	}
	for k, v := range w {
		w[k] = float64(v * s)
	}
	if p.Twice {
		fp16.Float32.RoundSlice(w, w)
	}
	if !p.Once {
		rows.RoundSlice(product, w, w)
	}
	switch {
	case b.Type != noise.Multiplicative:
		for k, v := range x.Data {
			y.Data[k] = v + w[k]
		}
	case p.Added:
		for k, v := range x.Data {
			w[k] = float64(v * w[k])
		}
		rows.RoundSlice(product, w, w)
		for k, v := range x.Data {
			y.Data[k] = v + w[k]
		}
	default:
		for k, v := range w {
			w[k] = 1 + v
		}
		rows.RoundSlice(product, w, w)
		for k, v := range x.Data {
			y.Data[k] = float64(v * w[k])
		}
	}
	// With a float32 product this is a float32 number before it is anything
	// else. It matters: half draws times a round scale lie close to ties.
	switch {
	case !p.Half() || product != fp16.Float64:
	case l == nil:
		fp16.Float32.RoundSlice(y.Data, y.Data)
	default:
		for k, v := range y.Data {
			y.Data[k] = v + float64(l.U*emulate.Rounding*v)*emulate.Deviate(salt+1, v)
		}
	}
	return y, nil
}

// advance returns the next states, from states x and outputs o of the operator.
func (g *stepGate) advance(x, o *tensor.Tensor, p emulate.Pattern, l *emulate.Legal) *tensor.Tensor {
	return g.post(x, g.sum(x, o, p, l), p, l)
}

// sum returns the sums of the policy: the next states before post-processing.
func (g *stepGate) sum(x, o *tensor.Tensor, p emulate.Pattern, l *emulate.Legal) *tensor.Tensor {
	c, m := g.e.Case.Rollout, p.Mode
	y := tensor.Like(o)
	y.Format = fp16.Float64
	share, kept, of := fp16.Float64, fp16.Float64, g.output(p)
	if p.Points&emulate.AtKept != 0 {
		kept = g.kept()
	}
	if p.Half() && p.Points&emulate.AtShare != 0 && of == m.Precision {
		share = m.Precision
	}
	a, b := m.Scalar(c.Alpha, m.Wide()), m.Scalar(1-c.Alpha, of)
	if c.Policy == rollout.Residual {
		a, b = 1, m.Scalar(c.Dt, of)
	}
	if p.Constants&emulate.OfPolicy != 0 {
		b = of.Round(b)
	}
	salt := uint64(0)
	if l != nil {
		salt = l.Salt(-1, -4)
		if l.U > g.u && c.Policy != rollout.Autoregressive {
			return l.Blend(x, o, c, g.claim.Mode, g.kept()) // its operator is worse than expected, and its policy is not
		}
	}
	for k, v := range o.Data {
		if c.Policy == rollout.Autoregressive {
			y.Data[k] = v
			continue
		}
		q := float64(b * v)
		if p.Twice {
			q = fp16.Float32.Round(q)
		}
		if l != nil && share == fp16.Float64 {
			q += float64(l.U*emulate.Rounding*q) * emulate.Deviate(salt, q)
		}
		q = share.Round(q)
		old := float64(a * x.Data[k])
		if p.Twice && kept != fp16.Float64 {
			old = fp16.Float32.Round(old)
		}
		w := kept.Round(old) + q
		if l != nil {
			w += float64(l.U*emulate.Rounding*(math.Abs(w)+math.Abs(a*x.Data[k]))) * emulate.Deviate(salt+1, w)
		}
		y.Data[k] = w
	}
	switch {
	case m.Precision == fp16.Float64: // the truth
	case g.kept() != fp16.Float64:
		g.kept().RoundSlice(y.Data, y.Data)
	case p.Half() && of == m.Precision && c.Policy == rollout.Autoregressive:
		p.Mode.Precision.RoundSlice(y.Data, y.Data) // the state's type
	}
	return y
}

// post returns the next states of sums y, from states x: the post-processing.
func (g *stepGate) post(x, y *tensor.Tensor, p emulate.Pattern, l *emulate.Legal) *tensor.Tensor {
	c, state := g.e.Case.Rollout, g.kept()
	switch {
	case p.Mode.Precision == fp16.Float64: // the truth
		state = fp16.Float64
	case p.Half():
		state = g.half()
	}
	c.Policy = rollout.Autoregressive // of y
	if p.Twice && state != fp16.Float64 && g.normalizesHalf() {
		normalizeTensors(c, y, state)
		c.Normalization = rollout.NoNormalization // what is left is to clamp
	}
	y = c.Advance(x, y, fp16.Float64, graph.Mode{Precision: fp16.Float64})
	if l != nil && g.e.Case.Rollout.Normalization != rollout.NoNormalization {
		salt := l.Salt(-1, -4)
		for k, v := range y.Data {
			y.Data[k] = v + float64(2*emulate.Rounding*l.U*v)*emulate.Deviate(salt+2, v)
		}
	}
	rows.RoundSlice(state, y.Data, y.Data)
	return y
}
