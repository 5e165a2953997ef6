package quantize

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// Rule is how a scale follows from its block.
type Rule string

// The rules: of MX the first four; of float32 scales the others. NVFP4 has amax.
const (
	Floor  Rule = "floor"
	Ceil   Rule = "ceil"
	Even   Rule = "even"
	RCeil  Rule = "rceil"
	AMax   Rule = "amax"
	Pow2   Rule = "pow2"   // amax, rounded up to a power of 2
	MinMax Rule = "minmax" // with a zero point
	Given  Rule = "given"  // scales are an input
)

// Options are what a name of a format leaves open.
type Options struct {
	Rule     string  // "" for floor of MX, else amax
	Axis     *int    // along which numbers share a scale; nil for the last
	Block    string  // of float32 scales: tensor (""), row, channel, N or MxN
	Eps      float64 // the least amax
	Order    string  // of two 4-bit numbers in a byte, the first in the low ("") or in the high half
	Rounding string  // "" for even, or stochastic
	Cast     string  // of a format without scales: "" for saturated, ml_dtypes or torch
}

// Spec is a quantizer.
type Spec struct {
	Format
	Rule     Rule
	Axis     int
	Block    string
	Eps      float64
	High     bool // the first of two numbers is in the high half of its byte
	Rounding Rounding
	Overflow Overflow

	// What follows is wrong in a quantizer, and says which faults there are.

	Codes     *Element // that elements are written as, nil for the format's own
	Signed    bool     // amax is that of the numbers, not of their magnitudes
	Overrun   bool     // the last, partial block counts what follows in memory
	Layout    Layout   // of the scales
	Neighbour bool     // elements have the scale of the block before
	Cut       bool     // scales are truncated, not rounded
	Globals   [2]int   // how often the global scale is missing (-1) or too often (1) in scales, and in elements
	NoZero    bool     // the zero point is ignored
	NoLeast   bool     // a scale may become 0
}

// Layout is where scales stand.
type Layout uint8

// The layouts.
const (
	Plain Layout = iota
	Transposed
	Shifted  // each at the place of the block before it
	Swizzled // in tiles of 128 x 4, as tensor cores want them
)

// Parse returns the quantizer of a format's name with options. What there is not is an error that lists
// what there is.
func Parse(name string, o Options) (Spec, error) {
	f, err := parseFormat(name)
	if err != nil {
		return Spec{}, err
	}
	s := Spec{Format: f, Rule: Rule(o.Rule), Axis: -1, Block: o.Block, Eps: o.Eps}
	if o.Axis != nil {
		s.Axis = *o.Axis
	}
	rules := s.Rules()
	if s.Rule == "" && len(rules) > 0 {
		s.Rule = rules[0]
	}
	switch {
	case len(rules) > 0 && !slices.Contains(rules, s.Rule):
		return s, fmt.Errorf("rule: %.40q: want one of %v for %s", o.Rule, rules, f.Name)
	case len(rules) == 0 && s.Rule != "":
		return s, fmt.Errorf("rule: %.40q: want none for %s, a cast without scales: "+
			"formats with scales begin with fp8, mxfp and nvfp", o.Rule, f.Name)
	case s.Block != "" && f.Kind == NoScale:
		return s, fmt.Errorf("block: %.40q: want none for %s, a cast without scales: "+
			"formats with scales begin with fp8, mxfp and nvfp", s.Block, f.Name)
	case s.Block != "" && f.Kind != Float32:
		return s, fmt.Errorf("block: %.40q: want none for %s, whose blocks are given", s.Block, f.Name)
	case !(o.Eps >= 0 && o.Eps < 1e30) || o.Eps > 0 && s.Rule != AMax && s.Rule != Pow2:
		return s, fmt.Errorf("eps: %v: want a number from 0 on, for float32 scales by amax or pow2", o.Eps)
	}
	s.Eps = float64(float32(o.Eps))
	switch o.Order {
	case "", "low":
	case "high":
		s.High = true
	default:
		return s, fmt.Errorf("order: %.40q: want low or high", o.Order)
	}
	switch o.Rounding {
	case "", "even":
	case "stochastic":
		s.Rounding = Stochastic
	default:
		return s, fmt.Errorf("rounding: %.40q: want even or stochastic", o.Rounding)
	}
	return s, s.cast(o.Cast)
}

// cast sets what overflows.
func (s *Spec) cast(name string) error {
	if name == "" {
		return nil
	}
	if s.Kind != NoScale {
		return fmt.Errorf("cast: %.40q: want none for %s, which saturates", name, s.Name)
	}
	c, err := fp16.ParseCast(name)
	if err != nil {
		return err
	}
	s.Overflow = map[fp16.Cast]Overflow{fp16.Saturated: Saturate, fp16.MLDtypes: ByMLDtypes, fp16.Torch: ByTorch}[c]
	return nil
}

// Rules are those of the kind of scale, the default first.
func (s *Spec) Rules() []Rule {
	switch {
	case s.Kind == PowerOf2:
		return []Rule{Floor, Ceil, Even, RCeil, Given}
	case s.Kind == EightBits:
		return []Rule{AMax, Given}
	case s.Kind == NoScale:
		return nil
	case s.Element.Whole && s.Element.Low == 0:
		return []Rule{MinMax, Given}
	case s.Element.Whole:
		return []Rule{AMax, MinMax, Given}
	}
	return []Rule{AMax, Pow2, Given}
}

// Grid is which numbers of a tensor share a scale.
type Grid struct {
	Shape []int   // of the scales, with as many axes as the tensor
	Of    []int32 // of each number, its scale's place
	Sizes []int   // of a block
}

// Scales returns how many there are.
func (g *Grid) Scales() int { return size(g.Shape) }

// size is how many elements a shape has.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Grid returns the blocks of a tensor. Blocks of MX and NVFP4 must fill their axis; the others' last may be partial.
func (s *Spec) Grid(shape []int) (*Grid, error) {
	sizes, err := s.sizes(shape)
	if err != nil {
		return nil, err
	}
	g := &Grid{Sizes: sizes, Of: make([]int32, size(shape))}
	for i, d := range shape {
		g.Shape = append(g.Shape, (d+sizes[i]-1)/max(sizes[i], 1))
	}
	last := len(shape) - 1
	if last < 0 || len(g.Of) == 0 {
		return g, nil
	}
	for start := 0; start < len(g.Of); start += shape[last] { // a row of the last axis
		row, inner := 0, 1
		for a, at := last-1, start/shape[last]; a >= 0; a-- {
			row += at % shape[a] / sizes[a] * inner
			inner *= g.Shape[a]
			at /= shape[a]
		}
		first := int32(row * g.Shape[last])
		for j := range shape[last] {
			g.Of[start+j] = first + int32(j/sizes[last])
		}
	}
	return g, nil
}

// sizes are those of a block along each axis.
func (s *Spec) sizes(shape []int) ([]int, error) {
	rank := len(shape)
	sizes := slices.Repeat([]int{1}, rank)
	block := s.Block
	if s.Along > 0 {
		block = strconv.Itoa(s.Along)
	}
	if block == "" || block == "tensor" || s.Kind == NoScale {
		for i, d := range shape {
			sizes[i] = max(d, 1)
		}
		return sizes, nil
	}
	a := s.Axis
	if a < 0 {
		a += rank
	}
	if a < 0 || a >= rank {
		return nil, fmt.Errorf("axis: %d: want one of the input's %d axes", s.Axis, rank)
	}
	switch block {
	case "row":
		sizes[a] = max(shape[a], 1)
		return sizes, nil
	case "channel":
		for i, d := range shape {
			if i != a {
				sizes[i] = max(d, 1)
			}
		}
		return sizes, nil
	}
	rows, columns, two := strings.Cut(block, "x")
	if !two {
		rows, columns = "1", rows
	}
	m, err1 := strconv.Atoi(rows)
	n, err2 := strconv.Atoi(columns)
	switch {
	case err1 != nil || err2 != nil || min(m, n) < 1 || max(m, n) > 1<<20:
		return nil, fmt.Errorf("block: %.40q: want tensor, row, channel, N or MxN, as in 1x128", block)
	case two && rank < 2:
		return nil, fmt.Errorf("block: %.40q: want an input of two axes or more, not of shape %v", block, shape)
	case s.Along > 0 && shape[a]%n != 0:
		return nil, fmt.Errorf("axis: %d: %d numbers are no whole blocks of %d, which %s has", s.Axis, shape[a], n, s.Name)
	case two:
		sizes[rank-2], sizes[rank-1] = m, n
	default:
		sizes[a] = n
	}
	return sizes, nil
}

// stats are what a block's scale follows from.
type stats struct{ amax, low, high float64 }

// stats returns those of all blocks. NaN is the amax of a block that has one.
func (s *Spec) stats(x []float64, shape []int, g *Grid) []stats {
	all := make([]stats, g.Scales())
	count := func(b int32, v float64) {
		t := &all[b]
		t.low, t.high = min(t.low, v), max(t.high, v)
		if !s.Signed {
			v = math.Abs(v)
		}
		t.amax = max(t.amax, v) // of NaN it is NaN
	}
	for i, v := range x {
		count(g.Of[i], v)
	}
	if s.Overrun && len(shape) > 0 {
		n, of := shape[len(shape)-1], g.Sizes[len(shape)-1]
		over := (of - n%of) % of
		for end := n; n > 0 && end < len(x); end += n {
			for _, v := range x[end:min(end+over, len(x))] {
				count(g.Of[end-1], v)
			}
		}
	}
	for i := range all {
		if a := &all[i].amax; *a != *a {
			*a = math.NaN()
		}
	}
	return all
}
