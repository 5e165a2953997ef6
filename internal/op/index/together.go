package index

import (
	"fmt"
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// scattering is blocks of numbers that go to places of a destination, any number of them
// to one place. To take them together, those of one place are looked up: then places are
// independent, in parallel too, and all is done in one pass over what there is.
type scattering struct {
	dst, old, src *tensor.Tensor // old is nil where the destination is 0 before
	to            []int          // the block of dst to which each goes
	from          []int          // where it begins in src; nil for one after the other
	factor        []float64      // by which it is multiplied; nil for 1
	block         int            // numbers in a block
	how           Reduction
	include       bool // the old numbers take part
}

// columns is how many numbers of a block are taken at a time.
const columns = 512

// run does it.
func (s scattering) run() error {
	if s.how == Sum || s.how == Mean {
		for _, t := range []*tensor.Tensor{s.old, s.src} {
			want(t == nil || t.Format != fp16.Float64 ||
				s.dst.Format == fp16.Float64, "a sum of float64 numbers in another format")
		}
	}
	if len(s.dst.Data) == 0 {
		return nil
	}
	slots, chunks := len(s.dst.Data)/s.block, (s.block+columns-1)/columns
	first, of := group(slots, s.to)
	pieces(slots*chunks, min(s.block, columns)*(1+len(s.to)/slots), func(lo, hi int) {
		var acc, size [columns]float64
		for i := lo; i < hi; i++ {
			slot, column := i/chunks, i%chunks*columns
			n := min(s.block-column, columns)
			s.place(slot*s.block+column, column, of[first[slot]:first[slot+1]], acc[:n], size[:n])
		}
	})
	if s.dst.Format == fp16.Int64 && s.how == Sum {
		for _, v := range s.dst.Data {
			if math.Abs(v) > 1<<53 {
				return fmt.Errorf("sum: %.0f: want whole numbers of at most 2^53 in size", v)
			}
		}
	}
	return nil
}

// group returns the numbers k by to[k], in their order: those of slot i are of[first[i]]
// to of[first[i+1]-1].
func group(slots int, to []int) (first, of []int) {
	first, of = make([]int, slots+1), make([]int, len(to))
	for _, i := range to {
		first[i]++
	}
	at := 0
	for i, n := range first {
		first[i] = at
		at += n
	}
	for k, i := range to {
		of[first[i]] = k
		first[i]++
	}
	copy(first[1:], first)
	first[0] = 0
	return first, of
}

// numbers returns the numbers of block k from a column on.
func (s *scattering) numbers(k, column int) []float64 {
	at := k * s.block
	if s.from != nil {
		at = s.from[k]
	}
	return s.src.Data[at+column : at+s.block]
}

// term returns number j of those, as it is taken.
func (s *scattering) term(k, column, j int) float64 {
	x := s.numbers(k, column)[j]
	if s.factor != nil {
		x = float64(s.factor[k] * x) // exact: of two numbers of 24 bits
	}
	return x
}

// place sets the numbers of dst from a place on to what the blocks of give, from a column
// on. acc and size are memory for as many numbers.
func (s *scattering) place(at, column int, of []int, acc, size []float64) {
	to := s.dst.Data[at:][:len(acc)]
	var old []float64
	if s.old != nil {
		old = s.old.Data[at:][:len(acc)]
	}
	switch {
	case len(of) == 0 && old == nil:
		clear(to)
		return
	case len(of) == 0:
		copy(to, old)
		round(s.dst.Format, s.old.Format, to)
		return
	case s.how == Last:
		copy(to, s.numbers(of[len(of)-1], column))
		round(s.dst.Format, s.src.Format, to)
		return
	}
	if !s.include {
		old = nil
	}
	if s.how == Max || s.how == Min {
		s.extreme(to, old, column, of, acc)
	} else {
		s.sum(to, old, column, of, acc, size)
	}
}

// extreme sets to to the greatest or the least numbers.
func (s *scattering) extreme(to, old []float64, column int, of []int, acc []float64) {
	if old != nil {
		copy(acc, old)
	} else {
		copy(acc, s.numbers(of[0], column))
	}
	for _, k := range of {
		x := s.numbers(k, column)[:len(acc)]
		for j, v := range x {
			if s.how == Max {
				acc[j] = max(acc[j], v)
			} else {
				acc[j] = min(acc[j], v)
			}
		}
	}
	s.dst.Format.RoundSlice(to, acc)
}

// u is the relative error of one float64 operation.
const u = 0x1p-53

// sum sets to to sums or means.
//
// The float64 sum of n numbers is off by at most (n-1) u sum |x| and terms of higher order
// (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2): the
// first addition, to 0, is exact. The division of a mean by n, |sum| <= sum |x|, adds
// u sum |x|/n.
func (s *scattering) sum(to, old []float64, column int, of []int, acc, size []float64) {
	clear(acc)
	clear(size)
	n := len(of)
	if old != nil {
		n++
		for j, v := range old {
			acc[j] += v
			size[j] = math.Abs(v)
		}
	}
	for _, k := range of {
		x := s.numbers(k, column)[:len(acc)]
		if s.factor == nil {
			for j, v := range x {
				acc[j] += v
				size[j] += math.Abs(v)
			}
			continue
		}
		w := s.factor[k]
		for j, v := range x {
			v = float64(w * v)
			acc[j] += v
			size[j] += math.Abs(v)
		}
	}
	f := s.dst.Format
	for j, y := range acc {
		bound := 1.0001 * u * float64(float64(n-1)*size[j])
		if s.how == Mean {
			y /= float64(n)
			bound = 1.0001 * (bound/float64(n) + float64(u*size[j])/float64(n))
		}
		if f == fp16.Float64 || y-y != 0 {
			to[j] = f.Round(y)
			continue
		}
		rounded, ok := f.Decide(y, bound)
		if !ok {
			rounded = f.Round(s.settle(old, column, of, j, n))
		}
		to[j] = rounded
	}
}

// settle returns the exact sum or mean of the finite numbers that come to number j,
// rounded to odd.
func (s *scattering) settle(old []float64, column int, of []int, j, n int) float64 {
	var sum exact.Sum
	if old != nil {
		sum.Add(old[j])
	}
	for _, k := range of {
		sum.Add(s.term(k, column, j))
	}
	if s.how == Sum {
		return sum.Odd()
	}
	m, exp := sum.Int()
	return exact.Quotient(m, exp, big.NewInt(int64(n)))
}
