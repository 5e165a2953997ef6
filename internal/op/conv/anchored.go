package conv

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
)

// anchored settles outputs of many channels side by side, where guards leave so
// many open that one by one takes longer.
//
// Let P bound the sum of magnitudes of an output's n products p = xw, and S = 1.5
// 2^k with 2^k > 4P. The sums T, from S on, stay between 2^k and 2^(k+1), where
// numbers are ulp = 2^(k-52) apart: t = fl(T+p) and d = t-T is without error, and so
// is e = p-d, of at most ulp/2 and no bit below the last of p, 48 bits. The output
// is (T-S) + the sum of the e + bias, exactly. The e are added to l in float64: the
// partial sums are at most n ulp/2, so that l is off by at most n^2 ulp 2^-54. And by
// nothing, if all x are multiples of a power of two and all w of another one, and
// n ulp/2 is not more than 2^53 times their product 2^q: then so are the e, or they
// are zero, and all partial sums fit.
type anchored struct {
	kernels *asm.Pixels
	k       *Kernel
	src     *Image
	ready   atomic.Bool
	mu      sync.Mutex
	weights *pixelWeights
	taps    []int // bytes from the first
	grid    int   // q
}

// begin is for the next convolution.
func (a *anchored) begin(kernels *asm.Pixels, k *Kernel, src *Image) {
	a.kernels, a.k, a.src, a.weights = kernels, k, src, nil
	a.ready.Store(false)
}

// end lets go of its tensors.
func (a *anchored) end() { a.begin(nil, nil, nil) }

// kernelOutputs is the greatest Outputs of asm.Pixels.
const kernelOutputs = 16

// prepare makes what the first use needs.
func (a *anchored) prepare() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ready.Load() {
		return
	}
	defer a.ready.Store(true)
	k, m := a.k, a.src
	a.taps = a.taps[:0]
	a.weights = k.pixel(a.kernels.Outputs)
	for t := range a.weights.terms {
		c, i := k.term(t)
		a.taps = append(a.taps, 4*(c/block*m.plane+i/k.kw*m.line+i%k.kw*block+c%block))
	}
	x, w := math.MaxInt, math.MaxInt
	for n := range m.N {
		for b := range m.Blocks() {
			for y := range m.H {
				for _, v := range m.Row(n, b, y) {
					x = min(x, last(math.Float32bits(v)))
				}
			}
		}
	}
	for _, v := range a.weights.direct {
		w = min(w, last(math.Float32bits(v)))
	}
	if a.grid = 0; x < math.MaxInt && w < math.MaxInt {
		a.grid = x + w
	}
}

// last returns the exponent of the last bit of a float32 number that is set, a
// great one if none is or the number is not finite.
func last(b uint32) int {
	e, m := int(b>>23&255), b&(1<<23-1)
	switch {
	case e == 255 || b<<1 == 0:
		return math.MaxInt
	case e == 0:
		return bits.TrailingZeros32(m) - 149
	}
	return bits.TrailingZeros32(m|1<<23) + e - 150
}

// settle makes up to 4 outputs side by side, from (y, x) on, of a group of
// channels. window is at least ||t x|| of each of their windows, and finite. It reports
// whether all of them are made: those that three words do not tell are noted.
func (a *anchored) settle(s *worker, dst *Image, group, n, y, x, pixels int, window float64) (all bool) {
	if !a.ready.Load() {
		a.prepare()
	}
	k, outputs := a.k, a.kernels.Outputs
	anchor, out := &s.anchor, &s.exact
	var off [kernelOutputs]float64 // of l
	terms := a.weights.terms
	first := group * outputs
	channels := min(outputs, k.oc-first)
	for o := range channels {
		// 4P < 2^(1+ilogb+2), and as much again for the norms' own errors.
		e := 0
		if p := k.norm[first+o] * window; p > 0 {
			e = math.Ilogb(p) + 4
		}
		anchor[o] = math.Ldexp(1.5, e)
		if e+bits.Len(uint(terms)) > 106+a.grid {
			off[o] = math.Ldexp(float64(terms)*float64(terms), e-52-54)
		}
	}
	all = true
	corner := a.src.at(n, 0, y-k.kh/2, x-k.kw/2)
	a.kernels.Exact(&a.src.data[corner], &a.taps[0], terms, &a.weights.panels[group*terms*outputs], &anchor[0], &out[0])
	for i := range pixels {
		for o := range channels {
			c := first + o
			words := [3]float64{out[i*2*outputs+o], out[(2*i+1)*outputs+o], k.bias[c]}
			odd, rest := exact.TwoSum(words[0], words[1])
			if rest != 0 || off[o] != 0 || words[2] != 0 {
				var ok bool
				if odd, ok = exact.Words(words[:], off[o]); !ok {
					s.note(dst, n, c, y, x+i)
					all = false
					continue
				}
			}
			v := float32(odd)
			if dst.Format != fp16.Float32 {
				v = float32(dst.Format.Round(odd))
			}
			dst.data[dst.at(n, c/block, y, x+i)+c%block] = v
		}
	}
	return all
}

// many reports whether of so many outputs so many are open that it is quicker to
// settle all of them.
func many(open, outputs int) bool { return open > 8 && open > outputs/8 }
