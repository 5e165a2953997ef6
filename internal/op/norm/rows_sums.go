package norm

import (
	"math"
	"math/bits"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
)

// Sum sums the given part of the rows of a block.
func (r *Rows) Sum(img Image, n, b, part int, w *Space) {
	at := (n*r.blocks+b)*r.parts + part
	from, to := r.h*part/r.parts, r.h*(part+1)/r.parts
	if r.sumsExact() {
		r.sumExact(&r.moments[at], img, n, b, from, to, w)
		return
	}
	w.pivot = [8]float64{}
	for l := range min(8, r.c-8*b) {
		w.pivot[l] = r.pivots[n*r.groups+(8*b+l)/r.perGroup]
	}
	w.tree.n = 0
	for y := from; y < to; y++ {
		row := img.Row(n, b, y)
		for len(row) > 0 {
			k := min(len(row), 8*chunk)
			sumRow(row[:k], &w.pivot, &w.sums)
			w.tree.add(&w.sums)
			row = row[k:]
		}
	}
	w.tree.total(&r.sums[at])
}

// sumExact adds rows of a block to exact sums, channels together; the zeros of
// missing channels count for nothing.
func (r *Rows) sumExact(m *exact.Moments, img Image, n, b, from, to int, w *Space) {
	*m = exact.Moments{}
	buf := &w.sum.before
	for y := from; y < to; y++ {
		row := img.Row(n, b, y)
		for len(row) > 0 {
			k := min(len(row), block)
			for i, v := range row[:k] {
				buf[i] = float64(v)
			}
			w.sum.addMoments(m, buf[:k])
			row = row[k:]
		}
	}
	m.AddSums(-(8-min(8, r.c-8*b))*r.w*(to-from), nil, nil)
}

// exactTotal sets the moments of sample n's only group.
func (r *Rows) exactTotal(g *group, n int) {
	all := r.moments[n*r.blocks*r.parts : (n+1)*r.blocks*r.parts]
	g.moments = all[0]
	for i := range all[1:] {
		g.moments.Merge(&all[1+i])
	}
}

// tree adds sums two by two, so that each takes part in few additions: level k
// holds the sum of 2^k of them if bit k of n is set.
type tree struct {
	n     int
	level [32][2][8]float64
}

func (t *tree) add(s *[2][8]float64) {
	k := 0
	for ; t.n>>k&1 == 1; k++ {
		plus(s, &t.level[k])
	}
	t.level[k] = *s
	t.n++
}

func (t *tree) total(s *[2][8]float64) {
	*s = [2][8]float64{}
	for k := range bits.Len(uint(t.n)) {
		if t.n>>k&1 == 1 {
			plus(s, &t.level[k])
		}
	}
}

func plus(s, o *[2][8]float64) {
	for i := range s {
		a, b := &s[i], &o[i]
		for l := range a {
			a[l] += b[l]
		}
	}
}

// roundings is how many additions a number takes part in, at most, on its way into
// a group's sums: in a chunk chunk/4 and 1 more, then 2; twice the levels of the
// tree; then those of parts and channels.
func (r *Rows) roundings() float64 {
	chunks := (r.h/r.parts + 1) * ((r.w + chunk - 1) / chunk)
	return float64(chunk/4+1+2) + 2*float64(bits.Len(uint(chunks))) + float64(r.parts+r.perGroup)
}

// sumRow is asm.Rows.Sums.
func sumRow(row []float32, pivot *[8]float64, s *[2][8]float64) {
	if k := asm.RowKernels(); k != nil {
		k.Sums(&row[0], len(row)/8, pivot, s)
		return
	}
	var a [2][4][8]float64
	whole := len(row) / 8 &^ 3
	for i := 0; i < len(row); i += 8 {
		k := i / 8 % 4
		if i/8 >= whole {
			k = i/8 - whole
		}
		for l, v := range row[i : i+8] {
			d := float64(v) - pivot[l]
			a[0][k][l] += d
			a[1][k][l] = math.FMA(d, d, a[1][k][l])
		}
	}
	for i := range s {
		for l := range s[i] {
			s[i][l] = (a[i][0][l] + a[i][1][l]) + (a[i][2][l] + a[i][3][l])
		}
	}
}
