package judge

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/pointwise"
	"github.com/refrun/refrun/tensor"
)

// u is half the distance of float32 numbers from 1 on.
const u = 0x1p-24

// ball is a step's result: the numbers that exact arithmetic gives, and how far from each those of
// a right kernel may lie. Nil is nowhere.
type ball struct {
	v, r *tensor.Tensor
	// sigma is what errors of a kernel's arithmetic in this step alone are like: the deviation
	// of a random one. Nil is none.
	sigma *tensor.Tensor
	// cut is the deviation, and drift the mean, toward 0, of the error of a unit that truncates a sum
	// after every four products. Nil where there is no such unit.
	cut, drift *tensor.Tensor
	// sum is set if the error is a sum's, and so of a variance that is random itself.
	sum bool
	// exact is set if a kernel's arithmetic makes no error in this step: it moves numbers.
	exact bool
}

// errNotJudged is the cause of errors about steps of which it is not known what right kernels
// may return.
var errNotJudged = errors.New("it is not known what right kernels may return")

// moves are operations whose results are some of the numbers of their inputs.
var moves = map[string]bool{
	"identity": true, "reshape": true, "flatten": true, "unflatten": true, "squeeze": true, "unsqueeze": true, "permute": true, "transpose": true,
	"expand": true, "repeat": true, "repeat_interleave": true, "flip": true, "roll": true, "slice": true, "select": true, "split": true, "chunk": true,
	"unbind": true, "cat": true, "stack": true, "gather": true, "index_select": true, "embedding": true, "index": true, "gather_nd": true, "pad": true,
	"where": true, "pixel_shuffle": true, "pixel_unshuffle": true, "depth_to_space": true, "space_to_depth": true, "scatter": true, "scatter_nd": true,
	"triu": true, "tril": true,
}

// sums are operations that add numbers of their first input, with weights that are not below 0
// and that the input's numbers have no part in.
var sums = map[string]bool{
	"sum": true, "mean": true, "avg_pool1d": true, "avg_pool2d": true, "avg_pool3d": true, "adaptive_avg_pool1d": true, "adaptive_avg_pool2d": true,
	"adaptive_avg_pool3d": true, "cumsum": true, "interpolate": true, "index_add": true, "scatter_add": true,
}

// products are operations that are linear in their first and in their second input, and add a third.
var products = map[string]bool{
	"matmul": true, "mm": true, "bmm": true, "linear": true, "addmm": true, "gemm": true, "einsum": true, "conv1d": true, "conv2d": true, "conv3d": true,
	"conv_transpose1d": true, "conv_transpose2d": true, "conv_transpose3d": true,
}

// greatest are operations whose results move by no more than their inputs do.
var greatest = map[string]bool{
	"amax": true, "amin": true, "max_pool1d": true, "max_pool2d": true, "max_pool3d": true, "adaptive_max_pool1d": true, "adaptive_max_pool2d": true, "adaptive_max_pool3d": true, "running_maximum": true,
}

// step evaluates a step for exact inputs and for all that right kernels may have in their place.
func step(op graph.Op, in []ball, acc accumulator) ([]ball, error) {
	out, err := bounds(op, in, acc)
	for _, b := range out {
		if b.r == nil {
			continue
		}
		for i, r := range b.r.Data {
			if r != r { // a weight of 0 times anywhere
				b.r.Data[i] = math.Inf(1)
			}
		}
	}
	return out, err
}

func bounds(op graph.Op, in []ball, acc accumulator) ([]ball, error) {
	given := make([]*tensor.Tensor, len(in))
	for k, b := range in {
		given[k] = b.v
	}
	name := op.Name()
	if products[name] {
		v, err := of(op, in, func(b ball) *tensor.Tensor { return b.v })
		if err != nil {
			return nil, err
		}
		return product(op, in, v, acc)
	}
	out, err := apply(op, given...)
	if err != nil {
		return nil, err
	}
	if f := others[name]; f != nil {
		return f(op, in, out)
	}
	switch {
	case name == "amax" || greatest[name]:
		return spread(op, in, out, true)
	case moves[name]:
		return spread(op, in, out, false)
	case sums[name]:
		return sum(op, in, out[0], acc)
	}
	switch op := op.(type) {
	case graph.Binary:
		return binary(op, in, out[0])
	case graph.Unary, graph.Act, coarseExp, symmetric:
		return function(op, in[0], out[0])
	}
	for _, b := range in {
		if b.r != nil {
			return nil, fmt.Errorf("%s: %w", name, errNotJudged)
		}
	}
	if slices.ContainsFunc(out, func(t *tensor.Tensor) bool { return t.Format != fp16.Int64 }) {
		return nil, fmt.Errorf("%s: %w", name, errNotJudged)
	}
	all := make([]ball, len(out))
	for k, t := range out {
		all[k] = ball{v: t, exact: true}
	}
	return all, nil
}

// zero is a radius of nowhere, for inputs of exact numbers.
func (b ball) radius() *tensor.Tensor {
	if b.r != nil || b.v.Format == fp16.Int64 {
		return b.r
	}
	return fresh(fp16.Float64, b.v.Shape...)
}

// spread moves the radii as the numbers, or takes the greatest of those of which one number is
// chosen.
func spread(op graph.Op, in []ball, out []*tensor.Tensor, most bool) ([]ball, error) {
	all := make([]ball, len(out))
	for k, t := range out {
		all[k] = ball{v: t, exact: true}
	}
	if !slices.ContainsFunc(in, func(b ball) bool { return b.r != nil }) {
		return all, nil
	}
	if pad, is := op.(graph.Pad); is {
		pad.Value = 0
		op = pad
	}
	if r, is := op.(graph.Reduction); is && most {
		r.Of = "amax" // of amin too
		op = r
	}
	radii := make([]*tensor.Tensor, len(in))
	for k, b := range in {
		if radii[k] = b.radius(); radii[k] == nil {
			radii[k] = b.v
		}
	}
	moved, err := apply(op, radii...)
	if err != nil {
		return nil, err
	}
	for k := range all {
		if out[k].Format != fp16.Int64 {
			all[k].r = moved[k]
		}
	}
	return all, nil
}

// magnitudes are |v| + r.
func magnitudes(b ball) *tensor.Tensor {
	t := fresh(fp16.Float64, b.v.Shape...)
	for i, v := range b.v.Data {
		t.Data[i] = math.Abs(v)
	}
	if b.r != nil {
		for i, r := range b.r.Data {
			t.Data[i] += r
		}
	}
	return t
}

// squares are v^2.
func squares(t *tensor.Tensor) *tensor.Tensor {
	s := fresh(fp16.Float64, t.Shape...)
	for i, v := range t.Data {
		s.Data[i] = float64(v * v)
	}
	return s
}

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

// accumulator is what a kernel keeps sums in: half the distance of its numbers from 1 on, and the format if
// it is not float32. Cores is set if products may be those of units that truncate.
type accumulator struct {
	u      float64
	narrow fp16.Format
	cores  bool
}

// accumulator is that of a builder's kernels.
func (b *builder) accumulator() accumulator {
	if f, is := accumulators[b.form.Accumulate]; is {
		return accumulator{u: f.Ulp(1) / 2, narrow: f}
	}
	return accumulator{u: u, narrow: fp16.Float32, cores: b.cores}
}

// accumulators are the formats of sums that are not float32, by the name that [Form] has for them.
var accumulators = map[string]fp16.Format{"float16": fp16.Float16, "bfloat16": fp16.BFloat16}

func (a accumulator) sigma(n, s, q float64) float64 { return a.u / u * sumSigma(n, s, q) }

// least is what n roundings of numbers below the least normal one are off by, and a flush of one to zero.
func (a accumulator) least(n float64) float64 {
	if a.narrow == fp16.Float16 {
		return n * a.narrow.Smallest()
	}
	return 0x1p-126
}

// The units of GPUs that multiply half numbers, or TF32 ones, add blocks of products to a sum and
// truncate it to float32. The least block is four (V100), and its error up to 2.5u a term
// (docs/TENSORCORES.md). It cuts each of the products and their sum, half a place of the partial sum S_k
// on average, toward 0, and a place is 0.72 times 2u S_k: a block has 5 times 0.72 u S_k. Of n/4 blocks
// that has the mean 3.6 u (n/4) S/2, and with the bridge above a deviation of 3.6 u (n/4) sqrt(Q/12).
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
	return []ball{{v: v, r: r, sigma: sigma, cut: cut, drift: drift, sum: true}}, nil
}

// mostPanel bounds the numbers of a matrix of which something is made at once.
const mostPanel = 1 << 16

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
	grid := 0.0
	if !inexact && weight == 1 && op.Name() != "interpolate" {
		grid = gridOf(in[0].v)
	}
	cubic := 0.0
	if op, is := op.(graph.Interpolate); is && strings.HasSuffix(op.Mode, "cubic") {
		for _, a := range absolute[0].Data {
			cubic = max(cubic, a)
		}
	}
	for i, all := range t.Data {
		all += .9 * cubic // its weights' negative parts are up to .45 of all in absolute value
		n := n[i%len(n)]
		if n == 1 && !inexact || grid > 0 && all < grid/acc.u {
			continue
		}
		r.Data[i] = float64((n+2)*acc.u*all) + float64(44*u*cubic) + acc.least(n) // each of 16 weights is a product of two that are 4u off
		// a mean's squares are divided by n once, and should be twice
		sigma.Data[i] = acc.sigma(n, v.Data[i], q.Data[i]*weight)
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
	return []ball{{v: v, r: r, sigma: sigma, sum: true}}, nil
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
	case graph.Interpolate:
		if op.Mode == "area" {
			most = windows(in[0].v.Shape, v.Shape)
			break
		}
		return []float64{16}, 1, nil
	case graph.CumSum, graph.IndexAdd, graph.ScatterAdd:
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

// binary bounds arithmetic on two numbers.
func binary(op graph.Binary, in []ball, v *tensor.Tensor) ([]ball, error) {
	var of [2]ball
	k := 0
	for i, given := range []*float64{op.Self, op.Other} {
		if given != nil {
			of[i] = scalar(*given)
			continue
		}
		of[i] = in[k]
		k++
	}
	var a, b, ra, rb []float64
	var full []*tensor.Tensor // that are this function's own
	spread := func(t *tensor.Tensor) ([]float64, error) {
		s, err := spreadTo(t, v.Shape)
		if err != nil {
			return nil, err
		}
		if s != t {
			full = append(full, s)
		}
		return s.Data, nil
	}
	defer func() { release(full...) }()
	every := [2]int{1, 1} // 0 for one number that all have
	for i, to := range []struct{ v, r *[]float64 }{{&a, &ra}, {&b, &rb}} {
		if len(of[i].v.Data) == 1 {
			if *to.v, every[i] = of[i].v.Data, 0; of[i].r != nil {
				*to.r = of[i].r.Data
			}
			continue
		}
		var err error
		if *to.v, err = spread(of[i].v); err != nil {
			return nil, err
		}
		if of[i].r != nil {
			if *to.r, err = spread(of[i].r); err != nil {
				return nil, err
			}
		}
	}
	r, any := fresh(fp16.Float64, v.Shape...), false
	var sigma *tensor.Tensor
	for i, y := range v.Data {
		x, z, rx, rz := a[i*every[0]], b[i*every[1]], 0.0, 0.0
		if ra != nil {
			rx = ra[i*every[0]]
		}
		if rb != nil {
			rz = rb[i*every[1]]
		}
		var e float64
		switch op.Of {
		case pointwise.Add, pointwise.Sub:
			e = rx + rz
		case pointwise.Mul:
			e = times(x, rz) + times(z, rx) + times(rx, rz)
		case pointwise.Div: // GPUs' fast division is within 2 ulp, and a product with a reciprocal within 1.5
			if y-y == 0 && float64(float32(y)) != y {
				e = 4 * u * math.Abs(y)
				sigma = deviation(sigma, v, i, typical*e)
			}
			if rx == 0 && rz == 0 {
				break
			}
			if rz >= math.Abs(z) {
				e = math.Inf(1)
				break
			}
			e += (rx + math.Abs(y)*rz) / (math.Abs(z) - rz)
		case pointwise.Pow: // exp(z log x)
			if y-y == 0 {
				sigma = deviation(sigma, v, i, typical*8*u*math.Abs(y))
			}
			if rx == 0 && rz == 0 {
				e = 8 * u * math.Abs(y)
				break
			}
			lo, hi := elem.Pow(max(x-rx, 0), z), elem.Pow(x+rx, z)
			e = max(math.Abs(hi-y), math.Abs(lo-y)) + 8*u*math.Abs(y)
			if rz > 0 && (x != 0 || rx > 0) { // x^rz is e^(rz log x)
				if t := rz * math.Abs(elem.Log(math.Abs(x))); t <= 1 {
					e += 2 * t * (math.Abs(y) + e)
				} else {
					e = math.Inf(1)
				}
			}
		case pointwise.Maximum, pointwise.Minimum, pointwise.FMax, pointwise.FMin:
			e = max(rx, rz)
		default:
			if op.Of >= pointwise.Equal { // truths
				if math.Abs(x-z) <= rx+rz && rx+rz > 0 {
					e = 1
				}
				r.Data[i] = e
				any = any || e > 0
				continue
			}
			if rx+rz > 0 {
				return nil, fmt.Errorf("%s: %w", op.Name(), errNotJudged)
			}
		}
		if y-y == 0 && (e > 0 || float64(float32(y)) != y) {
			e += roundingOf(math.Abs(y) + e)
		}
		if y-y != 0 {
			e = 0
		}
		r.Data[i] = e
		any = any || e > 0
	}
	if !any {
		r = nil
	}
	if op.Of >= pointwise.Equal {
		r = nil // which side of an edge a number is on is not followed
	}
	return []ball{{v: v, r: r, sigma: sigma}}, nil
}

// scalar is a number that is written in a graph, which a kernel has in float32, or in float64 as here.
func scalar(c float64) ball {
	b := ball{v: tensor.Of(fp16.Float64, []float64{c}, 1)}
	if off := math.Abs(float64(float32(c)) - c); off > 0 && off-off == 0 {
		b.r = tensor.Of(fp16.Float64, []float64{off}, 1)
	}
	return b
}

// withScalars is an operation with its scalars rounded to a format.
func withScalars(op graph.Op, f fp16.Format) graph.Op {
	if o, is := op.(graph.Unary); is && ended[o.Name()] {
		ends := o.Func.Params()
		for name, v := range ends {
			ends[name] = f.Round(v)
		}
		if of, err := pointwise.Parse(o.Name(), ends); err == nil {
			o.Func = of
		}
		return o
	}
	o, is := op.(graph.Binary)
	if !is {
		return op
	}
	for _, c := range []**float64{&o.Self, &o.Other, &o.Alpha} { // and of a graph that is not expanded yet, alpha
		if *c != nil {
			v := f.Round(**c)
			*c = &v
		}
	}
	return o
}

// ended are functions that hold numbers within ends, which are scalars.
var ended = map[string]bool{"clip": true, "hardtanh": true}

// sameScalars reports whether an operation's scalars are another's.
func sameScalars(a, b graph.Op) bool {
	if x, is := a.(graph.Unary); is && ended[x.Name()] {
		return maps.Equal(x.Func.Params(), b.(graph.Unary).Func.Params())
	}
	x, is := a.(graph.Binary)
	if !is {
		return true
	}
	y := b.(graph.Binary)
	same := func(a, b *float64) bool { return a == nil || *a == *b || *a != *a }
	return same(x.Self, y.Self) && same(x.Other, y.Other) && same(x.Alpha, y.Alpha)
}

// deviation notes that of one element, in a tensor that is made for the first.
func deviation(sigma, v *tensor.Tensor, i int, of float64) *tensor.Tensor {
	if sigma == nil {
		sigma = fresh(fp16.Float64, v.Shape...)
	}
	sigma.Data[i] = of
	return sigma
}

// times is a product of which 0 times infinity is 0.
func times(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return math.Abs(a * b)
}

// roundingOf bounds one rounding to float32 of a number up to that; subnormal ones may be flushed.
func roundingOf(most float64) float64 {
	return float64(u*most) + min(most, 0x1p-126)
}
