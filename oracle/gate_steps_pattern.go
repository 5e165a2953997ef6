package oracle

import (
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// points are places where a device may round to its half type.
type points uint16

// The points, in the order of execution.
const (
	atConv    points = 1 << iota
	atBias           // the convolution before its bias is added, beside the sum after it
	atNorm           //
	atAct            //
	atSum            // of a residual block
	atDraw           // the noise's draw,
	atProduct        // its product with the scale,
	atNoise          // and the noisy tensor
	atOut            // the operator's output
	atShare          // the output's share of the next state, dt O or (1-alpha) O
	allPoints = atShare<<1 - 1
)

var pointNames = []string{"conv", "bias", "norm", "act", "sum", "draw", "product", "noise", "out", "share"}

// String returns the points in words.
func (p points) String() string {
	var names []string
	for i, name := range pointNames {
		if p>>i&1 != 0 && name != "bias" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "stores nothing"
	}
	s := "stores " + strings.Join(names, ", ")
	if p&atBias != 0 {
		s += "; bias apart"
	}
	return s
}

// pattern is one way in which a correct device may compute a step: a mode, and
// the points at which it rounds to the mode's half type. In modes without a
// half type the points are none.
type pattern struct {
	mode   operator.Mode
	points points
	// odd has the nodes, by their bits, that are stored where points has not
	// their kind, and those that are not where it has.
	odd uint64
	// operands has the modes of single convolutions, a byte for each node: an index to
	// operandModes, from 1 on, or 0 for mode. It is empty if mode is that of all.
	operands string
	// twice rounds the products of half numbers and float32 constants, noise's
	// and the share, to float32 before the half type, as most devices do.
	twice bool
	// narrow rounds every operation inside SiLU to the half type, as the CPU of
	// PyTorch 1.13 does.
	narrow bool
	// plain keeps the statistics of instance norms without parameters in the
	// half type, as the CPU of PyTorch 2 does.
	plain bool
	// added makes multiplicative noise of draws n and scale s as x + x (n s), which
	// loses less than x (1 + n s).
	added bool
}

func (p pattern) half() bool {
	return p.mode.Precision == fp16.Float16 || p.mode.Precision == fp16.BFloat16
}

func (p pattern) isOdd(i int) bool { return i < mostTraced && p.odd>>i&1 != 0 }

// whole reports whether the pattern rounds wherever its mode's contract does.
func (p pattern) whole(nodes []operator.Node, c rollout.Config) bool {
	return p.odd == 0 && p.operands == "" && p.points == contract(nodes, c, p.mode).points
}

// discrete reports whether the pattern rounds coarsely somewhere, so that
// float32 errors decide about few roundings, and an emulation of it is close.
func (p pattern) discrete() bool { return p.half() || p.mode.Precision == fp16.TF32 }

// contract returns the pattern of the contract of a mode.
func contract(nodes []operator.Node, c rollout.Config, m operator.Mode) pattern {
	p := pattern{mode: m}
	if p.half() {
		p.points = pointsOf(nodes, c, m)
	}
	return p
}

// pointsOf returns the points that an operator in a half mode has at all: in the first
// step, whose input is wide, or in those from states that may be half numbers.
func pointsOf(nodes []operator.Node, c rollout.Config, m operator.Mode) (p points) {
	out := formatsOf(nodes, m, m.Wide())[len(nodes)-1]
	for _, input := range [2]fp16.Format{m.Wide(), c.StateFormat(out)} {
		of := formatsOf(nodes, m, input)
		for i := range nodes {
			if of[i] != m.Precision {
				continue
			}
			p |= pointOf(nodes, i)
			switch n := &nodes[i]; {
			case n.Op == operator.OpConv && n.Bias != nil && m.BiasApart():
				p |= atBias
			case n.Op == operator.OpNoise && n.Noise.Type != noise.Dropout:
				p |= atDraw | atProduct
			}
		}
	}
	if c.Policy != rollout.Autoregressive && out == m.Precision {
		p |= atShare
	}
	return p
}

// pointOf returns the point at which node i is stored; none for an identity,
// which hands on what is.
func pointOf(nodes []operator.Node, i int) points {
	last := len(nodes) - 1
	for isIdentity(&nodes[last]) && nodes[last].In[0] != operator.Input {
		last = nodes[last].In[0]
	}
	switch n := &nodes[i]; {
	case isIdentity(n):
		return 0
	case i == last:
		return atOut
	case n.Op == operator.OpConv:
		return atConv
	case n.Op == operator.OpNorm:
		return atNorm
	case n.Op == operator.OpAct:
		return atAct
	case n.Op == operator.OpAdd:
		return atSum
	}
	return atNoise
}

// formatsOf returns the format in which the contract stores each node's output
// for an input of that format.
func formatsOf(nodes []operator.Node, m operator.Mode, input fp16.Format) []fp16.Format {
	return pattern{mode: m}.formats(nodes, input)
}

// formats returns the format that each node's output has at least: what follows from a
// convolution that runs in another mode has that one's.
func (p pattern) formats(nodes []operator.Node, input fp16.Format) []fp16.Format {
	of, modes := make([]fp16.Format, len(nodes)), p.modes(len(nodes))
	for i := range nodes {
		in := make([]fp16.Format, len(nodes[i].In))
		for k, j := range nodes[i].In {
			in[k] = input
			if j != operator.Input {
				in[k] = of[j]
			}
		}
		m := p.mode
		if modes != nil {
			m = modes[i]
		}
		var err error
		if _, of[i], err = nodes[i].Formats(m, in...); err != nil {
			of[i] = fp16.Float32 // what PyTorch refuses, a device may still compute
		}
	}
	return of
}

// device returns the emulation of a pattern; legal, if not nil, disturbs it.
// Numbers that are stored in float32 are not rounded: their errors are legal's.
func (g *stepGate) device(p pattern, t int, l *legal) *emulate.Device {
	nodes := g.e.machine.Nodes
	d := &emulate.Device{Mode: p.mode, BiasTogether: p.points&atBias == 0, Store: make([]fp16.Format, len(nodes)), Operands: p.modes(len(nodes))}
	if l != nil {
		l.half, l.apart, l.modes = p.half(), p.half() && p.points&atBias != 0 && p.mode.BiasApart(), d.Operands
		d.Perturb, d.Sum = l.disturb, l.sum
	}
	of := p.formats(nodes, g.input(p, t))
	for i, f := range of {
		if at := pointOf(nodes, i); p.half() && f == p.mode.Precision && at != 0 && (p.points&at != 0) != p.isOdd(i) {
			d.Store[i] = f
		}
	}
	// The machine rounds the contract's noise by itself.
	if fewer := p.half() && (p.added || !p.whole(nodes, g.e.c.Rollout)); g.draws != nil && (l != nil || fewer) {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if nodes[i].Op != operator.OpNoise {
				return nil, nil
			}
			return g.noisy(i, &nodes[i].Noise, g.draws, in[0], p, of[i], l)
		}
	}
	if noisy := d.Replace; p.narrow {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if nodes[i].Op == operator.OpAct && nodes[i].Act == act.SiLU && of[i] == p.mode.Precision {
				return narrowSiLU(in[0], of[i]), nil
			}
			if noisy == nil {
				return nil, nil
			}
			return noisy(i, in)
		}
	}
	if other := d.Replace; p.plain {
		plain := plainNorms(g.e.op.Config, nodes, p.mode)
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if plain[i] && of[i] == p.mode.Precision {
				return g.plainNorm(i, of[i], in[0]), nil
			}
			if other == nil {
				return nil, nil
			}
			return other(i, in)
		}
	}
	d.Update = func(x, o *tensor.Tensor) *tensor.Tensor { return g.advance(x, o, p, l) }
	return d
}

// input returns the format of the states before step t.
func (g *stepGate) input(p pattern, t int) fp16.Format {
	if t == 1 {
		return p.mode.Wide()
	}
	return g.e.c.Rollout.StateFormat(g.output(p))
}

// output returns the format of the operator's output.
func (g *stepGate) output(p pattern) fp16.Format {
	nodes := g.e.machine.Nodes
	return p.formats(nodes, p.mode.Wide())[len(nodes)-1]
}

// narrowSiLU is x/(1 + e^-x), each operation rounded to f.
func narrowSiLU(x *tensor.Tensor, f fp16.Format) *tensor.Tensor {
	y := tensor.Like(x)
	for k, v := range x.Data {
		y.Data[k] = v / f.Round(1+f.Round(elem.Exp(-v)))
	}
	return y
}

// noisy applies noise node i to x, rounding draw and product to f where the
// pattern does. b is the node's block, all the step's draws, unless a fault is
// tried.
func (g *stepGate) noisy(i int, b *noise.Block, all *emulate.Draws, x *tensor.Tensor, p pattern, f fp16.Format, l *legal) (*tensor.Tensor, error) {
	d := g.drawsOf(i, all)
	narrow := func(at points) fp16.Format {
		if p.half() && f == p.mode.Precision && p.points&at != 0 {
			return f
		}
		return fp16.Float64
	}
	draw, product := narrow(atDraw), narrow(atProduct)
	if b.Type == noise.Dropout { // what becomes of 1: 0, or 1/(1-p) in the tensor's type
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
	if b.NarrowScale {
		s = f.Round(s)
	}
	y := x.Clone()
	n := d.Data[0]
	salt := uint64(0)
	if l != nil {
		salt = l.salt(i, -3)
	}
	for k, v := range x.Data {
		w := n[k]
		if l != nil { // a float32 ulp beside the draw
			w += float64(l.u*w) * 1.2 * deviate(salt, w)
		}
		w = draw.Round(w)
		if b.Type == noise.Laplace {
			switch sign := d.Data[1][k]; {
			case sign < 0:
				w = -w
			case sign == 0:
				w = 0
			}
		}
		w = float64(w * s)
		if p.twice {
			w = fp16.Float32.Round(w)
		}
		w = product.Round(w)
		switch {
		case b.Type != noise.Multiplicative:
			w = v + w
		case p.added:
			w = v + product.Round(float64(v*w))
		default:
			w = float64(v * product.Round(1+w))
		}
		// With a float32 product this is a float32 number before it is anything
		// else. It matters: half draws times a round scale lie close to ties.
		switch {
		case !p.half() || product != fp16.Float64:
		case l == nil:
			w = fp16.Float32.Round(w)
		default:
			w += float64(l.u*rounding*w) * deviate(salt+1, w)
		}
		y.Data[k] = w
	}
	return y, nil
}

// advance returns the next states, from states x and outputs o of the operator.
func (g *stepGate) advance(x, o *tensor.Tensor, p pattern, l *legal) *tensor.Tensor {
	c, m := g.e.c.Rollout, p.mode
	y := tensor.Like(o)
	y.Format = fp16.Float64
	share, of := fp16.Float64, g.output(p)
	if p.half() && p.points&atShare != 0 && of == m.Precision {
		share = m.Precision
	}
	a, b := m.Scalar(c.Alpha, m.Wide()), m.Scalar(1-c.Alpha, of)
	if c.Policy == rollout.Residual {
		a, b = 1, m.Scalar(c.Dt, of)
	}
	salt := uint64(0)
	if l != nil {
		salt = l.salt(-1, -4)
	}
	for k, v := range o.Data {
		if c.Policy == rollout.Autoregressive {
			y.Data[k] = v
			continue
		}
		q := float64(b * v)
		if p.twice {
			q = fp16.Float32.Round(q)
		}
		if l != nil && share == fp16.Float64 {
			q += float64(l.u*rounding*q) * deviate(salt, q)
		}
		q = share.Round(q)
		w := float64(a*x.Data[k]) + q
		if l != nil {
			w += float64(l.u*rounding*(math.Abs(w)+math.Abs(a*x.Data[k]))) * deviate(salt+1, w)
		}
		y.Data[k] = w
	}
	if p.half() && of == m.Precision && c.Policy == rollout.Autoregressive {
		p.mode.Precision.RoundSlice(y.Data, y.Data) // the state's type
	}
	state := fp16.Float64 // the type of a normalized state, if it is a half one
	if p.half() && g.normalizesHalf() {
		state = p.mode.Precision
	}
	c.Policy = rollout.Autoregressive // the rest of the step: the post-processing
	if p.twice && state != fp16.Float64 {
		normalizeTensors(c, y, state)
		c.Normalization = rollout.NoNormalization // what is left is to clamp
	}
	y = c.Advance(x, y, fp16.Float64, operator.Mode{Precision: fp16.Float64})
	if l != nil && g.e.c.Rollout.Normalization != rollout.NoNormalization {
		for k, v := range y.Data {
			y.Data[k] = v + float64(2*rounding*l.u*v)*deviate(salt+2, v)
		}
	}
	state.RoundSlice(y.Data, y.Data)
	return y
}

// stores says in words what a pattern stores.
func (p pattern) stores(nodes []operator.Node) string {
	var also, not []string
	for i := range nodes {
		switch {
		case !p.isOdd(i):
		case p.points&pointOf(nodes, i) != 0:
			not = append(not, nodes[i].Name)
		default:
			also = append(also, nodes[i].Name)
		}
	}
	s := p.points.String()
	if also != nil {
		s += "; also " + strings.Join(also, ", ")
	}
	if not != nil {
		s += "; not " + strings.Join(not, ", ")
	}
	return s
}

// name names a pattern among the contracts: the claim's own name, or a
// neighbour's.
func (p pattern) name(state fp16.Format, stream string, whole bool) string {
	s := fmt.Sprintf("%v/state-%v/noise-%s", p.mode, state, stream)
	if p.half() && !whole {
		s += " with fewer roundings"
	}
	if p.operands != "" {
		s += " with other operands"
	}
	if p.narrow {
		s += " with SiLU in " + p.mode.Precision.String()
	}
	if p.plain {
		s += " with " + plainHow(p.mode.Precision)
	}
	if p.added {
		s += " with noise " + addedHow
	}
	return s
}
