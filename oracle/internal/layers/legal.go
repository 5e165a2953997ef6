package layers

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// legalSums adds up some of the sums of a convolution, at places spread evenly
// over the output, as legal float32 devices do, and returns how many standard
// deviations of the model an error may have as its root mean square: 1.8 times
// the most that one of these orders has, and at least usualSlack. In a channel
// whose sums are worse than the others' (much larger on their way than in the end,
// or all of one sign, so that truncation adds up) the deviations of the model become
// as much greater.
//
// The orders: term after term with the kernel's taps innermost, or the
// channels; blocks of 8 terms, summed exactly with the accumulator and then
// truncated; and of half or TF32 operands, what the matrix units of GPUs return, bit for
// bit, with the taps innermost or the channels.
func (g *layerGate) legalSums(x, w *tensor.Tensor, p conv.Params, s *sums) float64 {
	if g.u != 0x1p-24 {
		return usualSlack
	}
	const samples = 512
	hw, channels := s.y.W()*s.y.H(), s.y.C()
	places, cores := s.y.N()*hw, units(s.operand)
	if s.unrounded {
		cores = nil
	}
	each := min(places, max(8, samples/channels))
	squares, count := make([][]float64, channels), make([]float64, channels) // of each order
	for q := range each * channels {
		o := q % channels
		place := (q/channels*places/each + 7*o) % places // other rows and columns for other channels
		at := (place/hw*channels+o)*hw + place%hw
		if !(s.sd[at] > 0) || math.IsInf(s.sd[at], 0) {
			continue
		}
		a, b := window(nil, nil, x, w, p, place/hw, o, place%hw/s.y.W(), place%s.y.W())
		ends := g.ordered(a, b, w.C(), s.operand, cores)
		if squares[o] == nil {
			squares[o] = make([]float64, len(ends))
		}
		for k, v := range ends {
			z := (v - s.y.Data[at]) / s.sd[at]
			squares[o][k] += float64(z * z)
		}
		count[o]++
	}
	return s.widen(squares, count)
}

// orders are what legal orders make of sums: the same windows are asked again with other deviations, of other faults
// and of other ways to round what they do not change.
type orders map[[sha256.Size]byte][]float64

// mostOrders bounds the sums that are kept: 2 MB.
const mostOrders = 1 << 14

// ordered is the function ordered, or what it returned of the same numbers.
func (g *layerGate) ordered(a, b []float64, channels int, operand fp16.Format, cores []*tensorcore.Unit) []float64 {
	key := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+16*len(a)),
		uint64(channels)<<32|uint64(operand)<<16|uint64(len(cores)))
	for _, v := range [][]float64{a, b} {
		for _, x := range v {
			key = binary.LittleEndian.AppendUint64(key, math.Float64bits(x))
		}
	}
	sum := sha256.Sum256(key)
	ends, known := g.orders[sum]
	if !known {
		if ends = ordered(a, b, channels, cores); g.orders == nil || len(g.orders) == mostOrders {
			g.orders = orders{}
		}
		g.orders[sum] = ends
	}
	return ends
}

// ordered returns what legal orders make of the sum of a[k] b[k], which are over channels and
// taps, the taps innermost.
func ordered(a, b []float64, channels int, cores []*tensorcore.Unit) (ends []float64) {
	n, taps := len(a), len(a)/channels
	last, first := make([]float64, n), make([]float64, n) // with the channels innermost
	for k := range n {
		at := k%channels*taps + k/channels
		last[k], first[k] = a[at], b[at]
	}
	chain := func(a, b []float64) (sum float64) {
		for k, v := range a {
			sum = emulate.Single(sum + emulate.Single(v*b[k]))
		}
		return sum
	}
	blocks := 0.0
	for k := 0; k < n; k += 8 {
		for j := k; j < min(k+8, n); j++ {
			blocks += float64(a[j] * b[j])
		}
		blocks = truncated(blocks)
	}
	ends = []float64{chain(a, b), chain(last, first), blocks}
	for _, u := range cores {
		ends = append(ends, u.Dot(a, b, 0), u.Dot(last, first, 0))
	}
	return ends
}

// widen returns the slack that orders of such squared errors need, and makes the deviations of
// channels greater that need more.
func (s *sums) widen(squares [][]float64, count []float64) float64 {
	n, all := 0.0, []float64(nil)
	for o, of := range squares {
		if all == nil {
			all = make([]float64, len(of))
		}
		for k, v := range of {
			all[k] += v
		}
		n += count[o]
	}
	if n == 0 {
		return usualSlack
	}
	hw, channels := s.y.W()*s.y.H(), s.y.C()
	slack := max(usualSlack, 1.8*math.Sqrt(slices.Max(all)/n))
	for o, of := range squares {
		if of == nil {
			continue
		}
		worst := 1.8 * math.Sqrt(slices.Max(of)/max(count[o], 1))
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
