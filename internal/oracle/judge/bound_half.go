package judge

import (
	"math/rand/v2"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Sums that are kept in a half type are simulated addition by addition. Where terms have one sign such a sum stands
// still as soon as they are below half a place of it: it loses a share of itself, and not at random. How much is lost
// depends on the order, so that kernels add in several.

// orders are those in which simulated kernels add: as numbers lie in memory, from the last one on, and at random.
const orders = 3

// order are n places in the order of kernel m.
func order(n, m int, r *rand.Rand) []int {
	if m%orders == 2 {
		return r.Perm(n)
	}
	at := make([]int, n)
	for i := range at {
		if at[i] = i; m%orders == 1 {
			at[i] = n - 1 - i
		}
	}
	return at
}

// kept says of a step that simulated kernels keep its sums in a half type. What is not known to be a sum of so many
// terms stays as it is.
func (acc accumulator) kept(op graph.Op, in, out []ball) []ball {
	if !acc.stores {
		return out
	}
	exact := make([]*tensor.Tensor, len(in))
	for k, b := range in {
		exact[k] = b.v
	}
	o, is := op.(graph.CumSum)
	a := summandsOf(op, exact, out[0].v.Shape)
	switch {
	case is:
		out[0].made = func(x []*tensor.Tensor, _ simulation) (*tensor.Tensor, error) {
			return running(o, x[0], acc.narrow), nil
		}
	case a.n > 0:
		out[0].made = func(x []*tensor.Tensor, s simulation) (*tensor.Tensor, error) {
			return a.sum(x, acc.narrow, order(a.n, s.m, s.r), 1)
		}
	}
	if out[0].made != nil {
		out[0].sigma = nil // such a kernel has all of its errors
	}
	return out
}

// summands are those of all results of a step: n tensors, and what their sums are multiplied by; and a product's bias,
// which is added last, nil for none. Products are stored too, if they are said to be.
type summands struct {
	n       int
	of      func(x []*tensor.Tensor, k int) (*tensor.Tensor, error)
	times   float64
	product bool
	bias    func(x []*tensor.Tensor) (*tensor.Tensor, error)
}

// sum adds them in an order, so many at once before it is rounded.
func (a summands) sum(x []*tensor.Tensor, f fp16.Format, order []int, each int) (*tensor.Tensor, error) {
	var y *tensor.Tensor
	add := func(stores bool, t *tensor.Tensor, err error) error {
		if err != nil {
			return err
		}
		if a.product {
			f.RoundSlice(t.Data, t.Data)
		}
		if y == nil {
			y = fresh(fp16.Float64, t.Shape...)
		}
		for i, v := range t.Data {
			y.Data[i] += v
		}
		if stores {
			f.RoundSlice(y.Data, y.Data)
		}
		release(t)
		return nil
	}
	for i, k := range order {
		t, err := a.of(x, k)
		if err = add((i+1)%each == 0 || i+1 == len(order), t, err); err != nil {
			return nil, err
		}
	}
	if a.bias != nil {
		t, err := a.bias(x)
		if err = add(true, t, err); err != nil {
			return nil, err
		}
	}
	for i, v := range y.Data {
		y.Data[i] = float64(v * a.times)
	}
	return y, nil
}

// running are running sums, each the one before and a number.
func running(op graph.CumSum, x *tensor.Tensor, f fp16.Format) *tensor.Tensor {
	y, axis := fresh(fp16.Float64, x.Shape...), op.Axis
	if axis < 0 {
		axis += len(x.Shape)
	}
	n, step := 1, 1
	if len(x.Shape) > 0 {
		n, step = x.Shape[axis], tensor.Size(x.Shape[axis+1:])
	}
	for line := range len(x.Data) / max(1, n) {
		s, first := 0.0, line/step*step*n+line%step
		for k := range n {
			if op.Reverse {
				k = n - 1 - k
			}
			i := first + k*step
			if y.Data[i] = s; !op.Exclusive {
				y.Data[i] = f.Round(s + x.Data[i])
			}
			s = f.Round(s + x.Data[i])
		}
	}
	return y
}
