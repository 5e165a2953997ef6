package factor

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/double"
	"github.com/refrun/refrun/internal/exact/elem"
)

// arithmetic is what a kernel claims to compute in, and to store.
type arithmetic struct {
	unit   float64 // the unit roundoff of its sums
	stored float64 // that of its output, if it is coarser, or 0
	least  float64 // what a number may be off for being subnormal
}

// computed are the steps that numbers of a format are computed in.
func computed(f fp16.Format) arithmetic {
	switch f {
	case fp16.Float64:
		return arithmetic{unit: 0x1p-53, least: f.SmallestNormal()}
	case fp16.Float16:
		return arithmetic{unit: 0x1p-24, stored: 0x1p-11, least: f.Smallest()}
	case fp16.BFloat16:
		return arithmetic{unit: 0x1p-24, stored: 0x1p-8, least: f.SmallestNormal()}
	}
	return arithmetic{unit: 0x1p-24, least: fp16.Float32.SmallestNormal()}
}

// A sum of products of what a kernel has returned, without an error that counts, and what right kernels may be off.
//
// A kernel that solves for one of the numbers, y = (c - sum of a_k b_k) / d, in any order, has returned a y for
// which the sum with y d is c but for gamma(k) times the sum of the absolute terms: Higham, Accuracy and Stability
// of Numerical Algorithms, Lemma 8.4, from which Theorems 8.5 (substitution) and 10.3 (Cholesky) follow.
//
// The usual error is less. If roundings are independent and of mean zero, its variance is the sum of those of the
// sums on the way, of u^2/3 of their squares. They are known for the orders from the first term on and from the
// last, and in the mean for an order that is drawn. All three are added up, so none may be overlooked.
type sum struct {
	whole               double.Num
	terms               int
	size, squares       float64
	partial, remainders float64 // sums of squares of the sums on the way
	factors             float64 // the sum of what the terms' factors are
	steps               []float64
}

func (s *sum) add(x, y float64) {
	p := double.Product(x, y)
	s.whole = s.whole.Plus(p)
	s.terms++
	s.size += math.Abs(p.Hi)
	s.squares += float64(p.Hi * p.Hi)
	s.factors += math.Abs(x) + math.Abs(y)
	s.partial += float64(s.whole.Hi * s.whole.Hi)
	s.steps = append(s.steps, s.whole.Hi)
}

// reset begins another sum.
func (s *sum) reset() { *s = sum{steps: s.steps[:0]} }

// against is how far the sum is off what it is to be, the bound of that, and its deviation. roundings counts the
// factors of a term that are stored.
func (s *sum) against(target float64, a arithmetic, roundings float64) (off, bound, deviation float64) {
	off = math.Abs(s.whole.Add(-target).Hi)
	for _, v := range s.steps {
		s.remainders += float64((target - v) * (target - v))
	}
	k, whole := float64(s.terms), float64(target*target)
	floor := float64(a.least * (s.factors + k + 1))
	bound = float64((gamma(k+beside, a.unit)+float64(roundings*a.stored*(1+a.stored)))*s.size) + floor
	variance := s.partial + s.remainders + float64(k*(float64(drawnTerms*s.squares)+float64(drawnWhole*whole)))
	variance = float64(a.unit * a.unit * (variance + s.squares + float64(beside*whole)))
	// of two factors of one term that are the same number the roundings are, too
	variance += float64(roundings * roundings * a.stored * a.stored * s.squares)
	return off, bound, math.Sqrt(uniform*variance) + floor
}

// gamma is k u / (1 - k u), the bound of k roundings.
func gamma(k, unit float64) float64 {
	if e := float64(k * unit); e < 1 {
		return e / (1 - e)
	}
	return math.Inf(1)
}

// reflected is the deviation of a column of norm 1 to which as many reflections of m numbers are applied, and to those
// again that make them a matrix.
func (a arithmetic) reflected(m, n int) float64 {
	return a.of(float64(2*(reflection*min(m, n)+inner*m)), 2)
}

// rotated is the deviation of an eigenvector times the norm of its matrix.
func (a arithmetic) rotated(n int) float64 { return a.of(float64(eigen*n), 4) }

// of is the deviation of so many roundings, and some of what is stored.
func (a arithmetic) of(roundings, stored float64) float64 {
	return math.Sqrt(uniform * (float64(roundings*a.unit*a.unit) + float64(stored*a.stored*a.stored)))
}

// likely is how many deviations as many numbers of right kernels are off at most, but for the chance: the tail of the
// normal law beyond z is less than exp(-z^2/2).
func likely(numbers int) float64 { return math.Sqrt(2 * elem.Log(2*float64(max(numbers, 1))/chance)) }
