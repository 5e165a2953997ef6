package judge

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// accumulator is what a kernel keeps sums in: half the distance of its numbers from 1 on, and the format if
// it is not float32. Cores are units that truncate, of which products may be; nil is none.
type accumulator struct {
	u      float64
	narrow fp16.Format
	cores  *units
	thin   bool // no radii are asked for
	keeps  bool // units flush no subnormal numbers
	stores bool // every sum is stored in the narrow format
	double bool // it is float64, see double.go
}

// accumulator is that of a builder's kernels for a step.
func (b *builder) accumulator(n *graph.Node) accumulator {
	op, whole := n.Op, b.exact[n.Out[0]]
	if f, is := accumulators[b.form.Atomic]; is && stepwise(op) && !whole {
		return accumulator{u: f.Ulp(1) / 2, narrow: f, thin: b.thin, keeps: b.keeps, stores: true}
	}
	if f, is := accumulators[b.form.Accumulate]; is && !whole {
		return accumulator{u: f.Ulp(1) / 2, narrow: f, thin: b.thin, keeps: b.keeps, stores: true}
	}
	a := accumulator{u: u, narrow: fp16.Float32, thin: b.thin, keeps: b.keeps, double: b.form.Double}
	_, emulation := b.form.emulation()
	switch {
	case !b.cores || emulation && !b.emulates[n.Out[0]]:
	case emulation:
		a.cores = &partUnits
	case strings.Contains(b.form.Operands, "tf32"):
		a.cores = &tf32Units
	default:
		a.cores = &halfUnits
	}
	return a
}

// accumulators are the formats of sums that are not float32, by the name that [Form] has for them.
var accumulators = map[string]fp16.Format{"float16": fp16.Float16, "bfloat16": fp16.BFloat16}

// within is the range in which products are only rounded: beyond the one they are infinite, and below the other they
// lose bits.
func (a accumulator) within() (greatest, least float64) {
	switch {
	case a.narrow != fp16.Float32:
		return a.narrow.Largest(), a.narrow.Smallest()
	case a.double:
		return math.MaxFloat64, leastDouble
	}
	return math.MaxFloat32, leastNormal
}

func (a accumulator) sigma(n, s, q float64) float64 { return a.u / u * sumSigma(n, s, q) }

// least is what n roundings of numbers below the least normal one are off by, and flushes to zero of n products
// and of the n sums on the way.
func (a accumulator) least(n float64) float64 {
	if a.narrow == fp16.Float16 {
		return n * a.narrow.Smallest()
	}
	if a.keeps {
		return 2 * n * a.smallest()
	}
	return 2 * n * leastNormal
}

// units are those of GPUs that multiply half numbers or TF32 ones. They add blocks of products to a sum and truncate it
// to float32 (docs/TENSORCORES.md): the most that a term is off by, in u, and a block of four, on average, in u of the
// sum. A place is 0.72 times 2u S_k of a partial sum S_k, and a cut is half of it on average, toward 0.
type units struct{ perTerm, perBlock float64 }

// Of half numbers the least block is four terms (V100), each of which is cut in the last place, as their sum is: 5
// times 0.72 u. Of TF32 ones it is four (A100), which are cut one place lower: 3 times. Where they are parts of
// numbers, most of the products are small, and what is left is the cut of the sum.
var halfUnits, tf32Units, partUnits = units{2.5, 3.6}, units{1.5, 2.16}, units{1.5, .72}

// Of n/4 blocks that has the mean perBlock u (n/4) S/2, and with the bridge of sumSigma a deviation of perBlock u (n/4)
// sqrt(Q/12).
func (c *units) sigma(n, q float64) float64 { return c.perBlock * u * (n / 4) * math.Sqrt(q/12) }
func (c *units) drift(n, s float64) float64 { return c.perBlock * u * (n / 4) * math.Abs(s) / 2 }

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
	t, err := of(acc, op, in, magnitudes)
	if err != nil {
		return nil, err
	}
	q, err := of(acc, op, in, func(b ball) *tensor.Tensor { return squares(b.v) })
	if err != nil {
		return nil, err
	}
	r, sigma := fresh(fp16.Float64, v.Shape...), fresh(fp16.Float64, v.Shape...)
	each := 1.0
	if acc.cores != nil {
		each = acc.cores.perTerm
	}
	var cut, drift *tensor.Tensor
	if acc.cores != nil {
		cut, drift = fresh(fp16.Float64, v.Shape...), fresh(fp16.Float64, v.Shape...)
	}
	grid := 0.0
	if !inexact {
		grid = 1
		for _, b := range in {
			grid *= gridOf(b.v)
		}
	}
	for i, all := range t.Data {
		if grid > 0 && all < grid/acc.u || v.Format == fp16.Int64 { // every partial sum is a number of the accumulator
			continue
		}
		r.Data[i] = float64((each*n+2)*acc.u*all) + acc.least(n)
		sigma.Data[i] = acc.sigma(n, v.Data[i], q.Data[i])
		if acc.cores != nil {
			cut.Data[i], drift.Data[i] = acc.cores.sigma(n, q.Data[i]), acc.cores.drift(n, v.Data[i])
		}
	}
	if inexact {
		without, err := of(acc, op, in, func(b ball) *tensor.Tensor { return magnitudes(ball{v: b.v}) })
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
func of(acc accumulator, op graph.Op, in []ball, made func(ball) *tensor.Tensor) (*tensor.Tensor, error) {
	every := func(in []ball) (*tensor.Tensor, error) {
		all := make([]*tensor.Tensor, len(in))
		for k, b := range in {
			all[k] = made(b)
		}
		y, err := evaluator(acc.thin && !acc.double)(op, all...)
		for k, b := range in {
			if all[k] != b.v && all[k] != b.r {
				release(all[k])
			}
		}
		if err != nil {
			return nil, err
		}
		return y[0], nil
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
		n, err := of(accumulator{}, op, in, func(b ball) *tensor.Tensor {
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
