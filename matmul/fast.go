package matmul

import (
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/internal/single"
	"github.com/refrun/refrun/tensor"
)

// Products in the fast arithmetic of docs/NUMERICS.md, section 13: each element is
// single.Dot of a row and a column in chains of fastChain numbers, plus the bias, or 0. What
// the inner dimension lacks of a multiple of 8 are zeros.

const (
	fastBlock = 8
	fastChain = 128
)

// Fast returns the kernel for fast arithmetic, which products of float32 numbers or
// narrower ones have in float32; all others are exact. It is the kernel itself if its
// numbers are no float32 numbers.
func (k *Kernel) Fast() *Kernel {
	if k.b.Format != fp16.Float32 || k.k == 0 {
		return k
	}
	return &Kernel{b: k.b, trans: k.trans, bias: k.bias, k: k.k, n: k.n, byWidth: map[int]*packed{}, fast: true}
}

// IsFast reports whether the kernel is one for fast arithmetic.
func (k *Kernel) IsFast() bool { return k.fast }

// fastPacked is the operand in panels of some columns.
type fastPacked struct {
	blocks int       // of the inner dimension
	u      []float32 // [panels][blocks*8][columns]
	bias   []float32 // [panels][columns]
}

// singles returns the operand in panels of so many columns, made at their first use.
func (k *Kernel) singles(columns int) *fastPacked {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.inSingles[columns]; p != nil {
		return p
	}
	panels, blocks := (k.n+columns-1)/columns, (k.k+fastBlock-1)/fastBlock
	p := &fastPacked{blocks, asm.Paged[float32](panels * blocks * fastBlock * columns), make([]float32, panels*columns)}
	for i, b := range k.bias {
		p.bias[i] = float32(b)
	}
	line, step := k.n, 1
	if k.trans {
		line, step = 1, k.k
	}
	par.For(panels, func(panel int) {
		for j := panel * columns; j < min((panel+1)*columns, k.n); j++ {
			for i := range k.k {
				p.u[(panel*blocks*fastBlock+i)*columns+j%columns] = float32(k.b.Data[i*line+j*step])
			}
		}
	})
	if k.inSingles == nil {
		k.inSingles = map[int]*fastPacked{}
	}
	k.inSingles[columns] = p
	return p
}

// Matrices are float32 matrices that lie in one slice: the first at its beginning, number m
// At[m] numbers on, or all of them there if At is nil; Row numbers from a row to the next, and
// Col from a column to the next.
type Matrices struct {
	Data     []float32
	At       []int
	Row, Col int
}

func (m *Matrices) of(matrix int) []float32 {
	if m.At == nil {
		return m.Data
	}
	return m.Data[m.At[matrix]:]
}

// ForwardSingles is ForwardThen of float32 numbers in rows, for a kernel for fast arithmetic.
func (k *Kernel) ForwardSingles(dst, a []float32, rows int, then func(at, n int)) {
	j := fastJobs.Get().(*fastJob)
	defer j.put()
	j.shape(1, rows, k.k, k.n)
	j.a, j.to, j.then = Matrices{Data: a, Row: k.k, Col: 1}, dst, then
	j.kernel(k)
}

// FastSingles sets dst [matrices][rows][n] to products of matrices a, of so many rows, and b, with n
// columns, in fast arithmetic. It calls then for pieces of dst, as Params has it; nil for nothing.
func FastSingles(dst []float32, a, b Matrices, matrices, rows, inner, n int, then func(at, n int)) {
	j := fastJobs.Get().(*fastJob)
	defer j.put()
	j.shape(matrices, rows, inner, n)
	j.a, j.b, j.to, j.then = a, b, dst, then
	j.run()
}

// ForwardFast is Forward of float32 matrices in fast arithmetic, and calls then as Params has it.
func ForwardFast(dst, a, b *tensor.Tensor, then func(at, n int)) {
	shape, err := Shape(a.Shape, b.Shape, Params{})
	if err != nil {
		panic(err.Error())
	}
	if !slices.Equal(shape, dst.Shape) || min(len(a.Shape), len(b.Shape)) < 2 {
		panic("matmul: operands and destination differ in shape")
	}
	rows, inner := ends(a.Shape, false, true)
	_, n := ends(b.Shape, false, false)
	batch := leading(dst.Shape)
	x, y, to := narrowed(a.Data), narrowed(b.Data), make([]float32, len(dst.Data))
	atA, atB := Places(batch, leading(a.Shape), nil), Places(batch, leading(b.Shape), nil)
	for i := range atA {
		atA[i], atB[i] = atA[i]*rows*inner, atB[i]*inner*n
	}
	FastSingles(to, Matrices{x, atA, inner, 1}, Matrices{y, atB, n, 1}, len(atA), rows, inner, n, func(at, n int) {
		for i, v := range to[at:][:n] {
			dst.Data[at+i] = float64(v)
			if v != v {
				dst.Data[at+i] = fp16.NaN
			}
		}
		if then != nil {
			then(at, n)
		}
	})
}

func narrowed(data []float64) []float32 {
	to := make([]float32, len(data))
	for i, v := range data {
		to[i] = float32(v)
	}
	return to
}

// Places returns where each matrix of a result with those leading dimensions lies in an operand of
// others, which are spread to them: they lie steps apart, or in order if steps is nil.
func Places(batch, of, steps []int) []int {
	if steps == nil {
		steps = make([]int, len(of))
		step := 1
		for d := len(of) - 1; d >= 0; d-- {
			steps[d] = step
			step *= of[d]
		}
	}
	n := 1
	for _, d := range batch {
		n *= d
	}
	at := make([]int, n)
	for i := range at {
		m := i
		for d := len(batch) - 1; d >= 0; d-- {
			if k := d - (len(batch) - len(of)); k >= 0 && of[k] > 1 {
				at[i] += m % batch[d] * steps[k]
			}
			m /= batch[d]
		}
	}
	return at
}

// applyFast multiplies rows of a into dst, and calls then for pieces of it.
func (k *Kernel) applyFast(dst, a []float64, rows int, then func(at, n int)) {
	j := fastJobs.Get().(*fastJob)
	defer j.put()
	j.shape(1, rows, k.k, k.n)
	j.wideA, j.wideTo, j.then = a, dst, then
	j.kernel(k)
}

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

	pack, lay, unit, row func(i int)
}

var fastJobs = sync.Pool{New: func() any {
	j := new(fastJob)
	j.pack, j.lay, j.unit, j.row = j.packPanel, j.layGroup, j.multiply, j.plainRow
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
	j.tiles = j.kernels.Tiles
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

// packPanel lays out some columns of a right operand.
func (j *fastJob) packPanel(i int) {
	b, u := j.b.of(i/j.panels), j.u[i*j.size():][:j.size()]
	first := i % j.panels * j.columns
	n := min(j.columns, j.n-first)
	b = b[first*j.b.Col:]
	clear(u[j.inner*j.columns:])
	switch {
	case j.b.Col == 1:
		for k := range j.inner {
			to := u[k*j.columns:][:j.columns]
			copy(to[:n], b[k*j.b.Row:])
			clear(to[n:])
		}
		return
	case n < j.columns:
		clear(u)
	}
	first = 0
	for ; j.b.Row == 1 && first+4 <= n; first += 4 { // four lines side by side
		w, x := b[first*j.b.Col:][:j.inner], b[(first+1)*j.b.Col:][:j.inner]
		y, z := b[(first+2)*j.b.Col:][:j.inner], b[(first+3)*j.b.Col:][:j.inner]
		for k, v := range w {
			to := u[k*j.columns+first:][:4]
			to[0], to[1], to[2], to[3] = v, x[k], y[k], z[k]
		}
	}
	for c := first; c < n; c++ {
		from := b[c*j.b.Col:]
		for k := range j.inner {
			u[k*j.columns+c] = from[k*j.b.Row]
		}
	}
}

// layGroup lays a group of rows out, [blocks][rows][8].
func (j *fastJob) layGroup(i int) {
	m, g := i/j.groups, i%j.groups
	lo, hi, tiles := j.from(g), j.from(g+1), j.tiles
	if g >= j.fewer {
		tiles--
	}
	v := j.v[j.place(m, g):][:j.blocks*fastBlock*tiles]
	if hi-lo < tiles {
		clear(v)
	}
	step, whole := tiles*fastBlock, j.inner/fastBlock
	var rest [fastBlock]float32
	for r := lo; r < hi; r++ {
		to := v[(r-lo)*fastBlock:]
		switch {
		case j.wideA != nil:
			row := j.wideA[r*j.inner:][:j.inner]
			done := 0
			if lines := asm.LineKernels(); lines != nil && whole > 0 {
				lines.Narrow(&to[0], 4*step, &row[0], whole*fastBlock)
				done = whole
			}
			for b := done; b < j.blocks; b++ {
				part := row[b*fastBlock : min((b+1)*fastBlock, j.inner)]
				clear(rest[:])
				for c, x := range part {
					rest[c] = float32(x)
				}
				*(*[fastBlock]float32)(to[b*step:]) = rest
			}
		case j.a.Col == 1:
			row := j.a.of(m)[r*j.a.Row:][:j.inner]
			if singles := asm.SingleKernels(); singles != nil && whole > 0 {
				singles.Lay(&to[0], 4*step, &row[0], whole*fastBlock)
			} else {
				for b := range whole {
					copy(to[b*step:], row[b*fastBlock:][:fastBlock])
				}
			}
			if whole < j.blocks {
				clear(rest[:])
				copy(rest[:], row[whole*fastBlock:])
				*(*[fastBlock]float32)(to[whole*step:]) = rest
			}
		default:
			row := j.a.of(m)[r*j.a.Row:]
			for b := range j.blocks {
				clear(rest[:])
				for c := range min(fastBlock, j.inner-b*fastBlock) {
					rest[c] = row[(b*fastBlock+c)*j.a.Col]
				}
				*(*[fastBlock]float32)(to[b*step:]) = rest
			}
		}
	}
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
			j.kernels.MultiplyFewer(&j.v[j.place(matrix, middle)], u, &m[(j.from(middle)-lo)*j.columns], j.blocks, fastChain/fastBlock, g1-middle, after, u)
		}
		j.store(m, matrix, panel, lo, hi)
	}
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

// plainRow is a row of a product: the definition.
func (j *fastJob) plainRow(i int) {
	matrix, r := i/j.rows, i%j.rows
	inner := j.blocks * fastBlock
	v := make([]float32, inner)
	for k := range j.inner {
		if j.wideA != nil {
			v[k] = float32(j.wideA[r*j.inner+k])
		} else {
			v[k] = j.a.of(matrix)[r*j.a.Row+k*j.a.Col]
		}
	}
	u := j.u
	if j.b.Data != nil {
		u = u[matrix*j.n*inner:]
	}
	for c := range j.n {
		y := oneNaN(single.Dot(u[c*inner:][:inner], v, fastChain) + j.bias[c])
		if j.wideTo != nil {
			j.wideTo[i*j.n+c] = float64(y)
		} else {
			j.to[i*j.n+c] = y
		}
	}
	if j.then != nil {
		j.then(i*j.n, j.n)
	}
}

// oneNaN is a number with the one NaN.
func oneNaN(v float32) float32 {
	if v != v {
		return float32(fp16.NaN)
	}
	return v
}
