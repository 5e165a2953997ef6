package judge

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// sumSigma is the deviation of a float32 sum s of n terms whose squares add up to q.
//
// Sums of n terms in float32, in any order, are within n u of the sum of their absolute values
// (N. Higham, Accuracy and Stability, 2nd edition, 4.2), to first order; two terms more are for
// the rounding of products, of the result, and for orders that truncate.
//
// A random order's error: partial sums S_k are k/n of the sum and a random bridge, whose square is
// (k/n)(1-k/n) Q with Q the sum of squares; a rounding of S_k has variance 0.18 u^2 S_k^2 for
// numbers whose place between two powers of 2 is random. Adding one term after the other has n
// roundings: 0.18 u^2 (n S^2/3 + n Q/6), and products that are rounded 0.18 u^2 Q.
func sumSigma(n, s, q float64) float64 {
	return u * math.Sqrt(0.18*(n*s*s/3+n*q/6+q))
}

// sum bounds sums with weights.
func sum(op graph.Op, in []ball, v *tensor.Tensor, acc accumulator) ([]ball, error) {
	absolute, square := make([]*tensor.Tensor, len(in)), make([]*tensor.Tensor, len(in))
	inexact := false
	for k, b := range in {
		absolute[k], square[k] = b.v, b.v
		if b.v.Format != fp16.Int64 {
			absolute[k], square[k] = magnitudes(b), squares(b.v)
			inexact = inexact || b.r != nil
		}
	}
	t, err := one(op, absolute...)
	if err != nil {
		return nil, err
	}
	q, err := one(op, square...)
	if err != nil {
		return nil, err
	}
	n, weight, err := addends(op, in, v)
	if err != nil {
		return nil, err
	}
	defer func() {
		release(t, q)
		for k, b := range in {
			if b.v != absolute[k] {
				release(absolute[k], square[k])
			}
		}
	}()
	r, sigma := fresh(fp16.Float64, v.Shape...), fresh(fp16.Float64, v.Shape...)
	walked, off := inMemory(op, in, len(v.Data))
	grid := 0.0
	if !inexact && weight == 1 {
		grid = gridOf(in[0].v)
	}
	for i, all := range t.Data {
		n := n[i%len(n)]
		if n == 1 && !inexact || grid > 0 && all < grid/acc.u {
			continue
		}
		r.Data[i] = float64((n+2)*acc.u*all) + acc.least(n)
		// a mean's squares are divided by n once, and should be twice
		sigma.Data[i] = acc.sigma(n, v.Data[i], q.Data[i]*weight)
		if walked != nil {
			sigma.Data[i] = max(sigma.Data[i], float64(acc.u*weight*math.Sqrt(0.18*walked[i])),
				float64(acc.u/u*weight*off[i]))
		}
	}
	if inexact {
		radii := make([]*tensor.Tensor, len(in))
		for k, b := range in {
			if radii[k] = b.radius(); radii[k] == nil {
				radii[k] = b.v
			}
		}
		moved, err := one(op, radii...)
		if err != nil {
			return nil, err
		}
		for i := range r.Data {
			r.Data[i] += moved.Data[i]
		}
		for k, b := range in {
			if radii[k] != b.v && radii[k] != b.r {
				release(radii[k])
			}
		}
		release(moved)
	}
	return []ball{{v: v, r: r, sigma: sigma, sum: true, lost: lost(slices.Max(n))}}, nil
}

// inMemory returns the sums of the squares of all partial sums where terms are added in the order of memory, as kernels
// often do, and what float32 sums are off by. Of terms with an order of their own, such as gradients whose sum over
// each image is large and over all images 0, partial sums are larger than those of a random order; and where many terms
// are equal, as in images with a pattern, roundings are not random. They are nil of other sums than those along axes.
func inMemory(op graph.Op, in []ball, results int) (walked, off []float64) {
	o, is := op.(graph.Reduction)
	if !is || len(in) != 1 || results == 0 || in[0].v.Format == fp16.Int64 {
		return nil, nil
	}
	x := in[0].v
	steps, step := make([]int, len(x.Shape)), 1 // in the result, 0 along what is summed
	for a := len(x.Shape) - 1; a >= 0; a-- {
		summed := len(o.Axes) == 0 || slices.ContainsFunc(o.Axes, func(v int) bool { return v == a || v == a-len(x.Shape) })
		if !summed {
			steps[a] = step
			step *= x.Shape[a]
		}
	}
	if step != results {
		return nil, nil
	}
	partial, at := make([]float64, results), make([]int, len(x.Shape))
	walked, off = make([]float64, results), make([]float64, results)
	to := 0
	for _, v := range x.Data {
		partial[to] += v
		walked[to] += float64(partial[to] * partial[to])
		off[to] = float64(float32(off[to] + v))
		for a := len(at) - 1; a >= 0; a-- {
			at[a]++
			if to += steps[a]; at[a] < x.Shape[a] {
				break
			}
			to -= steps[a] * x.Shape[a]
			at[a] = 0
		}
	}
	for i, v := range partial {
		if d := math.Abs(off[i] - v); d-d == 0 {
			off[i] = d
		} else {
			off[i] = 0
		}
	}
	return walked, off
}

// addends returns of how many numbers each result is a sum, or one number for all, and what each is multiplied
// by, about.
func addends(op graph.Op, in []ball, v *tensor.Tensor) (n []float64, weight float64, err error) {
	most := max(1, float64(len(in[0].v.Data))/float64(max(1, len(v.Data))))
	switch op := op.(type) {
	case graph.AvgPool:
		axes := map[string]int{"avg_pool1d": 1, "avg_pool2d": 2, "avg_pool3d": 3}[op.Name()]
		most = 1
		for a := range axes {
			most *= float64(op.Kernel[a%len(op.Kernel)])
		}
	case graph.AdaptivePool:
		most = windows(in[0].v.Shape, v.Shape)
	case resizing: // area
		most = windows(in[0].v.Shape, v.Shape)
	case graph.CumSum:
		ones := make([]*tensor.Tensor, len(in))
		for k, b := range in {
			if ones[k] = b.v; b.v.Format != fp16.Int64 {
				ones[k] = fresh(fp16.Float64, b.v.Shape...)
				for i := range ones[k].Data {
					ones[k].Data[i] = 1
				}
			}
		}
		count, err := one(op, ones...)
		if err != nil {
			return nil, 0, err
		}
		return count.Data, 1, nil
	}
	if op.Name() == "sum" {
		return []float64{most}, 1, nil
	}
	return []float64{most}, 1 / most, nil
}

// windows is how many numbers the largest window of an adaptive pool has: of s numbers and o windows they
// begin at floor(i s/o) and end before ceil((i+1) s/o).
func windows(in, out []int) float64 {
	n := 1.0
	for a := range min(len(in), len(out)) {
		largest := 0
		for i := range out[a] {
			largest = max(largest, ((i+1)*in[a]+out[a]-1)/out[a]-i*in[a]/out[a])
		}
		n *= float64(max(1, largest))
	}
	return n
}

// spreadTo returns a tensor as a larger shape sees it.
func spreadTo(t *tensor.Tensor, shape []int) (*tensor.Tensor, error) {
	if slices.Equal(t.Shape, shape) {
		return t, nil
	}
	return one(graph.Expand{Size: shape}, t)
}
