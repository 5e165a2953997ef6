package judge

import (
	"math"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/resize"
	"github.com/refrun/refrun/tensor"
)

// interpolated bounds a resize. Kernels compute in float32 where a number stands in its source, (i + 1/2) S - 1/2 with
// a ratio S of two sizes. Far from the first number such a position is off by many places of what is above its
// floor, which is what the neighbours weigh by: an error along the axis, by how steep the image is there.
func interpolated(op resizing, in []ball, v *tensor.Tensor, acc accumulator) ([]ball, error) {
	switch {
	case strings.HasPrefix(op.Mode, "nearest"):
		return spread(op, in, []*tensor.Tensor{v}, false)
	case op.Mode == "area": // whose windows are of whole numbers
		return sum(op, in, v, acc)
	}
	g, err := op.of(in[0].v.Shape, v.Shape)
	if err != nil {
		return nil, err
	}
	r, sigma := g.summed(in[0], v, acc)
	if op.weights == fp16.Float64 {
		g.steep(in[0], r)
	} else {
		g.flips(in[0], r)
	}
	out := ball{v: v, r: r, sigma: sigma, sum: true}
	if g.off > 0 || g.cubic() || g.Antialias {
		out.made = g.device
	}
	return []ball{out}, nil
}

// summed bounds the sums of weighted neighbours, and of an inexact image what it moves them by.
func (g *image) summed(x ball, v *tensor.Tensor, acc accumulator) (r, sigma *tensor.Tensor) {
	plain := func(a int) tapped { return g.taps(a, nowhere) }
	sizes := func(a int) tapped { return plain(a).sizes() }
	n := 1.0
	for _, w := range g.windows {
		n *= math.Ceil(2 * w.reach)
	}
	magnitude, square := magnitudes(x), squares(x.v)
	all := g.through(magnitude, sizes)
	q := g.through(square, func(a int) tapped {
		return plain(a).each(func(_, _ int, w float64) float64 { return float64(w * w) })
	})
	r, sigma = fresh(fp16.Float64, v.Shape...), fresh(fp16.Float64, v.Shape...)
	for i, a := range all.Data {
		r.Data[i] = float64((n+2)*acc.u*a) + acc.least(n)
		sigma.Data[i] = acc.sigma(n, v.Data[i], q.Data[i])
	}
	for a := range g.windows { // whose weights are off
		accumulate(r, 1, g.through(magnitude, func(b int) tapped {
			if b == a {
				return g.offs(a)
			}
			return sizes(b)
		}))
	}
	if x.r != nil {
		accumulate(r, 1, g.through(x.r, sizes))
	}
	release(magnitude, square, all, q)
	return r, sigma
}

// accumulate adds so many times a tensor that nobody reads any more.
func accumulate(to *tensor.Tensor, times float64, t *tensor.Tensor) {
	for i, v := range t.Data {
		to.Data[i] += float64(times * v)
	}
	release(t)
}

// offs are the taps of an axis with the errors of their weights in place of these. Where they are divided by their sum,
// that has the errors of all, and the quotient one more.
func (g *image) offs(axis int) tapped {
	w, t := g.windows[axis], g.taps(axis, nowhere)
	return t.each(func(i, j int, weight float64) float64 {
		off := g.weightOff(w, float64(t[i].k+j)-g.spots[axis][i].at)
		if !w.normed {
			return off
		}
		n := float64(len(t[i].w))
		return off*(1+n*math.Abs(weight))/math.Abs(t[i].sum) + (n+3)*u*math.Abs(weight)
	})
}

// steep adds how far numbers move with their positions. Weights add up to 1 wherever a number stands, so that a move of
// them is one of differences to a neighbour.
func (g *image) steep(x ball, to *tensor.Tensor) {
	for a, w := range g.windows {
		y, r := x.v, x.r
		for b := range g.windows { // the other axes first
			if b != a {
				if y = weighed(y, 2+b, g.taps(b, nowhere)); r != nil {
					r = weighed(r, 2+b, g.taps(b, nowhere).sizes())
				}
			}
		}
		t := g.taps(a, nowhere)
		moves := along(y, 2+a, len(g.spots[a]), func(l line, i int) (move float64) {
			s := g.spots[a][i]
			switch {
			case s.off() == 0:
				return 0
			case w.Coordinates == resize.CropAndResize && min(math.Abs(s.at), math.Abs(s.at-float64(w.in-1))) <= s.off():
				return math.Inf(1) // a kernel may find it outside
			}
			radii := line{n: l.n}
			if r != nil {
				radii = l
				radii.of = r.Data
			}
			middle := int(math.Floor(s.at + .5))
			n := float64(len(t[i].w))
			for j := int(math.Floor(s.at - w.reach - s.off())); j <= int(math.Floor(s.at+w.reach+s.off())); j++ {
				d := math.Abs(l.at(j) - l.at(middle))
				if r != nil {
					d += radii.at(j) + radii.at(middle)
				}
				by := 1.0
				if k := j - t[i].k; w.normed && k >= 0 && k < len(t[i].w) {
					by = (1 + n*math.Abs(t[i].w[k])) / math.Abs(t[i].sum)
				} else if w.normed {
					by = 1 / math.Abs(t[i].sum)
				}
				move += float64(by * d)
			}
			return move * s.off() * g.steepest(w) / w.h
		})
		accumulate(to, 1+8*g.off, moves) // where the other axes' positions are off too
	}
}

// flips adds what rounded weights change by if they go the other way, since a kernel's position and its weights in
// float32 are a little off.
func (g *image) flips(x ball, to *tensor.Tensor) {
	exact := *g
	exact.weights = fp16.Float64
	magnitude := magnitudes(x)
	for a := range g.windows {
		accumulate(to, 2, g.through(magnitude, func(b int) tapped { // twice: those of the other axes with them
			if b != a {
				return g.taps(b, nowhere).sizes()
			}
			t := exact.taps(b, nowhere)
			for i := range t {
				if g.Antialias {
					t[i].w = g.flipQuotients(b, i, t[i].w, t[i].k, t[i].sum)
				} else {
					t[i].w = g.flip(b, i, t[i].w, t[i].k)
				}
			}
			return t
		}))
	}
	release(magnitude)
}

// flip is how far each rounded weight of number i may be from where it is.
func (g *image) flip(axis, i int, w []float64, k int) []float64 {
	by := make([]float64, len(w))
	here := append([]float64(nil), w...)
	g.round(here, 1)
	for _, way := range []float64{-1, 1} {
		for j := range w {
			there := append([]float64(nil), w...)
			there[j] += way * g.rawOff(axis, i, k+j)
			g.round(there, 1)
			for k := range by {
				by[k] = max(by[k], math.Abs(there[k]-here[k]))
			}
		}
	}
	return by
}

// rawOff bounds the error of the weight of number k, before it is divided, of which its position's is a part.
func (g *image) rawOff(axis, i, k int) float64 {
	s, w := g.spots[axis][i], g.windows[axis]
	return float64(s.off()*g.steepest(w)/w.h) + g.weightOff(w, float64(k)-s.at)
}

// flipQuotients is how far each rounded quotient may be from where it is. It is so at an end of what its weight may be
// and of what their sum may be.
func (g *image) flipQuotients(axis, i int, w []float64, k int, sum float64) []float64 {
	by, off := make([]float64, len(w)), make([]float64, len(w))
	all := float64(len(w)) * u * math.Abs(sum)
	for j := range w {
		off[j] = g.rawOff(axis, i, k+j)
		all += off[j]
	}
	for j := range w {
		raw := float64(w[j] * sum)
		here := g.quotient(raw, sum)
		for _, a := range []float64{-off[j], off[j]} {
			for _, b := range []float64{-all, all} {
				by[j] = max(by[j], math.Abs(g.quotient(raw+a, sum+b)-here))
			}
		}
	}
	return by
}
