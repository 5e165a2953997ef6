package molecule

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// builder makes the graph of a network.
type builder struct {
	*graph.Graph
	m            *Model
	wide         fp16.Format
	half         bool // the mode is one of autocast
	atoms, pairs int
	fault        string // what a wrong network has instead, of faults

	z, positions, i, j int
	r, d, u            int // of each pair: the vector to who sends, its length, its direction
}

// distances makes r = x_j - x_i [P,3], d = |r| [P,1] and u = r/d [P,3]. From r, which is rounded to the
// format of positions, to what networks take of it, all is in float64 in every mode and rounded once,
// in [builder.rounded]: a float32 angle of 20 pi d/rc is off by 2e-6, and forces have its derivative.
func (b *builder) distances() {
	xi := b.take("x_i", b.positions, b.i)
	xj := b.take("x_j", b.positions, b.j)
	if b.fault == faultSender {
		b.j = b.i
	}
	b.r = b.binary(pointwise.Sub, "r", xj, xi)
	b.r = b.Add(graph.Cast{Dtype: "float64"}, "r.wide", b.r)
	b.d = b.Add(graph.VectorNorm{Order: 2, Axes: graph.Ints{1}, Keep: true}, "d", b.r)
	length := b.d
	if b.m.Config.Kind == PaiNNFilter {
		length = b.plus("d.eps", b.d, 1e-8)
	}
	b.u = b.rounded("u", b.binary(pointwise.Div, "u.wide", b.r, length))
}

// rounded is a value of float64 numbers in the widest format of the mode.
func (b *builder) rounded(name string, x int) int {
	return b.Add(graph.Cast{Dtype: b.wide.String()}, name, x)
}

// weight returns a weight as a value.
func (b *builder) weight(name string) int { return b.Constant(name, b.m.weights[name]) }

// linear is a linear layer of the state dict.
func (b *builder) linear(name string, x int) int {
	in := []int{x, b.weight(name + ".weight")}
	if b.m.weights[name+".bias"] != nil {
		in = append(in, b.weight(name+".bias"))
	}
	return b.Add(graph.Linear{}, name, in...)
}

// mlp is Linear, SiLU, Linear, of an nn.Sequential.
func (b *builder) mlp(name string, x int) int {
	return b.linear(name+".2", b.Add(graph.Act{Func: act.SiLU}, name+".1", b.linear(name+".0", x)))
}

func (b *builder) binary(op pointwise.Op, name string, x, y int) int {
	return b.Add(graph.Binary{Of: op}, name, x, y)
}

// times is a number times a value.
func (b *builder) times(name string, by float64, x int) int {
	return b.Add(graph.Binary{Of: pointwise.Mul, Other: &by}, name, x)
}

// plus is a value and a number.
func (b *builder) plus(name string, x int, v float64) int {
	return b.Add(graph.Binary{Of: pointwise.Add, Other: &v}, name, x)
}

func (b *builder) function(f, name string, x int) int {
	of, err := pointwise.Parse(f, nil)
	if err != nil {
		panic("molecule: " + err.Error())
	}
	return b.Add(graph.Unary{Func: of}, name, x)
}

// take takes rows of a value by an index.
func (b *builder) take(name string, x, index int) int {
	return b.Add(graph.IndexSelect{}, name, x, index)
}

// gathered adds the rows of what pairs send to those of who receives it, one sum, rounded once. Of
// no old value it is added to zeros of that shape.
func (b *builder) gathered(name string, old, sent int, shape ...int) int {
	sent = b.widened(name+".cast", sent)
	if old < 0 {
		old = b.Constant(name+".zero", tensor.New(b.wide, shape...))
	}
	if b.fault == faultOverwrites {
		zero := b.Constant(name+".none", tensor.New(b.wide, shape...))
		return b.binary(pointwise.Add, name, old, b.Add(graph.IndexPut{}, name+".put", zero, b.i, sent))
	}
	return b.Add(graph.IndexAdd{}, name, old, b.i, sent)
}

// widened is a value as index_add wants it beside numbers of the widest format: of the same format,
// which autocast does not see to.
func (b *builder) widened(name string, x int) int {
	if !b.half {
		return x
	}
	return b.rounded(name, x)
}

// axis adds an axis of size 1.
func (b *builder) axis(name string, at, x int) int {
	return b.Add(graph.Unsqueeze{Axes: graph.Ints{at}}, name, x)
}

// split cuts the last axis into parts of the hidden size.
func (b *builder) split(name string, parts, x int) []int {
	return b.AddNode(graph.Split{Sizes: graph.Ints{b.m.Sizes.Hidden}, Axis: -1}, name, parts, x)
}

// constants returns numbers as a constant of float64.
func (b *builder) constants(name string, of ...float64) int {
	return b.Constant(name, tensor.Of(fp16.Float64, of, len(of)))
}

// cutoff is (cos(pi d/rc) + 1)/2 for d < rc, and 0 beyond: [P,1].
func (b *builder) cutoff() int { return b.rounded("cutoff", b.cutoffWide()) }

// cutoffWide is the cutoff in float64.
func (b *builder) cutoffWide() int {
	if b.fault == faultCutoff {
		return b.Constant("cutoff.one", tensor.Of(fp16.Float64, ones(b.pairs), b.pairs, 1))
	}
	rc := b.m.Config.Cutoff
	angle := b.binary(pointwise.Mul, "cutoff.angle", b.d, b.constants("cutoff.wave", math.Pi/rc))
	f := b.times("cutoff.half", 0.5, b.plus("cutoff.plus", b.function("cos", "cutoff.cos", angle), 1))
	inside := b.binary(pointwise.Less, "cutoff.inside", b.d, b.constants("cutoff.end", rc))
	return b.Add(graph.Where{}, "cutoff.wide", inside, f, b.constants("cutoff.zero", 0))
}

func ones(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// cutBessel is fc times sin(n pi d/rc)/d for n = 1, 2, ..., and fc itself: [P,R+1].
func (b *builder) cutBessel() int {
	var waves []float64
	for n := range b.m.Sizes.Radial {
		waves = append(waves, float64(n+1)*math.Pi/b.m.Config.Cutoff)
	}
	fc := b.cutoffWide()
	angle := b.binary(pointwise.Mul, "radial.angle", b.d, b.constants("radial.waves", waves...))
	cut := b.binary(pointwise.Mul, "radial.cut", b.function("sin", "radial.sin", angle),
		b.binary(pointwise.Div, "cutoff.over", fc, b.d))
	return b.rounded("radial", b.Add(graph.Cat{Axis: 1}, "radial.wide", cut, fc))
}

// gaussians is exp(-c (d - mu)^2), with c a number or one for each centre: [P,R].
func (b *builder) gaussians(centres string, c ...float64) int {
	away := b.binary(pointwise.Sub, "radial.away", b.d, b.weight(centres))
	square := b.function("square", "radial.square", away)
	return b.rounded("radial", b.function("exp", "radial.wide",
		b.binary(pointwise.Mul, "radial.exponent", square, b.constants("radial.widths", c...))))
}

// name is the name of a layer's part.
func name(layer int, format string) string { return fmt.Sprintf(format, layer) }
