package fault

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// activation is another function than the claimed one.
func activation(row *table.Row, f func(x float64) float64) *trial.Fault {
	return &trial.Fault{Row: row, At: emulate.IsAct, Node: func(v *trial.View, i int) *tensor.Tensor {
		x := v.In(i, 0)
		return tensor.Of(x.Format, mapped(x.Data, f), x.Shape...)
	}}
}

// exactly is an activation function of package act for the claimed one.
func exactly(row *table.Row, f act.Func) *trial.Fault {
	return &trial.Fault{Row: row, At: emulate.IsAct, Node: func(v *trial.View, i int) *tensor.Tensor {
		claimed := v.Machine.Nodes[i].Act
		if claimed == f || claimed == act.GELUTanh && f == act.GELU && row.ID != "act.erf-gelu" {
			return nil
		}
		x := v.In(i, 0)
		y := tensor.Like(x)
		act.Forward(y, x, f)
		return y
	}}
}

func logistic(x float64) float64 { return 1 / (1 + elem.Exp(-x)) }

func activationFaults() []*trial.Fault {
	// Approximations of a function are for that function only.
	of := func(f act.Func, h *trial.Fault) *trial.Fault {
		node := h.Node
		h.Node = func(v *trial.View, i int) *tensor.Tensor {
			if v.Machine.Nodes[i].Act != f {
				return nil
			}
			return node(v, i)
		}
		return h
	}
	approximate := func(row *table.Row, f func(x float64) float64) *trial.Fault {
		return activation(row, f)
	}
	pade := func(x float64) float64 {
		x = max(-3, min(3, x))
		s := float64(x * x)
		return x * (27 + s) / (27 + float64(9*s))
	}
	inHalf := func(f fp16.Format) func(float64) float64 {
		// the coefficients of 0.5 x (1 + tanh(a (x + b x^3))), rounded
		a, b := f.Round(math.Sqrt(2/math.Pi)), f.Round(0.044715)
		return func(x float64) float64 { return 0.5 * x * (1 + elem.Tanh(a*(x+float64(b*x*x*x)))) }
	}
	tanhGELU := exactly(Named("act.tanh-gelu"), act.GELUTanh)
	l := []*trial.Fault{
		of(act.GELU, tanhGELU),
		of(act.GELU, activation(Named("act.sigmoid-gelu"), func(x float64) float64 { return x * logistic(1.702*x) })),
		of(act.GELUTanh, exactly(Named("act.erf-gelu"), act.GELU)),
		of(act.GELUTanh, activation(Named("act.sigmoid-gelu"), func(x float64) float64 { return x * logistic(1.702*x) })),
		of(act.GELUTanh, activation(Named("act.tanh-gelu-with-coefficients-in-float16"), inHalf(fp16.Float16))),
		of(act.GELUTanh, activation(Named("act.tanh-gelu-with-coefficients-in-bfloat16"), inHalf(fp16.BFloat16))),
		of(act.SiLU, activation(Named("act.hard-swish"), func(x float64) float64 { return x * max(0, min(1, (x+3)/6)) })),
		of(act.Tanh, approximate(Named("act.tanh-by-x-27-x-2-27-9x-2"), pade)),
		of(act.Tanh, activation(Named("act.hard-tanh"), func(x float64) float64 { return max(-1, min(1, x)) })),
		of(act.GELU, approximate(Named("act.gelu-with-1-sqrt-2-as-0-7071"),
			func(x float64) float64 { return 0.5 * x * elem.Erfc(-0.7071*x) })),
		of(act.GELU, activation(Named("act.gelu-with-coefficients-in-float16"), polynomial(fp16.Float16))),
		of(act.GELU, activation(Named("act.gelu-with-coefficients-in-bfloat16"), polynomial(fp16.BFloat16))),
		of(act.SiLU, approximate(Named("act.silu-of-1-0001-x"),
			func(x float64) float64 { return 1.0001 * x * logistic(1.0001*x) })),
		of(act.Tanh, approximate(Named("act.tanh-of-1-0001-x"), func(x float64) float64 { return elem.Tanh(1.0001 * x) })),
		{Row: Named("act.activation-cut-off-above-2"), At: emulate.IsAct, Node: cutOff(2)},
		exactly(Named("act.activation-missing"), act.Identity),
		exactly(Named("act.relu-for-the-activation"), act.ReLU),
		exactly(Named("act.gelu-for-the-activation"), act.GELU),
		exactly(Named("act.silu-for-the-activation"), act.SiLU),
		exactly(Named("act.tanh-for-the-activation"), act.Tanh),
		activation(Named("act.leaky-relu-0-01-for-the-activation"), func(x float64) float64 { return max(x, 0.01*x) }),
		activation(Named("act.elu-for-the-activation"), func(x float64) float64 {
			if x > 0 {
				return x
			}
			return elem.Exp(x) - 1
		}),
		activation(Named("act.sigmoid-for-the-activation"), logistic),
		activation(Named("act.relu6-for-the-activation"), func(x float64) float64 { return max(0, min(6, x)) }),
		activation(Named("act.absolute-value-for-the-activation"), math.Abs),
		{Row: Named("act.activation-applied-twice"), At: emulate.IsAct,
			Node: func(v *trial.View, i int) *tensor.Tensor {
				x := v.In(i, 0)
				y := tensor.Like(x)
				act.Forward(y, x, v.Machine.Nodes[i].Act)
				z := tensor.Like(x)
				act.Forward(z, y, v.Machine.Nodes[i].Act)
				return z
			}},
	}
	for _, f := range []act.Func{act.Tanh, act.ReLU, act.GELU, act.SiLU} {
		h := exactly(Named("act.where-there-is-no-activation", f), f)
		h.At = emulate.IsIdentity
		l = append(l, h)
	}
	for _, step := range []float64{1. / 16, 1. / 32, 1. / 64, 1. / 128} {
		l = append(l, tabled(step))
	}
	return append(l, inHalves()...)
}

// tabled is the claimed function at the nearest of points that are so far apart.
func tabled(step float64) *trial.Fault {
	return &trial.Fault{Row: Named("act.activation-from-a-table-in-steps-of-1", 1/step), At: emulate.IsAct,
		Node: func(v *trial.View, i int) *tensor.Tensor {
			x := rounded(v.In(i, 0), func(u float64) float64 { return math.RoundToEven(u/step) * step })
			if v.Machine.Nodes[i].Act == act.ReLU {
				return nil // has no table
			}
			y := tensor.Like(x)
			act.Forward(y, x, v.Machine.Nodes[i].Act)
			return y
		}}
}

// cutOff is the claimed function, at most top.
func cutOff(top float64) func(v *trial.View, i int) *tensor.Tensor {
	return func(v *trial.View, i int) *tensor.Tensor {
		y := tensor.Like(v.In(i, 0))
		act.Forward(y, v.In(i, 0), v.Machine.Nodes[i].Act)
		for k, u := range y.Data {
			y.Data[k] = min(u, top)
		}
		return y
	}
}

// polynomial is GELU by erf's approximation of Abramowitz and Stegun, 7.1.26,
// with coefficients rounded to f.
func polynomial(f fp16.Format) func(float64) float64 {
	c := []float64{1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592}
	f.RoundSlice(c, c)
	p := f.Round(0.3275911)
	return func(x float64) float64 {
		a := math.Abs(x) * math.Sqrt(0.5)
		t, s := 1/(float64(p*a)+1), 0.0
		for _, u := range c {
			s = float64(s*t) + u
		}
		return 0.5 * x * (1 + math.Copysign(1-float64(elem.Exp(-a*a)*t*s), x))
	}
}

// inHalves are the functions with each operation rounded to a half type.
func inHalves() []*trial.Fault {
	var l []*trial.Fault
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		h := f.Round
		silu := func(x float64) float64 { x = h(x); return h(x / h(1+h(elem.Exp(-x)))) }
		tanh := func(x float64) float64 {
			x = h(x)
			e := h(elem.Exp(-2 * math.Abs(x)))
			return math.Copysign(h(h(1-e)/h(1+e)), x)
		}
		gelu := func(x float64) float64 {
			x = h(x)
			e := h(elem.Erf(h(x * h(math.Sqrt(0.5)))))
			return h(h(x*0.5) * h(1+e))
		}
		l = append(l, &trial.Fault{Row: Named("act.activation-computed-in", f), At: emulate.IsAct,
			Node: func(v *trial.View, i int) *tensor.Tensor {
				x := v.In(i, 0)
				switch v.Machine.Nodes[i].Act {
				case act.SiLU:
					return rounded(x, silu)
				case act.Tanh:
					return rounded(x, tanh)
				case act.GELU:
					return rounded(x, gelu)
				}
				return nil
			}})
	}
	return l
}
