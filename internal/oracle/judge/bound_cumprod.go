package judge

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// cumprod is ATen's cumprod: the products of the numbers along an axis up to each of them. Its float64 evaluation is
// off by 2^-53 a factor, which is nothing beside what it is compared with.
type cumprod struct {
	Axis int `json:"dim"`
}

// Name implements [graph.Op].
func (cumprod) Name() string { return "cumprod" }

// Infer implements [graph.Op].
func (o cumprod) Infer(m graph.Mode, in []graph.Type) (graph.Inference, error) {
	return graph.CumSum{Axis: o.Axis}.Infer(m, in)
}

// Eval implements [graph.Op].
func (o cumprod) Eval(c *graph.Call) error {
	x, y := c.In(0), c.Out[0]
	o.each(x.Shape, func(line func(k int) int, n int) {
		product := 1.0
		for k := range n {
			product *= x.Data[line(k)]
			y.Data[line(k)] = y.Format.Round(product)
		}
	})
	return nil
}

// each calls f for each line along the axis, with the places of its numbers.
func (o cumprod) each(shape []int, f func(line func(k int) int, n int)) {
	n, step := 1, 1
	if rank := len(shape); rank > 0 {
		a := (o.Axis + rank) % rank
		n, step = shape[a], tensor.Size(shape[a+1:])
	}
	for l := range tensor.Size(shape) / max(n, 1) {
		f(func(k int) int { return l/step*step*n + l%step + k*step }, n)
	}
}

// bound bounds products of k factors x with |error| of each at most r: they are off by prod(|x| + r) - prod |x|, and by
// k-1 roundings, in whatever order a scan multiplies, each of which counts as a share of the product. A scan multiplies
// stretches of a line first. If a stretch is beyond float32's range, right kernels have anything there and behind it;
// if one is below its normal numbers they may have lost the product.
func (o cumprod) bound(x ball, v *tensor.Tensor, acc accumulator) []ball {
	r, sigma := tensor.New(fp16.Float64, v.Shape...), tensor.New(fp16.Float64, v.Shape...)
	greatest, least := acc.within()
	greatest, least = elem.Log(greatest), elem.Log(least)
	o.each(v.Shape, func(line func(k int) int, n int) {
		size, up, down, most, fewest := 1.0, 0.0, 0.0, 0.0, 0.0
		for k := range n {
			i := line(k)
			a := math.Abs(x.v.Data[i])
			b := a
			if x.r != nil {
				b += x.r.Data[i]
			}
			size *= b
			if b > 0 { // the greatest and the least product of a stretch that ends here
				up = max(0, up) + elem.Log(b)
				down = min(0, down) + elem.Log(b)
			}
			most, fewest = max(most, up), min(fewest, down)
			y := math.Abs(v.Data[i])
			off := float64(k+1)*acc.u*size*1.01 + (size - y)
			switch {
			case most > greatest:
				off = math.Inf(1)
			case fewest < least:
				off += size
			}
			r.Data[i] = off + acc.least(1)
			sigma.Data[i] = acc.u / 2 * math.Sqrt(float64(k)) * y
		}
	})
	return []ball{{v: v, r: r, sigma: sigma, sum: true}}
}
