package norm

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/double"
)

// Rows is a normalisation of images in blocks of 8 channels (see package conv),
// prepared for one shape: what [Group] and [Batch] compute, to the same bits. The
// statistics are not exact at first: they are float64 sums whose error is part of
// the guard's bound, and exact ones are formed for a group of which the guard
// leaves an element open.
//
// One application is
//
//	Pivot      for every sample and block
//	SetPivots  for every sample, or for the blocks of one
//	Sum        for every sample, block and part of its rows
//	SetLines   for every sample, or for the blocks of one
//	Apply      for every row
//
// where each may use several goroutines, for different arguments. A batch norm
// is Apply alone. Other groups than single channels need all blocks of a sample
// at once.
type Rows struct {
	format           fp16.Format
	n, c, h, w       int
	groups, perGroup int
	gamma, beta      []float64
	eps              float64
	running          []*exact.Standard // of a batch norm, per channel
	spreads          []double.Num      // the same: variance + eps
	exact            *Exact

	blocks, parts int
	first         [][8]float64    // sums of a row, [n][blocks]
	pivots        []float64       // [n][groups]
	sums          [][2][8]float64 // [n][blocks][parts]
	moments       []exact.Moments // the same, of groups whose sums are exact at once
	lines         []lines         // [n][blocks], [blocks] of a batch norm
	fast          []fastLines     // the same, nil if the arithmetic is exact
}

// lines are the lines of 8 channels, as the kernels read them.
type lines struct {
	of  [5][8]float64 // pivot, slope, offset, part, rest
	nan uint8         // channels that are NaN throughout
}

// The places in lines.of.
const (
	ofPivot = iota
	ofSlope
	ofOffset
	ofPart
	ofRest
)

// Space is the memory of one goroutine that applies normalisations to rows.
type Space struct {
	pivot [8]float64
	sums  [2][8]float64
	tree  tree
	sum   space
	open  []uint8
	exact []float32 // a row
}

// NewSpace returns memory for rows of w pixels.
func NewSpace(w int) *Space { return &Space{open: make([]uint8, w)} }

// NewRows prepares the normalisation of images [n,c,h,w] of that many groups of
// channels to Float32, Float16 or BFloat16; gamma, beta and eps are as in
// [Group]. The rows may be summed in up to that many parts. It panics as Group
// does. e is grown to what it needs.
func NewRows(f fp16.Format, n, c, h, w, groups int, gamma, beta []float64, eps float64, parts int, e *Exact) *Rows {
	if groups < 1 || c%groups != 0 {
		panic("norm: groups must be a positive divisor of the channels")
	}
	r := newRows(f, n, c, h, w, gamma, beta, eps)
	r.groups, r.perGroup, r.parts, r.exact = groups, c/groups, parts, e
	if k := n * groups; len(e.groups) < k {
		e.groups = make([]group, k)
	}
	r.first = make([][8]float64, n*r.blocks)
	r.pivots = make([]float64, n*groups)
	if r.sumsExact() {
		r.moments = make([]exact.Moments, n*r.blocks*parts)
	} else {
		r.sums = make([][2][8]float64, n*r.blocks*parts)
	}
	r.lines = make([]lines, n*r.blocks)
	return r
}

// NewBatchRows prepares a batch normalisation, as NewRows does.
func NewBatchRows(f fp16.Format, n, c, h, w int, mean, variance, gamma, beta []float64, eps float64) *Rows {
	r := newRows(f, n, c, h, w, gamma, beta, eps)
	r.lines = make([]lines, r.blocks)
	for k := range c {
		s := exact.Running(mean[k], variance[k], eps)
		r.running = append(r.running, s)
		r.spreads = append(r.spreads, double.Sum(variance[k], eps))
		// mean is the pivot, without error; V is rounded once.
		r.setLine(&r.lines[k/8], k, s.MuHi, 0, 0, s.V, 0x1p-53)
	}
	return r
}

func newRows(f fp16.Format, n, c, h, w int, gamma, beta []float64, eps float64) *Rows {
	if f == fp16.Float64 || f == fp16.TF32 || gamma != nil && len(gamma) != c || beta != nil && len(beta) != c ||
		!(eps >= 0 && eps <= math.MaxFloat64) {
		panic("norm: rows of such a format, or parameters that do not fit")
	}
	return &Rows{format: f, n: n, c: c, h: h, w: w, gamma: gamma, beta: beta, eps: eps, blocks: (c + 7) / 8}
}

// Bytes returns the memory that the normalisation has of its own.
func (r *Rows) Bytes() int64 {
	return int64(64*len(r.first) + 8*len(r.pivots) + 128*len(r.sums) + 512*len(r.moments) + 328*len(r.lines))
}

// Batch reports whether it needs no statistics.
func (r *Rows) Batch() bool { return r.running != nil }

// Parts returns in how many parts the rows of a block are summed.
func (r *Rows) Parts() int { return r.parts }

// PerChannel reports whether each channel is a group, so that its blocks need
// not wait for each other.
func (r *Rows) PerChannel() bool { return r.perGroup == 1 }

// sumsExact reports whether groups are so large that something will be open in
// most of them: then the sums are exact at once. There is one group then, as
// the numbers of all channels are added as they come.
func (r *Rows) sumsExact() bool {
	return r.fast == nil && r.groups == 1 && r.perGroup > 1 && r.c*r.h*r.w > 1<<17
}

// count returns how many numbers a group has.
func (r *Rows) count() float64 { return float64(r.perGroup) * float64(r.h) * float64(r.w) }

// Pivot sums the middle row of a block: the mean of a group's is the number that is
// taken from all before they are summed, which keeps mean and variance apart.
func (r *Rows) Pivot(img Image, n, b int, w *Space) {
	w.pivot = [8]float64{}
	sumRow(img.Row(n, b, r.h/2), &w.pivot, &w.sums)
	r.first[n*r.blocks+b] = w.sums[0]
}

// SetPivots sets the pivots of the groups of blocks [lo,hi) of sample n: float32
// numbers, so that the difference from equal numbers is 0.
func (r *Rows) SetPivots(n, lo, hi int) {
	if r.sumsExact() {
		return
	}
	from, to := r.groupsOf(lo, hi)
	for g := from; g < to; g++ {
		var s float64
		for c := g * r.perGroup; c < (g+1)*r.perGroup; c++ {
			s += r.first[n*r.blocks+c/8][c%8]
		}
		s = float64(float32(s / float64(r.perGroup*r.w)))
		if s-s != 0 {
			s = 0
		}
		r.pivots[n*r.groups+g] = s
	}
}

// groupsOf returns the groups [from,to) of blocks [lo,hi).
func (r *Rows) groupsOf(lo, hi int) (from, to int) {
	return 8 * lo / r.perGroup, min(8*hi, r.c) / r.perGroup
}

// chunk is how many pixels are summed at a time.
const chunk = 64

// SetLines makes the lines of blocks [lo,hi) of sample n of their sums.
func (r *Rows) SetLines(n, lo, hi int) {
	// Let c be the pivot, D = x-c exactly, S and Q the sums of the M numbers D and D^2,
	// r = sqrt(Q/M), m = S/M and v = Q/M - m^2, so that the mean is c+m and the variance
	// v. Each d = fl(x-c) is off by u, and takes part in k roundings on any path; products
	// are fused. So (Higham, section 4.2; Cauchy and Schwarz)
	//
	//	|S^ - S| <= g_(k+1) sum |D| <= g_(k+1) M r      |Q^ - Q| <= g_(k+2) Q
	//
	// and to first order, |m| being at most r,
	//
	//	|m^ - m| <= (k+2) u r
	//	|V^ - V| <= (k+3) u r^2 + 2 r (k+2) u r + 3 u r^2 + u V <= (3k+12) u (r^2 + eps)
	//
	// for V^ = fl(fl(fl(Q^/M) - fl(m^ m^)) + eps). setLine has the rest.
	k, m := r.roundings(), r.count()
	from, to := r.groupsOf(lo, hi)
	for g := from; g < to; g++ {
		if r.exact.groups[n*r.groups+g].known = false; r.sumsExact() {
			r.setExactLines(n)
			return
		}
		var sum, squares float64
		for c := g * r.perGroup; c < (g+1)*r.perGroup; c++ {
			for _, s := range r.sums[(n*r.blocks+c/8)*r.parts:][:r.parts] {
				sum += s[0][c%8]
				squares += s[1][c%8]
			}
		}
		mean, square := sum/m, squares/m
		v := (square - float64(mean*mean)) + r.eps
		errV := 1.01 * (float64(3*k) + 12) * 0x1p-53 * (square + r.eps)
		errMean := 1.01 * (k + 2) * 0x1p-53 * math.Sqrt(square)
		for c := g * r.perGroup; c < (g+1)*r.perGroup; c++ {
			place := n*r.blocks + c/8
			r.setLine(&r.lines[place], c, r.pivots[n*r.groups+g], mean, errMean, v, errV/v)
			if r.fast != nil {
				r.fast[place].set(c%8, r.pivots[n*r.groups+g], mean, v, at(r.gamma, c, 1), at(r.beta, c, 0))
			}
		}
	}
}

// setExactLines makes the lines of sample n of exact sums. The pivot is the mean, but
// for m, which is good to 2u and 2^-103 of the mean; V takes three roundings. Here d =
// fl(x-pivot) is off by u of itself too.
func (r *Rows) setExactLines(n int) {
	g := &r.exact.groups[n]
	r.exactTotal(g, n)
	g.know(r.eps)
	mean, count := g.moments.Mean(), r.count()
	v, errV := g.spread.Hi/float64(count*count), 0x1p-51
	if !g.precise {
		g.std = g.moments.Standard(r.eps)
		v = g.std.V
	}
	errMean := float64(0x1p-52*math.Abs(mean.Lo)) + float64(0x1p-102*math.Abs(mean.Hi))
	for c := range r.c {
		r.setLine(&r.lines[n*r.blocks+c/8], c, mean.Hi, mean.Lo, errMean, v, errV)
	}
}

// setLine sets the line of channel c: y = fl(d s + b'), d = fl(x-pivot), s the slope
// and b' = fl(beta - fl(m s)) the offset, for a mean of pivot + m, m known to within
// errMean and V to within errV of itself.
//
// s is off by e = errV/2 (and something: errV is small) and two roundings of a
// quotient and a root: e = 0.51 errV + 2.01u. With t = d s, and D, M, S for the exact
// x-pivot, m and slope,
//
//	|t - D S|          <= 1.01 (u+e) |t|                 t is not rounded
//	|b' - (beta - M S)| <= 1.01 (u |b'| + (u+e) |m s| + |s| errMean)
//
// and |t| <= |y| (1+u) + |b'|. With the roundings of y, and of y-w and y+w in the
// kernel, it is
//
//	w = part |y| + rest,   part >= e + 4u,   rest >= (e+3u) |b'| + |s| errMean + (e+2u) |m s|.
//
// Terms of higher order and the roundings of part, rest and w are in a factor of
// 1.05. Nothing underflows: pivot and x are multiples of 2^-252 and |s| is at least
// 2^-200. Where this is not certain everything is open: w is infinite. gamma = 0
// gives beta.
func (r *Rows) setLine(l *lines, c int, pivot, m, errMean, v, errV float64) {
	gamma, beta := at(r.gamma, c, 1), at(r.beta, c, 0)
	set := func(pivot, s, b, part, rest float64) {
		i := c % 8
		l.of[ofPivot][i], l.of[ofSlope][i], l.of[ofOffset][i], l.of[ofPart][i], l.of[ofRest][i] = pivot, s, b, part, rest
	}
	bit := uint8(1) << (c % 8)
	l.nan &^= bit
	s := gamma / math.Sqrt(v)
	switch {
	case v != v && r.running == nil: // a number is not finite
		l.nan |= bit
		set(0, 0, 0, 0, 0)
		return
	case gamma == 0 && v > 0 && r.running == nil && math.Abs(beta) < 0x1p200:
		set(0, 0, beta+0, 0x1p-52, 0)
		return
	case !moderate(s), !(v > 0), !(errV < 0x1p-10), !(math.Abs(beta) < 0x1p200), !(math.Abs(pivot) < 0x1p200),
		pivot != float64(float32(pivot)) && !(math.Abs(pivot) > 0x1p-200):
		set(0, 1, 0, 1, math.Inf(1)) // a NaN stays one
		return
	}
	const u = 0x1p-53
	e := float64(0.51*errV) + 2.01*u
	ms := float64(m * s)
	b := (beta - ms) + 0 // -0 + 0 is +0
	rest := float64((e+3*u)*math.Abs(b)) + float64(math.Abs(s)*errMean) + float64((e+2*u)*math.Abs(ms))
	set(pivot, s, b, 1.05*(e+4*u), 1.05*rest)
}

// nan32 is the one NaN as a float32 number.
var nan32 = float32(fp16.NaN)
