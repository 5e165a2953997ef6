package quantize

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Part is what a quantizer explains of the scales, the zero points or the elements of a tensor.
type Part struct {
	Name  string
	Total int
	Wrong int      // that no way of the quantizer gives
	First int      // the place of the first of them
	Got   string   // what is there
	Want  []string // and what is right
	Ways  []string // the ways that give all, AnyWay of all of them; none if no single one does
	One   bool     // all that is right is one number
}

// AnyWay is said where all ways give the same.
const AnyWay = "any"

// Explained is what a quantizer explains of a tensor.
type Explained struct {
	Parts []Part

	// Of stochastic rounding: how many standard deviations of fair draws the mean of the results is
	// off, and how far results depend on which neighbour is nearer.
	Drift, Nearness float64

	most int // wrong numbers, after which counting ends
}

// Wrong counts all that is wrong.
func (e *Explained) Wrong() (n int) {
	for _, p := range e.Parts {
		n += p.Wrong
	}
	return n
}

// tally collects a part.
type tally struct {
	Part
	ways  uint64 // that explain all so far
	names []string
	one   string // the only text of what is right so far
	many  bool
}

func newTally(name string, total int, names []string) *tally {
	return &tally{Part: Part{Name: name, Total: total}, ways: 1<<len(names) - 1, names: names}
}

// add counts one number, of which the ways of the mask give what is there. It reports whether it is the first wrong
// one.
func (t *tally) add(at int, mask uint64) bool {
	if t.ways &= mask; mask == 0 {
		if t.Wrong++; t.Wrong == 1 {
			t.First = at
			return true
		}
	}
	return false
}

// sees counts what is right, to see whether it is one number everywhere.
func (t *tally) sees(right string) {
	if t.one == "" {
		t.one = right
	}
	t.many = t.many || t.one != right
}

func (t *tally) part() Part {
	switch {
	case t.Wrong > 0:
	case t.ways == 1<<len(t.names)-1:
		t.Ways = []string{AnyWay}
	default:
		for w := t.ways; w != 0; w &= w - 1 {
			t.Ways = append(t.Ways, t.names[bits.TrailingZeros64(w)])
		}
	}
	t.One = !t.many
	return t.Part
}

// same compares numbers: NaN is NaN, and the zeros are one.
func same(a, b float64) bool { return a == b || a != a && b != b }

// Explain holds a tensor to what the quantizer makes of x in any way. Elements are held to the scales that are
// there, unless those are wrong themselves. Counting ends where more than most are wrong.
func (s *Spec) Explain(x *tensor.Tensor, got *Tensor, most int) (*Explained, error) {
	g, err := s.Grid(x.Shape)
	if err != nil {
		return nil, err
	}
	all := s.stats(x.Data, x.Shape, g)
	e := &Explained{most: most}
	scales, zeros := s.explainScales(all, got, g, e)
	if e.Wrong() <= most {
		s.explainElements(x, all, scales, zeros, got, g, e)
	}
	return e, nil
}

// explainScales adds the parts of scales and zero points, and returns those that elements are held to.
func (s *Spec) explainScales(all []stats, got *Tensor, g *Grid, e *Explained) (scales []float64, zeros []int) {
	scales, zeros = make([]float64, len(all)), make([]int, len(all))
	ways := s.ScaleWays()
	if ways == nil {
		for b := range all {
			scales[b], zeros[b] = got.scale(s.place(b, g)), got.zero(s.place(b, g))
		}
		return scales, zeros
	}
	var names []string
	for _, w := range ways {
		names = append(names, w.Name)
	}
	if s.approximate(true) {
		names = append(names, Approximate)
	}
	t, right, global := newTally("scale", len(all), names), make([]float64, len(ways)), s.globals(got.Global, 0)
	for b, of := range all {
		there := got.Scales[s.place(b, g)]
		mask := s.scaleMask(ways, right, of, global, there)
		if scales[b] = right[0]; mask != 0 {
			scales[b] = there
		}
		if !t.many {
			t.sees(digits(right[0]))
		}
		if t.add(b, mask) {
			t.Got, t.Want = digits(there), distinct(right, digits)
		}
		zeros[b] = s.zero(of, scales[b])
	}
	e.Parts = append(e.Parts, t.part())
	if s.Rule == MinMax {
		e.Parts = append(e.Parts, s.explainZeros(zeros, got, g))
	}
	return scales, zeros
}

// scaleMask has a bit for each way that gives the scale that is there; it sets what is right by each.
func (s *Spec) scaleMask(ways []Way[scaleOf], right []float64, of stats, global, there float64) (mask uint64) {
	for k, w := range ways {
		if right[k] = w.of(of, global); same(right[k], there) {
			mask |= 1 << k
		}
	}
	if s.approximate(true) && (mask != 0 || s.nearScale(of, global, there)) {
		mask |= 1 << len(ways)
	}
	return mask
}

// explainZeros is the part of zero points.
func (s *Spec) explainZeros(zeros []int, got *Tensor, g *Grid) Part {
	t := newTally("zero_point", len(zeros), []string{"round(low - min/scale)"})
	for b, right := range zeros {
		there, mask := got.zero(s.place(b, g)), uint64(0)
		if there == right {
			mask = 1
		}
		t.sees(strconv.Itoa(right))
		if t.add(b, mask) {
			t.Got, t.Want = strconv.Itoa(there), []string{strconv.Itoa(right)}
		}
	}
	return t.part()
}

// distinct are texts of numbers, each once.
func distinct[T any](of []T, text func(T) string) []string {
	var l []string
	seen := map[string]bool{}
	for _, v := range of {
		if s := text(v); !seen[s] {
			seen[s] = true
			l = append(l, s)
		}
	}
	return l
}

// explainElements adds the part of elements.
func (s *Spec) explainElements(
	x *tensor.Tensor, all []stats, scales []float64, zeros []int, got *Tensor, g *Grid, e *Explained,
) {
	h, names := s.holder()
	t, global, left := newTally("data", len(x.Data), names), s.globals(got.Global, 1), e.most-e.Wrong()
	for i, v := range x.Data {
		if t.Wrong > left {
			break
		}
		b, there := s.blockOf(g, i), got.Codes[i]
		if scales[b] != scales[b] || v != v && !holdsNaN(h.as) { // it stands for NaN, whatever its code is
			continue
		}
		mask := h.mask(v, scales[b], global, zeros[b], all[b], there)
		if !t.many {
			t.sees(digits(h.as.Decode(h.right[0])))
		}
		if t.add(i, mask) {
			t.Got = digits(h.as.Decode(there))
			t.Want = distinct(h.right, func(c uint8) string { return digits(h.as.Decode(c)) })
		}
	}
	e.Drift, e.Nearness = h.draws.deviations()
	e.Parts = append(e.Parts, t.part())
}

// holder holds elements to all ways, one after the other.
type holder struct {
	*Spec
	as    Element
	ways  []Way[quotientOf]
	right []uint8 // by each way, and if that is another one, with the zero point added before rounding, which turns ties
	added bool
	draws draws
}

// holder returns one, with the names of all ways.
func (s *Spec) holder() (h *holder, names []string) {
	h = &holder{Spec: s, as: s.written(), ways: s.QuotientWays(), added: s.Element.Whole && s.Rounding == NearestEven}
	for _, w := range h.ways {
		names = append(names, w.Name)
	}
	if h.added {
		for _, w := range h.ways {
			names = append(names, w.Name+", the zero point added before rounding")
		}
	}
	h.right = make([]uint8, len(names))
	if s.approximate(false) {
		names = append(names, Approximate)
	}
	return h, names
}

// mask has a bit for each way that gives what is there.
func (h *holder) mask(v, scale, global float64, zero int, of stats, there uint8) (mask uint64) {
	last := math.NaN()
	for k, w := range h.ways {
		q := w.of(v, scale, global, of)
		if q == last {
			mask |= h.again(mask, k)
			continue
		}
		last = q
		mask |= h.held(k, q, zero, there)
	}
	if h.approximate(false) && (mask != 0 || h.nearElement(v, scale, global, zero, there)) {
		mask |= 1 << len(h.right)
	}
	return mask
}

// held is the bit of one way, whose quotient is q.
func (h *holder) held(k int, q float64, zero int, there uint8) (mask uint64) {
	if h.Rounding == Stochastic {
		return h.drawn(k, q, zero, there)
	}
	if h.right[k] = h.element(q, zero); h.equal(h.right[k], there) {
		mask = 1 << k
	}
	if n := k + len(h.ways); h.added {
		if h.right[n] = h.as.Encode(f32(q+float64(h.shift(zero))), NearestEven, h.Overflow); h.right[n] == there {
			mask |= 1 << n
		}
	}
	return mask
}

// again is the bit of a way that has the quotient of the way before.
func (h *holder) again(mask uint64, k int) (same uint64) {
	for n := k; n < len(h.right); n += len(h.ways) {
		h.right[n] = h.right[n-1]
		same |= mask >> (n - 1) & 1 << n
	}
	return same
}

// drawn is the bit of a way of stochastic rounding: either neighbour is right. The first way's draws are counted.
func (h *holder) drawn(k int, q float64, zero int, there uint8) uint64 {
	toward, away, part := h.as.around(q + float64(zero))
	up := h.equal(there, away)
	if k == 0 && toward != away {
		h.draws.add(part, up)
	}
	if h.right[k] = toward; up {
		h.right[k] = away
	}
	if up || h.equal(there, toward) {
		return 1 << k
	}
	return 0
}

// equal compares the numbers of codes.
func (h *holder) equal(a, b uint8) bool { return same(h.as.Decode(a), h.as.Decode(b)) }

// written is what elements are written as.
func (s *Spec) written() Element {
	if s.Codes != nil {
		return *s.Codes
	}
	return s.Element
}

// shift is a zero point unless it is ignored.
func (s *Spec) shift(zero int) int {
	if s.NoZero {
		return 0
	}
	return zero
}

func holdsNaN(e Element) bool { return !e.Whole && e.Narrow.Holds(fp16.NaN) }

// around are the two neighbours of v, and how far it is from the first, the one toward zero.
func (e Element) around(v float64) (toward, away uint8, part float64) {
	if !e.Whole {
		return e.Narrow.Around(v)
	}
	v = min(max(v, float64(e.Low)), float64(e.High))
	low := math.Floor(v)
	return e.whole(low, NearestEven, Saturate), e.whole(math.Ceil(v), NearestEven, Saturate), v - low
}

// draws is the statistics of stochastic rounding: u is 1 where the neighbour away from zero was taken, which has the
// chance p. The sums of u - p and of (u - p)(p - 1/2) have the mean 0 and known variances.
type draws struct{ drift, ofDrift, near, ofNear float64 }

func (d *draws) add(p float64, away bool) {
	u := -p
	if away {
		u = 1 - p
	}
	v := float64(p * (1 - p))
	d.drift += u
	d.ofDrift += v
	d.near += float64(u * (p - 0.5))
	d.ofNear += float64(float64(v*(p-0.5)) * (p - 0.5))
}

func (d *draws) deviations() (drift, near float64) {
	return d.drift / math.Sqrt(max(d.ofDrift, math.SmallestNonzeroFloat64)),
		d.near / math.Sqrt(max(d.ofNear, math.SmallestNonzeroFloat64))
}

// ExplainNumbers holds numbers to what the quantizer's inverse makes of a tensor in any way.
func (s *Spec) ExplainNumbers(t *Tensor, got *tensor.Tensor, most int) (*Explained, error) {
	g, err := s.Grid(t.Shape)
	if err != nil {
		return nil, err
	}
	to := got.Format
	ways := []Way[func(v, scale, g float64) float64]{
		{"one rounding", func(v, scale, g float64) float64 { return to.Round(exactProduct(v, scale, g)) }},
		{"float32 products", func(v, scale, g float64) float64 { return to.Round(times(times(v, scale), g)) }},
		{"float32 products, the scales' first",
			func(v, scale, g float64) float64 { return to.Round(times(v, times(scale, g))) }},
	}
	names := []string{ways[0].Name, ways[1].Name, ways[2].Name}
	part, global := newTally("output", len(got.Data), names), s.globals(t.Global, 1)
	right := make([]float64, len(ways))
	for i, there := range got.Data {
		if part.Wrong > most {
			break
		}
		v, scale := s.operands(t, g, i)
		mask := uint64(0)
		for k, w := range ways {
			if right[k] = w.of(v, scale, global); same(right[k], there) {
				mask |= 1 << k
			}
		}
		if !part.many {
			part.sees(digits(right[0]))
		}
		if part.add(i, mask) {
			part.Got, part.Want = digits(there), distinct(right, digits)
		}
	}
	return &Explained{Parts: []Part{part.part()}}, nil
}
