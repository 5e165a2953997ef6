package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/reduce"
)

// InverseStd is inverse_std, 1/sqrt(var+eps) along axes with the biased variance: what a layer
// norm multiplies by. See [reduce.InverseStd].
type InverseStd struct {
	Axes Ints    `json:"dim"` // none for all
	Eps  float64 `json:"eps"`
	Keep bool    `json:"keepdim"`
}

// Running is running_mean, or running_var: of an input [N,C,...] and old statistics [C],
// momentum times the old one and 1-momentum times that of each channel. See
// [reduce.RunningMean] and [reduce.RunningVar].
type Running struct {
	Var      bool    `json:"-"`
	Momentum float64 `json:"momentum"`
}

// LpNormalize is lp_normalize: numbers over the norm of order 1 or 2 along an axis. See
// [reduce.Normalize].
type LpNormalize struct {
	P    int `json:"p"`
	Axis int `json:"dim"`
}

// Name implements [Op].
func (InverseStd) Name() string { return "inverse_std" }

// Name implements [Op].
func (o Running) Name() string {
	if o.Var {
		return "running_var"
	}
	return "running_mean"
}

// Name implements [Op].
func (LpNormalize) Name() string { return "lp_normalize" }

// Infer implements [Op].
func (o InverseStd) Infer(m Mode, in []Type) (Inference, error) {
	if !(o.Eps >= 0 && o.Eps <= math.MaxFloat64) {
		return Inference{}, fmt.Errorf("eps: %v: want 0 or more", o.Eps)
	}
	return reduced(m, o, in, o.Axes, o.Keep, false)
}

// Infer implements [Op].
func (o Running) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 2, 2); err != nil {
		return Inference{}, err
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	x, old := in[0].Shape, in[1].Shape
	switch {
	case !(o.Momentum >= 0 && o.Momentum <= 1):
		return Inference{}, fmt.Errorf("momentum: %v: want 0 to 1", o.Momentum)
	case len(x) < 2 || !slices.Equal(old, x[1:2]):
		return Inference{}, fmt.Errorf("inputs of shapes %v and %v: want [N,C,...] and [C]", x, old)
	}
	f, err := m.Result(o.Name(), in[1].Format)
	if err == nil && in[0].Format == fp16.Float64 && f != fp16.Float64 {
		err = fmt.Errorf("input 0: float64 numbers beside %v ones: want old statistics in float64 too", f)
	}
	return Inference{Out: []Type{{old, f}}}, err
}

// Infer implements [Op].
func (o LpNormalize) Infer(m Mode, in []Type) (Inference, error) {
	if o.P != 1 && o.P != 2 {
		return Inference{}, fmt.Errorf("p: %d: want 1 or 2", o.P)
	}
	return alongAxis(m, o, in, o.Axis)
}

// Eval implements [Op].
func (o InverseStd) Eval(c *Call) error {
	x, axes := linesOf(c, o.Axes)
	reduce.InverseStd(c.Out[0], x, o.Eps, axes...)
	return nil
}

// Eval implements [Op].
func (o Running) Eval(c *Call) error {
	axes := []int{0}
	for a := 2; a < len(c.In(0).Shape); a++ {
		axes = append(axes, a)
	}
	if o.Var {
		reduce.RunningVar(c.Out[0], c.In(1), c.In(0), o.Momentum, axes...)
	} else {
		reduce.RunningMean(c.Out[0], c.In(1), c.In(0), o.Momentum, axes...)
	}
	return nil
}

// Eval implements [Op].
func (o LpNormalize) Eval(c *Call) error {
	x, axes := linesOf(c, Ints{o.Axis})
	reduce.Normalize(lineal(c.Out[0]), x, o.P, axes...)
	return nil
}

func (LpNormalize) inPlace() {}

func init() {
	register(InverseStd{Eps: 1e-5}, since2(same, same))
	register(Running{Momentum: 0.9}, since2(same, same))
	register(Running{Var: true, Momentum: 0.9}, since2(same, same))
	register(LpNormalize{P: 2, Axis: -1}, since2(same, same))
}
