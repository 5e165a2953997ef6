package fault

import (
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// written is a convolution's output, changed by f, or nil where f cannot.
func written(v *trial.View, i int, f func(y *tensor.Tensor) bool) *tensor.Tensor {
	n := &v.Machine.Nodes[i]
	y := convolve(v, i, convolution{x: v.In(i, 0), weights: n.Weight.Data, bias: 1, geometry: n.Geometry})
	if !f(y) {
		return nil
	}
	return y
}

// outputFaults are faults of where a convolution's output is written.
func outputFaults() []*trial.Fault {
	var l []*trial.Fault
	out := func(row *table.Row, f func(y *tensor.Tensor) bool) {
		l = append(l, &trial.Fault{Row: row, At: emulate.IsConv,
			Node: func(v *trial.View, i int) *tensor.Tensor { return written(v, i, f) }})
	}
	row := func(p []float64, w, i int) []float64 { return p[i*w : (i+1)*w] }
	for _, block := range []int{4, 8, 16, 32} {
		out(Named("conv.rows-of-an-incomplete-block-of-not-written", block), func(y *tensor.Tensor) bool {
			for k := range y.N() * y.C() {
				clear(y.Plane(k/y.C(), k%y.C())[y.H()/block*block*y.W():])
			}
			return y.H() > block && y.H()%block != 0
		})
		out(Named("conv.columns-of-an-incomplete-block-of-not-written", block), func(y *tensor.Tensor) bool {
			for k := range y.N() * y.C() {
				for i := range y.H() {
					clear(row(y.Plane(k/y.C(), k%y.C()), y.W(), i)[y.W()/block*block:])
				}
			}
			return y.W() > block && y.W()%block != 0
		})
		out(Named("conv.first-row-of-each-block-of-is-the-row-before", block), func(y *tensor.Tensor) bool {
			for k := range y.N() * y.C() {
				p := y.Plane(k/y.C(), k%y.C())
				for i := block; i < y.H(); i += block {
					copy(row(p, y.W(), i), row(p, y.W(), i-1))
				}
			}
			return y.H() > block
		})
	}
	for _, name := range []string{"first two", "reversed", "shifted by one", "shifted back by one"} {
		order := channelOrder(name)
		out(Named("conv.results-channels", name), func(y *tensor.Tensor) bool {
			from := y.Clone()
			for k := range y.N() * y.C() {
				copy(y.Plane(k/y.C(), k%y.C()), from.Plane(k/y.C(), order(k%y.C(), y.C())))
			}
			return true
		})
	}
	out(Named("conv.last-channel-result-is-that-of-the-one-before"), func(y *tensor.Tensor) bool {
		for k := range y.N() {
			copy(y.Plane(k, y.C()-1), y.Plane(k, max(y.C()-2, 0)))
		}
		return y.C() > 1
	})
	out(Named("conv.last-sample-not-written"), func(y *tensor.Tensor) bool {
		clear(y.Samples(y.N()-1, y.N()).Data)
		return true
	})
	out(Named("conv.results-h-and-w-swapped"),
		func(y *tensor.Tensor) bool { copy(y.Data, transposed(y).Data); return true })
	for _, d := range [][2]int{{0, 1}, {0, -1}, {1, 0}, {-1, 0}} {
		out(Named("conv.results-moved-by-around-the-edge", d[0], d[1]), func(y *tensor.Tensor) bool {
			from := y.Clone()
			for k := range y.N() * y.C() {
				p, q := y.Plane(k/y.C(), k%y.C()), from.Plane(k/y.C(), k%y.C())
				for i := range p {
					p[i] = q[(i/y.W()+y.H()-d[0])%y.H()*y.W()+(i%y.W()+y.W()-d[1])%y.W()]
				}
			}
			return true
		})
	}
	out(Named("conv.last-row-not-written"), func(y *tensor.Tensor) bool {
		for k := range y.N() * y.C() {
			clear(row(y.Plane(k/y.C(), k%y.C()), y.W(), y.H()-1))
		}
		return true
	})
	out(Named("conv.last-column-not-written"), func(y *tensor.Tensor) bool {
		for k := range y.Data {
			if k%y.W() == y.W()-1 {
				y.Data[k] = 0
			}
		}
		return true
	})
	return l
}
