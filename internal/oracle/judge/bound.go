package judge

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// u is half the distance of float32 numbers from 1 on.
const u = 0x1p-24

// leastNormal is the least number that is not subnormal in float32, and in bfloat16.
const leastNormal = 0x1p-126

// leastHalf is the same of float16.
const leastHalf = 0x1p-14

// ball is a step's result: the numbers that exact arithmetic gives, and how far from each those of
// a right kernel may lie. Nil is nowhere.
type ball struct {
	v, r *tensor.Tensor
	// ends are the least and the greatest numbers of a right kernel, after a step that jumps: nil for v - r and v + r.
	ends [2]*tensor.Tensor
	// sigma is what errors of a kernel's arithmetic in this step alone are like: the deviation
	// of a random one. Nil is none.
	sigma *tensor.Tensor
	// cut is the deviation, and drift the mean, toward 0, of the error of a unit that truncates a sum
	// after every four products. Nil where there is no such unit.
	cut, drift *tensor.Tensor
	// sum is set if the error is a sum's, and so of a variance that is random itself.
	sum bool
	// lost is the deviation of what a sum loses whose products and sums on the way are flushed.
	lost float64
	// exact is set if a kernel's arithmetic makes no error in this step: it moves numbers.
	exact bool
	// made is how a kernel makes the step of its inputs, but for sigma, where its errors are not each number's
	// own. Nil is as here.
	made func(x []*tensor.Tensor, s simulation) (*tensor.Tensor, error)
}

// ErrNotJudged is the cause of errors about steps of which it is not known what right kernels
// may return: nobody judges such an output, and the answer is NoPower.
var ErrNotJudged = errors.New("it is not known what right kernels may return")

var errNotJudged = ErrNotJudged

// inexact is an input that a kernel has computed, within two units in the last place.
func inexact(t *tensor.Tensor) ball {
	b := ball{v: t, r: tensor.New(fp16.Float64, t.Shape...), sigma: tensor.New(fp16.Float64, t.Shape...)}
	for i, v := range t.Data {
		if v-v == 0 {
			b.r.Data[i] = 4 * u * math.Abs(v)
			b.sigma.Data[i] = typical * b.r.Data[i]
		}
	}
	return b
}

// moves are operations whose results are some of the numbers of their inputs.
var moves = map[string]bool{
	"identity": true, "reshape": true, "flatten": true, "unflatten": true, "squeeze": true, "unsqueeze": true,
	"permute": true, "transpose": true,
	"expand": true, "repeat": true, "repeat_interleave": true, "flip": true, "roll": true, "slice": true,
	"select": true, "split": true, "chunk": true,
	"unbind": true, "cat": true, "stack": true, "gather": true, "index_select": true, "embedding": true, "index": true,
	"gather_nd": true, "pad": true,
	"where": true, "pixel_shuffle": true, "pixel_unshuffle": true, "depth_to_space": true, "space_to_depth": true,
	"scatter": true, "scatter_nd": true,
	"triu": true, "tril": true,
}

// sums are operations that add numbers of their first input, with weights that are not below 0
// and that the input's numbers have no part in.
var sums = map[string]bool{
	"sum": true, "mean": true, "avg_pool1d": true, "avg_pool2d": true, "avg_pool3d": true, "adaptive_avg_pool1d": true,
	"adaptive_avg_pool2d": true,
	"adaptive_avg_pool3d": true, "cumsum": true, "interpolate": true, "index_add": true, "scatter_add": true,
}

// products are operations that are linear in their first and in their second input, and add a third.
var products = map[string]bool{
	"matmul": true, "mm": true, "bmm": true, "linear": true, "addmm": true, "gemm": true, "einsum": true,
	"conv1d": true, "conv2d": true, "conv3d": true,
	"conv_transpose1d": true, "conv_transpose2d": true, "conv_transpose3d": true,
}

// greatest are operations whose results move by no more than their inputs do.
var greatest = map[string]bool{
	"amax": true, "amin": true, "max_pool1d": true, "max_pool2d": true, "max_pool3d": true, "adaptive_max_pool1d": true,
	"adaptive_max_pool2d": true, "adaptive_max_pool3d": true, "running_maximum": true,
}

// step evaluates a step for exact inputs and for all that right kernels may have in their place.
func step(op graph.Op, in []ball, acc accumulator) ([]ball, error) {
	if acc.thin {
		return thinStep(op, in, acc)
	}
	if computes(op) && !acc.keeps {
		in = flushable(in, acc)
	}
	out, err := bounds(op, in, acc)
	if err == nil {
		err = attributed(op, in, out)
	}
	if computes(op) && err == nil {
		out = flushable(out, acc)
	}
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
	exact := len(in) > 0 && !slices.ContainsFunc(in, func(b ball) bool { return b.v.Format != fp16.Int64 || b.r != nil })
	if products[name] && !exact {
		v, err := of(acc, op, in, func(b ball) *tensor.Tensor { return b.v })
		if err != nil {
			return nil, err
		}
		out, err := product(op, in, v, acc)
		if err != nil {
			return nil, err
		}
		return acc.kept(op, in, out), nil
	}
	out, err := apply(op, given...)
	if err != nil {
		return nil, err
	}
	if scatters(op) {
		return added(op, in, out[0], acc)
	}
	if f := others[name]; f != nil {
		return f(op, in, out)
	}
	if op, is := op.(resizing); is {
		return interpolated(op, in, out[0], acc)
	}
	switch {
	case name == "amax" || greatest[name]:
		return spread(op, in, out, true)
	case moves[name]:
		return spread(op, in, out, false)
	case sums[name]:
		all, err := sum(op, in, out[0], acc)
		if err != nil {
			return nil, err
		}
		return acc.kept(op, in, all), nil
	}
	switch op := op.(type) {
	case graph.Binary:
		return binary(op, in, out[0], acc)
	case graph.Unary, graph.Act, coarseExp, symmetric, erfc:
		return function(op, in[0], out[0], acc)
	case split:
		return op.bound(in[0], out[0])
	case nearer:
		return op.bound(in[0], out[0]), nil
	case cumprod:
		return op.bound(in[0], out[0], acc), nil
	case graph.Reduction:
		if op.Of == "prod" {
			return prod(op, in[0], out[0], acc)
		}
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

// radius returns the radii, of exact numbers zeros.
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
	radii, integers := make([]*tensor.Tensor, len(in)), slices.ContainsFunc(in, ball.otherInteger)
	for k, b := range in {
		switch {
		case !chooses(op, k) && integers && b.r == nil:
			radii[k] = fresh(fp16.Float64, b.v.Shape...)
		case chooses(op, k) && b.otherInteger(): // another choice may be right as well
			return nil, fmt.Errorf("%s by integers that are not exact: %w", op.Name(), errNotJudged)
		case chooses(op, k):
			radii[k] = b.v
		default:
			if radii[k] = b.radius(); radii[k] == nil {
				radii[k] = b.v
			}
		}
	}
	moved, err := apply(op, radii...)
	if err != nil {
		return nil, err
	}
	for k := range all {
		if out[k].Format != fp16.Int64 || integers {
			all[k].r = moved[k]
		}
	}
	return all, nil
}

// chooses reports whether an input says which numbers are moved: by their places, or by truth values.
func chooses(op graph.Op, k int) bool {
	switch op.Name() {
	case "gather", "index_select", "embedding", "index", "gather_nd":
		return k > 0
	case "scatter", "scatter_nd":
		return k == 1
	case "where":
		return k == 0
	}
	return false
}

// otherInteger reports whether these are integers of which some may be others.
func (b ball) otherInteger() bool {
	return b.v.Format == fp16.Int64 && b.r != nil && slices.ContainsFunc(b.r.Data, func(r float64) bool { return r > 0 })
}

// stepped are functions of one number that jump, and never fall.
var stepped = map[string]bool{"floor": true, "ceil": true, "round": true, "trunc": true, "sign": true, "cast": true}

// endsOf are what a function that jumps makes of the ends of its input, and what sums with exact numbers and cuts make
// of these: of a number that may be 2 or 3 it is not 1. They are nil of others.
func endsOf(op graph.Op, in []ball) (ends [2]*tensor.Tensor, err error) {
	if len(in) == 0 || in[0].r == nil {
		return ends, nil
	}
	of, given := in[0].ends, make([]*tensor.Tensor, len(in))
	switch b, is := op.(graph.Binary); {
	case of[0] == nil && !stepped[op.Name()]:
		return ends, nil
	case of[0] == nil:
		of = [2]*tensor.Tensor{moved(in[0], -1), moved(in[0], +1)}
	case is && b.Of == pointwise.Add && len(in) == 2 && in[1].r == nil: // a zero point
	case !stepped[op.Name()] && op.Name() != "clip":
		return ends, nil
	}
	for k, end := range of {
		for i, b := range in {
			given[i] = b.v
		}
		given[0] = end
		out, err := apply(op, given...)
		if err != nil {
			return ends, err
		}
		ends[k] = out[0]
	}
	return ends, nil
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
