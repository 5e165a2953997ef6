package chain

import (
	"cmp"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// kind says whether a failure without a name is one of logic or of precision: of logic if its errors are more than
// four times those of bfloat16, the coarsest arithmetic there is.
func (c *checker) kind(i int) (report.Verdict, error) { return c.kindOf(i, nil) }

// unnamed is kind, but what lies in one place of images is of logic, too: roundings are everywhere. It returns that
// place, where it is smaller than one that is known.
func (c *checker) unnamed(i int, where string) (report.Verdict, string, error) {
	kind, err := c.kind(i)
	if err != nil {
		return "", "", err
	}
	got, exact, coarse, err := c.beside(i)
	if err != nil {
		return "", "", err
	}
	cuts := cut(got, exact, coarse)
	if cuts == nil {
		return kind, where, nil
	}
	if cuts.Local() {
		kind = report.FailLogic
	}
	return kind, cmp.Or(cuts.Home(c.places[i].lo), where), nil
}

// cut divides the squared errors of images. Each plane has its own scale: that of the errors that bfloat16 has in it.
func cut(got *tensor.Tensor, exact, coarse []float64) *measure.Cuts {
	shape := got.Shape
	if len(shape) < 3 {
		return nil
	}
	last := len(shape) - 1
	n, c, h, w := shape[0], shape[1], tensor.Size(shape[2:last]), shape[last]
	if len(shape) == 3 {
		n, c, h = 1, shape[0], shape[1]
	}
	off := make([]float64, len(exact))
	for lo := 0; lo < len(off); lo += h * w {
		scale := math.Sqrt(squares(coarse[lo:lo+h*w], exact[lo:lo+h*w]) / float64(h*w))
		for i := lo; i < lo+h*w; i++ {
			off[i] = (got.Data[i] - exact[i]) / scale
		}
	}
	return measure.Cut(n, c, h, w, off, nil, nil)
}

// beside is what a device has of a step, what is exact, and what it is in bfloat16.
func (c *checker) beside(i int) (got *tensor.Tensor, exact, coarse []float64, err error) {
	p := c.places[i]
	if got, err = c.after(p); err != nil {
		return nil, nil, nil, err
	}
	in, err := c.inputs(p)
	if err != nil {
		return nil, nil, nil, err
	}
	if exact, err = lower.Exact(c.step.g, in, nil); err != nil {
		return nil, nil, nil, err
	}
	coarse, err = lower.Exact(c.step.g, in, func(t *tensor.Tensor) {
		if t.Format != fp16.Int64 {
			fp16.BFloat16.RoundSlice(t.Data, t.Data)
		}
	})
	return got, exact, coarse, err
}

// kindOf is kind by the elements that are wrong, if it is known which.
func (c *checker) kindOf(i int, of []int) (report.Verdict, error) {
	got, exact, coarse, err := c.beside(i)
	if err != nil {
		return "", err
	}
	off, most := squares(got.Data, exact), squares(coarse, exact)
	if len(of) > 0 {
		off = squares(some(got.Data, of), some(exact, of))
		if c.elementwise() { // whose errors are of each number's size
			most = squares(some(coarse, of), some(exact, of))
		} else { // beside what is usual in all
			most *= float64(len(of)) / float64(len(exact))
		}
	}
	if off <= judge.Coarsest*most {
		return report.FailPrecision, nil
	}
	return report.FailLogic, nil
}

// elementwise reports whether each number of a step is a function of one number before it.
func (c *checker) elementwise() bool {
	return !slices.ContainsFunc(c.step.g.Nodes, func(n graph.Node) bool {
		switch n.Op.(type) {
		case graph.Act, graph.Unary, graph.Cast:
			return false
		}
		return true
	})
}

// some are those numbers.
func some(x []float64, of []int) (all []float64) {
	for _, i := range of {
		all = append(all, x[i])
	}
	return all
}

func squares(a, b []float64) (s float64) {
	for i, v := range a {
		s += float64((v - b[i]) * (v - b[i]))
	}
	return s
}
