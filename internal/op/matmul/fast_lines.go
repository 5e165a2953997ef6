package matmul

import (
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// lines is run for few rows: of a group, most would not be there. Each is multiplied by itself, by panels
// that are near when the next one reads them.
func (j *fastJob) lines() {
	roomy(&j.v, j.matrices*j.rows*j.blocks*fastBlock)
	par.For(j.matrices*j.rows, j.line)
	j.units = (j.panels + asm.FastPanels - 1) / asm.FastPanels
	j.parts = min(j.units, (fastPieces*par.Workers()+j.matrices-1)/j.matrices)
	par.For(j.matrices*j.parts, j.few)
}

// layLine lays a row out, [blocks][8].
func (j *fastJob) layLine(i int) {
	v := j.v[i*j.blocks*fastBlock:][:j.blocks*fastBlock]
	clear(v[j.inner:])
	v = v[:j.inner]
	if j.wideA == nil {
		row := j.a.of(i / j.rows)[i%j.rows*j.a.Row:]
		if j.a.Col == 1 {
			copy(v, row)
			return
		}
		for k := range v {
			v[k] = row[k*j.a.Col]
		}
		return
	}
	for k, x := range j.wideA[i*j.inner:][:j.inner] {
		v[k] = float32(x)
	}
}

// multiplyLines makes part of the columns of the rows of a matrix.
func (j *fastJob) multiplyLines(i int) {
	s := fastSumsPool.Get().(*fastSums)
	defer fastSumsPool.Put(s)
	matrix, part := i/j.parts, i%j.parts
	m := roomy(&s.m, asm.FastPanels*j.columns)
	panels := j.u
	if j.b.Data != nil {
		panels = j.u[matrix*j.panels*j.size():]
	}
	p0 := part * j.units / j.parts * asm.FastPanels
	p1 := min((part+1)*j.units/j.parts*asm.FastPanels, j.panels)
	for p := p0; p < p1; {
		kernel, n := j.kernels.Line, 1
		if p+asm.FastPanels <= p1 {
			kernel, n = j.kernels.Lines, asm.FastPanels
		}
		for r := range j.rows {
			v := &j.v[(matrix*j.rows+r)*j.blocks*fastBlock]
			kernel(v, &panels[p*j.size()], 4*j.size(), &m[0], j.blocks, fastChain/fastBlock)
			for k := range n {
				j.store(m[k*j.columns:], matrix, p+k, r, r+1)
			}
		}
		p += n
	}
	j.made(matrix, 0, j.rows, p0, p1)
}
