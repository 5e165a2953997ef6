package matmul

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/whole"
	"github.com/refrun/refrun/internal/ground/par"
)

// Space is the memory that products work in: empty at first, and kept from one product
// to the next, which then allocate nothing. It serves one at a time.
type Space struct {
	job     job
	own     [2]packed // of operands that are not prepared
	a, b    *packed
	sources [2]source
	workers []*worker

	kernels *asm.Direct // nil for plain Go
	round   func(sums, slope, window, dst *float64, line int, flags *uint8) (any uint64)
	rows    int // of a tile: lines of a panel of a
	cols    int
	slope   float64

	// Some matrices at a time, and of each some panels at a time.
	first, matrices  int
	groupA, groupB   int // panels of a unit
	unitsA, unitsB   int // units of a matrix
	packA            int // panels of a to pack
	packing, tiling  func(worker, i int)
	wholes           wholes
	wholePanel       func(worker, i int)
	taps             []int
	name, plain, isa string
}

// NewSpace returns an empty space.
func NewSpace() *Space {
	s := new(Space)
	s.packing, s.tiling, s.wholePanel = s.pack, s.tiles, s.multiplyPanel
	return s
}

// worker is the memory of one worker.
type worker struct {
	sums   []float64 // of the tiles of a unit
	out    []float64 // a tile, rounded
	flags  []uint8
	table  []float64 // bias, slope, e, each for the rows of a tile
	window []float64
	right  []float64 // terms of a panel of b
	terms  []float64
	pairs  []float64

	nothing float32 // where nothing is asked for

	squares [stretch]float64
	whole   whole.Sums
}

// Bytes returns the memory that the space holds.
func (s *Space) Bytes() int64 {
	n := 0
	for i := range s.own {
		p := &s.own[i]
		n += cap(p.memory) + cap(p.norms) + len(p.grids)
	}
	for _, w := range s.workers {
		n += cap(w.sums) + cap(w.out) + cap(w.table) + cap(w.window) + cap(w.right) + cap(w.terms) + cap(w.pairs)
	}
	return 8*int64(n) + s.wholes.left.Bytes() + s.wholes.panels.Bytes()
}

// plainRows and plainCols are the tile of plain Go: 6 sums fill its registers.
const (
	plainRows = 2
	plainCols = 3
)

// Sizes that change no result.
const (
	mostPacked = 1 << 22 // numbers of both operands that are packed at once, or one matrix of each
	tilesA     = 64      // panels of a unit, at most
	tilesB     = 4
	serial     = 1 << 17 // products that are not worth sharing out
	piece      = 1 << 12 // numbers of a result
)

// run computes the job.
func (s *Space) run() {
	j := &s.job
	defer j.end()
	j.arrange()
	if j.m == 0 || j.n == 0 || j.batches == 0 {
		return
	}
	j.terms = j.k
	if s.multiplyWhole() {
		j.afterwards(true)
		return
	}
	s.choose()
	if j.inner || j.prepared != nil && j.prepared.bias != nil {
		j.terms++
	}
	format := kernelFormats[j.format]
	j.byGo = s.kernels == nil || format < 0 || format == asm.ToFloat64 || j.outer() || j.terms == 0
	s.slope = slope(j.terms)
	if !j.byGo {
		s.round = s.kernels.Round[format]
	}
	s.a, s.b = &s.own[0], &s.own[1]
	norms := j.format != fp16.Float64
	many := func(v *view, lines, width int) int {
		if v.single() {
			return 0
		}
		return (lines + width - 1) / width * width * j.terms
	}
	each := many(&j.a, j.m, s.rows)
	if j.prepared == nil {
		each += many(&j.b, j.n, s.cols)
	}
	group := j.batches
	if each > 0 {
		group = max(1, min(group, mostPacked/each))
	}
	count := func(v *view) int {
		if v.single() {
			return 1
		}
		return group
	}
	block := blockOf(j.terms)
	if !norms {
		block = max(1, j.terms)
	}
	s.a.shape(count(&j.a), j.m, j.terms, block, s.rows, norms)
	if j.prepared != nil {
		s.b = j.prepared.panels(s.cols)
	} else {
		s.b.shape(count(&j.b), j.n, j.terms, block, s.cols, norms)
	}
	s.divide(group)
	s.sources[0] = source{line: j.a.row, step: j.a.col, terms: j.k, fold: j.fold}
	s.sources[1] = source{line: j.b.col, step: j.b.row, terms: j.k, fold: 1}
	s.lasts()
	for s.first = 0; s.first < j.batches; s.first += group {
		s.matrices = min(group, j.batches-s.first)
		s.packA = 0
		if s.first == 0 || !j.a.single() {
			s.packA = s.a.panels * min(s.matrices, count(&j.a))
		}
		n := s.packA
		if j.prepared == nil && (s.first == 0 || !j.b.single()) {
			n += s.b.panels * min(s.matrices, count(&j.b))
		}
		s.each(n, s.packing)
		s.each(s.matrices*s.unitsA*s.unitsB, s.tiling)
	}
	for i := range s.sources {
		s.sources[i] = source{}
	}
	j.afterwards(j.col != 1)
}

// afterwards calls then for all of the result, where no piece was done before that.
func (j *job) afterwards(all bool) {
	if then, n := j.then, j.batches*j.m*j.n; then != nil && all {
		par.For((n+piece-1)/piece, func(i int) { then(i*piece, min(piece, n-i*piece)) })
	}
}

// outer reports whether there are factors or an addend outside the sum.
func (j *job) outer() bool { return j.alpha != 1 || j.c.data != nil && !j.inner }

// each is [par.Each] with the memory of workers, or a loop where that is quicker.
func (s *Space) each(n int, body func(worker, i int)) {
	workers := par.Workers()
	for len(s.workers) < workers {
		s.workers = append(s.workers, new(worker))
	}
	if j := &s.job; float64(j.m)*float64(j.n)*float64(j.terms)*float64(j.batches) < serial {
		for i := range n {
			body(0, i)
		}
		return
	}
	par.Each(workers, n, body)
}

// choose sets the kernels: plain Go where there are none, or where most of a tile
// would be empty.
func (s *Space) choose() {
	if isa := asm.ISA(); s.isa != isa {
		s.isa, s.name, s.plain = isa, "matrix product "+isa, "matrix product, plain Go"
	}
	j := &s.job
	if s.kernels = asm.DirectKernels(); s.kernels != nil {
		s.rows, s.cols = s.kernels.Outputs, s.kernels.Pixels
		const waste = 12 // plain Go takes that much longer for a product
		full := float64((j.m+s.rows-1)/s.rows*s.rows) * float64((j.n+s.cols-1)/s.cols*s.cols)
		if j.prepared != nil || float64(j.m)*float64(j.n)*waste >= full {
			asm.Ran(s.name)
			return
		}
		s.kernels = nil
	}
	asm.Ran(s.plain)
	s.rows, s.cols = plainRows, plainCols
}

// places returns the bytes from the first of n terms of a panel of b to each.
func (s *Space) places(n int) []int {
	if len(s.taps) > 1 && s.taps[1] != 8*s.cols { // of another instruction set
		s.taps = s.taps[:0]
	}
	for len(s.taps) < n {
		s.taps = append(s.taps, 8*s.cols*len(s.taps))
	}
	return s.taps[:n]
}

// divide makes units, several for each worker.
func (s *Space) divide(matrices int) {
	s.groupA, s.groupB = min(tilesA, s.a.panels), tilesB
	if s.kernels != nil && s.job.format == fp16.Float64 {
		s.places(max(1, s.job.terms))
	}
	for {
		s.unitsA = (s.a.panels + s.groupA - 1) / s.groupA
		s.unitsB = (s.b.panels + s.groupB - 1) / s.groupB
		switch {
		case matrices*s.unitsA*s.unitsB >= 8*par.Workers() || s.groupA+s.groupB == 2:
			return
		case s.groupB == 1 || s.job.prepared == nil && s.groupA >= 2*s.groupB:
			s.groupA /= 2
		default:
			s.groupB /= 2
		}
	}
}

// corner returns the first panels of a and b of unit i of a matrix. Units that follow one
// another have the panels of the greater operand in common, which so comes from memory
// once.
func (s *Space) corner(i int) (a, b int) {
	if s.job.n > s.job.m {
		return i % s.unitsA * s.groupA, i / s.unitsA * s.groupB
	}
	return i / s.unitsB * s.groupA, i % s.unitsB * s.groupB
}

// lasts sets what lines end with.
func (s *Space) lasts() {
	j := &s.job
	if j.prepared != nil {
		if j.terms > j.k {
			s.sources[0].last, s.sources[0].lastFold = one, 1
		}
		return
	}
	if !j.inner {
		return
	}
	with, without := &s.sources[1], &s.sources[0]
	with.lastLine = j.c.col
	if j.c.row != 0 {
		with, without = without, with
		with.lastLine = j.c.row
	}
	with.last, with.lastFold = j.c.data, j.beta
	without.last, without.lastFold = one, 1
}

// pack fills panel i of those of a, and then of b.
func (s *Space) pack(number, i int) {
	j := &s.job
	p, v, from := s.a, &j.a, s.sources[0]
	if i >= s.packA {
		p, v, from, i = s.b, &j.b, s.sources[1], i-s.packA
	}
	from.data = v.data[v.at(s.first+i/p.panels, j.dims):]
	p.fill(i, &from, &s.workers[number].squares)
}
