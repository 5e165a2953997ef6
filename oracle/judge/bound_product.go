package judge

import (
	"math"
	"math/bits"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// accumulator is what a kernel keeps sums in: half the distance of its numbers from 1 on, and the format if
// it is not float32. Cores is set if products may be those of units that truncate.
type accumulator struct {
	u      float64
	narrow fp16.Format
	cores  bool
	thin   bool // no radii are asked for
}

// accumulator is that of a builder's kernels for an operation.
func (b *builder) accumulator(op graph.Op) accumulator {
	if f, is := accumulators[b.form.Atomic]; is && scatters(op) {
		return accumulator{u: f.Ulp(1) / 2, narrow: f, thin: b.thin}
	}
	if f, is := accumulators[b.form.Accumulate]; is {
		return accumulator{u: f.Ulp(1) / 2, narrow: f, thin: b.thin}
	}
	return accumulator{u: u, narrow: fp16.Float32, cores: b.cores, thin: b.thin}
}

// accumulators are the formats of sums that are not float32, by the name that [Form] has for them.
var accumulators = map[string]fp16.Format{"float16": fp16.Float16, "bfloat16": fp16.BFloat16}

func (a accumulator) sigma(n, s, q float64) float64 { return a.u / u * sumSigma(n, s, q) }

// least is what n roundings of numbers below the least normal one are off by, and flushes to zero of n products
// and of the n sums on the way.
func (a accumulator) least(n float64) float64 {
	if a.narrow == fp16.Float16 {
		return n * a.narrow.Smallest()
	}
	return 2 * n * leastNormal
}

// The units of GPUs that multiply half numbers, or TF32 ones, add blocks of products to a sum and
// truncate it to float32. The least block is four (V100), and its error up to 2.5u a term
// (docs/TENSORCORES.md). It cuts each of the products and their sum, half a place of the partial sum S_k
// on average, toward 0, and a place is 0.72 times 2u S_k: a block has 5 times 0.72 u S_k. Of n/4 blocks
// that has the mean 3.6 u (n/4) S/2, and with the bridge of sumSigma a deviation of 3.6 u (n/4) sqrt(Q/12).
const (
	perTerm  = 2.5
	perBlock = 3.6
)

func cutSigma(n, q float64) float64 { return perBlock * u * (n / 4) * math.Sqrt(q/12) }
func cutDrift(n, s float64) float64 { return perBlock * u * (n / 4) * math.Abs(s) / 2 }

// product bounds sums of products, which units for half operands may compute.
func product(op graph.Op, in []ball, v *tensor.Tensor, acc accumulator) ([]ball, error) {
	inexact := slices.ContainsFunc(in, func(b ball) bool { return b.r != nil })
	n, err := terms(op, in, v)
	if err != nil {
		return nil, err
	}
	if acc.thin {
		return thinProduct(op, in, v, n, acc)
	}
	t, err := of(op, in, magnitudes)
	if err != nil {
		return nil, err
	}
	q, err := of(op, in, func(b ball) *tensor.Tensor { return squares(b.v) })
	if err != nil {
		return nil, err
	}
	r, sigma := fresh(fp16.Float64, v.Shape...), fresh(fp16.Float64, v.Shape...)
	each := 1.0
	var cut, drift *tensor.Tensor
	if acc.cores {
		each, cut, drift = perTerm, fresh(fp16.Float64, v.Shape...), fresh(fp16.Float64, v.Shape...)
	}
	grid := 0.0
	if !inexact {
		grid = 1
		for _, b := range in {
			grid *= gridOf(b.v)
		}
	}
	for i, all := range t.Data {
		if grid > 0 && all < grid/acc.u { // every partial sum is a number of the accumulator
			continue
		}
		r.Data[i] = float64((each*n+2)*acc.u*all) + acc.least(n)
		sigma.Data[i] = acc.sigma(n, v.Data[i], q.Data[i])
		if acc.cores {
			cut.Data[i], drift.Data[i] = cutSigma(n, q.Data[i]), cutDrift(n, v.Data[i])
		}
	}
	if inexact {
		without, err := of(op, in, func(b ball) *tensor.Tensor { return magnitudes(ball{v: b.v}) })
		if err != nil {
			return nil, err
		}
		for i := range r.Data {
			r.Data[i] += max(0, t.Data[i]-without.Data[i])
		}
		release(without)
	}
	release(t, q)
	return []ball{{v: v, r: r, sigma: sigma, cut: cut, drift: drift, sum: true, lost: lost(n)}}, nil
}

// of evaluates a product of what is made of each input. A second matrix is the same for all pieces of a
// question: it is divided into panels of columns, so that no piece makes another as large.
func of(op graph.Op, in []ball, made func(ball) *tensor.Tensor) (*tensor.Tensor, error) {
	every := func(in []ball) (*tensor.Tensor, error) {
		all := make([]*tensor.Tensor, len(in))
		for k, b := range in {
			all[k] = made(b)
		}
		y, err := one(op, all...)
		for k, b := range in {
			if all[k] != b.v && all[k] != b.r {
				release(all[k])
			}
		}
		return y, err
	}
	axis := -1
	switch op.(type) {
	case graph.MatMul:
		axis = 1
	case graph.Linear:
		axis = 0
	}
	if axis < 0 || len(in[1].v.Shape) != 2 || len(in[1].v.Data) <= mostPanel {
		return every(in)
	}
	n := in[1].v.Shape[axis]
	each := max(1, mostPanel/in[1].v.Shape[1-axis])
	var out *tensor.Tensor
	for from := 0; from < n; from += each {
		some, to := slices.Clone(in), min(n, from+each)
		for k := 1; k < len(in); k++ { // a bias too
			var err error
			if some[k], err = in[k].slice(axis, from, to); err != nil {
				return nil, err
			}
		}
		y, err := every(some)
		for _, b := range some[1:] {
			release(b.v, b.r)
		}
		if err != nil {
			return nil, err
		}
		if last := len(y.Shape) - 1; out == nil {
			out = fresh(fp16.Float64, append(slices.Clone(y.Shape[:last]), n)...)
		}
		for i := range len(y.Data) / (to - from) {
			copy(out.Data[i*n+from:], y.Data[i*(to-from):(i+1)*(to-from)])
		}
		release(y)
	}
	return out, nil
}

// slice is a part of a ball along an axis.
func (b ball) slice(axis, from, to int) (part ball, err error) {
	op := graph.Slice{Axes: graph.Ints{axis}, Start: graph.Ints{from}, End: graph.Ints{to}}
	if part.v, err = one(op, b.v); err == nil && b.r != nil {
		part.r, err = one(op, b.r)
	}
	return part, err
}

// gridOf returns the greatest power of 2 of which all numbers are multiples; 0 if one is not
// finite, and 1 of zeros.
func gridOf(t *tensor.Tensor) float64 {
	const none = 1 << 20
	least := none // the place of the last digit of all
	for _, v := range t.Data {
		b := math.Float64bits(v) &^ (1 << 63)
		e := int(b >> 52)
		switch {
		case b == 0:
			continue
		case e == 0x7ff:
			return 0
		case e == 0:
			e = 1
		default:
			b |= 1 << 52
		}
		least = min(least, e-1075+bits.TrailingZeros64(b))
	}
	if least == none {
		return 1
	}
	return math.Ldexp(1, least)
}

// terms returns of how many products a result is the sum.
func terms(op graph.Op, in []ball, v *tensor.Tensor) (float64, error) {
	switch op := op.(type) {
	case graph.MatMul:
		return float64(in[0].v.Shape[len(in[0].v.Shape)-1]), nil
	case graph.Linear:
		return float64(in[1].v.Shape[1] + 1), nil
	case graph.Conv:
		w := in[1].v.Shape
		return float64(w[1]*w[2]*w[3] + 1), nil
	default:
		n, err := of(op, in, func(b ball) *tensor.Tensor {
			ones := fresh(fp16.Float64, b.v.Shape...)
			for i := range ones.Data {
				ones.Data[i] = 1
			}
			return ones
		})
		if err != nil {
			return 0, err
		}
		most := 0.0
		for _, x := range n.Data {
			most = max(most, x)
		}
		return most, nil
	}
}
