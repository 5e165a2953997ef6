package layers

import (
	"math"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// legalSums adds up some of the sums of a convolution, at places spread evenly
// over the output, as legal float32 devices do, and returns how many standard
// deviations of the model an error may have as its root mean square: 1.8 times
// the most that one of these orders has, and at least usualSlack. In a channel
// whose sums are worse than the others' (much larger on their way than in the end,
// so that truncation adds up) the deviations of the model become as much greater.
//
// The orders: term after term with the kernel's taps innermost, or the
// channels; and blocks of 8 terms, summed exactly with the accumulator and then
// truncated, as tensor cores do.
func (g *layerGate) legalSums(x, w *tensor.Tensor, p conv.Params, s *sums) float64 {
	if p.Padding != conv.Zeros || g.u != 0x1p-24 {
		return usualSlack
	}
	const samples = 512
	n, hw, channels := w.C()*w.H()*w.W(), s.y.W()*s.y.H(), s.y.C()
	places := s.y.N() * hw
	stride := max(1, p.Stride[0])
	each := min(places, max(8, samples/channels))
	products := make([]float64, 0, n)
	e, count := make([][3]float64, channels), make([]float64, channels)
	for q := range each * channels {
		o := q % channels
		place := (q/channels*places/each + 7*o) % places // other rows and columns for other channels
		at := (place/hw*channels+o)*hw + place%hw
		if !(s.sd[at] > 0) || math.IsInf(s.sd[at], 0) {
			continue
		}
		oy, ox, sample := place%hw/s.y.W(), place%hw%s.y.W(), place/hw
		products = products[:0]
		for c := range w.C() {
			plane, taps := x.Plane(sample, c), w.Plane(o, c)
			for i := range w.H() {
				for j := range w.W() {
					py, px := oy*stride+i-p.Pad[0], ox*stride+j-p.Pad[1]
					v := 0.0
					if 0 <= py && py < x.H() && 0 <= px && px < x.W() {
						v = plane[py*x.W()+px] * taps[i*w.W()+j]
					}
					products = append(products, v)
				}
			}
		}
		taps := w.H() * w.W()
		var inner, outer float64 // taps innermost, channels innermost
		for k := range n {
			inner = emulate.Single(inner + emulate.Single(products[k]))
			outer = emulate.Single(outer + emulate.Single(products[k%w.C()*taps+k/w.C()]))
		}
		blocks := 0.0
		for k := 0; k < n; k += 8 {
			for _, v := range products[k:min(k+8, n)] {
				blocks += v
			}
			blocks = truncated(blocks)
		}
		for k, v := range [3]float64{inner, outer, blocks} {
			z := (v - s.y.Data[at]) / s.sd[at]
			e[o][k] += float64(z * z)
		}
		count[o]++
	}
	var all [3]float64
	n = 0
	for o := range e {
		for k, v := range e[o] {
			all[k] += v
		}
		n += int(count[o])
	}
	if n == 0 {
		return usualSlack
	}
	slack := max(usualSlack, 1.8*math.Sqrt(max(all[0], all[1], all[2])/float64(n)))
	for o := range e {
		worst := 1.8 * math.Sqrt(max(e[o][0], e[o][1], e[o][2])/max(count[o], 1))
		if !(worst > slack) {
			continue
		}
		for b := range s.y.N() {
			sd := s.sd[(b*channels+o)*hw:][:hw]
			for i := range sd {
				sd[i] *= worst / slack
			}
		}
	}
	return slack
}

// flipSlack is the factor by which the sd of the model is taken when chances of
// roundings are: the order is unknown.
func flipSlack(wide float64) float64 { return max(3, wide/1.8*0.7) }

// truncated returns v rounded toward zero to float32.
func truncated(v float64) float64 {
	r := emulate.Single(v)
	switch {
	case !(math.Abs(r) > math.Abs(v)):
		return r
	case r > 0:
		return fp16.Float32.NextDown(r)
	}
	return fp16.Float32.NextUp(r)
}

// flipChance bounds the chance that an error of standard deviation sd makes y
// round to another number of f: exp(-d^2/2sd^2), d the distance to the next
// boundary between two numbers' roundings.
func flipChance(f fp16.Format, y, sd float64) float64 {
	d := emulate.Boundary(f, y)
	if d == 0 {
		return 1
	}
	if !(sd > 0) || d > 9*sd {
		return 0
	}
	z := d / sd
	return elem.Exp(-0.5 * z * z)
}
