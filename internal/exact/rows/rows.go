// Package rows does arithmetic on rows of pixels of 8 channels, float32 numbers one
// pixel after the other: operations of which each rounds once to a number format.
package rows

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// Rounder does operations in one format, which is not Float64. All rows of a call
// have one length, a multiple of 8; dst may be x or n. Operands other than n of
// Noise and Modulate, s, and x of Round are numbers of the format or wider by
// the caller's choice; each operation written rounds once. NaN results are the
// one NaN.
//
// Operations are evaluated in float64, which is the exact result rounded once: see
// package noise.
type Rounder struct {
	f       fp16.Format
	kernels asm.RowApply // nil functions if there are none
	grid    *asm.NoiseGrid
}

// New returns the operations of a format.
func New(f fp16.Format) *Rounder {
	if f == fp16.Float64 {
		panic("rows: rows hold no float64 numbers")
	}
	r := &Rounder{f: f, grid: new(asm.NoiseGrid)}
	if k := asm.RowKernels(); k != nil {
		r.kernels = k.Apply[asm.RowGrid]
		if f == fp16.Float32 {
			r.kernels = k.Apply[asm.RowFloat32]
		}
	}
	if f != fp16.Float32 {
		r.grid = gridOf(f)
	}
	return r
}

// Format returns the format.
func (r *Rounder) Format() fp16.Format { return r.f }

// Add sets dst to rn(x + n).
func (r *Rounder) Add(dst, x, n []float32) {
	if r.kernels.Add != nil {
		r.kernels.Add(&dst[0], &x[0], &n[0], len(x)/8, &none, &r.grid[0])
		return
	}
	for i, v := range x {
		dst[i] = r.round(float64(v) + float64(n[i]))
	}
}

// Mul sets dst to rn(x n).
func (r *Rounder) Mul(dst, x, n []float32) {
	if r.kernels.Mul != nil {
		r.kernels.Mul(&dst[0], &x[0], &n[0], len(x)/8, &none, &r.grid[0])
		return
	}
	for i, v := range x {
		dst[i] = r.round(float64(v) * float64(n[i]))
	}
}

// Noise sets dst to rn(x + rn(rn(n) s)), s one for each channel.
func (r *Rounder) Noise(dst, x, n []float32, s *[8]float32) {
	if r.kernels.Noise != nil {
		r.kernels.Noise(&dst[0], &x[0], &n[0], len(x)/8, s, &r.grid[0])
		return
	}
	for i, v := range x {
		dst[i] = r.round(float64(v) + float64(r.scaled(n[i], s[i%8])))
	}
}

// Modulate sets dst to rn(x rn(1 + rn(rn(n) s))), s one for each channel.
func (r *Rounder) Modulate(dst, x, n []float32, s *[8]float32) {
	if r.kernels.Modulate != nil {
		r.kernels.Modulate(&dst[0], &x[0], &n[0], len(x)/8, s, &r.grid[0])
		return
	}
	for i, v := range x {
		dst[i] = r.round(float64(v) * float64(r.round(1+float64(r.scaled(n[i], s[i%8])))))
	}
}

// Scale sets dst to rn(x s), s one for each channel.
func (r *Rounder) Scale(dst, x []float32, s *[8]float32) {
	if r.kernels.Scale != nil {
		r.kernels.Scale(&dst[0], &x[0], &x[0], len(x)/8, s, &r.grid[0])
		return
	}
	for i, v := range x {
		dst[i] = r.round(float64(v) * float64(s[i%8]))
	}
}

// Shift sets dst to rn(x + s), s one for each channel.
func (r *Rounder) Shift(dst, x []float32, s *[8]float32) {
	if r.kernels.Shift != nil {
		r.kernels.Shift(&dst[0], &x[0], &x[0], len(x)/8, s, &r.grid[0])
		return
	}
	for i, v := range x {
		dst[i] = r.round(float64(v) + float64(s[i%8]))
	}
}

// Divide sets dst to rn(x / s), s one for each channel.
func (r *Rounder) Divide(dst, x []float32, s *[8]float32) {
	r.each(r.kernels.Divide, dst, x, s, func(x, s float64) float64 { return x / s })
}

// Most sets dst to the greater of x and s, one for each channel: to x where they are equal or it is NaN.
func (r *Rounder) Most(dst, x []float32, s *[8]float32) {
	r.each(r.kernels.Most, dst, x, s, func(x, s float64) float64 {
		if s > x {
			return s
		}
		return x
	})
}

// Least sets dst to the lesser of x and s, as Most does.
func (r *Rounder) Least(dst, x []float32, s *[8]float32) {
	r.each(r.kernels.Least, dst, x, s, func(x, s float64) float64 {
		if s < x {
			return s
		}
		return x
	})
}

// Leak sets dst to x where that is positive, else to rn(x s), s one for each channel: greater than 0, at most 1.
func (r *Rounder) Leak(dst, x []float32, s *[8]float32) {
	r.each(r.kernels.Leak, dst, x, s, func(x, s float64) float64 {
		if x > 0 {
			return x
		}
		return x * s
	})
}

// each applies an operation of x and s, by its kernel if there is one.
func (r *Rounder) each(kernel asm.RowFunc, dst, x []float32, s *[8]float32, of func(x, s float64) float64) {
	if kernel != nil {
		kernel(&dst[0], &x[0], &x[0], len(x)/8, s, &r.grid[0])
		return
	}
	for i, v := range x {
		dst[i] = r.round(of(float64(v), float64(s[i%8])))
	}
}

// Round sets dst to rn(x). In Float32 it copies.
func (r *Rounder) Round(dst, x []float32) {
	switch {
	case r.f == fp16.Float32:
		copy(dst, x)
	case r.kernels.Round != nil:
		r.kernels.Round(&dst[0], &x[0], &x[0], len(x)/8, &none, &r.grid[0])
	default:
		for i, v := range x {
			dst[i] = r.round(float64(v))
		}
	}
}

var none [8]float32

func (r *Rounder) round(y float64) float32 { return float32(r.f.Round(y)) }

// scaled returns rn(rn(n) s).
func (r *Rounder) scaled(n, s float32) float32 {
	return r.round(float64(r.round(float64(n))) * float64(s))
}

// TF32 sets dst to x rounded to TF32. dst may be x.
func TF32(dst, x []float32, how fp16.Rounding) {
	if k := asm.RowKernels(); k != nil {
		switch how {
		case fp16.NearestEven:
			k.Cut(&dst[0], &x[0], len(x)/8, 0xfff, 1)
		case fp16.NearestAway:
			k.Cut(&dst[0], &x[0], len(x)/8, 0x1000, 0)
		default:
			k.Cut(&dst[0], &x[0], len(x)/8, 0, 0)
		}
		return
	}
	for i, v := range x {
		dst[i] = float32(fp16.RoundTF32(float64(v), how))
	}
}

// Finite reports whether no number of a row is NaN or infinite.
func Finite(x []float32) bool {
	if k := asm.RowKernels(); k != nil {
		return k.Finite(&x[0], len(x)/8)
	}
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// Greatest takes, for each of some pixels, the numbers of src that are greater than those of
// dst, or NaN, into dst: of equal numbers, and of zeros, what is there stays. The pixels of
// src lie step apart.
func Greatest(dst, src []float32, pixels, step int) {
	dst, src = dst[:8*pixels], src[:8*((pixels-1)*step+1)]
	if k := asm.RowKernels(); k != nil {
		k.Greatest(&dst[0], &src[0], pixels, step)
		return
	}
	for x := range pixels {
		best, of := dst[8*x:][:8], src[8*x*step:][:8]
		for i, v := range of {
			if v > best[i] || v != v {
				best[i] = v
			}
		}
	}
}

// Gather lays up to 8 lines of float32 numbers, one of each channel, out as pixels;
// channels that are missing are 0. lines is scratch.
func Gather(dst []float32, channels [][]float64, lines *[8]*float64) {
	from, n := 0, len(dst)/8
	if k := asm.RowKernels(); k != nil && n >= 8 && len(channels) == 8 {
		for c := range lines {
			lines[c] = &channels[c][0]
		}
		from = n &^ 7
		k.Gather(&dst[0], lines, from)
	}
	for c, line := range channels {
		for x, v := range line[from:n] {
			dst[8*(from+x)+c] = float32(v)
		}
	}
	for c := len(channels); c < 8; c++ {
		for x := from; x < n; x++ {
			dst[8*x+c] = 0
		}
	}
}

// Scatter lays pixels out as lines of up to 8 channels.
func Scatter(channels [][]float64, src []float32) {
	for c, line := range channels {
		for x := range line {
			line[x] = float64(src[8*x+c])
		}
	}
}
