package noise

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/rows"
)

// Rows applies a block to images in blocks of 8 channels (see package conv), row by
// row, with the bits of [Block.Apply]: first Begin, which draws, then Apply for
// each row, from several goroutines if one likes. Draws of a [Counter] are formed
// where they are used, others are kept.
type Rows struct {
	block      Block
	f          fp16.Format
	n, c, h, w int
	round      *rows.Rounder
	wide       *rounder
	kernels    *asm.Noise
	ran        string // of the counter's kernel

	draws  []float64 // [N][C][H][W], or for dropout [N][C]
	signs  []float64 // of Laplace noise
	shape  []int
	scale  [8]float32
	factor [][8]float32 // of dropout, [N][blocks]
	none   bool         // nothing to apply
	at     *counterDraws
	site   int // of the first draw
	drawn  Draws
}

// NewRows prepares a block without correlation for images [n,c,h,w] of a format,
// which is not Float64. It panics otherwise.
func NewRows(b Block, f fp16.Format, n, c, h, w int) *Rows {
	if b.Correlation != 0 || f == fp16.Float64 {
		panic("noise: rows of a correlated field or of float64 numbers")
	}
	r := &Rows{block: b, f: f, n: n, c: c, h: h, w: w, round: rows.New(f), wide: newRounder(f),
		kernels: asm.NoiseKernels(), shape: []int{n, c, h, w}}
	r.ran = "counter normal " + asm.ISA()
	if r.kernels == nil {
		r.ran = "counter normal, plain Go"
	}
	if b.Type == Dropout {
		r.shape = []int{n, c, 1, 1}
		r.draws, r.factor = make([]float64, n*c), make([][8]float32, n*((c+7)/8))
	}
	return r
}

// Bytes returns the memory of the draws so far.
func (r *Rows) Bytes() int64 { return 8*int64(len(r.draws)+len(r.signs)) + 32*int64(len(r.factor)) }

// Begin draws for one application at that time; the draws must be usable until the
// last Apply. Its errors are those of Block.Apply. Without draws Apply copies.
func (r *Rows) Begin(at Time, d Draws) error {
	r.drawn, r.at, r.none = d, nil, d == nil
	if r.none {
		return nil
	}
	if r.block.Type == Dropout {
		return r.beginDropout(at, d)
	}
	s, err := r.block.Schedule.Scale(r.block.Scale, at, r.block.Period, r.f)
	if err != nil {
		return err
	}
	if r.block.NarrowScale {
		s = r.f.Round(s)
	}
	for c := range r.scale {
		r.scale[c] = float32(s)
	}
	if c, ok := d.(*counterDraws); ok && r.block.Type != Laplace && r.w%4 == 0 && c.hi-c.lo == r.n {
		r.at, r.site = c, c.site
		asm.Ran(r.ran)
		return c.take()
	}
	if r.draws == nil {
		r.draws = make([]float64, r.n*r.c*r.h*r.w)
	}
	if r.block.Type != Laplace {
		return d.Draw(Normal, 0, r.shape, r.draws)
	}
	if err := d.Draw(Exponential, 0, r.shape, r.draws); err != nil {
		return err
	}
	if r.signs == nil {
		r.signs = make([]float64, len(r.draws))
	}
	if err := d.Draw(Normal, 0, r.shape, r.signs); err != nil {
		return err
	}
	pieces(len(r.draws), func(lo, hi int) { r.wide.sign(r.draws[lo:hi], r.signs[lo:hi]) })
	return nil
}

func (r *Rows) beginDropout(at Time, d Draws) error {
	if err := r.block.factors(r.draws, at, r.f, r.shape, d); err != nil {
		return err
	}
	for i, v := range r.draws {
		r.factor[i/r.c*((r.c+7)/8)+i%r.c/8][i%r.c%8] = float32(v)
	}
	return nil
}

// RowSpace is the memory of one goroutine that applies noise to rows.
type RowSpace struct {
	n        []float32
	numbers  []float64
	place    asm.Philox
	channels [8][]float64
	lines    [8]*float64
}

// NewRowSpace returns memory for rows of w pixels.
func NewRowSpace(w int) *RowSpace {
	return &RowSpace{n: make([]float32, 8*w), numbers: make([]float64, 8*w)}
}

// Apply sets dst to line y of block b of sample n, src, with noise. dst may be src.
func (r *Rows) Apply(dst, src []float32, n, b, y int, s *RowSpace) {
	if r.none {
		copy(dst, src)
		return
	}
	if r.factor != nil {
		r.round.Scale(dst, src, &r.factor[n*((r.c+7)/8)+b])
		return
	}
	channels := s.channels[:min(8, r.c-8*b)]
	for c := range channels {
		at := ((n*r.c+8*b+c)*r.h + y) * r.w
		if r.at == nil {
			channels[c] = r.draws[at : at+r.w]
			continue
		}
		channels[c] = s.numbers[c*r.w : (c+1)*r.w]
		r.at.fill(r.kernels, channels[c], Normal, 0, uint32(r.at.lo+n), at-n*r.c*r.h*r.w, r.site, &s.place)
	}
	rows.Gather(s.n[:len(src)], channels, &s.lines)
	if r.block.Type == Multiplicative {
		r.round.Modulate(dst, src, s.n[:len(src)], &r.scale)
	} else {
		r.round.Noise(dst, src, s.n[:len(src)], &r.scale)
	}
}

// Again returns the draws of the last Begin once more, for an application of the
// block elsewhere; nil if there were none. They must be used before the next Begin.
func (r *Rows) Again() Draws {
	switch {
	case r.drawn == nil:
		return nil
	case r.at != nil:
		d := *r.at
		d.site = r.site
		return &d
	}
	return &again{r, 0}
}

// again replays draws that are kept. Laplace noise is a product of draws by then: an
// exponential one with a sign, and its sign again.
type again struct {
	of *Rows
	k  int
}

func (a *again) Draw(kind Kind, _ float64, _ []int, dst []float64) error {
	defer func() { a.k++ }()
	switch {
	case kind == Bernoulli:
		for i, v := range a.of.draws {
			dst[i] = 0
			if v != 0 {
				dst[i] = 1
			}
		}
	case a.of.block.Type != Laplace:
		copy(dst, a.of.draws)
	case a.k == 0:
		for i, v := range a.of.draws {
			dst[i] = math.Abs(v)
		}
	default:
		copy(dst, a.of.signs)
		for i, v := range a.of.draws {
			switch {
			case v == 0:
				dst[i] = 0
			default:
				dst[i] = math.Copysign(1, v)
			}
		}
	}
	if a.k > 1 {
		return fmt.Errorf("noise: more draws than were drawn")
	}
	return nil
}
