package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// A norm's 1/deviation may be off by a factor of each group, such as a row, in two ways. A variance as mean(x^2) -
// mean(x)^2 loses what both have in common: of numbers far from 0 it has an error in proportion to (mean^2 +
// variance)/variance, of either sign. An approximate reciprocal root has only so many bits. Neither is one direction,
// but one of each group: the factors are estimated, and what they leave is judged as any fault is.

const onePassID = "kernel.one-pass-variance"

// offBy is a step of one number of each group times the factor of that group.
func (b *builder) offBy(rstd int, shape, axes []int) int {
	if !b.is(onePassID) && !b.is(fewBits) {
		return rstd
	}
	each := append([]int(nil), shape...)
	for _, a := range axes {
		each[a] = 1
	}
	factors := tensor.New(fp16.Float64, each...)
	for i := range factors.Data {
		factors.Data[i] = b.figure(i % len(b.built.figures)) // one figure is all of them
	}
	return b.step("rstd_off", mul, rstd, b.Constant("", factors))
}

// groups returns which group of a norm each result belongs to, how many there are, and eps; 0 of no norm.
func (q *Question) groups() (of func(i int) int, n int, eps float64) {
	if len(q.Graph.Nodes) != 1 || len(q.Inputs) == 0 {
		return nil, 0, 0
	}
	shape := q.Inputs[0].Shape
	size := tensor.Size(shape)
	by := func(n int, eps float64) (func(i int) int, int, float64) {
		if n == 0 || size == 0 {
			return nil, 0, 0
		}
		each := size / n
		return func(i int) int { return i / each }, n, eps
	}
	last := func(axes int) int {
		inner := 1
		for _, a := range lastAxes(shape, max(axes, 1)) {
			inner *= shape[a]
		}
		return size / max(1, inner)
	}
	switch op := q.Graph.Nodes[0].Op.(type) {
	case graph.LayerNorm:
		return by(last(len(op.Shape)), op.Eps)
	case graph.RMSNorm:
		eps := usualEps[len(usualEps)-1]
		if op.Eps != nil {
			eps = *op.Eps
		}
		return by(last(len(op.Shape)), eps)
	case graph.GroupNorm:
		return by(shape[0]*op.Groups, op.Eps)
	case graph.InstanceNorm:
		return by(shape[0]*shape[1], op.Eps)
	case graph.BatchNorm:
		if op.Training {
			inner := tensor.Size(shape[2:])
			return func(i int) int { return i / inner % shape[1] }, shape[1], op.Eps
		}
	}
	return nil, 0, 0
}

// hasMean reports whether an operation is a norm that subtracts the mean of the numbers.
func hasMean(op graph.Op) bool {
	switch op := op.(type) {
	case graph.LayerNorm, graph.GroupNorm, graph.InstanceNorm, graph.MeanVariance:
		return true
	case graph.BatchNorm:
		return op.Training
	}
	return false
}

// norms reports whether there are such norms.
func (q *Question) norms() bool {
	return slices.ContainsFunc(q.Graph.Nodes, func(n graph.Node) bool { return hasMean(n.Op) })
}

// inOnePass is the better one of a trial and those of its contract with variances in one pass. Their errors are within
// the bounds of two passes: an element beyond these is wrong by another cause.
func (q *Question) inOnePass(types []graph.Type, best *trial) (*trial, error) {
	if best.passes() || best.violations > 0 {
		return best, nil
	}
	return q.best(types, q.onePasses(types, best.Contract), best)
}

// onePasses are a contract with variances in one pass.
func (q *Question) onePasses(types []graph.Type, c Contract) (all []Contract) {
	if !q.norms() {
		return nil
	}
	for _, form := range []Form{{OnePass: true}, {OnePass: true, Affine: true}} {
		form = c.Form.with(form)
		names := expand(q.Graph, types, form, q.built).names()
		missing := func(name string) bool { return !slices.Contains(names, name) }
		all = append(all, Contract{form, slices.DeleteFunc(slices.Clone(c.Round), missing)})
	}
	return all
}

// nearer moves each group of numbers toward 0 until the mean square is at most mostOnePass^2 times the variance and
// eps. The variance stays the same, and one pass loses as much of these numbers as right kernels may lose. On CPUs,
// PyTorch's group norm of channels_last images and ONNX Runtime's GroupNormalization are such kernels.
type nearer struct {
	axes []int // of a group
	eps  float64
}

// Name implements [graph.Op].
func (nearer) Name() string { return "nearer_0" }

// Infer implements [graph.Op].
func (nearer) Infer(_ graph.Mode, in []graph.Type) (graph.Inference, error) {
	return graph.Inference{Out: in}, nil
}

// Eval implements [graph.Op].
func (o nearer) Eval(c *graph.Call) error {
	x, out := c.In(0), c.Out[0]
	of, n := grouping(x.Shape, o.axes)
	shift := shifts(of, n, o.eps, x.Data)
	for i, v := range x.Data {
		out.Data[i] = v - shift[of(i)]
	}
	return nil
}

// bound: a number is as far off as before.
func (nearer) bound(in ball, out *tensor.Tensor) []ball {
	y := ball{v: out, exact: in.r == nil}
	if in.r != nil {
		y.r = fresh(fp16.Float64, out.Shape...)
		copy(y.r.Data, in.r.Data)
	}
	return []ball{y}
}

// grouping is which group each number of a tensor is in, those of the other axes, and how many there are.
func grouping(shape, axes []int) (of func(i int) int, n int) {
	steps := make([]int, len(shape)) // between groups, along an axis
	n = 1
	for a := len(shape) - 1; a >= 0; a-- {
		if !slices.Contains(axes, a) {
			steps[a], n = n, n*shape[a]
		}
	}
	return func(i int) (g int) {
		for a := len(shape) - 1; a >= 0; a-- {
			g += i % shape[a] * steps[a]
			i /= shape[a]
		}
		return g
	}, n
}

// shifts are those of [nearer], by group.
func shifts(of func(i int) int, n int, eps float64, x []float64) []float64 {
	means, variances, count := make([]float64, n), make([]float64, n), float64(len(x))/float64(n)
	for i, v := range x {
		means[of(i)] += v / count
	}
	for i, v := range x {
		d := v - means[of(i)]
		variances[of(i)] += d * d / count
	}
	for k, mean := range means {
		most := math.Sqrt(max(0, mostOnePass*mostOnePass*(variances[k]+eps)-variances[k]))
		means[k] = math.Copysign(max(0, math.Abs(mean)-most), mean)
	}
	return means
}

// group is what is known of one: its numbers, its variance, and what a factor of its results is.
type group struct {
	count, sum, square, fourth float64
	variance                   float64
	usual                      float64 // what a variance in one pass is off by, as a rule
	right                      float64 // and in one that is right
	factor                     float64 // by which the output's results are off
	seen                       float64 // the deviations that a factor of 2 is
}

// scaling is where an output goes if the 1/deviation of all groups is twice what it is; nil where there is no norm.
func (q *Question) scaling(types []graph.Type, t *trial) (of func(i int) int, n int, eps float64, double []float64,
	err error) {
	of, n, eps = q.groups()
	if n == 0 || len(q.Inputs[0].Data) != len(t.y) || q.Graph.Nodes[0].Op.Name() == "rms_norm" && n > len(t.y)/perFactor {
		return nil, 0, 0, nil, nil
	}
	double, err = q.effect(types, t.Contract, built{id: fewBits, figures: []float64{2}})
	return of, n, eps, double, err
}

func (g *group) add(x float64) {
	g.count++
	g.sum += x
	g.square += float64(x * x)
	g.fourth += float64(x*x) * float64(x*x)
}

// loses is what a variance in one pass is off by, as a rule.
func (g *group) loses() float64 {
	m := g.sum / g.count
	return sumSigma(g.count, g.square, g.fourth)/g.count +
		2*math.Abs(m)*sumSigma(g.count, g.sum, g.square)/g.count + 2*u*m*m
}

// grouped estimates the factors of all groups; nil where there is no norm, or none is off by a factor.
func (q *Question) grouped(t *trial, w []float64) ([]group, float64) {
	types, err := q.types()
	if err != nil {
		return nil, 0
	}
	of, n, eps, double, err := q.scaling(types, t)
	if err != nil || double == nil {
		return nil, 0
	}
	all := make([]group, n)
	ed := make([]float64, n)
	for i, x := range q.Inputs[0].Data {
		g := &all[of(i)]
		g.add(x)
		e, d := q.Output.Data[i]-t.y[i], double[i]-t.y[i]
		if e-e == 0 && d-d == 0 {
			ed[of(i)] += float64(e*d) * w[i]
			g.seen += float64(d*d) * w[i]
		}
	}
	shift := shifts(of, n, eps, q.Inputs[0].Data)
	near := make([]group, n)
	for i, x := range q.Inputs[0].Data {
		k := of(i)
		d := x - all[k].sum/all[k].count
		all[k].variance += d * d / all[k].count
		near[k].add(x - shift[k])
	}
	for k := range all {
		g := &all[k]
		g.usual, g.right = g.loses(), near[k].loses()
		g.factor = 1
		if g.seen > 0 {
			g.factor += ed[k] / g.seen
		}
		g.seen = math.Sqrt(g.seen)
	}
	return all, eps
}

// seen notes whether this data would show a variance in one pass: a factor is off by half of what the variance is, in
// proportion. A variance in two passes is off by what its own sums are anyhow.
func (q *Question) seen(types []graph.Type, t *trial, w []float64) error {
	if !q.norms() {
		return nil
	}
	all, eps := q.grouped(t, w)
	power := 0.0
	for _, g := range all {
		v := g.variance
		less := max(2*sumSigma(g.count, v*g.count, normalFourth*v*v*g.count)/g.count, g.right)
		off := min(1, math.Sqrt(max(0, g.usual*g.usual-less*less))/(v+eps)) / 2
		power += g.seen * g.seen * off * off
	}
	if all != nil && math.Sqrt(power) < alongOf(nil).limit(atOdds(t.directions())) {
		t.hide(onePassID)
	}
	return nil
}

// onePassFactors are those of a variance in one pass, if all of them may be: each variance is within reach of what it
// loses, or 0 where it would be below, and they are off by more than two passes would be.
func onePassFactors(q *Question, t *trial) [][]float64 {
	if !q.norms() {
		return nil
	}
	all, eps := q.grouped(t, t.weights(q.Output.Format))
	var figures []float64
	for _, g := range all {
		figures = append(figures, g.factor)
		off := (g.variance+eps)/(g.factor*g.factor) - eps - g.variance
		if g.factor == 0 { // some kernels return zeros for a variance that is not above 0
			off = -g.variance
		}
		if math.Abs(off) > mostUsualOff*g.usual || g.factor < 0 {
			return nil
		}
	}
	if figures == nil {
		return nil
	}
	return [][]float64{figures}
}

// fewBitFactors are those of an approximate reciprocal root: near 1, and not all alike.
func fewBitFactors(q *Question, t *trial) [][]float64 {
	all, _ := q.grouped(t, t.weights(q.Output.Format))
	if len(all) < fewNumbers {
		return nil
	}
	var figures []float64
	var mean, square float64
	for _, g := range all {
		figures = append(figures, g.factor)
		mean += (g.factor - 1) / float64(len(all))
		square += (g.factor - 1) * (g.factor - 1) / float64(len(all))
		if math.Abs(g.factor-1) > mostOff {
			return nil
		}
	}
	if square-mean*mean < leastVaried*square {
		return nil
	}
	return [][]float64{figures}
}

func fewBitWords(q *Question, id string, figures []float64) string {
	most := 0.0
	for _, f := range figures {
		most = max(most, math.Abs(f-1))
	}
	return fmt.Sprintf("each 1/deviation is off by up to 2^%.0f of it: a root of few bits", elem.Log(most)/math.Ln2)
}
