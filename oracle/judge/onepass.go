package judge

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// A variance as mean(x^2) - mean(x)^2 loses what both have in common: of numbers far from 0 it has an error in
// proportion to (mean^2 + variance)/variance. Each group of a norm, such as a row, has one of its own, with
// either sign, and all its results are off by one factor. That is no one direction, but one of each group.

const onePassID = "one_pass_variance"

// nudge is the share by which the direction of that fault changes each variance.
const nudge = 0x1p-10

// groups returns which group of a norm each result belongs to, and how many there are; 0 of no norm.
func (q *Question) groups() (of func(i int) int, n int) {
	if len(q.Graph.Nodes) != 1 || len(q.Inputs) == 0 {
		return nil, 0
	}
	shape := q.Inputs[0].Shape
	size := tensor.Size(shape)
	by := func(n int) (func(i int) int, int) {
		if n == 0 || size == 0 {
			return nil, 0
		}
		each := size / n
		return func(i int) int { return i / each }, n
	}
	switch op := q.Graph.Nodes[0].Op.(type) {
	case graph.LayerNorm:
		inner := 1
		for _, a := range lastAxes(shape, max(len(op.Shape), 1)) {
			inner *= shape[a]
		}
		return by(size / max(1, inner))
	case graph.GroupNorm:
		return by(shape[0] * op.Groups)
	case graph.InstanceNorm:
		return by(shape[0] * shape[1])
	case graph.BatchNorm:
		if op.Training {
			inner := tensor.Size(shape[2:])
			return func(i int) int { return i / inner % shape[1] }, shape[1]
		}
	}
	return nil, 0
}

// onePass looks for that fault in the errors; faulty is what a variance that is larger by nudge gives. It is
// found where each group's errors are one multiple of its direction, the multiples have both signs, and are as
// large as rounding a mean square and a square of a mean makes them, or up to a sum in the worst usual order.
func (q *Question) onePass(t *trial, w, faulty []float64) (gain, left, power float64) {
	of, n := q.groups()
	if n < 4 {
		return 0, 0, 0
	}
	type group struct{ count, sum, square, fourth, ed, dd, ee float64 }
	all := make([]group, n)
	for i, x := range q.Inputs[0].Data {
		g := &all[of(i)]
		g.count++
		g.sum += x
		g.square += float64(x * x)
		g.fourth += float64(x*x) * float64(x*x)
		e, d := q.Output.Data[i]-t.y[i], faulty[i]-t.y[i]
		if e-e == 0 && d-d == 0 {
			g.ed += float64(e*d) * w[i]
			g.dd += float64(d*d) * w[i]
			g.ee += float64(e*e) * w[i]
		}
	}
	var squares, explained, mean, rms, usual, least float64
	for _, g := range all {
		m := g.sum / g.count
		v := g.square/g.count - m*m
		if !(v > 0) || g.dd == 0 {
			continue
		}
		// Results are a multiple 1/sqrt of the variance: if they are r times what they should be, it is 1/r^2 times.
		r := 1 - g.ed/g.dd*nudge/2
		if r <= 0 {
			return 0, 0, 0
		}
		amount := 1/(r*r) - 1
		sums := sumSigma(g.count, g.square, g.fourth)/g.count + 2*math.Abs(m)*sumSigma(g.count, g.sum, g.square)/g.count
		less := 2 * sumSigma(g.count, v*g.count, 3*v*v*g.count) / g.count // a variance in two passes has this anyhow
		squares += g.ee
		explained += g.ed * g.ed / g.dd
		mean += amount / float64(n)
		rms += amount * amount / float64(n)
		usual += sums * sums / (v * v) / float64(n)
		least += .1 * u * u * m * m * m * m / (v * v) / float64(n)
		power += g.dd * max(0, sums*sums-less*less) / (v * v) / (nudge * nudge)
	}
	if (mean*mean < .5*rms || usual > .01) && rms > least/4 && rms < 25*usual && squares-explained < .2*squares+4*float64(len(w)) {
		gain = explained
	}
	return gain, 1 - explained/squares, math.Sqrt(power)
}
