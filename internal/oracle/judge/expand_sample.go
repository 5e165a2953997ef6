package judge

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/sample"
	"github.com/refrun/refrun/tensor"
)

// sampling is a grid sampler whose positions are computed in a format, step by step, and in a half format what they
// weigh too, as PyTorch's is on a CPU.
type sampling struct {
	graph.GridSampler
	in fp16.Format
	// only says that the rest is in float32.
	only bool
}

// The faults of a grid sampler.
const (
	otherCorners = "kernel.corners-other"
	otherPadding = "kernel.padding-other"
	axesSwapped  = "kernel.axes-swapped"
	positionsIn  = "kernel.positions-narrow"
)

// paddings are the values of padding_mode.
var paddings = []string{"zeros", "border", "reflection"}

// sample is a grid sampler.
func (b *builder) sample(o graph.GridSampler, x, grid int) int {
	axes := len(b.types[x].Shape) - 2
	switch {
	case b.is(otherCorners):
		o.AlignCorners = !o.AlignCorners
	case b.is(otherPadding):
		o.Padding = paddings[int(b.figure(0))]
	case b.is(axesSwapped):
		places := tensor.New(fp16.Int64, axes)
		for a := range axes {
			places.Data[a] = float64(axes - 1 - a)
		}
		grid = b.step("swapped", graph.IndexSelect{Axis: -1}, grid, b.Constant("", places))
	case b.is(positionsIn):
		return b.step("output", sampling{o, formatOf(b.figure(0)), true}, x, grid)
	}
	if f, is := accumulators[b.form.Sampled]; is {
		return b.step("output", sampling{o, f, false}, x, grid)
	}
	return b.step("output", o, x, grid)
}

// Eval implements [graph.Op].
func (o sampling) Eval(c *graph.Call) error {
	o.at(c.Out[0], c.In(0), o.located(c.In(0), c.In(1)))
	return nil
}

// at sets y to what an image has at positions.
func (o sampling) at(y, x, positions *tensor.Tensor) {
	p := o.params()
	p.Positions = true
	sample.Grid(y, x, positions, p)
}

func (o sampling) params() sample.Params {
	return sample.Params{Mode: sample.Modes[o.Mode], Padding: sample.Paddings[o.Padding], Corners: o.AlignCorners,
		Early: o.RoundFirst}
}

// located are the positions in that format, padded.
func (o sampling) located(x, grid *tensor.Tensor) *tensor.Tensor {
	axes := len(x.Shape) - 2
	out := fresh(fp16.Float64, grid.Shape...)
	for i, g := range grid.Data {
		n := float64(x.Shape[1+axes-i%axes])
		out.Data[i] = o.padded(o.position(g, n), n)
	}
	return out
}

// later reports whether neighbours are padded, and not positions.
func (o sampling) later() bool {
	return o.Mode == "bicubic" || o.Mode == "nearest" && o.RoundFirst && o.Padding == "reflection"
}

// span is how far a grid's 2 reach.
func (o sampling) span(n float64) float64 {
	if o.AlignCorners {
		return n - 1
	}
	return n
}

// position is that of a grid's number along an axis of n.
func (o sampling) position(g, n float64) float64 {
	r := o.in.Round
	half := o.span(n) / 2
	if o.in.Half() { // as inputs of such a kernel are
		g = r(g)
	}
	if o.AlignCorners {
		return r(r(g+1) * r(half))
	}
	return r(r(r(g+1)*r(half)) - .5)
}

// padded is a position with the border or the reflection of its axis, as PyTorch has it.
func (o sampling) padded(p, n float64) float64 {
	switch {
	case o.later() && o.Padding == "reflection":
		return math.Mod(p, 2*max(1, o.span(n)))
	case o.Padding == "zeros" || o.later():
		return p
	}
	if o.Padding == "reflection" {
		r, low, span := o.in.Round, 0., o.span(n)
		if !o.AlignCorners {
			low = -.5
		}
		if span == 0 {
			return 0
		}
		far := math.Abs(r(p - low))
		rest := far - span*math.Floor(far/span)
		if math.Mod(math.Floor(far/span), 2) == 1 {
			rest = r(span - rest)
		}
		p = r(rest + low)
	}
	return min(max(p, 0), n-1)
}
