package norm

import (
	"math"
	"math/bits"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// Apply writes the normalisation of row src of block b of sample n to dst, which lies
// apart from it. img is where src is from.
func (r *Rows) Apply(dst, src []float32, img Image, n, b int, w *Space) {
	if r.fast == nil {
		r.applyExact(dst, src, img, n, b, w)
		return
	}
	f := &r.fast[r.place(n, b)]
	f.apply(dst, src)
	if f.exact == 0 {
		return
	}
	w.exact = append(w.exact[:0], src...)
	r.applyExact(w.exact, src, img, n, b, w)
	for i := range dst {
		if f.exact>>(i%8)&1 == 1 {
			dst[i] = w.exact[i]
		}
	}
}

// place returns which lines are those of a block.
func (r *Rows) place(n, b int) int {
	if r.running == nil {
		return n*r.blocks + b
	}
	return b
}

func (r *Rows) applyExact(dst, src []float32, img Image, n, b int, w *Space) {
	l := &r.lines[r.place(n, b)]
	if lineRow(r.format, dst, src, l, w.open) {
		r.settleRow(dst, src, l, img, n, b, w)
	}
	if l.nan != 0 {
		for i := range dst {
			if l.nan>>(i%8)&1 == 1 {
				dst[i] = nan32
			}
		}
	}
}

// settleRow settles what is open in a row: subnormal numbers of a half format, which
// the kernels leave alone, by the same guard, and what is close to a boundary.
func (r *Rows) settleRow(dst, src []float32, l *lines, img Image, n, b int, w *Space) {
	for p, o := range w.open[:len(src)/8] {
		for o &^= l.nan; o != 0; o &= o - 1 {
			k := bits.TrailingZeros8(o)
			x := src[8*p+k]
			y, ok := l.guarded(k, x, r.format)
			if !ok {
				y = r.settle(float64(x), img, n, 8*b+k, &w.sum)
			}
			dst[8*p+k] = float32(y)
		}
	}
}

// guarded evaluates the line of channel k at x, rounds both ends of the interval
// y-w to y+w to f, and reports whether they are the same.
func (l *lines) guarded(k int, x float32, f fp16.Format) (float64, bool) {
	y := math.FMA(float64(x)-l.of[ofPivot][k], l.of[ofSlope][k], l.of[ofOffset][k])
	w := math.FMA(math.Abs(y), l.of[ofPart][k], l.of[ofRest][k])
	lo, hi := f.Round(y-w), f.Round(y+w)
	return lo, math.Float64bits(lo) == math.Float64bits(hi)
}

// lineRow is asm.Rows.Line: it reports whether something is open.
func lineRow(f fp16.Format, dst, src []float32, l *lines, open []uint8) bool {
	if k := asm.RowKernels(); k != nil {
		if line := k.Line[kernelFormat(f)]; line != nil {
			return line(&dst[0], &src[0], len(src)/8, &l.of, &open[0]) != 0
		}
	}
	any := uint8(0)
	for i := 0; i < len(src); i += 8 {
		var o uint8
		for k, x := range src[i : i+8] {
			y, ok := l.guarded(k, x, f)
			if !ok {
				o |= 1 << k
			}
			dst[i+k] = float32(y)
		}
		open[i/8] = o
		any |= o
	}
	return any != 0
}

// kernelFormat returns a format's index in the kernels.
func kernelFormat(f fp16.Format) int {
	switch f {
	case fp16.Float16:
		return asm.Float16
	case fp16.BFloat16:
		return asm.BFloat16
	}
	return asm.Float32
}
