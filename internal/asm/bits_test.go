package asm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// What the roundings of random numbers hide from the other tests: the last bit
// of a sum before it is rounded, and ties.

// halfFormats are those whose bits the kernels round themselves.
var halfFormats = map[int]struct {
	p          uint
	emin, emax int
}{Float16: {11, -14, 15}, BFloat16: {8, -126, 127}}

// ties returns n numbers half-way between two of p bits, or next to that.
func ties(r *rand.Rand, p uint, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1 + math.Ldexp(float64(2*r.IntN(1<<(p-1))+1), -int(p))
		switch r.IntN(4) {
		case 0:
			v[i] = math.Nextafter(v[i], 0)
		case 1:
			v[i] = math.Nextafter(v[i], 2)
		}
		if v[i] = math.Ldexp(v[i], r.IntN(20)-10); r.IntN(2) == 0 {
			v[i] = -v[i]
		}
	}
	return v
}

// TestWinogradOutputBits adds the negative of each output, which leaves nothing
// if the kernel agrees with plain Go to the last bit.
func TestWinogradOutputBits(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, b := range backends {
		for _, taps := range []int{3, 5, 7} {
			f := WinogradForm(taps)
			w := b.form(f)
			if w == nil {
				continue
			}
			points := f.Side * f.Side
			m := make([]float64, points*w.Outputs*w.Tiles)
			for i := range m {
				m[i] = r.NormFloat64()
			}
			scratch, table := make([]float64, points*8), make([]float64, 18*8)
			var dst [16 * 8]float32
			var flags [16]uint8
			var y [8][]float64
			for c := range y {
				d := make([]float64, points)
				for p := range d {
					d[p] = m[p*w.Outputs*w.Tiles+c]
				}
				y[c] = f.Output(d)
			}
			for pixel := range 16 {
				for c := range y {
					table[16*8+c] = -y[c][pixel]
				}
				for format, output := range w.Output {
					output(&m[0], w.Outputs*w.Tiles*8, 1, &table[0], &dst[0], 128, &flags[0], &scratch[0])
					for c := range y {
						if got := dst[pixel*8+c]; got != 0 {
							t.Fatalf("%s, %dx%d, format %d, pixel %d, channel %d: off by %v", b.name, taps, taps, format, pixel, c, got)
						}
					}
				}
			}
		}
	}
}

// TestWinogradOutputTies gives the guard nothing to do: the bias is rounded, to
// nearest even.
func TestWinogradOutputTies(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, b := range backends {
		w := b.winograd
		if w == nil {
			continue
		}
		m := make([]float64, 36*w.Outputs*w.Tiles)
		scratch := make([]float64, 36*8)
		for format, g := range halfFormats {
			for range 50 {
				table := make([]float64, 18*8)
				bias := table[16*8:][:8]
				copy(bias, ties(r, g.p, 8))
				var dst [16 * 8]float32
				var flags [16]uint8
				w.Output[format](&m[0], w.Tiles*w.Outputs*8, 1, &table[0], &dst[0], 128, &flags[0], &scratch[0])
				for i, got := range dst {
					want, _ := round(bias[i%8], g.p, g.emin, g.emax)
					if float64(got) != want || flags[i/8] != 0 {
						t.Fatalf("%s, format %d: %v becomes %v, open %x, want %v", b.name, format, bias[i%8], got, flags[i/8], want)
					}
				}
			}
		}
	}
}

// TestDirectBits is the same for the direct kernels; and to float64, products of
// any numbers are rounded before they are added.
func TestDirectBits(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	const taps = 5
	for _, b := range backends {
		k := b.direct
		if k == nil {
			continue
		}
		src, w := make([]float64, taps*k.Pixels), make([]float64, taps*k.Outputs)
		window, table := make([]float64, k.Pixels), make([]float64, 3*k.Outputs)
		out, flags := make([]float64, k.Outputs*k.Pixels), make([]uint8, 3*k.Outputs)
		var at [taps]int
		for i := range at {
			at[i] = 8 * i * k.Pixels
		}
		run := func(format int) { // with a bound of zero
			k.Convolve[format](&src[0], &at[0], taps, &w[0], &table[0], &window[0], &out[0], &flags[0])
		}
		for i := range src {
			src[i] = r.NormFloat64()
		}
		for i := range w {
			w[i] = r.NormFloat64()
		}
		for pixel := range k.Pixels {
			for format := range k.Convolve {
				clear(table)
				for o := range k.Outputs {
					var y float64
					for i := range taps {
						x, c := src[i*k.Pixels+pixel], w[i*k.Outputs+o]
						if format == ToFloat64 {
							y += float64(x * c)
						} else {
							y = math.FMA(x, c, y)
						}
					}
					table[o] = -y
				}
				run(format)
				for o := range k.Outputs {
					if got := out[o*k.Pixels+pixel]; got != 0 {
						t.Fatalf("%s, format %d, output %d, pixel %d: off by %v", b.name, format, o, pixel, got)
					}
				}
			}
		}
		clear(src)
		for format, g := range halfFormats {
			for range 50 {
				copy(table, ties(r, g.p, k.Outputs))
				run(format)
				for i, got := range out {
					y := table[i/k.Pixels]
					if want, _ := round(y, g.p, g.emin, g.emax); got != want || flags[i/k.Pixels*3] != 0 {
						t.Fatalf("%s, format %d: %v becomes %v, open %x, want %v", b.name, format, y, got, flags[i/k.Pixels*3], want)
					}
				}
			}
		}
	}
}
