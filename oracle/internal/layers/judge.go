package layers

import (
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/rows"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// layerScore is a recorded layer held against one answer.
type layerScore struct {
	answer *answer
	store  fp16.Format
	got    *tensor.Tensor

	violations int
	row        report.LayerRow
	bad        []bool    // the elements outside of their interval
	z2         []float64 // squared error over its expected variance
	slice      slice     // the worst one
	excess     float64   // the largest figure over its limit; up to 1 is right
	gate       string    // "bound" or "statistics": which one it is of
	relative   float64   // rms of the wrong elements' errors over the rms of the layer
	local      float64   // the same over the rms of those elements
}

// judge holds what a device stored in a format against an answer.
//
// Gate 1: no element lies outside of the rounded ends of its interval.
//
// Gate 2: of the elements that are not the rounded exact value there are not
// many more than float32's errors can turn,
//
//	flips <= L + 6 sqrt(L) + 3,  L = sum of exp(-d^2/(2 (3 sd)^2)),
//
// d the distance to the nearest boundary between two roundings, sd the deviation of a
// device's error before it rounds. Of L rare independent events, more than L + 6 sqrt(L) + 3
// are as rare as 6 deviations (Poisson's variance is L; 3 is for small L). Where elements of a
// channel have the same exact value they flip together: k of them at a time make it
// L + 6 sqrt(k L) + 3 k.
//
// And the squared errors, each over ulp^2/12 + sd^2, are not more than 1.2 times what
// the rounding of the exact values and a device's errors make of them.
//
// Both hold for the layer and for every slice of it. There are some hundreds of slices, so
// theirs are L + 8 sqrt(L) + 8.
func judge(a *answer, got *tensor.Tensor, store fp16.Format) *layerScore {
	n := len(got.Data)
	s := &layerScore{answer: a, store: store, got: got, bad: make([]bool, n)}
	f := newFigures(n)
	loose, bias, biased := flipSlack(a.wide), 0.0, 0.0
	maxE, wrong, hit, all := 0.0, 0.0, 0.0, 0.0 // hit: squares of the elements that are wrong
	rounded, least, most := make([]float64, n), make([]float64, n), make([]float64, n)
	rows.RoundSlice(store, rounded, a.mid)
	rows.RoundSlice(store, least, a.lo)
	rows.RoundSlice(store, most, a.hi)
	for k, y := range got.Data {
		mid, r, lo, hi := a.mid[k], rounded[k], least[k], most[k]
		if mid != mid || math.IsInf(mid, 0) || lo != lo || hi != hi {
			// Nothing can be said beside a number that is not one; but a
			// finite result of such is wrong.
			if (mid != mid || math.IsInf(mid, 0)) && measure.Finite(y) {
				s.bad[k] = true
				s.violations++
				maxE = math.Inf(1)
			}
			continue
		}
		all += float64(mid * mid)
		if !(lo <= y && y <= hi) {
			s.bad[k] = true
			s.violations++
			d := y - mid
			if !measure.Finite(y) {
				d = math.Inf(1)
			}
			wrong += float64(d * d)
			hit += float64(mid * mid)
		}
		if !measure.Finite(y) {
			if s.bad[k] {
				maxE = math.Inf(1)
			}
			continue // overflow, where the interval has it
		}
		ulp := 0.0
		if store != fp16.Float64 {
			ulp = store.Ulp(mid)
		}
		e := y - mid
		maxE = max(maxE, math.Abs(e)/(ulp/2+max(a.hi[k]-mid, mid-a.lo[k])))
		if y != r {
			f.flips[k] = 1
		}
		f.chance[k] = flipChance(store, mid, loose*a.sd[k])
		sd2 := float64(a.sd[k] * a.sd[k])
		w := float64(ulp*ulp)/12 + sd2
		if w > 0 {
			f.z2[k] = e * e / w
			e0 := r - mid
			if math.IsInf(r, 0) {
				e0 = e
			}
			f.most[k] = 1.2 * (float64(e0*e0) + float64(a.wide*a.wide*sd2)) / w
			// Beside a small number the errors of the sum are all there is, and
			// normal: six deviations of the worst legal order, whose root mean
			// square is wide/1.8 (see legalSums).
			f.tail[k] = 36 * float64(a.wide*a.wide*sd2) / (1.8 * 1.8) / w
		}
		if a.flip != nil && a.flip[k] > 0 {
			f.chance[k] = min(1, f.chance[k]+a.flip[k])
			f.inner[k] = a.flip[k]
			f.jump[k] = (float64((hi-mid)*(hi-mid)) + float64((mid-lo)*(mid-lo))) / w
		}
		if ulp/2 > 10*a.sd[k] && ulp > 0 {
			bias += float64(e / ulp * signOf(mid))
			biased++
		}
	}
	s.row = report.LayerRow{Elements: n, Violations: s.violations, MaxE: diff.Number(maxE)}
	if biased > 0 {
		s.row.BiasZ = diff.Number(math.Sqrt(12*biased) * bias / biased)
	}
	if s.violations > 0 {
		s.gate, s.excess = "bound", max(maxE, 1.001)
		s.relative = math.Sqrt(wrong/float64(s.violations)) / math.Sqrt(all/float64(n))
		s.local = math.Sqrt(wrong / hit)
	}
	s.z2 = f.z2
	if s.sum(f); s.gate == "statistics" {
		s.gate, s.excess = "", 0
		f.alike = sameValues(a.mid, got)
		s.sum(f)
	}
	return s
}

// sum holds the sums of the layer's elements and of its slices against their limits.
func (s *layerScore) sum(f *figures) {
	whole := f.whole()
	s.row.Flips, s.row.FlipLimit = int(whole.flips), diff.Number(whole.flipLimit(6, 3))
	s.row.Variance = diff.Number(whole.z2 / float64(whole.n))
	s.statistics(whole, 6, 3)
	worst := 0.0
	for _, v := range slicesOf(s.got, f) {
		if over := v.excess(8, 8); over > worst {
			worst, s.slice = over, v
		}
		s.statistics(v, 8, 8)
	}
	s.row.WorstSlice = ""
	if worst > 1 {
		s.row.WorstSlice = s.slice.name
	}
}

// sameValues returns for each element how many of its channel have the same exact value.
// A device makes one number of them: their roundings fall alike.
func sameValues(mid []float64, x *tensor.Tensor) []float64 {
	type value struct {
		channel int
		of      float64
	}
	seen := map[value]float64{}
	at := func(k int) value { return value{k / (x.H() * x.W()) % x.C(), mid[k]} }
	for k := range mid {
		seen[at(k)]++
	}
	same := make([]float64, len(mid))
	for k := range mid {
		same[k] = max(1, seen[at(k)])
	}
	return same
}

// statistics notes a slice beyond its limits, if no number is outside of its bound.
func (s *layerScore) statistics(v slice, factor, offset float64) {
	if over := v.excess(factor, offset); over > 1 && s.gate != "bound" && over > s.excess {
		s.gate, s.excess = "statistics", over
	}
}

// right reports whether nothing is beyond a limit.
func (s *layerScore) right() bool { return s.gate == "" }

func signOf(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return 0
}

// elements returns the worst ten elements of the layer.
func (s *layerScore) elements(layer string, step, realization int) []report.Element {
	a := s.answer
	over := func(k int) float64 {
		y, mid := s.got.Data[k], a.mid[k]
		ulp := 0.0
		if s.store != fp16.Float64 && measure.Finite(mid) {
			ulp = s.store.Ulp(mid)
		}
		if !measure.Finite(y) || !measure.Finite(mid) {
			if s.bad[k] {
				return math.Inf(1)
			}
			return 0
		}
		return math.Abs(y-mid) / (ulp/2 + max(a.hi[k]-mid, mid-a.lo[k]))
	}
	var at []int
	for k := range s.got.Data {
		if s.bad[k] {
			at = append(at, k)
		}
	}
	if len(at) == 0 {
		for k := range s.got.Data {
			at = append(at, k)
		}
	}
	slices.SortStableFunc(at, func(i, j int) int {
		switch d := over(j) - over(i); {
		case d > 0:
			return 1
		case d < 0:
			return -1
		}
		return 0
	})
	var out []report.Element
	x := s.got
	for _, k := range at[:min(10, len(at))] {
		out = append(out, report.Element{
			Step: step, Realization: realization + k/(x.C()*x.H()*x.W()), Layer: layer,
			C: k / (x.H() * x.W()) % x.C(), H: k / x.W() % x.H(), W: k % x.W(),
			Exact: diff.Number(a.mid[k]), Rounded: formatBits(s.store, a.mid[k]), Low: formatBits(s.store, a.lo[k]),
			High: formatBits(s.store, a.hi[k]),
			Got:  formatBits(s.store, x.Data[k]), GotValue: diff.Number(x.Data[k]), Error: diff.Number(over(k)),
		})
	}
	return out
}
