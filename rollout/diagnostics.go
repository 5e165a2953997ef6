package rollout

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/elem"
)

// Diagnostics are five numbers that sum up a state: the C*H*W numbers x of one
// realization at one step, and those of the state before it.
//
// They are Spinlock's metrics with one difference: Spinlock takes float32
// reductions of PyTorch, these are float64 sums in the order of the elements,
// the same bits everywhere. They describe a run and are in no digest of it.
//
// What is not finite follows IEEE arithmetic. A NaN in x makes every number NaN
// that depends on x; an infinity makes energy and mean magnitude infinite and
// the others NaN. Sums of squares beyond float64, of numbers above 1e150 or so,
// are infinite, and a correlation made of them is NaN. A NaN is always
// [fp16.NaN].
type Diagnostics struct {
	Energy          float64 // sum x^2
	Entropy         float64 // -sum p ln p over the non-empty of 50 bins, p the share of a bin
	Autocorrelation float64 // Pearson's correlation with the state before: 0 at t = 0, NaN if either is constant
	Variance        float64 // sum (x-mean)^2 / (n-1): NaN for a single number
	MeanMagnitude   float64 // mean |x|
}

// DiagnosticNames names the diagnostics in the order of [Diagnostics.Values],
// as files name them.
var DiagnosticNames = [...]string{"energy", "entropy", "autocorrelation", "variance", "mean_magnitude"}

// Values returns the diagnostics in the order of [DiagnosticNames].
func (d Diagnostics) Values() [len(DiagnosticNames)]float64 {
	return [...]float64{d.Energy, d.Entropy, d.Autocorrelation, d.Variance, d.MeanMagnitude}
}

// Diagnose returns the diagnostics of a state x, given the state before it:
// nil at t = 0. It panics if x is empty or prev is of another length.
//
// In units of u = 2^-53 and for n numbers of which no square leaves float64's
// normal range, energy, variance and mean magnitude have relative errors of
// about n u, however large the mean is beside the spread; that of the
// autocorrelation is about 4 n u in absolute terms.
func Diagnose(x, prev []float64) Diagnostics {
	var was moments
	if prev != nil {
		was = momentsOf(prev)
	}
	d, _ := diagnose(x, prev, was)
	return d
}

// moments of a state: a number near its mean, and the sums of distances from it and of their
// squares.
type moments struct{ near, sum, square float64 }

func momentsOf(x []float64) moments {
	var sum float64
	for _, v := range x {
		sum += v - x[0]
	}
	m := moments{near: x[0] + sum/float64(len(x))}
	for _, v := range x {
		d := v - m.near
		m.sum += d
		m.square += float64(d * d)
	}
	return m
}

// diagnose is Diagnose, given the moments of prev. It returns those of x, for the next step.
func diagnose(x, prev []float64, was moments) (Diagnostics, moments) {
	if len(x) == 0 || prev != nil && len(prev) != len(x) {
		panic("rollout: diagnostics of an empty state, or of states of two sizes")
	}
	n := float64(len(x))
	first, lo, hi := x[0], x[0], x[0]
	energy, magnitude, sum, done := sumsByKernel(x, &lo, &hi)
	// Sums that do not wait for each other share a loop: each has its own order.
	for _, v := range x[done:] {
		energy += float64(v * v)
		magnitude += math.Abs(v)
		sum += v - first
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	if energy != energy { // as a number is NaN
		lo = energy
	}
	y := prev
	if prev == nil {
		y = x // for its numbers, of which nothing is made
	}
	is := moments{near: first + sum/n}
	// For all a and b, however near the means,
	//
	//	sum (x-mean x)(y-mean y) = sum (x-a)(y-b) - sum (x-a) sum (y-b) / n.
	//
	// Every distance is rounded once, relative to its own size, so no error grows with the
	// mean (Chan, Golub and LeVeque, The American Statistician 37, 1983). A mean that is summed
	// as distances from the first number is exact if all are equal, and then the comoments of a
	// constant field are exactly zero.
	h := histogramOf(lo, hi)
	xy := h.count(x, y, &is, was.near)
	xx, yy := is.square-float64(is.sum*is.sum)/n, was.square-float64(was.sum*was.sum)/n
	d := Diagnostics{
		Energy:        energy,
		Entropy:       h.entropy(len(x)),
		Variance:      xx / (n - 1), // 0/0 for a single number
		MeanMagnitude: magnitude / n,
	}
	if prev != nil {
		d.Autocorrelation = correlation(xy-float64(is.sum*was.sum)/n, xx, yy)
	}
	// Machines differ in the sign and payload of the NaN that arithmetic makes.
	for _, v := range []*float64{&d.Energy, &d.Entropy, &d.Autocorrelation, &d.Variance, &d.MeanMagnitude} {
		*v = fp16.Float64.Round(*v)
	}
	return d, is
}

// diagnoser takes the diagnostics of states as they come. It keeps the moments of the last one of
// each realization, which need not be formed twice.
type diagnoser map[int]diagnosed

type diagnosed struct {
	t int
	moments
}

// values returns the diagnostics of state t of realization m in the order of [DiagnosticNames].
func (d *diagnoser) values(t, m int, x, prev []float64) [len(DiagnosticNames)]float64 {
	if *d == nil {
		*d = diagnoser{}
	}
	was, ok := (*d)[m]
	if prev != nil && !(ok && was.t == t-1) {
		was.moments = momentsOf(prev) // of a run that goes on here
	}
	all, is := diagnose(x, prev, was.moments)
	(*d)[m] = diagnosed{t, is}
	return all.Values()
}

// together is how many numbers a kernel takes at once, within 100 microseconds.
const together = 1 << 14

// sumsByKernel sums what diagnose sums, of the first so many numbers of x: none without kernels.
func sumsByKernel(x []float64, lo, hi *float64) (energy, magnitude, sum float64, done int) {
	k := asm.MeasureKernels()
	if k == nil {
		return 0, 0, 0, 0
	}
	var s [4][4]float64
	for lane := range 4 {
		s[1][lane], s[2][lane], s[3][lane] = x[0], x[0], x[0]
	}
	for len(x)-done >= 4 {
		n := min(len(x)-done, together) &^ 3
		k.Sums(&x[done], n, &s)
		done += n
	}
	for lane := range 4 {
		if s[1][lane] < *lo {
			*lo = s[1][lane]
		}
		if s[2][lane] > *hi {
			*hi = s[2][lane]
		}
	}
	return s[0][0], s[0][1], s[0][2], done
}

// correlation returns xy / sqrt(xx yy), within [-1,1]. It is NaN if a field is
// constant, or if xx or yy is not finite.
func correlation(xy, xx, yy float64) float64 {
	d := math.Sqrt(xx) * math.Sqrt(yy)
	if !(d > 0 && d <= math.MaxFloat64) {
		return fp16.NaN
	}
	return max(-1, min(1, xy/d))
}

// bins is the number of bins of the histogram behind the entropy.
const bins = 50

// histogram counts numbers, all within [lo,hi], in bins of equal
// width. Bin k holds lo + k w <= x < lo + (k+1) w with w = (hi-lo)/50, and the
// last one holds hi too. If lo = hi, the range is [lo-1,hi+1], whose middle is
// in bin 25. There is none if lo, hi or 50 (hi-lo) is not finite.
//
// The bin is that of (x-lo) 50/(hi-lo), truncated: the rule of torch.histc,
// which evaluates it in the type of the state, this in float64. In float32 its
// four roundings amount to 4 * 2^-24 = 2^-22 of the result, two ulp of a power
// of two, so PyTorch may count a number one bin off, but only one whose
// distance from lo is within 2^-22 of an edge's. In float64 that is 2^-51.
type histogram struct {
	lo, span float64
	ok       bool
	// Neighbours are often in one bin: eight counters of it do not wait for each other.
	apart [8][64]int32
}

func histogramOf(lo, hi float64) *histogram {
	h := &histogram{lo: lo, span: hi - lo}
	h.ok = bins*h.span <= math.MaxFloat64 // no NaN, as of equal infinities
	if h.span == 0 {
		h.lo, h.span = lo-1, 2
	}
	return h
}

// count counts the numbers of x, adds their distances from is.near to the moments, and returns
// the sum of their products with those of y from b: one pass over both.
func (h *histogram) count(x, y []float64, is *moments, b float64) float64 {
	lo, span, a := h.lo, h.span, is.near
	y = y[:len(x)]
	var s [4]float64
	done := 0
	if k := asm.MeasureKernels(); k != nil {
		by := [5]float64{a, b, lo, bins, span}
		for len(x)-done >= 4 {
			n := min(len(x)-done, together) &^ 3
			k.Count(&x[done], &y[done], n, &by, &s, &h.apart)
			done += n
		}
	}
	sum, square, xy := s[0], s[1], s[2]
	y = y[done:]
	for i, v := range x[done:] {
		dx := v - a
		sum += dx
		square += float64(dx * dx)
		xy += float64(dx * (y[i] - b))
		h.apart[i%8][uint(int(float64((v-lo)*bins)/span))%64]++
	}
	is.sum, is.square = sum, square
	return xy
}

// counts returns how many numbers each bin has.
func (h *histogram) counts() (all [bins]int) {
	for _, c := range h.apart {
		for k, n := range c {
			all[min(k, bins-1)] += int(n)
		}
	}
	return all
}

// entropy returns Shannon's entropy, in nats, of a histogram of n numbers; NaN if there is none.
func (h *histogram) entropy(n int) float64 {
	if !h.ok {
		return fp16.NaN
	}
	var sum float64
	for _, c := range h.counts() {
		if c > 0 {
			p := float64(c) / float64(n)
			sum -= float64(p * elem.Log(p))
		}
	}
	return sum
}
