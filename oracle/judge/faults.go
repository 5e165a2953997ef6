package judge

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// Fault is what is wrong with a kernel: its name, what it is, and what to do.
type Fault struct {
	ID     string
	Title  string
	Advice string
}

// Faults are those that are built into the steps of operations that can have them.
var Faults = []Fault{
	{"maximum_not_subtracted", "the maximum is not subtracted before exp", "subtract each row's maximum: large inputs overflow without it"},
	{"tail_not_summed", "the last part of a sum is left out", "check the mask of the last, partial tile of the summed axis"},
	{"last_term_dropped", "the last term of the sums is left out", "check the end of the loop over the summed axis"},
	{"wrong_dim", "the sum is along another axis", "check dim, and the strides of the input"},
	{"eps_ignored", "eps is not added", "add eps to the variance before the root"},
	{"small_term_missing", "a small number is not added", "add the small number: optimizers of graphs take 1e-8 for 0, and near 0 it is not"},
	{"eps_outside_root", "eps is added to the root, not under it", "add eps to the variance before the root"},
	{onePassID, "the variance is mean(x^2) - mean(x)^2", "subtract the mean before squaring, or use Welford's updates: far from 0 the difference cancels"},
	{"variance_n_minus_1", "the variance is divided by n-1", "divide by n: a norm's variance is the biased one"},
	{"mean_not_subtracted", "the mean is not subtracted", "subtract the mean before the product with 1/deviation"},
	{"mean_subtracted", "a mean is subtracted", "rms_norm has no mean: use the root of the mean square alone"},
	{"weight_missing", "the weight is not applied", "multiply by the weight"},
	{"weight_plus_one", "the weight is used as 1 + weight", "multiply by the weight itself (Gemma's convention adds 1)"},
	{"bias_missing", "the bias is not added", "add the bias"},
	{"groups_of_channels", "each channel is a group", "check num_groups"},
	{"one_group", "all channels are one group", "check num_groups"},
	{"scale_missing", "the scores are not scaled", "multiply the scores by scale, 1/sqrt(E) by default"},
	{"mask_missing", "the mask is not applied", "apply the mask before the softmax"},
	{"mask_off_by_one", "each query sees one key too many", "compare key <= query, with the offsets of the blocks"},
	{"mask_strict", "each query sees one key too few", "compare key <= query, with the offsets of the blocks"},
	{"last_keys_dropped", "the last keys are left out", "check the mask of the last, partial block of keys"},
	{"online_not_rescaled", "sums are not rescaled when the maximum grows", "multiply the sums so far by exp(old maximum - new maximum)"},
	{"ignored_targets_counted", "the mean counts ignored targets too", "divide by the number of targets that are not ignore_index"},
	{"smoothing_missing", "labels are not smoothed", "add label_smoothing times the mean of -log_softmax"},
	{"ignore_index_missing", "ignored targets have a loss", "write 0 where the target is ignore_index"},
	{"other_gelu", "the other form of GELU", "check approximate: none is erf, tanh is the approximation"},
	{"quick_gelu", "x sigmoid(1.702 x)", "compute the function itself, not the quick form of GELU"},
	{"relu_for_gelu", "ReLU in place of GELU", "compute GELU"},
	{"scale_twice", "the scores are scaled twice", "scale them once"},
	{"last_term_twice", "the last term of the sums counts twice", "check the end of the loop over the summed axis"},
	{"relu_for_silu", "ReLU in place of SiLU", "multiply by sigmoid(x)"},
	{"sigmoid_for_silu", "sigmoid(x) in place of x sigmoid(x)", "multiply by x"},
	{"other_pairs", "other numbers are paired", "check interleaved: pairs are i and i + D/2, or neighbours"},
	{"other_sign", "the rotation is the other way", "rotated x is (-second half, first half)"},
	{"weight_transposed", "the second operand is transposed", "check the strides of the second operand"},
	{"operands_tf32", "the operands of products are rounded to TF32", "turn TF32 off, or claim it"},
	{"operands_bfloat16", "the operands of products are rounded to bfloat16", "keep the operands in float32"},
	{"sums_bfloat16", "sums are kept in bfloat16", "accumulate in float32, or say that it accumulates in bfloat16"},
	{"sums_float16", "sums are kept in float16", "accumulate in float32, or say that it accumulates in float16"},
	{"weight_flipped", "the kernel is turned round", "convolutions of networks are correlations: do not flip the kernel"},
}

// outputs are faults of the output as a whole.
var outputs = []struct {
	Fault
	make func(q *Question, t *trial) []float64
}{
	{Fault{"zeros", "the output is zeros", "check that the kernel writes its output"}, func(q *Question, t *trial) []float64 { return make([]float64, len(t.y)) }},
	{Fault{"input_returned", "the output is the input", "check that the kernel runs, and where it writes"}, func(q *Question, t *trial) []float64 {
		if len(q.Inputs) == 0 || !slices.Equal(q.Inputs[0].Shape, q.Output.Shape) {
			return nil
		}
		return q.Inputs[0].Data
	}},
	{Fault{"store_truncated", "the output is cut off, not rounded", "round to nearest even when storing"}, func(q *Question, t *trial) []float64 {
		f := q.Output.Format
		out := slices.Clone(t.stored)
		for i, y := range t.y {
			if math.Abs(out[i]) > math.Abs(y) {
				if y > 0 {
					out[i] = f.NextDown(out[i])
				} else {
					out[i] = f.NextUp(out[i])
				}
			}
		}
		return out
	}},
}

// found is a fault and how well it explains the errors.
type found struct {
	Fault
	gain float64
	left float64 // the share of the squared errors that it does not explain
}

// direction is what a fault does to each element; nil if it cannot be built in.
func (q *Question) direction(types []graph.Type, t *trial, id string) ([]float64, error) {
	b := expand(q.Graph, types, t.Form, id, "")
	if !b.broken {
		return nil, nil
	}
	if _, err := b.values(t.Round); err != nil { // the fault took the step away
		return nil, nil
	}
	y, err := q.made(t.Contract, id, func(r rounded) rounded { return r })
	if errors.Is(err, errNotJudged) { // too large to be tried
		return nil, nil
	}
	return y, err
}

// faults looks for each fault in the errors. An error is e = got - y, a fault's effect d, and weights are
// one over the expected square of an error, with that of storing. The amount of the fault is sum(e d w) /
// sum(d d w), with a deviation of 1/sqrt(sum(d d w)).
func (q *Question) faults(types []graph.Type, t *trial) error {
	f := q.Output.Format
	w := make([]float64, len(t.y))
	for i := range w {
		ulp := f.Ulp(t.stored[i])
		if w[i] = 1 / (t.e[i] + ulp*ulp/12); w[i]-w[i] != 0 {
			w[i] = 0
		}
	}
	kernels := t.right
	if t.flushed != nil {
		kernels = append(slices.Clip(kernels), t.flushed)
	}
	consider := func(fault Fault, faulty []float64) {
		amount, power := q.amount(t, w, faulty, q.Output.Data)
		if power == 0 {
			t.blind = append(t.blind, fault.ID)
			return
		}
		limit := 6.0
		for _, k := range kernels {
			a, p := q.amount(t, w, faulty, k)
			limit = max(limit, 1.5*math.Abs(a*p)+3)
		}
		if fault.ID == "zeros" {
			t.zero = power / limit
		}
		if power < limit {
			t.blind = append(t.blind, fault.ID)
			return
		}
		if amount*power > limit && math.Abs(amount-1) < max(.25, 4/power) {
			gain := power * power * (2*amount - 1)
			left := q.squares(t, w, q.Output.Data) - gain
			if left > max(4*float64(len(w)), .2*(left+gain)) {
				return // something else is wrong
			}
			if t.fault == nil || gain > t.fault.gain {
				t.fault = &found{fault, gain, left / (left + gain)}
			}
		}
	}
	for _, fault := range Faults {
		if strings.HasPrefix(fault.ID, "operands_") && q.Narrow != fp16.Float32 { // half operands are that already
			continue
		}
		faulty, err := q.direction(types, t, fault.ID)
		if err != nil {
			return err
		}
		switch {
		case len(faulty) != len(t.y):
		case fault.ID != onePassID:
			consider(fault, faulty)
		default:
			gain, left, power := q.onePass(t, w, faulty)
			if power < 6 {
				t.blind = append(t.blind, fault.ID)
			} else if gain > 0 && (t.violations > 0 || t.excess > 1) && (t.fault == nil || gain > t.fault.gain) {
				t.fault = &found{fault, gain, left}
			}
		}
	}
	narrow := []fp16.Format{q.Narrow}
	if q.Narrow == fp16.Float32 {
		narrow = []fp16.Format{fp16.Float16, fp16.BFloat16}
	}
	for _, p := range t.b.points {
		if _, is := t.round[p.value]; is || q.Shallow || p.legal && q.Narrow != fp16.Float32 {
			continue
		}
		for _, to := range narrow {
			out, err := q.made(t.Contract, "", func(r rounded) rounded { return with(r, p.value, to) })
			if err != nil {
				return err
			}
			consider(Fault{"rounded_" + p.name, "the step " + p.name + " is rounded to " + to.String(), "keep " + p.name + " in float32"}, out)
		}
	}
	for _, o := range outputs {
		if f == fp16.Float32 && o.ID == "store_truncated" { // the last of many roundings
			continue
		}
		if faulty := o.make(q, t); faulty != nil {
			consider(o.Fault, faulty)
		}
	}
	return nil
}

// squares are the squared errors of an output, each over what is expected.
func (q *Question) squares(t *trial, w, out []float64) (all float64) {
	for i, y := range t.y {
		if e := out[i] - y; e-e == 0 {
			all += e * e * w[i]
		}
	}
	return all
}

// amount returns how much of a fault an output has, and how many deviations the whole fault is.
func (q *Question) amount(t *trial, w, faulty, out []float64) (amount, power float64) {
	var ed, dd float64
	for i, y := range t.y {
		d, e := faulty[i]-y, out[i]-y
		if d == 0 || d-d != 0 || e-e != 0 {
			continue
		}
		ed += e * d * w[i]
		dd += d * d * w[i]
	}
	if dd == 0 {
		return 0, 0
	}
	return ed / dd, math.Sqrt(dd)
}

// with adds a step to those that are rounded.
func with(r rounded, value int, f fp16.Format) rounded {
	r = maps.Clone(r)
	r[value] = rounding{Format: f}
	return r
}
