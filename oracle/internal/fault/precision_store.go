package fault

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// storeFaults store results otherwise than the claim does.
func storeFaults() []*trial.Fault {
	var l []*trial.Fault
	kinds := []struct {
		name string
		at   func(n *operator.Node) bool
	}{
		{"convolutions", emulate.IsConv}, {"norms", emulate.IsNorm}, {"activations", emulate.IsAct},
		{"residual sums", emulate.IsAdd},
	}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		for _, k := range kinds {
			l = append(l, &trial.Fault{Row: Named("precision.results-of-stored-in", k.name, f), At: k.at, Device: narrower(f)})
		}
		l = append(l, &trial.Fault{Row: Named("precision.all-results-stored-in", f),
			At: func(*operator.Node) bool { return true }, Device: narrower(f)})
	}
	l = append(l, &trial.Fault{Row: Named("precision.residual-sum-of-float16-numbers-in-float16"), At: emulate.IsAdd,
		Node: func(v *trial.View, i int) *tensor.Tensor {
			if significant(v.Device.Mode.Precision) <= 11 && v.Device.Mode.Precision != fp16.TF32 {
				return nil
			}
			f := fp16.Float16
			a, b := v.In(i, 0), v.In(i, 1)
			y := tensor.Like(a)
			for k, u := range a.Data {
				y.Data[k] = f.Round(f.Round(u) + f.Round(b.Data[k]))
			}
			return y
		}})
	stores := func(n *operator.Node) bool { return emulate.IsConv(n) || emulate.IsNorm(n) || emulate.IsAct(n) }
	rounds := func(row *table.Row, at func(*operator.Node) bool, f func(x float64, f fp16.Format) float64) {
		l = append(l, &trial.Fault{Row: row, At: at, Device: func(v *trial.View, d emulate.Device) *emulate.Device {
			if d.Store == nil {
				return nil
			}
			plain := d
			d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) { return v.Machine.Plain(&plain, i, in, nil) }
			d.Round = func(_ int, y []float64, to fp16.Format) {
				if to == fp16.Float32 {
					to.RoundSlice(y, y)
					return
				}
				for i, u := range y {
					y[i] = f(u, to)
				}
			}
			return &d
		}})
	}
	up := func(x float64, f fp16.Format) float64 {
		if y := f.Round(x); y >= x {
			return y
		} else if y > 0 {
			return y + f.Ulp(y)
		} else if y < 0 {
			return y + below(-y, f)
		}
		return f.Smallest()
	}
	twice := func(extra int) func(x float64, f fp16.Format) float64 {
		return func(x float64, f fp16.Format) float64 {
			m, e := math.Frexp(x)
			return f.Round(math.Ldexp(math.RoundToEven(math.Ldexp(m, significant(f)+extra)), e-significant(f)-extra))
		}
	}
	for _, k := range []struct {
		name string
		at   func(n *operator.Node) bool
	}{
		{"", stores},
		{" of convolutions", emulate.IsConv},
		{" of norms", emulate.IsNorm},
		{" of activations", emulate.IsAct},
	} {
		rounds(Named("precision.results-truncated-when-stored", k.name), k.at, truncate)
		rounds(Named("precision.results-rounded-up-when-stored", k.name), k.at, up)
	}
	for _, extra := range []int{1, 2, 3} {
		rounds(Named("precision.results-of-convolutions-rounded-twice-by-more-bits-first", extra),
			emulate.IsConv, twice(extra))
	}
	rounds(Named("precision.subnormal-numbers-flushed-to-zero"), stores, func(x float64, f fp16.Format) float64 {
		if y := f.Round(x); math.Abs(y) >= f.SmallestNormal() {
			return y
		}
		return math.Copysign(0, x)
	})
	return l
}

// narrower stores in f what is stored in a wider format.
func narrower(f fp16.Format) func(v *trial.View, d emulate.Device) *emulate.Device {
	return func(v *trial.View, d emulate.Device) *emulate.Device {
		if d.Mode.Precision.Half() && significant(d.Mode.Precision) <= significant(f) {
			return nil
		}
		d.Store = make([]fp16.Format, len(v.Machine.Nodes))
		for i := range d.Store {
			d.Store[i] = f
		}
		d.BiasTogether = true
		return &d
	}
}
