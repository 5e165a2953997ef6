package judge

import (
	"math"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/resize"
	"github.com/refrun/refrun/tensor"
)

// resizing is a resize in one of the ways of kernels.
type resizing struct {
	graph.Interpolate
	// weights is the format to which the weights along each axis are rounded; float64 is none.
	weights fp16.Format
	// positions are how the nearest number is found, "" as it is defined.
	positions string
}

// How kernels make positions in float32: by the ratio of the sizes, as PyTorch, or by the scale, as ONNX Runtime.
const (
	ratios = "float32 ratio"
	scales = "float32 scale"
)

// Eval implements [graph.Op].
func (o resizing) Eval(c *graph.Call) error {
	if o.weights == fp16.Float64 && o.positions == "" {
		return o.Interpolate.Eval(c)
	}
	g, err := o.of(c.In(0).Shape, c.Out[0].Shape)
	if err == nil {
		y := g.through(c.In(0), func(a int) tapped { return g.taps(a, nowhere) })
		copy(c.Out[0].Data, y.Data)
		release(y)
	}
	return err
}

// spot is where a number of a result stands along one axis of its source, and what a kernel's position is off by at
// most: common by an error of the ratio, which all numbers of an axis share, and own by roundings of its own.
type spot struct{ at, common, own float64 }

func (s spot) off() float64 { return s.common + s.own }

// spots are those of an axis, by the rules of [resize.Coordinates]. A ratio has two roundings, its own and that of the
// reciprocal that some kernels make of it, and a power of 2 has none.
func (o resizing) spots(axis resize.Axis, in, out int) []spot {
	s, n := float64(in)/float64(out), float64(out)
	switch {
	case axis.Scale != 0:
		s, n = 1/axis.Scale, float64(in)*axis.Scale
	case axis.Ratio != [2]int{}:
		s = float64(axis.Ratio[1]) / float64(axis.Ratio[0])
		n = float64(in) / s
	}
	shift, start := 0.0, 0.0 // a number stands at (i + shift) s - shift + start
	switch c := axis.Coordinates; {
	case c == resize.PyTorchHalfPixel && out <= 1, c == resize.AlignCorners && n <= 1:
		s = 0
	case c == resize.CropAndResize && n <= 1:
		s, start = 0, float64(in-1)*(axis.First+axis.Last)/2
	case c == resize.HalfPixel, c == resize.PyTorchHalfPixel:
		shift = .5
	case c == resize.HalfPixelSymmetric:
		shift, start = .5, (float64(in)-float64(float64(out)*s))/2
	case c == resize.AlignCorners:
		s = float64(in-1) / (n - 1)
	case c == resize.CropAndResize:
		s = float64(in-1) * (axis.Last - axis.First) / (n - 1)
		start = float64(float64(in-1) * axis.First)
	}
	fraction, _ := math.Frexp(s)
	all := make([]spot, out)
	for i := range all {
		product := float64((float64(i) + shift) * s)
		all[i].at = product - shift + start
		switch {
		case o.positions == ratios:
			all[i].at = float64((float32(i)+float32(shift))*float32(s)) - shift + start
		case o.positions == scales && s > 0:
			all[i].at = float64((float32(i)+float32(shift))/float32(1/s)) - shift + start
		case math.Abs(fraction) != .5 && s != 0 || start != 0:
			product = math.Abs(product)
			all[i].common, all[i].own = 2*u*product, u*(product+math.Abs(all[i].at)+4*math.Abs(start))
		}
	}
	return all
}

func (o resizing) linear() bool { return strings.HasSuffix(o.Mode, "linear") }
func (o resizing) cubic() bool  { return strings.HasSuffix(o.Mode, "cubic") }

// nearest is the number that is taken at a position.
func (o resizing) nearest(p float64) float64 {
	rounding := o.Rounding
	switch {
	case o.Mode == "nearest-exact":
		rounding = "round_prefer_ceil"
	case rounding == "" && o.Coordinates == "":
		rounding = "floor"
	}
	switch rounding {
	case "floor":
		return math.Floor(p)
	case "ceil":
		return math.Ceil(p)
	case "round_prefer_ceil":
		return math.Floor(p + .5)
	}
	return math.Ceil(p - .5)
}

// window is how the weights of an axis come about: of the kernel at (j - p)/h, for all j within reach of p, each over
// their sum if they are normed.
type window struct {
	resize.Axis
	h, reach, a float64 // a of a cubic's kernel
	in          int
	normed      bool
}

func (o resizing) window(axis resize.Axis, in, out int) window {
	w := window{Axis: axis, h: 1, reach: 1, a: o.CubicCoefficient(), in: in, normed: axis.Antialias || axis.Exclude}
	if axis.Antialias {
		switch s := float64(in) / float64(out); {
		case axis.Scale != 0:
			w.h = max(1, 1/axis.Scale)
		case axis.Ratio != [2]int{}:
			w.h = max(1, float64(axis.Ratio[1])/float64(axis.Ratio[0]))
		default:
			w.h = max(1, s)
		}
	}
	if w.reach = w.h; o.cubic() {
		w.reach *= 2
	}
	return w
}

// cubicKernel is R. Keys' (see package resize).
func cubicKernel(a, x float64) float64 {
	if x <= 1 {
		return float64((float64((a+2)*x)-(a+3))*float64(x*x)) + 1
	}
	return float64((float64((float64(a*x)-5*a)*x)+8*a)*x) - 4*a
}

// neighbours are the numbers at a position, from number k on, their weights, and what those are divided by. There are
// none outside of a part of the source.
func (o resizing) neighbours(w window, p float64) (k int, weights []float64, sum float64) {
	if w.Coordinates == resize.CropAndResize && !(p >= 0 && p <= float64(w.in-1)) {
		return 0, nil, 1
	}
	if !o.linear() && !o.cubic() {
		return int(o.nearest(p)), []float64{1}, 1
	}
	if o.linear() && !w.normed { // beyond an end both neighbours are that
		p = max(p, 0)
		k = int(min(math.Floor(p), float64(w.in-1)))
		t := min(p-float64(k), 1)
		return k, []float64{1 - t, t}, 1
	}
	p = min(max(p, -2-w.reach), float64(w.in)+2+w.reach)
	k, last := int(math.Floor(p-w.reach))+1, int(math.Floor(p+w.reach))
	if w.Exclude {
		k, last = max(k, 0), min(last, w.in-1)
	}
	for j := k; j <= last; j++ {
		x := math.Abs(float64(j)-p) / w.h
		v := 1 - x
		if o.cubic() {
			v = cubicKernel(w.a, x)
		}
		weights, sum = append(weights, v), sum+v
	}
	if !w.normed {
		return k, weights, 1
	}
	for j := range weights {
		weights[j] /= sum
	}
	return k, weights, sum
}

// weightOff bounds the error in float32 of the weight of a neighbour that is x from a position, before it is divided. A
// cubic's is a polynomial by Horner's rule, whose results on the way are, from 1 on, up to 2, 3, 6, 2 and 4 times
// a, and what follows multiplies by 4, 4, 2, 2 and 1: 40a in all. Up to 1 they are below a+2, three times a+3, and
// 1. The distance itself has three roundings where it is divided.
func (o resizing) weightOff(w window, x float64) float64 {
	off := 2 * u
	switch {
	case o.cubic() && math.Abs(x) > w.h:
		off = 40 * u * math.Abs(w.a)
	case o.cubic():
		off = u * (math.Abs(w.a+2) + 3*math.Abs(w.a+3) + 1)
	}
	if w.h != 1 {
		off += 3 * u * math.Abs(x) / w.h * o.steepest(w)
	}
	return off
}

// steepest bounds the derivative of the kernel.
func (o resizing) steepest(w window) float64 {
	if o.cubic() {
		return 1.5*math.Abs(w.a+1) + math.Abs(w.a)
	}
	return 1
}

// tapped are the neighbours of all numbers along an axis, from number k on, their weights, and what those were divided
// by.
type tapped []struct {
	k     int
	w     []float64
	sum   float64
	alone float64 // in place of a sum of none
}

// sizes are the weights' magnitudes.
func (t tapped) sizes() tapped {
	return t.each(func(_, _ int, w float64) float64 { return math.Abs(w) })
}

// each changes the weights.
func (t tapped) each(by func(i, j int, w float64) float64) tapped {
	for i := range t {
		t[i].alone = 0
		for j, w := range t[i].w {
			t[i].w[j] = by(i, j, w)
		}
	}
	return t
}

// image is a resize at work: of each axis the window, and the spots.
type image struct {
	resizing
	windows []window
	spots   [][]spot
	off     float64 // the most that a position is off by
}

func (o resizing) of(from, to []int) (*image, error) {
	_, axes, err := o.Axes(from[2:])
	if err != nil {
		return nil, err
	}
	g := &image{resizing: o}
	for a, axis := range axes {
		s := o.spots(axis, from[2+a], to[2+a])
		for _, p := range s {
			g.off = max(g.off, p.off())
		}
		g.windows, g.spots = append(g.windows, o.window(axis, from[2+a], to[2+a])), append(g.spots, s)
	}
	return g, nil
}

// taps are those of an axis, each where it is moved to.
func (g *image) taps(axis int, moved func(i int) float64) tapped {
	all := make(tapped, len(g.spots[axis]))
	for i, s := range g.spots[axis] {
		all[i].k, all[i].w, all[i].sum = g.neighbours(g.windows[axis], s.at+moved(i))
		if g.round(all[i].w, all[i].sum); len(all[i].w) == 0 {
			all[i].alone = g.Outside
		}
	}
	return all
}

func nowhere(int) float64 { return 0 }

// round rounds weights, which were divided by their sum. Those of a linear resize are the part of one neighbour, and
// what that leaves of 1.
func (g *image) round(w []float64, sum float64) {
	switch {
	case g.weights == fp16.Float64:
	case g.Antialias:
		for j := range w {
			w[j] = g.quotient(float64(w[j]*sum), sum)
		}
	default:
		if g.weights.RoundSlice(w, w); g.linear() && len(w) == 2 {
			w[0] = g.weights.Round(1 - w[1])
		}
	}
}

// quotient is a weight over the sum of all as PyTorch's kernels for CUDA have it: both are rounded before and the
// result after. It grows with the one and becomes less with the other.
func (g *image) quotient(w, sum float64) float64 {
	return g.weights.Round(g.weights.Round(w) / g.weights.Round(sum))
}

// through makes one axis after the other by its taps.
func (g *image) through(x *tensor.Tensor, by func(axis int) tapped) *tensor.Tensor {
	for a := range g.windows {
		y := weighed(x, 2+a, by(a))
		if a > 0 {
			release(x)
		}
		x = y
	}
	return x
}

// device is the image that a right kernel makes whose positions and weights are computed in float32. Their errors are
// the same for all lines of an axis.
func (g *image) device(x []*tensor.Tensor, s simulation) (*tensor.Tensor, error) {
	r := s.r
	exact := *g
	exact.weights = fp16.Float64
	return g.through(x[0], func(axis int) tapped {
		ratio := float64(1 - 2*r.IntN(2))
		t := exact.taps(axis, func(i int) float64 {
			s := g.spots[axis][i]
			return float64(ratio*s.common) + float64((2*r.Float64()-1)*s.own)
		})
		for i := range t {
			for j := range t[i].w {
				if g.cubic() || g.Antialias {
					x := float64(t[i].k+j) - g.spots[axis][i].at
					t[i].w[j] += float64(weightSigma*g.weightOff(g.windows[axis], x)*r.NormFloat64()) / t[i].sum
				}
			}
			g.round(t[i].w, t[i].sum)
		}
		return t
	}), nil
}

// weightSigma is what part of its bound the deviation of a cubic's weight is: that of a farther one, at an end of
// its range, is 6.6u, where the bound is 30u.
const weightSigma = .22

// line is a line of numbers along an axis, which go on beyond its ends as the last ones.
type line struct {
	of             []float64
	first, step, n int
}

func (l line) at(k int) float64 { return l.of[l.first+min(max(k, 0), l.n-1)*l.step] }

// along makes each line of an axis anew, of another length, number by number.
func along(t *tensor.Tensor, axis, length int, number func(l line, i int) float64) *tensor.Tensor {
	shape := append([]int(nil), t.Shape...)
	n, inner := shape[axis], tensor.Size(shape[axis+1:])
	shape[axis] = length
	out := fresh(fp16.Float64, shape...)
	for at := range out.Data {
		i, outer := at/inner%length, at/inner/length
		out.Data[at] = number(line{t.Data, outer*n*inner + at%inner, inner, n}, i)
	}
	return out
}

// weighed is what taps make of each line of an axis.
func weighed(t *tensor.Tensor, axis int, by tapped) *tensor.Tensor {
	return along(t, axis, len(by), func(l line, i int) float64 {
		y := by[i].alone
		for j, w := range by[i].w {
			y += float64(w * l.at(by[i].k+j))
		}
		return y
	})
}
