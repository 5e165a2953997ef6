package norm

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// block is how many numbers a kernel takes at once.
const block = 1 << 11

// space is the memory that kernels work in, beside tensors.
type space struct {
	top    [16]uint32
	acc    [6][8]float64
	line   [6]float64
	open   [block / 8]uint8
	before [block]float64
}

var spaces = sync.Pool{New: func() any { return new(space) }}

// A kernel is one of asm.Norm.Apply.
type kernel = func(dst, src *float64, n int, line *[6]float64, open *uint8) (any uint64)

// kernelOf returns the kernel for a destination and a source, nil if there is
// none.
func kernelOf(dst, src fp16.Format) kernel {
	k := asm.NormKernels()
	if k == nil || src == fp16.Float64 {
		return nil
	}
	switch dst {
	case fp16.Float32:
		return k.Apply[asm.Float32]
	case fp16.Float16:
		return k.Apply[asm.Float16]
	case fp16.BFloat16:
		return k.Apply[asm.BFloat16]
	}
	return nil
}

// The coefficients of |t| and |y| in the kernels' interval, see applyBlocks.
const (
	wider = 1 + 0x1p-20
	ofT   = wider * 0x1p-50
	ofY   = wider * 0x1p-52
)

// applyBlocks writes the line at the numbers of src by a kernel, in multiples of
// 8, and returns how many it did.
//
// The kernel evaluates y as eval does. Its interval is y-w to y+w with
//
//	w = (1+2^-20) (2^-50 |t| + 2^-52 |y|).
//
// The exact value is within 2^-50 |t| + 2^-53 |y| of y, and y-w and y+w are
// rounded by 2^-53 (|y|+w) at most. Together that is less than w by nearly a part
// in 2^20 of it, and w's own two roundings are a part in 2^52. Nothing
// underflows, see plain.
func (l *line) applyBlocks(apply kernel, dst, src []float64, f fp16.Format) int {
	if apply == nil || !l.plain() {
		return 0
	}
	w := spaces.Get().(*space)
	defer spaces.Put(w)
	w.line = [6]float64{l.muHi, l.muLo, l.slope, l.beta + 0, ofT, ofY}
	n := len(src) &^ 7
	for at := 0; at < n; at += block {
		in, out := src[at:min(at+block, n)], dst[at:min(at+block, n)]
		if &in[0] == &out[0] { // keep what settling needs
			in = w.before[:copy(w.before[:], in)]
		}
		if apply(&out[0], &in[0], len(in), &w.line, &w.open[0]) == 0 {
			continue
		}
		for i, o := range w.open[:len(in)/8] {
			for j := 8 * i; o != 0; j, o = j+1, o>>1 {
				if o&1 != 0 {
					out[j] = l.at(in[j], f)
				}
			}
		}
	}
	return n
}

// plain reports whether eval does not underflow for x that are multiples of
// 2^-149. Where muHi and muLo are 0 or at least 2^-400, and so multiples of
// 2^-452, d is too, and t is 0 or at least 2^-652 in size. (A V that is not positive
// has a NaN as slope. Where y is not finite the kernel leaves it open.)
func (l *line) plain() bool {
	within := func(x, least float64) bool {
		a := math.Abs(x)
		return a == 0 || a >= least && a < 0x1p200
	}
	return within(l.muHi, 0x1p-400) && within(l.muLo, 0x1p-400) && within(l.slope, 0x1p-200) && l.beta-l.beta == 0
}
