package matmul

import (
	"sync"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// fastJob is products of one shape. The right operands lie in panels; the left ones are laid
// out in groups of rows, and then units of these are multiplied by parts of the panels.
type fastJob struct {
	kernels                  *asm.Fast
	matrices, rows, inner, n int
	blocks, columns, panels  int

	a, b   Matrices
	to     []float32
	wideA  []float64 // in place of a and to
	wideTo []float64
	then   func(at, n int)

	u, bias []float32
	memory  []float32 // of u, where it is this job's
	v       []float32 // groups of rows, of all matrices
	zeros   []float32
	tiles   int // of a group of rows: those from fewer on have one less
	groups  int
	fewer   int
	units   int
	parts   int

	pack, lay, unit, row, line, few func(i int)
}

var fastJobs = sync.Pool{New: func() any {
	j := new(fastJob)
	j.pack, j.lay, j.unit, j.row = j.packPanel, j.layGroup, j.multiply, j.plainRow
	j.line, j.few = j.layLine, j.multiplyLines
	return j
}}

// put forgets the operands and keeps the job.
func (j *fastJob) put() {
	j.a, j.b, j.to, j.wideA, j.wideTo, j.then, j.u, j.bias = Matrices{}, Matrices{}, nil, nil, nil, nil, nil, nil
	fastJobs.Put(j)
}

// shape takes the sizes, and the kernels that run.
func (j *fastJob) shape(matrices, rows, inner, n int) {
	j.matrices, j.rows, j.inner, j.n = matrices, rows, inner, n
	j.blocks, j.columns = (inner+fastBlock-1)/fastBlock, 1
	if j.kernels = asm.WinogradForm(3).Fast(); j.kernels != nil {
		j.columns = j.kernels.Outputs
	}
	j.panels = (n + j.columns - 1) / j.columns
}

// kernel multiplies by a prepared operand.
func (j *fastJob) kernel(k *Kernel) {
	p := k.singles(j.columns)
	j.u, j.bias = p.u, p.bias
	j.run()
}

// size returns the numbers of a panel.
func (j *fastJob) size() int { return j.blocks * fastBlock * j.columns }

// fastUnit is how many numbers the rows of a unit have at most, which should stay in a
// processor's own cache.
const fastUnit = 1 << 17

// fastPieces is how many pieces of work there are for a thread, or more: it waits for
// the others for as long as one of these takes.
const fastPieces = 16

func (j *fastJob) run() {
	if j.matrices*j.rows*j.n == 0 {
		return
	}
	if j.u == nil {
		j.u = roomy(&j.memory, j.matrices*j.panels*j.size())
		j.bias = nil
		par.For(j.matrices*j.panels, j.pack)
	}
	if j.bias == nil {
		room(&j.zeros, j.panels*j.columns)
		j.bias = j.zeros
	}
	asm.RanHere("fast product", j.kernels != nil)
	if j.kernels == nil {
		par.For(j.matrices*j.rows, j.row)
		return
	}
	if j.tiles = j.kernels.Tiles; j.kernels.Line != nil && 2*j.rows <= j.tiles {
		j.lines()
		return
	}
	j.groups = (j.rows + j.tiles - 1) / j.tiles
	j.fewer = j.groups
	if j.kernels.MultiplyFewer != nil {
		j.fewer -= min(j.groups*j.tiles-j.rows, j.groups)
	}
	roomy(&j.v, j.matrices*j.groups*j.group())
	par.For(j.matrices*j.groups, j.lay)
	j.units = (j.groups*j.group() + fastUnit - 1) / fastUnit
	j.units = min(j.units, j.groups)
	units := j.matrices * j.units
	j.parts = min(j.panels, (fastPieces*par.Workers()+units-1)/units)
	par.For(j.matrices*j.units*j.parts, j.unit)
}

// group returns the numbers of a group of rows, or more.
func (j *fastJob) group() int { return j.blocks * fastBlock * j.tiles }

// place returns where a group of a matrix lies in v.
func (j *fastJob) place(matrix, group int) int {
	return (matrix*j.groups+group)*j.group() - max(group-j.fewer, 0)*j.blocks*fastBlock
}

// from returns the first row of a group.
func (j *fastJob) from(group int) int {
	return min(group*j.tiles-max(group-j.fewer, 0), j.rows)
}

// roomy is room for vectors.
func roomy(v *[]float32, n int) []float32 {
	if cap(*v) < n {
		*v = asm.Paged[float32](n)
	}
	*v = (*v)[:n]
	return *v
}

// fastSums is memory for the sums of a unit.
type fastSums struct{ m []float32 }

var fastSumsPool = sync.Pool{New: func() any { return new(fastSums) }}

// multiply makes the part of the columns of a unit of groups.
func (j *fastJob) multiply(i int) {
	s := fastSumsPool.Get().(*fastSums)
	defer fastSumsPool.Put(s)
	matrix, unit, part := i/j.parts/j.units, i/j.parts%j.units, i%j.parts
	g0, g1 := unit*j.groups/j.units, (unit+1)*j.groups/j.units
	lo, hi, middle := j.from(g0), j.from(g1), min(max(j.fewer, g0), g1)
	m := roomy(&s.m, (g1-g0)*j.tiles*j.columns)
	panels := j.u
	if j.b.Data != nil {
		panels = j.u[matrix*j.panels*j.size():]
	}
	p0, p1 := part*j.panels/j.parts, (part+1)*j.panels/j.parts
	for panel := p0; panel < p1; panel++ {
		u, next := &panels[panel*j.size()], &panels[(panel+1)%j.panels*j.size()]
		ahead, after := next, u // who reads ahead
		if g1-middle > middle-g0 {
			ahead, after = u, next
		}
		if middle > g0 {
			j.kernels.Multiply(&j.v[j.place(matrix, g0)], u, &m[0], j.blocks, fastChain/fastBlock, middle-g0, ahead, u)
		}
		if g1 > middle {
			j.kernels.MultiplyFewer(&j.v[j.place(matrix, middle)], u, &m[(j.from(middle)-lo)*j.columns], j.blocks,
				fastChain/fastBlock, g1-middle, after, u)
		}
		j.store(m, matrix, panel, lo, hi)
	}
	j.made(matrix, lo, hi, p0, p1)
}

// made calls then for the columns of some panels of rows from lo to hi-1.
func (j *fastJob) made(matrix, lo, hi, p0, p1 int) {
	switch from, to := p0*j.columns, min(p1*j.columns, j.n); {
	case j.then == nil:
	case to-from == j.n: // whole rows
		j.then((matrix*j.rows+lo)*j.n, (hi-lo)*j.n)
	default:
		for r := lo; r < hi; r++ {
			j.then((matrix*j.rows+r)*j.n+from, to-from)
		}
	}
}

// store adds the bias to the sums of a panel, of rows from lo to hi-1.
func (j *fastJob) store(m []float32, matrix, panel, lo, hi int) {
	first := panel * j.columns
	bias := j.bias[first:][:min(j.columns, j.n-first)]
	whole, singles := 0, asm.SingleKernels()
	if singles != nil && j.wideTo == nil && len(bias) >= 16 {
		whole = len(bias) &^ 15
		singles.Shift(&j.to[(matrix*j.rows+lo)*j.n+first], 4*j.n, &m[0], 4*j.columns, &bias[0], whole, hi-lo)
	}
	if whole == len(bias) {
		return
	}
	for r := lo; r < hi; r++ {
		from, at := m[(r-lo)*j.columns:][:len(bias)], (matrix*j.rows+r)*j.n+first
		if j.wideTo == nil {
			to := j.to[at:][:len(bias)]
			for c := whole; c < len(to); c++ {
				to[c] = oneNaN(from[c] + bias[c])
			}
			continue
		}
		to, done := j.wideTo[at:][:len(bias)], 0
		if lines := asm.LineKernels(); lines != nil && len(to) >= 8 {
			done = len(to) &^ 7
			lines.Shift(&to[0], &from[0], &bias[0], done)
		}
		for c := done; c < len(to); c++ {
			to[c] = float64(oneNaN(from[c] + bias[c]))
		}
	}
}
