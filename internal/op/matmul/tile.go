package matmul

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// tiles computes unit i: some panels of a times some panels of b.
func (s *Space) tiles(number, i int) {
	j, w := &s.job, s.workers[number]
	matrix := i / (s.unitsA * s.unitsB)
	i %= s.unitsA * s.unitsB
	loA, loB := s.corner(i)
	hiA, hiB := min(loA+s.groupA, s.a.panels), min(loB+s.groupB, s.b.panels)
	u := unit{Space: s, w: w, matrix: matrix}
	if !j.a.single() {
		u.panelsA = matrix * s.a.panels
	}
	if j.prepared == nil && !j.b.single() {
		u.panelsB = matrix * s.b.panels
	}
	tile := s.rows * s.cols
	room(&w.out, tile)
	room(&w.flags, tile)
	room(&w.table, 3*s.rows)
	room(&w.window, s.cols)
	room(&w.sums, (hiA-loA)*(hiB-loB)*tile)
	clear(w.sums)
	sums := func(a, b int) []float64 { return w.sums[((a-loA)*(hiB-loB)+b-loB)*tile:][:tile] }
	alone := s.alone(loA)
	for k := 0; k < j.terms; k += s.a.block {
		n := min(s.a.block, j.terms-k)
		first, _ := u.a.at(u.panelsA+loA, k)
		if alone {
			u.addLines(loB, hiB, k, n, u.a.data[first:], w.sums)
			continue
		}
		for b := loB; b < hiB; b++ {
			u.right = u.b.piece(u.panelsB+b, k, n, &w.right)
			if u.next = nil; b+1 < hiB {
				u.ahead(b+1, k)
			} else if k+n < j.terms {
				u.ahead(loB, k+n)
			}
			at, size := u.a.data[first:], n*s.rows
			for a := loA; a < hiA; a++ {
				u.add(at[:size], n, sums(a, b))
				at = at[size:]
			}
		}
	}
	for a := loA; a < hiA; a++ {
		for b := loB; b < hiB; b++ {
			if j.byGo {
				u.plainly(a, b, sums(a, b))
			} else {
				u.guarded(a, b, sums(a, b))
			}
		}
	}
	if j.then != nil && j.col == 1 {
		from, to := loB*s.cols, min(hiB*s.cols, j.n)
		for i := loA * s.rows; i < min(hiA*s.rows, j.m); i++ {
			j.then((s.first+matrix)*j.m*j.n+i*j.row+from, to-from)
		}
	}
}

// room sets a slice's length.
func room[T any](v *[]T, n int) {
	if cap(*v) < n {
		*v = make([]T, n)
	}
	*v = (*v)[:n]
}

// unit is some tiles of one matrix, under way.
type unit struct {
	*Space
	w                *worker
	matrix           int       // from the first of those at hand
	panelsA, panelsB int       // the matrix's first panels
	right            []float64 // the terms of a panel of b at hand
	next             []float32 // those after them, where they are single
}

// add adds the products of n terms of a panel of a and those at hand of b to the
// sums of their tile; in float64 these are all, and the sums zero.
func (u *unit) add(left []float64, n int, sums []float64) {
	switch {
	case u.kernels == nil:
		addPlain(u.right[:n*plainCols], left, sums)
	case u.job.format == fp16.Float64:
		clear(u.w.table)
		u.kernels.Convolve[asm.ToFloat64](&u.right[0], &u.taps[0], n, &left[0], &u.w.table[0], &u.w.window[0],
			&sums[0], &u.w.flags[0])
	default:
		next := &u.w.nothing
		if len(u.next) > asm.AddAhead {
			next, u.next = &u.next[0], u.next[asm.AddAhead:]
		}
		u.kernels.Add(&u.right[0], &left[0], n, &sums[0], next)
	}
}

// alone reports whether panel a has one line, of a product with a prepared operand, and there are kernels for that.
func (s *Space) alone(a int) bool {
	has := s.kernels != nil && s.kernels.AddLine != nil
	return has && s.job.format != fp16.Float64 && s.b.single != nil && s.job.m-a*s.rows == 1
}

// addLines is add for a panel of a that has one line, and panels of b as they are kept, in float32 numbers: what add
// does for the lines that are missing would be most of its work, and there is nobody else to read a wide copy.
func (u *unit) addLines(from, to, k, n int, left, sums []float64) {
	step, tile := 4*n*u.cols, u.rows*u.cols
	for b := from; b < to; {
		at, _ := u.b.at(u.panelsB+b, k)
		kernel, count := u.kernels.AddLine, 1
		if b+asm.DirectPanels <= to {
			kernel, count = u.kernels.AddLines, asm.DirectPanels
		}
		kernel(&u.b.single[at], step, &left[0], n, &sums[(b-from)*tile])
		b += count
	}
}

// ahead notes that the terms of panel b from term k on are read next.
func (u *unit) ahead(b, k int) {
	if u.b.single != nil {
		at, _ := u.b.at(u.panelsB+b, k)
		u.next = u.b.single[at:]
	}
}

// addPlain is asm.Direct's Add in plain Go, for 2 x 3 sums. Products of float32 numbers
// are exact, so that it matters only in float64 that they are rounded first.
func addPlain(right, left, sums []float64) {
	var a0, a1, a2, b0, b1, b2 float64
	for len(left) >= plainRows && len(right) >= plainCols {
		x0, x1, x2 := right[0], right[1], right[2]
		wa, wb := left[0], left[1]
		a0 += float64(x0 * wa)
		a1 += float64(x1 * wa)
		a2 += float64(x2 * wa)
		b0 += float64(x0 * wb)
		b1 += float64(x1 * wb)
		b2 += float64(x2 * wb)
		left, right = left[plainRows:], right[plainCols:]
	}
	for i, v := range [...]float64{a0, a1, a2, b0, b1, b2} {
		sums[i] += v
	}
}

// place returns the tile's first line of a and of b, how many of each are in the
// matrix, and where the first element goes.
func (u *unit) place(a, b int) (i, j, rows, cols, to int) {
	i, j = a*u.rows, b*u.cols
	m := &u.job
	return i, j, min(u.rows, m.m-i), min(u.cols, m.n-j), (u.first+u.matrix)*m.m*m.n + i*m.row + j*m.col
}

// manyOpen is from how many open elements of a tile on the grids of its panels are
// looked for: integers leave about 1 of 64 open, other numbers 1 of some thousands.
const manyOpen = 3

// guarded finishes a tile by a kernel.
func (u *unit) guarded(a, b int, sums []float64) {
	j, w, pa, pb := &u.job, u.w, u.panelsA+a, u.panelsB+b
	_, _, rows, cols, to := u.place(a, b)
	finite := u.a.finite[pa] && u.b.finite[pb]
	known := u.a.known(pa) && u.b.known(pb) && exactly(u.a, pa, u.b, pb)
	dst, line := w.out, u.cols
	whole := rows == u.rows && cols == u.cols && j.col == 1
	if whole {
		dst, line = j.to[to:], j.row
	}
	slopes := w.table[:u.rows]
	for l, v := range u.a.lineNorms(pa) {
		slopes[l] = v * u.slope
	}
	if known {
		clear(slopes)
	}
	window := &u.b.lineNorms(pb)[0]
	any := u.round(&sums[0], &slopes[0], window, &dst[0], 8*line, &w.flags[0])
	if any != 0 && finite && !known && u.open(rows) >= manyOpen && exactly(u.a, pa, u.b, pb) {
		clear(slopes)
		any = u.round(&sums[0], &slopes[0], window, &dst[0], 8*line, &w.flags[0])
	}
	if !whole {
		for r := range rows {
			line := w.out[r*u.cols:][:cols]
			if j.col == 1 {
				copy(j.to[to+r*j.row:][:cols], line)
				continue
			}
			for c, v := range line {
				j.to[to+r*j.row+c*j.col] = v
			}
		}
	}
	if finite && any == 0 {
		return
	}
	lanes := u.kernels.Lanes()
	for r := range rows {
		flags := w.flags[3*r : 3*r+3]
		for c := range cols {
			if !finite || flags[c/lanes]>>(c%lanes)&1 != 0 {
				j.to[to+r*j.row+c*j.col] = u.settle(w, pa, r, pb, c, 0)
			}
		}
	}
}

// open returns how many elements of the first rows are left open.
func (u *unit) open(rows int) (n int) {
	for _, f := range u.w.flags[:3*rows] {
		for ; f != 0; f &= f - 1 {
			n++
		}
	}
	return n
}

// plainly finishes a tile in plain Go.
func (u *unit) plainly(a, b int, sums []float64) {
	j, pa, pb := &u.job, u.panelsA+a, u.panelsB+b
	i0, j0, rows, cols, to := u.place(a, b)
	at := 0
	if j.c.data != nil {
		at = j.c.at(u.first+u.matrix, j.dims) + i0*j.c.row + j0*j.c.col
	}
	if j.format == fp16.Float64 && j.col == 1 && !j.outer() {
		for r := range rows {
			line := sums[r*u.cols:][:cols]
			for c, v := range line {
				line[c] = v + 0 // no zero is negative
			}
			fp16.Float64.RoundSlice(j.to[to+r*j.row:][:cols], line)
		}
		return
	}
	open, exact := 0, false
	for r := range rows {
		for c := range cols {
			sum, added := sums[r*u.cols+c], 0.0
			if j.outer() && j.c.data != nil {
				added = j.c.data[at+r*j.c.row+c*j.c.col]
			}
			out := &j.to[to+r*j.row+c*j.col]
			if j.format == fp16.Float64 {
				*out = j.inOrder(sum, added)
				continue
			}
			e := 0.0
			if !exact {
				e = u.slope * float64(u.a.lineNorms(pa)[r]*u.b.lineNorms(pb)[c])
			}
			v, ok := j.decide(sum, added, e)
			if !ok {
				if open++; open == manyOpen && exactly(u.a, pa, u.b, pb) {
					exact = true
				}
				if v, ok = sum, exact && !j.outer(); ok {
					v = j.format.Round(sum)
				} else {
					v = u.settle(u.w, pa, r, pb, c, added)
				}
			}
			*out = v
		}
	}
}

// inOrder is float64's alpha sum + beta c.
func (j *job) inOrder(sum, c float64) float64 {
	if j.alpha != 1 {
		sum = float64(j.alpha * sum)
	}
	if j.outer() && j.c.data != nil {
		if j.beta != 1 {
			c = float64(j.beta * c)
		}
		sum += c
	}
	return fp16.Float64.Round(sum + 0) // no zero is negative
}

// decide rounds alpha sum + beta c, where the sum is known within e, or says that it
// cannot tell.
func (j *job) decide(sum, c, e float64) (float64, bool) {
	if !j.outer() {
		return j.format.Decide(sum, e)
	}
	p, q := float64(j.alpha*sum), float64(j.beta*c)
	v := p + q
	const u = 0x1p-53
	e = float64(1.0002*(float64(abs(j.alpha)*e)+float64(u*(abs(p)+abs(q)+abs(v))))) + 0x1p-1060
	return j.format.Decide(v, e)
}

func abs(v float64) float64 {
	if v < 0 {
		return -v
	}
	return v
}
