package judge

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// narrowSums is a product whose sums are kept in a narrow format: so many terms are added at once, in the order of
// memory, and the result is rounded. It is a fault. Products are not stored, as multiply-add instructions do not, and a
// bias is added to what is stored.
type narrowSums struct {
	graph.Op
	format fp16.Format
	terms  int
}

// termsAtOnce is how many terms a narrow sum takes before it is rounded.
func (b *builder) termsAtOnce() int {
	if len(b.built.figures) == 0 {
		return 1
	}
	return int(b.figure(0))
}

// Eval implements [graph.Op].
func (o narrowSums) Eval(c *graph.Call) error {
	in, dst := make([]*tensor.Tensor, c.Inputs()), c.Out[0]
	for k := range in {
		in[k] = c.In(k)
	}
	a := summandsOf(o.Op, in, dst.Shape)
	if a.n == 0 || a.n*len(dst.Data) > mostNarrow {
		return fmt.Errorf("%w", errNotJudged)
	}
	bias := a.bias
	a.product, a.bias = false, nil
	y, err := a.sum(in, o.format, order(a.n, 0, nil), o.terms)
	if err != nil {
		return err
	}
	copy(dst.Data, y.Data)
	release(y)
	if bias != nil {
		if y, err = bias(in); err != nil {
			return err
		}
		for i, v := range y.Data {
			dst.Data[i] += v
		}
		release(y)
	}
	return nil
}
