package judge

import (
	"errors"
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

	// figures are what a family of faults leaves open, as an output says it: an eps, a factor. They are looked
	// for where a kernel fails, and only to say why.
	figures func(q *Question, t *trial) [][]float64
	// words are the title with figures.
	words func(q *Question, figures []float64) string
	// vague says that the effect of many another fault may look like this one.
	vague bool
}

// Faults are those that are built into the steps of operations that can have them, the simplest first.
var Faults = []Fault{
	{ID: "maximum_not_subtracted", Title: "the maximum is not subtracted before exp", Advice: "subtract each row's maximum: large inputs overflow without it"},
	{ID: "last_term_dropped", Title: "the last term of the sums is left out", Advice: "check the end of the loop over the summed axis"},
	{ID: "tail_not_summed", Title: "the last part of a sum is left out", Advice: "check the mask of the last, partial tile of the summed axis"},
	{ID: "wrong_dim", Title: "the sum is along another axis", Advice: "check dim, and the strides of the input"},
	{ID: "eps_ignored", Title: "eps is not added", Advice: "add eps to the variance before the root"},
	{ID: "small_term_missing", Title: "a small number is not added", Advice: "add the small number: optimizers of graphs take 1e-8 for 0, and near 0 it is not"},
	{ID: "eps_outside_root", Title: "eps is added to the root, not under it", Advice: "add eps to the variance before the root"},
	{ID: onePassID, Title: "the variance is mean(x^2) - mean(x)^2", Advice: "subtract the mean before squaring, or use Welford's updates: far from 0 the difference cancels", figures: onePassFactors},
	{ID: "variance_n_minus_1", Title: "the variance is divided by n-1", Advice: "divide by n: a norm's variance is the biased one"},
	{ID: "variance_n", Title: "the variance is divided by n", Advice: "divide by n-1, or say correction=0"},
	{ID: "mean_not_subtracted", Title: "the mean is not subtracted", Advice: "subtract the mean before the product with 1/deviation"},
	{ID: "mean_subtracted", Title: "a mean is subtracted", Advice: "rms_norm has no mean: use the root of the mean square alone"},
	{ID: "weight_missing", Title: "the weight is not applied", Advice: "multiply by the weight"},
	{ID: "weight_plus_one", Title: "the weight is used as 1 + weight", Advice: "multiply by the weight itself (Gemma's convention adds 1)"},
	{ID: "bias_missing", Title: "the bias is not added", Advice: "add the bias"},
	{ID: "groups_of_channels", Title: "each channel is a group", Advice: "check num_groups"},
	{ID: "one_group", Title: "all channels are one group", Advice: "check num_groups"},
	{ID: "scale_missing", Title: "the scores are not scaled", Advice: "multiply the scores by scale, 1/sqrt(E) by default"},
	{ID: "mask_missing", Title: "the mask is not applied", Advice: "apply the mask before the softmax"},
	{ID: "mask_off_by_one", Title: "each query sees one key too many", Advice: "compare key <= query, with the offsets of the blocks"},
	{ID: "mask_strict", Title: "each query sees one key too few", Advice: "compare key <= query, with the offsets of the blocks"},
	{ID: "last_keys_dropped", Title: "the last keys are left out", Advice: "check the mask of the last, partial block of keys"},
	{ID: "online_not_rescaled", Title: "sums are not rescaled when the maximum grows", Advice: "multiply the sums so far by exp(old maximum - new maximum)"},
	{ID: "ignored_targets_counted", Title: "the mean counts ignored targets too", Advice: "divide by the number of targets that are not ignore_index"},
	{ID: "smoothing_missing", Title: "labels are not smoothed", Advice: "add label_smoothing times the mean of -log_softmax"},
	{ID: "ignore_index_missing", Title: "ignored targets have a loss", Advice: "write 0 where the target is ignore_index"},
	{ID: "other_gelu", Title: "the other form of GELU", Advice: "check approximate: none is erf, tanh is the approximation"},
	{ID: "quick_gelu", Title: "x sigmoid(1.702 x)", Advice: "compute the function itself, not the quick form of GELU"},
	{ID: "relu_for_gelu", Title: "ReLU in place of GELU", Advice: "compute GELU"},
	{ID: "scale_twice", Title: "the scores are scaled twice", Advice: "scale them once"},
	{ID: "last_term_twice", Title: "the last term of the sums counts twice", Advice: "check the end of the loop over the summed axis"},
	{ID: "relu_for_silu", Title: "ReLU in place of SiLU", Advice: "multiply by sigmoid(x)"},
	{ID: "sigmoid_for_silu", Title: "sigmoid(x) in place of x sigmoid(x)", Advice: "multiply by x"},
	{ID: "other_pairs", Title: "other numbers are paired", Advice: "check interleaved: pairs are i and i + D/2, or neighbours"},
	{ID: "other_sign", Title: "the rotation is the other way", Advice: "rotated x is (-second half, first half)"},
	{ID: "weight_transposed", Title: "the second operand is transposed", Advice: "check the strides of the second operand"},
	{ID: operandsTF32, Title: "the operands of products are rounded to TF32", Advice: "turn TF32 off, or claim it", figures: otherWays, words: operandWords},
	{ID: "operands_bfloat16", Title: "the operands of products are rounded to bfloat16", Advice: "keep the operands in float32"},
	{ID: "sums_bfloat16", Title: "sums are kept in bfloat16", Advice: "accumulate in float32, or say that it accumulates in bfloat16"},
	{ID: "sums_float16", Title: "sums are kept in float16", Advice: "accumulate in float32, or say that it accumulates in float16"},
	{ID: "weight_flipped", Title: "the kernel is turned round", Advice: "convolutions of networks are correlations: do not flip the kernel"},

	{ID: meanForSum, Title: "a mean in place of a sum", Advice: "do not divide by the number of terms", figures: none},
	{ID: sumForMean, Title: "a sum in place of a mean", Advice: "divide by the number of terms", figures: none},
	{ID: rootForgotten, Title: "the root is forgotten", Advice: "take the square root", figures: none},
	{ID: otherCorner, Title: "the mask is aligned to the other corner", Advice: "with is_causal query i sees keys up to i, of however many: not up to i + S - L", figures: eitherCorner},
	{ID: wideWindow, Title: "the window is one too wide", Advice: "check the ends of the window", figures: windowEnds},
	{ID: otherEps, Title: "eps is another number", Advice: "check eps: frameworks have other defaults", figures: usualEps, words: epsWords},
	{ID: paddingCounted, Title: "padding is counted in the statistics", Advice: "divide by the number of elements, and leave lanes beyond the end out of the variance too", figures: paddedCounts, words: paddedWords},
	{ID: termMissing, Title: "a term is not added", Advice: "add it", figures: lostTerms, vague: true},
	{ID: inputRounded, Title: "an input is rounded", Advice: "keep the inputs in float32", figures: narrowInputs, words: inputWords},
	{ID: "zeros", Title: "the output is zeros", Advice: "check that the kernel writes its output", figures: allZeros},
	{ID: inputReturned, Title: "the output is the input", Advice: "check that the kernel runs, and where it writes", figures: sameInputs},
	{ID: storeTruncated, Title: "the output is cut off, not rounded", Advice: "round to nearest even when storing", figures: ofHalf},
	{ID: fewBits, Title: "1/deviation has few bits", Advice: "refine an approximate reciprocal root by a step of Newton's", figures: fewBitFactors, words: fewBitWords},
	{ID: allNaN, Title: "the output is NaN everywhere", Advice: "look for 0/0, Inf - Inf, and memory that is read before it is written", figures: onlyNaN, vague: true},
	{ID: oneNumber, Title: "the output is one number everywhere", Advice: "check that the kernel reads its input", figures: theNumber, vague: true},
	{ID: timesConstant, Title: "the output is times a constant", Advice: "look for a scale that is applied twice or not at all", figures: factorsOf, words: timesWords, vague: true},
	{ID: partZeros, Title: "part of the output is zeros", Advice: "check the grid, and the mask of the last, partial tile", figures: zerosAmong, vague: true},
	{ID: resultsMoved, Title: "results are in other places", Advice: "check the indices and the strides of what is stored", figures: movedFrom, words: movedWords, vague: true},
}

// named returns a fault by its ID, and nil for a step that is rounded.
func named(id string) *Fault {
	if i := slices.IndexFunc(Faults, func(f Fault) bool { return f.ID == id }); i >= 0 {
		return &Faults[i]
	}
	return nil
}

// built is a fault that is built into the steps of a graph.
type built struct {
	id      string
	at      string    // the node that has it, "" for every one that can
	figures []float64 // what a family leaves open
}

// whole reports whether a fault is one of the whole output, which is not evaluated in blocks.
func (f built) whole() bool {
	switch f.id {
	case onePassID, fewBits, partZeros, resultsMoved, inputReturned:
		return true
	}
	return strings.HasPrefix(f.id, "sums_") // of which there is a limit
}

// with is a question about the graph with a fault.
func (q *Question) with(f built) *Question {
	w := *q
	w.built = f
	return &w
}

// effect is what a fault makes of each element; nil if it cannot be built in.
func (q *Question) effect(types []graph.Type, c Contract, f built) ([]float64, error) {
	b := expand(q.Graph, types, c.Form, f)
	if !b.broken {
		return nil, nil
	}
	if _, err := b.values(c.Round); err != nil { // the fault took the step away
		return nil, nil
	}
	y, err := q.with(f).made(c)
	if errors.Is(err, errNotJudged) { // too large to be tried
		return nil, nil
	}
	return y, err
}

// outputs are faults of the output as a whole that any kernel may have.
var outputs = []struct {
	id   string
	make func(q *Question, t *trial) []float64
}{
	{"zeros", func(q *Question, t *trial) []float64 { return make([]float64, len(t.y)) }},
	{inputReturned, func(q *Question, t *trial) []float64 {
		if len(q.Inputs) == 0 || !slices.Equal(q.Inputs[0].Shape, q.Output.Shape) {
			return nil
		}
		return q.Inputs[0].Data
	}},
	{storeTruncated, func(q *Question, t *trial) []float64 {
		if q.Output.Format == fp16.Float32 { // the last of many roundings
			return nil
		}
		out := make([]float64, len(t.y))
		truncate(q.Output.Format, out, t.y)
		return out
	}},
}

// direction is a fault whose direction the errors have, and how much it explains of them.
type direction struct {
	id         string
	gain, left float64 // of the squared errors, and the share that it leaves
}

// faults looks for each fault in the errors, as small as it may be. An error is e = got - y, a fault's effect d,
// and weights are one over the expected square of an error, with that of storing. The amount of the fault is
// sum(e d w) / sum(d d w), with a deviation of 1/sqrt(sum(d d w)).
func (q *Question) faults(types []graph.Type, t *trial) error {
	w := t.weights(q.Output.Format)
	consider := func(id string, faulty []float64) {
		amount, power := q.amount(t, w, faulty, q.Output.Data)
		limit := 6.0
		for _, k := range t.kernels() {
			a, p := q.amount(t, w, faulty, k)
			limit = max(limit, 1.5*math.Abs(a*p)+3)
		}
		if id == "zeros" {
			t.zero = power / limit
		}
		if power < limit {
			t.hide(id)
			return
		}
		if amount*power > limit && math.Abs(amount-1) < max(.25, 4/power) {
			t.lies(&direction{id: id, gain: power * power * (2*amount - 1)}, q.squares(t, w, q.Output.Data), len(w))
		}
	}
	for _, f := range Faults {
		if strings.HasPrefix(f.ID, "operands_") && q.Narrow != fp16.Float32 { // half operands are that already
			continue
		}
		if f.ID == onePassID {
			if err := q.seen(types, t, w); err != nil {
				return err
			}
			continue
		}
		if f.figures != nil && f.ID != operandsTF32 {
			continue
		}
		faulty, err := q.effect(types, t.Contract, built{id: f.ID})
		if err != nil {
			return err
		}
		if len(faulty) == len(t.y) {
			consider(f.ID, faulty)
		}
	}
	for _, f := range q.roundings(t, q.Narrow) {
		faulty, err := q.effect(types, t.Contract, f)
		if err != nil {
			return err
		}
		if faulty != nil {
			consider(f.id, faulty)
		}
	}
	for _, o := range outputs {
		if faulty := o.make(q, t); faulty != nil {
			consider(o.id, faulty)
		}
	}
	return nil
}

// kernels are the simulated ones, with the one that flushes subnormal numbers, if there is one.
func (t *trial) kernels() [][]float64 {
	if t.flushed == nil {
		return t.right
	}
	return append(slices.Clip(t.right), t.flushed)
}

// hide notes that this data would not show a fault.
func (t *trial) hide(id string) {
	if !slices.Contains(t.blind, id) {
		t.blind = append(t.blind, id)
	}
}

// lies notes that the errors, of these squares, lie along a fault, unless something else is wrong too.
func (t *trial) lies(a *direction, squares float64, n int) {
	left := squares - a.gain
	a.left = left / squares
	if left <= max(4*float64(n), .2*squares) && (t.along == nil || a.gain > t.along.gain) {
		t.along = a
	}
}

// weights are one over the expected square of each error, with that of storing.
func (t *trial) weights(f fp16.Format) []float64 {
	w := make([]float64, len(t.y))
	for i := range w {
		ulp := f.Ulp(t.stored[i])
		if w[i] = 1 / (t.e[i] + ulp*ulp/12); w[i]-w[i] != 0 {
			w[i] = 0
		}
	}
	return w
}

// roundings are the faults that a step alone is rounded, to a format, and of float32 numbers to either half one.
func (q *Question) roundings(t *trial, to fp16.Format) (all []built) {
	if q.Shallow {
		return nil
	}
	narrow := []fp16.Format{to}
	if to == fp16.Float32 {
		narrow = []fp16.Format{fp16.Float16, fp16.BFloat16}
	}
	seen, free := map[string]bool{}, []point(nil)
	for _, p := range t.b.points {
		none := p.legal && to.Half() && to == q.Narrow // that is what right kernels do
		if _, is := t.round[p.value]; !is && !seen[p.name] && !none {
			free, seen[p.name] = append(free, p), true
		}
	}
	tried := some(free, len(narrow)*len(t.b.Nodes))
	t.untried = len(free) - len(tried)
	for _, p := range tried {
		for _, f := range narrow {
			if p.legal && f == q.Narrow {
				continue
			}
			all = append(all, built{id: roundedStep + p.name, figures: []float64{float64(f)}})
		}
	}
	return all
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
