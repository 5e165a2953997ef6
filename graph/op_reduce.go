package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/index"
	"github.com/refrun/refrun/internal/op/reduce"
	"github.com/refrun/refrun/tensor"
)

// Reduction makes one number of all along axes: sum, mean, prod, amax, amin, logsumexp, ONNX's
// sum_squares and log_sum, or of
// numbers as truths, not 0 being true, any and all. See package [reduce].
type Reduction struct {
	Of   string `json:"-"`
	Axes Ints   `json:"dim"` // none for all
	Keep bool   `json:"keepdim"`
}

// Var is the variance along axes: var, or its root: std. See [reduce.Var].
type Var struct {
	Root       bool `json:"-"`
	Axes       Ints `json:"dim"`
	Correction *int `json:"correction"` // nil for 1
	Keep       bool `json:"keepdim"`
}

// VectorNorm is linalg_vector_norm. See [reduce.Norm].
type VectorNorm struct {
	Order Order `json:"ord"`
	Axes  Ints  `json:"dim"`
	Keep  bool  `json:"keepdim"`
}

// Order is that of a norm: 0, 1, 2, or in JSON the strings inf and -inf.
type Order float64

// Extreme is the greatest number, or the least one, along an axis, with a second output that
// says where it is; or without an axis that of all: max, min. A NaN is the greatest and the
// least, and of equal numbers the first counts.
type Extreme struct {
	Least bool `json:"-"`
	Axis  *int `json:"dim"`
	Keep  bool `json:"keepdim"`
}

// Softmax is softmax, or its logarithm: log_softmax. See [reduce.Softmax].
type Softmax struct {
	Log  bool `json:"-"`
	Axis int  `json:"dim"`
}

// CumSum is cumsum, with ONNX's attributes. See [reduce.CumSum].
type CumSum struct {
	Axis      int  `json:"dim"`
	Exclusive bool `json:"exclusive"`
	Reverse   bool `json:"reverse"`
}

// MeanVariance is ONNX's mean_variance_normalization, (x-mean)/(deviation + 1e-9). See
// [reduce.Standardize].
type MeanVariance struct {
	Axes Ints `json:"axes"` // none for all
}

// UnmarshalJSON reads a number or a string.
func (o *Order) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"inf"`:
		*o = Order(math.Inf(1))
	case `"-inf"`:
		*o = Order(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(o))
	}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (o Order) MarshalJSON() ([]byte, error) {
	switch {
	case math.IsInf(float64(o), 1):
		return []byte(`"inf"`), nil
	case math.IsInf(float64(o), -1):
		return []byte(`"-inf"`), nil
	}
	return json.Marshal(float64(o))
}

// Name implements [Op].
func (o Reduction) Name() string { return o.Of }

// Name implements [Op].
func (o Var) Name() string {
	if o.Root {
		return "std"
	}
	return "var"
}

// Name implements [Op].
func (VectorNorm) Name() string { return "linalg_vector_norm" }

// Name implements [Op].
func (o Extreme) Name() string {
	if o.Least {
		return "min"
	}
	return "max"
}

// Name implements [Op].
func (o Softmax) Name() string {
	if o.Log {
		return "log_softmax"
	}
	return "softmax"
}

// Name implements [Op].
func (CumSum) Name() string { return "cumsum" }

var overAxes = map[string]func(dst, src *tensor.Tensor, axes ...int){
	"sum": reduce.Sum, "mean": reduce.Mean, "prod": reduce.Prod, "amax": reduce.Max, "amin": reduce.Min,
	"logsumexp": reduce.LogSumExp, "log_sum": reduce.LogSum, "sum_squares": reduce.SumSquares, "any": reduce.Any,
	"all": reduce.All,
}

// Name implements [Op].
func (MeanVariance) Name() string { return "mean_variance_normalization" }

// wholeReductions are the overAxes that whole numbers have too.
var wholeReductions = []string{"sum", "prod", "amax", "amin", "max", "min", "any", "all", "cumsum"}

// one checks that there is one input, of numbers that the operation has.
func one(o Op, in []Type) error {
	if err := arity(in, 1, 1); err != nil {
		return err
	}
	if !slices.Contains(wholeReductions, o.Name()) {
		return real(in)
	}
	return nil
}

// reduced is the inference of an operation that makes one number of all along axes. Where it
// needs some there must be some.
func reduced(m Mode, o Op, in []Type, axes Ints, keep, some bool) (Inference, error) {
	if err := one(o, in); err != nil {
		return Inference{}, err
	}
	x := in[0].Shape
	all, err := axesOf("dim", axes, len(x))
	if err != nil {
		return Inference{}, err
	}
	shape, n := []int{}, 1
	for a, d := range x {
		switch {
		case !slices.Contains(all, a):
			shape = append(shape, d)
			continue
		case keep:
			shape = append(shape, 1)
		}
		n = min(n, d)
	}
	if some && n == 0 {
		return Inference{}, fmt.Errorf("input of shape %v: want numbers along the axes %v", x, all)
	}
	return moved(m, o, in, shape, nil)
}

// axesOf returns axes of a tensor of that rank, or an error; all for none. A number has an axis
// too.
func axesOf(name string, axes Ints, rank int) ([]int, error) {
	var all []int
	for _, given := range axes {
		a, err := axis(name, given, max(rank, 1))
		if err != nil {
			return nil, err
		}
		if slices.Contains(all, a) {
			return nil, fmt.Errorf("%s: %s: want each axis once", name, shown(axes))
		}
		all = append(all, a)
	}
	if len(axes) == 0 {
		for a := range max(rank, 1) {
			all = append(all, a)
		}
	}
	return all, nil
}

// alongAxis is the inference of an operation whose output has the input's shape.
func alongAxis(m Mode, o Op, in []Type, at int) (Inference, error) {
	if err := one(o, in); err != nil {
		return Inference{}, err
	}
	_, err := axis("dim", at, max(len(in[0].Shape), 1))
	return moved(m, o, in, in[0].Shape, err)
}

// Infer implements [Op].
func (o Reduction) Infer(m Mode, in []Type) (Inference, error) {
	inf, err := reduced(m, o, in, o.Axes, o.Keep, o.Of == "amax" || o.Of == "amin")
	if err == nil && (o.Of == "any" || o.Of == "all") {
		inf.Out[0].Format = fp16.Int64
	}
	return inf, err
}

// Infer implements [Op].
func (o Var) Infer(m Mode, in []Type) (Inference, error) {
	if c := o.correction(); c < 0 {
		return Inference{}, fmt.Errorf("correction: %d: want 0 or more", c)
	}
	return reduced(m, o, in, o.Axes, o.Keep, false)
}

func (o Var) correction() int {
	if o.Correction == nil {
		return 1
	}
	return *o.Correction
}

// Infer implements [Op].
func (o VectorNorm) Infer(m Mode, in []Type) (Inference, error) {
	if p := float64(o.Order); p != 0 && p != 1 && p != 2 && !math.IsInf(p, 0) {
		return Inference{}, fmt.Errorf("ord: %v: want 0, 1, 2, inf or -inf", p)
	}
	return reduced(m, o, in, o.Axes, o.Keep, math.IsInf(float64(o.Order), 0))
}

// Infer implements [Op].
func (o Extreme) Infer(m Mode, in []Type) (Inference, error) {
	var axes Ints
	if o.Axis != nil {
		axes = Ints{*o.Axis}
	} else if o.Keep {
		return Inference{}, fmt.Errorf("keepdim: true: want dim beside it")
	}
	inf, err := reduced(m, o, in, axes, o.Keep, true)
	if err == nil && o.Axis != nil {
		inf.Out = append(inf.Out, Type{inf.Out[0].Shape, fp16.Int64})
	}
	return inf, err
}

// Infer implements [Op].
func (o Softmax) Infer(m Mode, in []Type) (Inference, error) { return alongAxis(m, o, in, o.Axis) }

// Infer implements [Op].
func (o CumSum) Infer(m Mode, in []Type) (Inference, error) { return alongAxis(m, o, in, o.Axis) }

// Infer implements [Op].
func (o MeanVariance) Infer(m Mode, in []Type) (Inference, error) {
	if err := one(o, in); err != nil {
		return Inference{}, err
	}
	_, err := axesOf("axes", o.Axes, len(in[0].Shape))
	return moved(m, o, in, in[0].Shape, err)
}

// linesOf returns the input with the axes of it that are meant.
func linesOf(c *Call, given Ints) (x *tensor.Tensor, axes []int) {
	x = lineal(c.In(0))
	axes, _ = axesOf("dim", given, len(x.Shape))
	return x, axes
}

// Eval implements [Op].
func (o Reduction) Eval(c *Call) error {
	x, axes := linesOf(c, o.Axes)
	overAxes[o.Of](c.Out[0], x, axes...)
	return wholes(c.Out[0])
}

// Eval implements [Op].
func (o Var) Eval(c *Call) error {
	x, axes := linesOf(c, o.Axes)
	if o.Root {
		reduce.Std(c.Out[0], x, o.correction(), axes...)
	} else {
		reduce.Var(c.Out[0], x, o.correction(), axes...)
	}
	return nil
}

// Eval implements [Op].
func (o VectorNorm) Eval(c *Call) error {
	x, axes := linesOf(c, o.Axes)
	reduce.Norm(c.Out[0], x, float64(o.Order), axes...)
	return nil
}

// Eval implements [Op].
func (o Extreme) Eval(c *Call) error {
	if o.Axis == nil {
		x, axes := linesOf(c, nil)
		if o.Least {
			reduce.Min(c.Out[0], x, axes...)
		} else {
			reduce.Max(c.Out[0], x, axes...)
		}
		return nil
	}
	x, axes := linesOf(c, Ints{*o.Axis})
	index.ArgMax(c.Out[1], x, axes[0], o.Least)
	n, inner := x.Shape[axes[0]], elementsOf(x.Shape[axes[0]+1:])
	for i, place := range c.Out[1].Data {
		c.Out[0].Data[i] = x.Data[(i/inner*n+int(place))*inner+i%inner]
	}
	return nil
}

// Eval implements [Op].
func (o Softmax) Eval(c *Call) error {
	x, axes := linesOf(c, Ints{o.Axis})
	switch {
	case o.Log:
		reduce.LogSoftmax(lineal(c.Out[0]), x, axes...)
	case c.Mode.Fast && o.fast(len(x.Shape)):
		reduce.ForwardFastSoftmax(lineal(c.Out[0]), x)
	default:
		reduce.Softmax(lineal(c.Out[0]), x, axes...)
	}
	return nil
}

// Eval implements [Op].
func (o CumSum) Eval(c *Call) error {
	x, axes := linesOf(c, Ints{o.Axis})
	reduce.CumSum(lineal(c.Out[0]), x, axes[0], o.Exclusive, o.Reverse)
	return wholes(c.Out[0])
}

// Eval implements [Op]. The number that ONNX adds is a float32 one.
func (o MeanVariance) Eval(c *Call) error {
	x, axes := linesOf(c, o.Axes)
	reduce.Standardize(lineal(c.Out[0]), x, c.Mode.Scalar(1e-9, fp16.Float32), axes...)
	return nil
}

// fast reports whether fast arithmetic has it, for an input of so many axes.
func (o Softmax) fast(rank int) bool { return !o.Log && (o.Axis == -1 || o.Axis == rank-1) }

func (Softmax) inPlace()      {}
func (CumSum) inPlace()       {}
func (MeanVariance) inPlace() {}

func init() {
	for name, c := range map[string]casts{
		"sum": since2(wide, same), "mean": since2(same, same), "prod": since2(wide, wide), "amax": since2(same, same),
		"amin":      since2(same, same),
		"logsumexp": since2(wide, same), "log_sum": since2(wide, same), "sum_squares": since2(wide, same),
		"any": since2(same, same), "all": since2(same, same),
	} {
		register(Reduction{Of: name}, c)
	}
	register(Var{}, since2(same, same))
	register(Var{Root: true}, since2(same, same))
	register(VectorNorm{Order: 2}, since2(wide, same))
	register(Extreme{}, since2(same, same))
	register(Extreme{Least: true}, since2(same, same))
	register(Softmax{Axis: -1}, since2(wide, same))
	register(Softmax{Log: true, Axis: -1}, since2(wide, same))
	register(CumSum{}, since2(wide, same))
	register(MeanVariance{Axes: Ints{0, 2, 3}}, since2(same, same))
}
