package oracle

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// storeFaults store results otherwise than the claim does.
func storeFaults() []*hypothesis {
	var l []*hypothesis
	kinds := []struct {
		name string
		at   func(n *operator.Node) bool
	}{
		{"convolutions", isConv}, {"norms", isNorm}, {"activations", isAct}, {"residual sums", isAdd},
	}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		for _, k := range kinds {
			l = append(l, &hypothesis{name: fmt.Sprintf("results of %s stored in %v", k.name, f), verdict: report.FailPrecision, at: k.at, rounding: true,
				device: narrower(f)})
		}
		l = append(l, &hypothesis{name: fmt.Sprintf("all results stored in %v", f), verdict: report.FailPrecision, at: func(*operator.Node) bool { return true }, rounding: true,
			device: narrower(f)})
	}
	l = append(l, subtle(&hypothesis{name: "residual sum of float16 numbers, in float16", verdict: report.FailPrecision, at: isAdd, rounding: true,
		node: func(v *view, r *run, i int) *tensor.Tensor {
			if significant(v.d.Mode.Precision) <= 11 && v.d.Mode.Precision != fp16.TF32 {
				return nil
			}
			f := fp16.Float16
			a, b := r.in(i, 0), r.in(i, 1)
			y := tensor.Like(a)
			for k, u := range a.Data {
				y.Data[k] = f.Round(f.Round(u) + f.Round(b.Data[k]))
			}
			return y
		}}, ""))
	stores := func(n *operator.Node) bool { return isConv(n) || isNorm(n) || isAct(n) }
	rounds := func(name string, at func(*operator.Node) bool, f func(x float64, f fp16.Format) float64) {
		l = append(l, &hypothesis{name: name, verdict: report.FailPrecision, at: at, rounding: true,
			device: func(v *view, d emulate.Device) *emulate.Device {
				if d.Store == nil {
					return nil
				}
				plain := d
				d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) { return v.m.Plain(&plain, i, in, nil) }
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
	}{{"", stores}, {" of convolutions", isConv}, {" of norms", isNorm}, {" of activations", isAct}} {
		rounds("results"+k.name+" truncated when stored", k.at, truncate)
		rounds("results"+k.name+" rounded up when stored", k.at, up)
	}
	for _, extra := range []int{1, 2, 3} {
		rounds(fmt.Sprintf("results of convolutions rounded twice, by %d more bits first", extra), isConv, twice(extra))
	}
	rounds("subnormal numbers flushed to zero", stores, func(x float64, f fp16.Format) float64 {
		if y := f.Round(x); math.Abs(y) >= f.SmallestNormal() {
			return y
		}
		return math.Copysign(0, x)
	})
	return l
}

// narrower stores in f what is stored in a wider format.
func narrower(f fp16.Format) func(v *view, d emulate.Device) *emulate.Device {
	return func(v *view, d emulate.Device) *emulate.Device {
		if half := d.Mode.Precision == fp16.Float16 || d.Mode.Precision == fp16.BFloat16; half && significant(d.Mode.Precision) <= significant(f) {
			return nil
		}
		d.Store = make([]fp16.Format, len(v.m.Nodes))
		for i := range d.Store {
			d.Store[i] = f
		}
		d.BiasTogether = true
		return &d
	}
}
