package pointwise

import (
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// Singles returns what sets dst to op of a and b, lines of one length, of which one may
// be a number instead, rounded once. It is nil where [Lines] is.
func Singles(op Op) func(dst, a, b []float32) {
	line := Lines(op, fp16.Float32, fp16.Float32, fp16.Float32)
	if line == nil {
		return nil
	}
	return func(dst, a, b []float32) {
		if op == Add && len(a) == len(b) || op == Mul {
			addOrMultiply(op, dst, a, b)
			return
		}
		w := wideLines.Get().(*[3][256]float64)
		defer wideLines.Put(w)
		for len(dst) > 0 {
			n := min(len(dst), len(w[0]))
			x, y := widened(w[1][:], &a, n), widened(w[2][:], &b, n)
			line(w[0][:n], x, y)
			for i, v := range w[0][:n] {
				dst[i] = float32(v)
			}
			dst = dst[n:]
		}
	}
}

// addOrMultiply adds lines of one length, or multiplies them, or one by a number. Each float32
// operation rounds once.
func addOrMultiply(op Op, dst, a, b []float32) {
	whole, k := 0, asm.SingleKernels()
	if k != nil {
		whole = len(dst) &^ 15
	}
	if len(a) < len(dst) {
		a, b = b, a
	}
	one := len(b) < len(dst)
	switch {
	case whole == 0:
	case one:
		k.Scale(&dst[0], &a[0], &b[0], whole)
	case op == Mul:
		k.Mul(&dst[0], &a[0], &b[0], whole)
	default:
		k.Add(&dst[0], &a[0], &b[0], whole)
	}
	by := b[0]
	for i := whole; i < len(dst); i++ {
		if !one {
			by = b[i]
		}
		y := a[i] * by
		if op == Add {
			y = a[i] + by
		}
		if y != y {
			y = float32(fp16.NaN)
		}
		dst[i] = y
	}
}

var wideLines = sync.Pool{New: func() any { return new([3][256]float64) }}

// widened returns the next n numbers of s, or the only one.
func widened(to []float64, s *[]float32, n int) []float64 {
	if len(*s) == 1 {
		to[0] = float64((*s)[0])
		return to[:1]
	}
	for i, v := range (*s)[:n] {
		to[i] = float64(v)
	}
	*s = (*s)[n:]
	return to[:n]
}
