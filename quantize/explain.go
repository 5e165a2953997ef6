package quantize

import (
	"fmt"
	"math"
	"math/bits"

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

// add counts one number, of which the ways of the mask give what is there. It reports whether it is the first wrong one.
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
	approximate := s.approximate(true)
	if approximate {
		names = append(names, Approximate)
	}
	right := make([]float64, len(ways))
	t, z := newTally("scale", len(all), names), newTally("zero_point", len(all), []string{"round(min/scale)"})
	for b, of := range all {
		there := got.Scales[s.place(b, g)]
		mask := uint64(0)
		for k, w := range ways {
			if right[k] = w.of(of, s.globals(got.Global, 0)); same(right[k], there) {
				mask |= 1 << k
			}
		}
		if approximate && (mask != 0 || s.nearScale(of, s.globals(got.Global, 0), there)) {
			mask |= 1 << len(ways)
		}
		scales[b] = right[0]
		if mask != 0 {
			scales[b] = there
		}
		if !t.many {
			t.sees(digits(right[0]))
		}
		if t.add(b, mask) {
			t.Got, t.Want = digits(there), distinct(right, digits)
		}
		zeros[b] = s.zero(of, scales[b])
		if s.Rule != MinMax {
			continue
		}
		place, ok := got.zero(s.place(b, g)), uint64(0)
		if place == zeros[b] {
			ok = 1
		}
		z.sees(fmt.Sprint(zeros[b]))
		if z.add(b, ok) {
			z.Got, z.Want = fmt.Sprint(place), []string{fmt.Sprint(zeros[b])}
		}
	}
	e.Parts = append(e.Parts, t.part())
	if s.Rule == MinMax {
		e.Parts = append(e.Parts, z.part())
	}
	return scales, zeros
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
func (s *Spec) explainElements(x *tensor.Tensor, all []stats, scales []float64, zeros []int, got *Tensor, g *Grid, e *Explained) {
	ways := s.QuotientWays()
	names := make([]string, 0, 2*len(ways))
	for _, w := range ways {
		names = append(names, w.Name)
	}
	added := s.Element.Whole && s.Rounding == NearestEven
	if added { // the zero point before rounding turns ties
		for _, w := range ways {
			names = append(names, w.Name+", the zero point added before rounding")
		}
	}
	right := make([]uint8, len(names))
	approximate := s.approximate(false)
	if approximate {
		names = append(names, Approximate)
	}
	t, global := newTally("data", len(x.Data), names), s.globals(got.Global, 1)
	var draws draws
	as := s.written()
	left := e.most - e.Wrong()
	for i, v := range x.Data {
		if t.Wrong > left {
			break
		}
		b := s.blockOf(g, i)
		scale, zero, there := scales[b], zeros[b], got.Codes[i]
		if scale != scale || v != v && !holdsNaN(as) { // it stands for NaN, whatever its code is
			continue
		}
		mask, last := uint64(0), math.NaN()
		for k, w := range ways {
			q := w.of(v, scale, global, all[b])
			if n := k + len(ways); q == last { // as of the way before
				right[k] = right[k-1]
				mask |= mask >> (k - 1) & 1 << k
				if added {
					right[n] = right[n-1]
					mask |= mask >> (n - 1) & 1 << n
				}
				continue
			}
			last = q
			if s.Rounding == Stochastic {
				toward, away, part := as.around(q + float64(zero))
				right[k] = toward
				if same(as.Decode(there), as.Decode(away)) {
					right[k] = away
				}
				if k == 0 && toward != away {
					draws.add(part, same(as.Decode(there), as.Decode(away)))
				}
			} else {
				right[k] = s.element(q, zero)
			}
			if same(as.Decode(right[k]), as.Decode(there)) {
				mask |= 1 << k
			}
			if added {
				n := k + len(ways)
				if right[n] = as.Encode(f32(q+float64(s.shift(zero))), NearestEven, s.Overflow); right[n] == there {
					mask |= 1 << n
				}
			}
		}
		if approximate && (mask != 0 || s.nearElement(v, scale, global, zero, there)) {
			mask |= 1 << (len(names) - 1)
		}
		if !t.many {
			t.sees(digits(as.Decode(right[0])))
		}
		if t.add(i, mask) {
			t.Got = digits(as.Decode(there))
			t.Want = distinct(right, func(c uint8) string { return digits(as.Decode(c)) })
		}
	}
	e.Drift, e.Nearness = draws.deviations()
	e.Parts = append(e.Parts, t.part())
}

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
	return d.drift / math.Sqrt(max(d.ofDrift, math.SmallestNonzeroFloat64)), d.near / math.Sqrt(max(d.ofNear, math.SmallestNonzeroFloat64))
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
		{"float32 products, the scales' first", func(v, scale, g float64) float64 { return to.Round(times(v, times(scale, g))) }},
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
