package rollout

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/elem"
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
	var was [2]moments
	if prev != nil && len(prev) == len(x) {
		was[0] = momentsOf(prev)
	}
	d, _ := diagnose(1, [2][]float64{x}, [2][]float64{prev}, was)
	return d[0]
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

// diagnose is Diagnose of a state or two of one size, given the moments of prev. It returns those
// of x, for the next step. Two at once take less than twice the time of one.
func diagnose(n int, x, prev [2][]float64, was [2]moments) (d [2]Diagnostics, is [2]moments) {
	for i := range n {
		if len(x[i]) == 0 || prev[i] != nil && len(prev[i]) != len(x[i]) || len(x[i]) != len(x[0]) {
			panic("rollout: diagnostics of an empty state, or of states of two sizes")
		}
	}
	var of [2]sums
	var h [2]histogram
	y := prev
	done := sumsByKernel(n, x, &of)
	for i := range n {
		of[i].rest(x[i], done)
		is[i].near = x[i][0] + of[i].sum/float64(len(x[i]))
		h[i].begin(of[i].lo, of[i].hi)
		if prev[i] == nil {
			y[i] = x[i] // for its numbers, of which nothing is made
		}
	}
	// For all a and b, however near the means,
	//
	//	sum (x-mean x)(y-mean y) = sum (x-a)(y-b) - sum (x-a) sum (y-b) / n.
	//
	// Every distance is rounded once, relative to its own size, so no error grows with the
	// mean (Chan, Golub and LeVeque, The American Statistician 37, 1983). A mean that is summed
	// as distances from the first number is exact if all are equal, and then the comoments of a
	// constant field are exactly zero.
	xy := count(n, x, y, &h, &is, [2]float64{was[0].near, was[1].near})
	for i := range n {
		d[i] = of[i].diagnostics(len(x[i]), prev[i] != nil, &h[i], xy[i], is[i], was[i])
	}
	return d, is
}

// diagnostics are those of a state of which all sums are known.
func (s *sums) diagnostics(size int, second bool, h *histogram, xy float64, is, was moments) Diagnostics {
	n := float64(size)
	xx, yy := is.square-float64(is.sum*is.sum)/n, was.square-float64(was.sum*was.sum)/n
	d := Diagnostics{
		Energy:        s.energy,
		Entropy:       h.entropy(size),
		Variance:      xx / (n - 1), // 0/0 for a single number
		MeanMagnitude: s.magnitude / n,
	}
	if second {
		d.Autocorrelation = correlation(xy-float64(is.sum*was.sum)/n, xx, yy)
	}
	// Machines differ in the sign and payload of the NaN that arithmetic makes.
	for _, v := range []*float64{&d.Energy, &d.Entropy, &d.Autocorrelation, &d.Variance, &d.MeanMagnitude} {
		*v = fp16.Float64.Round(*v)
	}
	return d
}

// sums are those of x^2, of |x| and of the distances from the first number, and the extremes.
type sums struct{ energy, magnitude, sum, lo, hi float64 }

// rest adds the numbers from done on.
func (s *sums) rest(x []float64, done int) {
	first := x[0]
	energy, magnitude, sum, lo, hi := s.energy, s.magnitude, s.sum, s.lo, s.hi
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
	*s = sums{energy, magnitude, sum, lo, hi}
}

// diagnoser takes the diagnostics of states as they come. It keeps the moments of the last one of
// each realization, which need not be formed twice.
type diagnoser map[int]diagnosed

type diagnosed struct {
	t int
	moments
	values [len(DiagnosticNames)]float64 // of state t
	ready  bool                          // to be asked for
}

// values returns the diagnostics of state t of realization m in the order of [DiagnosticNames].
func (d *diagnoser) values(t, m int, x, prev []float64) [len(DiagnosticNames)]float64 {
	if is := (*d)[m]; !is.ready || is.t != t {
		d.take(1, t, m, [2][]float64{x}, [2][]float64{prev})
	}
	is := (*d)[m]
	is.ready = false
	(*d)[m] = is
	return is.values
}

// take forms the diagnostics of state t of n realizations from m on, one or two.
func (d *diagnoser) take(n, t, m int, x, prev [2][]float64) {
	if *d == nil {
		*d = diagnoser{}
	}
	var was [2]moments
	for i := range n {
		if prev[i] == nil {
			continue
		}
		if of, ok := (*d)[m+i]; ok && of.t == t-1 {
			was[i] = of.moments
		} else { // of a run that goes on here
			was[i] = momentsOf(prev[i])
		}
	}
	all, is := diagnose(n, x, prev, was)
	for i := range n {
		(*d)[m+i] = diagnosed{t, is[i], all[i].Values(), true}
	}
}

// together is how many numbers a kernel takes at once, within 100 microseconds.
const together = 1 << 14

// sumsByKernel begins the sums, and adds the first done numbers of x: none without kernels.
func sumsByKernel(n int, x [2][]float64, of *[2]sums) (done int) {
	var s [2][4][4]float64
	for i := range n {
		first := x[i][0]
		of[i].lo, of[i].hi = first, first
		for lane := range 4 {
			s[i][1][lane], s[i][2][lane], s[i][3][lane] = first, first, first
		}
	}
	k := asm.MeasureKernels()
	if k == nil {
		return 0
	}
	for len(x[0])-done >= 4 {
		now := min(len(x[0])-done, together) &^ 3
		if n == 2 {
			k.SumsTwo(&x[0][done], &x[1][done], now, &s)
		} else {
			k.Sums(&x[0][done], now, &s[0])
		}
		done += now
	}
	for i := range n {
		of[i].energy, of[i].magnitude, of[i].sum = s[i][0][0], s[i][0][1], s[i][0][2]
		for lane := range 4 {
			if s[i][1][lane] < of[i].lo {
				of[i].lo = s[i][1][lane]
			}
			if s[i][2][lane] > of[i].hi {
				of[i].hi = s[i][2][lane]
			}
		}
	}
	return done
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

// begin sets the range of an empty histogram.
func (h *histogram) begin(lo, hi float64) {
	h.lo, h.span = lo, hi-lo
	h.ok = bins*h.span <= math.MaxFloat64 // no NaN, as of equal infinities
	if h.span == 0 {
		h.lo, h.span = lo-1, 2
	}
}

// count counts the numbers of n states x, adds their distances from is.near to the moments, and
// returns the sums of their products with those of y from b: one pass over both.
func count(n int, x, y [2][]float64, h *[2]histogram, is *[2]moments, b [2]float64) (xy [2]float64) {
	var s [2][4]float64
	done := 0
	if k := asm.MeasureKernels(); k != nil {
		var by [2][5][4]float64
		var apart [2][8][64]int32
		for i := range n {
			for j, v := range [5]float64{is[i].near, b[i], h[i].lo, bins, h[i].span} {
				by[i][j] = [4]float64{v, v, v, v}
			}
		}
		for len(x[0])-done >= 4 {
			now := min(len(x[0])-done, together) &^ 3
			if n == 2 {
				k.CountTwo(&x[0][done], &y[0][done], &x[1][done], &y[1][done], now, &by, &s, &apart)
			} else {
				k.Count(&x[0][done], &y[0][done], now, &by[0], &s[0], &apart[0])
			}
			done += now
		}
		for i := range n {
			h[i].apart = apart[i]
		}
	}
	for i := range n {
		is[i].sum, is[i].square, xy[i] = s[i][0], s[i][1], s[i][2]
		h[i].rest(x[i][done:], y[i][done:], &is[i], b[i], &xy[i])
	}
	return xy
}

// rest counts the numbers of x, and adds to the moments and to the products' sum.
func (h *histogram) rest(x, y []float64, is *moments, b float64, products *float64) {
	lo, span, a := h.lo, h.span, is.near
	sum, square, xy := is.sum, is.square, *products
	y = y[:len(x)]
	for i, v := range x {
		dx := v - a
		sum += dx
		square += float64(dx * dx)
		xy += float64(dx * (y[i] - b))
		h.apart[i%8][uint(int(float64((v-lo)*bins)/span))%64]++
	}
	is.sum, is.square, *products = sum, square, xy
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
