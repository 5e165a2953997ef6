package plan

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/noise"
)

// worker is the memory of one worker of a plan: two rows, and that of the
// operations.
type worker struct {
	row      [2][]float32
	norm     *norm.Space
	act      *act.Space
	noise    *noise.RowSpace
	channels [8][]float64
	lines    [8]*float64
}

func newWorker(w int) *worker {
	return &worker{row: [2][]float32{asm.Aligned[float32](8 * w), asm.Aligned[float32](8 * w)}, norm: norm.NewSpace(w),
		act: act.NewSpace(w), noise: noise.NewRowSpace(w)}
}

// workerBytes is about the memory of a worker.
func workerBytes(w int) int64 { return 6<<10 + 170*int64(w) }

// each is [par.Each] with the workers of the plan.
func (p *Plan) each(n int, body func(worker, i int)) { par.Each(len(p.workers), n, body) }

// stage is an operation on one row of a block of channels. dst and src lie apart.
type stage interface {
	apply(dst, src []float32, n, b, y int, w *worker)
}

type actStage struct{ *act.Rows }

func (s actStage) apply(dst, src []float32, n, b, y int, w *worker) { s.Apply(dst, src, w.act) }

// functionStage is a function of one number that need not be 0 at 0.
type functionStage struct {
	of       func(dst, src []float32)
	channels int
}

func (s functionStage) apply(dst, src []float32, n, b, y int, w *worker) {
	s.of(dst, src)
	clean(dst, 8*(b+1)-s.channels)
}

// pairStage is a residual sum, or a product, with another image.
type pairStage struct {
	combine func(dst, x, n []float32)
	other   *virtual
}

func (s pairStage) apply(dst, src []float32, n, b, y int, w *worker) {
	s.combine(dst, src, s.other.img.Row(n, b, y))
	clean(dst, 8*(b+1)-s.other.c)
}

// scaleStage is a product with an image of one pixel.
type scaleStage struct {
	*rows.Rounder
	other *virtual
}

func (s scaleStage) apply(dst, src []float32, n, b, y int, w *worker) {
	s.Scale(dst, src, (*[8]float32)(s.other.img.Row(n, b, 0)))
	clean(dst, 8*(b+1)-s.other.c)
}

// others returns the image that a stage reads beside its row, nil for none.
func others(s stage) *virtual {
	switch s := s.(type) {
	case pairStage:
		return s.other
	case scaleStage:
		return s.other
	}
	return nil
}

// clean clears the last channels of pixels, those that are missing in a block.
func clean(row []float32, missing int) {
	if missing <= 0 {
		return
	}
	for x := 8; x <= len(row); x += 8 {
		clear(row[x-missing : x])
	}
}

type noiseStage struct{ *noise.Rows }

func (s noiseStage) apply(dst, src []float32, n, b, y int, w *worker) {
	s.Apply(dst, src, n, b, y, w.noise)
}

// roundStage rounds to the operands of a convolution.
type roundStage struct {
	*rows.Rounder
	tf32 fp16.Rounding
}

func newRoundStage(f fp16.Format, tf32 fp16.Rounding) roundStage {
	return roundStage{rows.New(f), tf32}
}

func (s roundStage) apply(dst, src []float32, n, b, y int, w *worker) {
	if s.Format() == fp16.TF32 {
		rows.TF32(dst, src, s.tf32)
	} else {
		s.Round(dst, src)
	}
}

// rowPass is operations on single elements, after a norm or not, from one image to
// another: each row goes through all of them before the next.
type rowPass struct {
	p        *Plan
	src, dst *virtual
	norm     *norm.Rows // nil if there is none
	stages   []stage
	gelu     bool // the first is GELU in fast arithmetic, which a norm may do too

	// A pass is done block by block if that keeps all processors busy, and else in
	// parts of blocks.
	parts                          int
	whole, pivot, sum, part, frame func(worker, i int)
}

// share decides how to share the work, of which no block can be done before the
// sums of all are there, if waits says so.
func (r *rowPass) share(waits bool) {
	tasks, workers := r.src.n*r.blocks(), len(r.p.workers)
	r.parts = 1
	if waits || tasks < 4*workers && tasks%workers != 0 {
		r.parts = min(r.src.h, (4*workers+tasks-1)/tasks)
	}
}

// bind makes the functions that workers run.
func (r *rowPass) bind() {
	if len(r.stages) > 0 {
		a, ok := r.stages[0].(actStage)
		r.gelu = ok && a.Fast()
	}
	p, blocks := r.p, r.blocks()
	src, dst := r.src.img, r.dst.img
	r.whole = func(worker, i int) {
		w, n, b := p.workers[worker], i/blocks, i%blocks
		if r.norm != nil && !r.norm.Batch() {
			r.norm.Pivot(src, n, b, w.norm)
			r.norm.SetPivots(n, b, b+1)
			for part := range r.norm.Parts() {
				r.norm.Sum(src, n, b, part, w.norm)
			}
			r.norm.SetLines(n, b, b+1)
		}
		for y := range src.H {
			r.row(n, b, y, w)
		}
		if dst.Frame > 0 {
			dst.FillFrameOf(n, b, r.dst.padding)
		}
	}
	r.pivot = func(worker, i int) { r.norm.Pivot(src, i/blocks, i%blocks, p.workers[worker].norm) }
	r.sum = func(worker, i int) {
		k, parts := i/r.norm.Parts(), r.norm.Parts()
		r.norm.Sum(src, k/blocks, k%blocks, i%parts, p.workers[worker].norm)
	}
	r.part = func(worker, i int) {
		k, part := i/r.parts, i%r.parts
		for y := src.H * part / r.parts; y < src.H*(part+1)/r.parts; y++ {
			r.row(k/blocks, k%blocks, y, p.workers[worker])
		}
	}
	r.frame = func(_, i int) { dst.FillFrameOf(i/blocks, i%blocks, r.dst.padding) }
}

func (r *rowPass) blocks() int { return (r.src.c + 7) / 8 }

func (r *rowPass) run(p *Plan) {
	tasks := r.src.n * r.blocks()
	sums := r.norm != nil && !r.norm.Batch()
	if r.parts == 1 && (!sums || r.norm.PerChannel()) {
		p.each(tasks, r.whole)
		return
	}
	if sums {
		p.each(tasks, r.pivot)
		for n := range r.src.n {
			r.norm.SetPivots(n, 0, r.blocks())
		}
		p.each(tasks*r.norm.Parts(), r.sum)
		for n := range r.src.n {
			r.norm.SetLines(n, 0, r.blocks())
		}
	}
	p.each(tasks*r.parts, r.part)
	if r.dst.img.Frame > 0 {
		p.each(tasks, r.frame)
	}
}

// row does all operations on one row.
func (r *rowPass) row(n, b, y int, w *worker) {
	src, dst := r.src.img.Row(n, b, y), r.dst.img.Row(n, b, y)
	last := len(r.stages)
	to := func(i int) []float32 {
		if i == last {
			return dst
		}
		return w.row[i%2][:len(src)]
	}
	clean(src, 8*(b+1)-r.src.c) // a convolution may leave NaN there
	r.p.look(src)
	first := 0
	if r.norm != nil {
		out := to(0)
		if next := to(min(1, last)); r.gelu && !r.p.Watch && r.norm.ApplyGELU(next, src, n, b) {
			out, first = next, 1
		} else {
			r.norm.Apply(out, src, r.src.img, n, b, w.norm)
		}
		r.p.look(out)
		src = out
	}
	for i, s := range r.stages[first:] {
		out := to(first + i + 1)
		s.apply(out, src, n, b, y, w)
		r.p.look(out)
		src = out
	}
	if r.norm == nil && last == 0 { // a copy, for its frame
		copy(dst, src)
	}
}

// look looks for numbers that are not finite, if that is asked for.
func (p *Plan) look(row []float32) {
	if p.Watch && !rows.Finite(row) {
		p.nonfinite.Store(true)
	}
}

// inPass makes an image of an input.
type inPass struct {
	p     *Plan
	input int
	dst   *virtual
	round *roundStage // nil for none
	zeros []float64

	row, frame func(worker, i int)
}

func (in *inPass) bind() {
	p, dst := in.p, in.dst.img
	blocks, rowsOf, width := dst.Blocks(), dst.H, dst.W
	in.zeros = make([]float64, width)
	in.row = func(worker, i int) {
		w, n, b, y := p.workers[worker], i/rowsOf/blocks, i/rowsOf%blocks, i%rowsOf
		for c := range w.channels {
			w.channels[c] = in.zeros
			if 8*b+c < dst.C {
				w.channels[c] = p.given[in.input].Plane(n, 8*b+c)[y*width:][:width]
			}
		}
		row := dst.Row(n, b, y)
		rows.Gather(row, w.channels[:], &w.lines)
		if in.round != nil {
			whole := w.row[0][:len(row)] // which may be shorter than the plan's widest
			copy(whole, row)
			in.round.apply(row, whole, n, b, y, w)
		}
	}
	in.frame = func(_, i int) { dst.FillFrameOf(i/blocks, i%blocks, in.dst.padding) }
}

func (in *inPass) run(p *Plan) {
	dst := in.dst.img
	p.each(dst.N*dst.Blocks()*dst.H, in.row)
	if dst.Frame > 0 {
		p.each(dst.N*dst.Blocks(), in.frame)
	}
}

// outPass makes an output of an image.
type outPass struct {
	p      *Plan
	src    *virtual
	output int
	row    func(worker, i int)
}

func (o *outPass) bind() {
	p, src := o.p, o.src.img
	blocks, rowsOf, width := src.Blocks(), src.H, src.W
	o.row = func(worker, i int) {
		w, n, b, y := p.workers[worker], i/rowsOf/blocks, i/rowsOf%blocks, i%rowsOf
		channels := w.channels[:min(8, src.C-8*b)]
		for c := range channels {
			channels[c] = p.wanted[o.output].Plane(n, 8*b+c)[y*width:][:width]
		}
		row := src.Row(n, b, y)
		p.look(row)
		rows.Scatter(channels, row)
	}
}

func (o *outPass) run(p *Plan) { p.each(o.src.img.N*o.src.img.Blocks()*o.src.img.H, o.row) }
