package tape

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
)

// cells are those of a histogram, of 1/8 each; the first and the last have all that is beyond.
const cells = 80

// law is the distribution of a draw: the standard normal one, or of an exponential that of
// rate 1.
type law struct {
	positive bool
	below    [cells]float64 // probability of numbers below the end of each cell
}

func newLaw(kind noise.Kind) *law {
	l := &law{positive: kind == noise.Exponential}
	for i := range l.below {
		l.below[i] = l.cdf(l.end(i))
	}
	return l
}

// end returns where a cell ends.
func (l *law) end(i int) float64 {
	if !l.positive {
		i -= cells / 2
	}
	return float64(i+1) / 8
}

func (l *law) cdf(x float64) float64 {
	if l.positive {
		return -elem.Expm1(-max(x, 0))
	}
	return normal(x)
}

func normal(x float64) float64 { return elem.Erfc(-x/math.Sqrt2) / 2 }

// beyond bounds the chance of a number as far out, in nats.
func (l *law) beyond(x float64) float64 {
	switch {
	case l.positive && x < 0:
		return math.Inf(1)
	case l.positive:
		return x
	}
	return x*x/2 - math.Ln2
}

// sample is what some numbers of a draw say of its law.
type sample struct {
	n, sum, squares float64
	least, most     float64
	in              [cells]int32
}

func (s *sample) add(l *law, v []float64) {
	shift := 0.0
	if !l.positive {
		shift = cells / 2
	}
	for _, x := range v {
		// A number at the end of a cell is of the next: it is not below.
		s.in[int(max(0, min(cells-1, math.Floor(8*x)+shift)))]++
		s.sum += x
		s.squares += float64(x * x)
		if s.n == 0 {
			s.least, s.most = x, x
		}
		s.least, s.most = min(s.least, x), max(s.most, x)
		s.n++
	}
}

func (s *sample) join(o *sample) {
	if s.n == 0 {
		*s = *o
		return
	}
	for i, n := range o.in {
		s.in[i] += n
	}
	s.sum, s.squares, s.n = s.sum+o.sum, s.squares+o.squares, s.n+o.n
	s.least, s.most = min(s.least, o.least), max(s.most, o.most)
}

// off returns the largest distance of the share below a cell's end from what cdf makes it.
func (s *sample) off(l *law, cdf func(i int) float64) float64 {
	d, below := 0.0, 0.0
	for i, n := range s.in[:cells-1] {
		below += float64(n)
		d = max(d, math.Abs(below/s.n-cdf(i)))
	}
	return d
}

// lawTests are those of unlikely: of a distance, a mean, a size and the farthest number.
const lawTests = 4

// unlikely bounds, in nats, the chance that numbers of the law are as these in one of four
// ways; grain is what numbers of a narrow type, or made of uniform ones of as few bits, may be
// off: see grainOf. What that does to mean and size is more than they would show.
func (s *sample) unlikely(l *law, grain float64) float64 {
	if s.n == 0 {
		return 0
	}
	d := s.off(l, func(i int) float64 { return l.below[i] })
	nats := distance(max(0, d-grain), s.n)
	if grain <= fp16.Float32.Ulp(1) {
		if l.positive {
			nats = max(nats, gamma(s.sum/s.n, s.n))
		} else {
			nats = max(nats, mean(s.sum, s.n), gamma(s.squares/s.n, s.n/2))
		}
	}
	return max(nats, l.beyond(s.least)-elem.Log(s.n), l.beyond(s.most)-elem.Log(s.n))
}

// another is a law that has no name.
const another = "noise.noise-of-another-distribution"

// cause names what the law of the numbers is instead, if that explains them.
func (s *sample) cause(l *law) (id, what string) {
	mean := s.sum / s.n
	std := math.Sqrt(max(0, s.squares/s.n-float64(mean*mean)))
	of := func(f func(x float64) float64) bool {
		return distance(s.off(l, func(i int) float64 { return f(l.end(i)) }), s.n) < certain
	}
	switch {
	case s.least == 0 && s.most == 0:
		return "noise.no-noise", "are all zero"
	case s.least == s.most:
		return "noise.constant-draws", fmt.Sprintf("are all %.4g", s.least)
	case l.positive && of(func(x float64) float64 { return l.cdf(x / mean) }):
		return "noise.noise-scale-wrong", fmt.Sprintf("have %.4g times the specified size", mean)
	case l.positive:
	case of(func(x float64) float64 { return normal(x / math.Sqrt(s.squares/s.n)) }):
		return "noise.noise-scale-wrong", fmt.Sprintf("have %.4g times the specified size", math.Sqrt(s.squares/s.n))
	case of(func(x float64) float64 { return normal((x - mean) / std) }):
		return "noise.noise-has-a-mean", fmt.Sprintf("have a mean of %.4g and a deviation of %.4g", mean, std)
	case of(func(x float64) float64 { return min(1, max(0, 0.5+(x-mean)/(std*math.Sqrt(12)))) }):
		return "noise.uniform-noise", fmt.Sprintf("are uniform, with a deviation of %.4g", std)
	case of(func(x float64) float64 { return laplace((x - mean) / std * math.Sqrt2) }):
		return "noise.laplace-noise", fmt.Sprintf("are Laplace's, with a deviation of %.4g", std)
	}
	return another, fmt.Sprintf("are not %s ones: their mean is %.4g, their deviation %.4g, "+
		"and the least and greatest %.4g and %.4g", l, mean, std, s.least, s.most)
}

func (l *law) String() string {
	if l.positive {
		return "standard exponential"
	}
	return "standard normal"
}

func laplace(x float64) float64 {
	if x < 0 {
		return elem.Exp(x) / 2
	}
	return 1 - elem.Exp(-x)/2
}

// grainOf returns the most that one value of a draw may have as probability, which is also how
// far the distribution may be from the law: an ulp of 1 of the narrowest type that holds all
// the numbers. A framework makes them of uniform numbers of that type, of which JAX's have one
// bit less than its significand; rounding a normal number gives no value more.
func grainOf(v []float64) float64 {
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16, fp16.TF32} {
		if all(v, f.Holds) {
			return f.Ulp(1)
		}
	}
	return fp16.Float32.Ulp(1)
}

func all(v []float64, holds func(float64) bool) bool {
	for _, x := range v {
		if !holds(x) {
			return false
		}
	}
	return true
}
