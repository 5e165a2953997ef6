package matmul

import (
	"github.com/refrun/refrun/internal/asm"
)

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
