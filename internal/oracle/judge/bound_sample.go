package judge

import (
	"math"
	"math/rand/v2"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// sampled bounds a grid sampler. Kernels compute in float32 where a number stands in its image, ((g + 1) n - 1)/2, and
// are off by places of what that goes through. An image moves with its positions by as much as its numbers around
// them differ; the nearest number is another one where a position is next to the middle of two.
func sampled(op graph.Op, in []ball, out []*tensor.Tensor) ([]ball, error) {
	o, is := op.(sampling)
	if !is {
		o = sampling{GridSampler: op.(graph.GridSampler), in: fp16.Float32, only: true}
	}
	s := &sampler{sampling: o, x: in[0], grid: in[1], v: out[0], sizes: in[0].v.Shape[2:], own: !is}
	s.unit = u
	if !o.only {
		s.unit = o.in.Ulp(1) / 2
	}
	if is {
		s.located = o.located(in[0].v, in[1].v)
	}
	b := ball{v: out[0], r: fresh(fp16.Float64, out[0].Shape...)}
	if o.Mode != "nearest" {
		b.sigma, b.sum = fresh(fp16.Float64, out[0].Shape...), true
	} else {
		b.exact = true
	}
	s.around = make([]around, len(s.sizes))
	positions := tensor.Size(out[0].Shape[2:])
	for at := range out[0].Shape[0] * positions {
		defined := s.find(at)
		for c := range out[0].Shape[1] {
			plane := at/positions*out[0].Shape[1] + c
			i := plane*positions + at%positions
			r, sigma := math.Inf(1), 0.
			if defined {
				r, sigma = s.number(plane, out[0].Data[i])
			} else {
				out[0].Data[i] = math.NaN()
			}
			if b.r.Data[i] = r; b.sigma != nil {
				b.sigma.Data[i] = sigma
			}
		}
	}
	if s.own || s.Padding == "reflection" || s.grid.r != nil {
		b.made = s.device
	}
	return []ball{b}, nil
}

// device samples at positions that are off. Their errors are those of the grid's numbers: where these are the same, as
// along a line of pixels, so are they.
func (s *sampler) device(x []*tensor.Tensor, m simulation) (*tensor.Tensor, error) {
	seed, axes, of := m.r.Uint64(), len(s.sizes), *s
	if !s.own {
		of.located = s.sampling.located(x[0], x[1])
	}
	at := fresh(fp16.Float64, x[1].Shape...)
	defer release(at)
	for k, g := range x[1].Data {
		a := axes - 1 - k%axes
		p, off := of.stands(x[1], nil, k, s.sizes[a])
		one := rand.New(rand.NewPCG(seed+uint64(a), math.Float64bits(g)))
		at.Data[k] = p + float64((2*one.Float64()-1)*off)
	}
	y := fresh(fp16.Float64, s.v.Shape...)
	s.at(y, x[0], at)
	return y, nil
}

// sampler bounds one number after the other.
type sampler struct {
	sampling
	x, grid ball
	v       *tensor.Tensor
	sizes   []int
	own     bool           // the positions are the exact ones
	located *tensor.Tensor // others
	unit    float64
	around  []around // of each axis
}

// around are the neighbours of a position along one axis.
type around struct {
	off    float64 // how far off the position may be
	at     []int   // those of the exact position, -1 for none
	weight []float64
	within []int // all that may be one
}

// stands is where number k of a grid puts a number along an axis, and how far off a kernel may be: by its own
// roundings, and by what the grid may be off. PyTorch's kernels differ in what they make of NaN and infinities: a
// position that is one, or goes through one, is NaN.
func (s *sampler) stands(grid, radius *tensor.Tensor, k, size int) (p, off float64) {
	n, g := float64(size), grid.Data[k]
	span := s.span(n)
	far := math.Abs(g+1) * span
	if !(far/2 <= s.in.Largest()) {
		return math.NaN(), 0
	}
	p = (n-1)/2 + float64(g*(span/2))
	r := 0.
	if radius != nil {
		r = radius.Data[k]
	}
	if s.own || r > 0 {
		off = float64(s.unit*(max(far, float64(math.Abs(g)*span/2))+math.Abs(p)+1)) + float64(r*span/2)
		if s.Padding == "reflection" {
			off += s.unit * (math.Abs(p) + 2*n + 1)
		}
	}
	if s.own {
		return s.exactly(g, p, n), off
	}
	if s.Padding == "reflection" && math.Abs(p)+1 > span { // which is divided by the span, in a half format
		off += 2 * s.unit * (math.Abs(p) + 2*n + 1)
	}
	return s.located.Data[k], off
}

// find sets what is around a position, and reports whether it is a number.
func (s *sampler) find(at int) bool {
	axes := len(s.sizes)
	for a, n := range s.sizes {
		w := &s.around[a]
		*w = around{at: w.at[:0], weight: w.weight[:0], within: w.within[:0]}
		p, off := s.stands(s.grid.v, s.grid.r, at*axes+axes-1-a, n)
		if p != p {
			return false
		}
		w.off = off
		s.neighbours(w, p, n)
	}
	return true
}

// exactly is a position with its padding, but for what is padded later.
func (s *sampler) exactly(g, p, n float64) float64 {
	switch {
	case s.Padding == "zeros", s.Mode == "bicubic" && s.Padding == "border":
		return min(max(p, -4), n+4)
	case s.Padding == "reflection":
		g -= 4 * math.RoundToEven(g/4)
		if !s.later() && math.Abs(g) > 1 {
			g = math.Copysign(2, g) - g
		}
		p = (n-1)/2 + float64(g*(s.span(n)/2))
		if s.later() {
			return p
		}
	}
	return min(max(p, 0), n-1)
}

// neighbours sets those of a position, and those of the positions that are as far off as it may be.
func (s *sampler) neighbours(w *around, p float64, n int) {
	low, first, last := math.Floor(p), 0., 1.
	t, params := p-low, s.params()
	switch s.Mode {
	case "nearest":
		low, last = math.RoundToEven(p), 0
		w.weight = append(w.weight, 1)
	case "bilinear":
		w.weight = append(w.weight, 1-t, t)
	default:
		first, last = -1, 2
		for k := first; k <= last; k++ {
			w.weight = append(w.weight, cubicKernel(-.75, math.Abs(t-k)))
		}
	}
	for k := range w.weight {
		w.at = append(w.at, params.Place(int(low+first)+k, n))
	}
	off := min(w.off, 2*float64(n)+4)
	from, to := math.Floor(p-off), math.Floor(p+off)
	if s.Mode == "nearest" {
		from, to = math.RoundToEven(p-off), math.RoundToEven(p+off)
	}
	for k := int(from + first); k <= int(to+last); k++ {
		w.within = append(w.within, params.Place(k, n))
	}
}

// number bounds one number of a plane.
//
// A linear sum moves by no more than its position does along an axis, times how much the numbers around it differ.
// The derivatives of Keys' weights, of a = -3/4, add up to 0, and their magnitudes to 3 at most, in the middle, so that
// half of that times the difference counts; the magnitudes of the weights of the other axis add up to 11/8. Numbers
// that are off count with both axes' weights.
//
// Each of k weights of a linear term has a rounding, as have their products, that with a number, and the sum. Those of
// a cubic are off by 30 units, see [resizing.weightOff], times the other axis' weight, which is off too.
func (s *sampler) number(plane int, y float64) (r, sigma float64) {
	size := tensor.Size(s.sizes)
	x := s.x.v.Data[plane*size:][:size]
	var radius []float64
	if s.x.r != nil {
		radius = s.x.r.Data[plane*size:][:size]
	}
	least, most, inexact := math.Inf(1), math.Inf(-1), 0.
	s.each(func(a *around) []int { return a.within }, func(at int, _ [3]int) {
		v, off := 0., 0.
		if at >= 0 {
			if v = x[at]; radius != nil {
				off = radius[at]
			}
		}
		least, most, inexact = min(least, v-off), max(most, v+off), max(inexact, off)
	})
	differ, off := most-least, 0.
	for a := range s.around {
		off += s.around[a].off
	}
	switch {
	case differ != differ: // infinities
		return math.Inf(1), 0
	case s.Mode == "nearest":
		if s.differs() {
			return differ, 0
		}
		return inexact, 0
	}
	n, all, q, weights, plain := 0., 0., 0., 0., 0.
	s.each(func(a *around) []int { return a.at }, func(at int, k [3]int) {
		if at < 0 {
			return
		}
		w, beside := 1., 0.
		for a := range s.around {
			w *= s.around[a].weight[k[a]]
			beside += math.Abs(s.around[a].weight[k[a]])
		}
		p := float64(w * x[at])
		n, all, q, plain = n+1, all+math.Abs(p), q+float64(p*p), plain+math.Abs(x[at])
		by := float64(beside * x[at])
		weights += float64(by * by)
	})
	k := 2 * float64(len(s.around))
	slope, times := 1., 1.
	sigma = s.unit / u * sumSigma(n+k, y, q)
	if s.Mode == "bicubic" {
		slope, times = 3./2*11/8, 11./8*11/8
		of := 30 * s.unit
		r += float64(of*math.Sqrt(n*weights)) + float64(of*of*plain)
		sigma = math.Sqrt(float64(sigma*sigma) + float64(weightSigma*of*weightSigma*of)*weights)
	}
	r += float64((n+k+2)*s.unit*all) + float64(min(off*slope, times)*differ) + float64(times*inexact) + n*leastNormal
	return r, sigma
}

// differs reports whether another number may be the nearest.
func (s *sampler) differs() bool {
	for a := range s.around {
		for _, at := range s.around[a].within {
			if at != s.around[a].at[0] {
				return true
			}
		}
	}
	return false
}

// each calls with every place of some neighbours of all axes, -1 for none, and which of each axis it is.
func (s *sampler) each(of func(a *around) []int, do func(at int, which [3]int)) {
	var which [3]int
	for {
		at := 0
		for a := range s.around {
			if k := of(&s.around[a])[which[a]]; k < 0 || at < 0 {
				at = -1
			} else {
				at = at*s.sizes[a] + k
			}
		}
		do(at, which)
		a := len(s.around) - 1
		for ; a >= 0; a-- {
			if which[a]++; which[a] < len(of(&s.around[a])) {
				break
			}
			which[a] = 0
		}
		if a < 0 {
			return
		}
	}
}
