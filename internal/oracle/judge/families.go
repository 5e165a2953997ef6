package judge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/tensor"
)

// What the families of faults leave open: the figures that are tried, or that an output says.

// families are those of the faults that have one.
var families = map[string]family{
	onePassID:                 {figures: onePassFactors},
	maximumForgotten:          {figures: inHalf, plain: true},
	operandsSplit:             {figures: coarserWays, words: coarserWords},
	operandsTF32:              {figures: otherWays, words: operandWords, plain: true},
	"kernel.sums-in:bfloat16": {figures: otherBlocks, words: blockWords, plain: true},
	"kernel.sums-in:float16":  {figures: otherBlocks, words: blockWords, plain: true},
	meanForSum:                {figures: none},
	sumForMean:                {figures: none},
	rootForgotten:             {figures: none},
	otherCorner:               {figures: eitherCorner},
	wideWindow:                {figures: windowEnds},
	otherPadding:              {figures: otherPaddings, words: paddingWords},
	positionsIn:               {figures: narrowPositions, words: positionWords},
	otherEps:                  {figures: otherEpsilons, words: epsWords},
	paddingCounted:            {figures: paddedCounts, words: paddedWords},
	termMissing:               {figures: lostTerms, vague: true},
	inputRounded:              {figures: narrowInputs, words: inputWords},
	allZero:                   {figures: allZeros},
	inputReturned:             {figures: sameInputs},
	storeTruncated:            {figures: ofHalf},
	fewBits:                   {figures: fewBitFactors, words: fewBitWords},
	allNaN:                    {figures: onlyNaN, vague: true},
	oneNumber:                 {figures: theNumber, vague: true},
	timesConstant:             {figures: factorsOf, words: timesWords, vague: true},
	partZeros:                 {figures: zerosAmong, vague: true},
	resultsMoved:              {figures: movedFrom, words: movedWords, vague: true},
}

// none are the figures of a fault that leaves nothing open.
func none(*Question, *trial) [][]float64 { return [][]float64{{}} }

// otherWays are the ways in which devices round to TF32, beside to even: 1 is ties away, 2 cut off.
func otherWays(q *Question, t *trial) [][]float64 { return [][]float64{{1}, {2}} }

// otherBlocks are how many terms a sum may take at once before it is rounded, beside one.
func otherBlocks(q *Question, t *trial) [][]float64 {
	return [][]float64{{2}, {4}, {8}, {16}, {32}, {64}}
}

func blockWords(q *Question, id string, figures []float64) string {
	title := table.ByID(id).Name
	if len(figures) > 0 {
		title += fmt.Sprintf(", rounded after each %g terms", figures[0])
	}
	return title
}

func operandWords(q *Question, id string, figures []float64) string {
	title := "the operands of products are rounded to TF32"
	if len(figures) > 0 && figures[0] == 2 {
		title = "the operands of products are cut off to TF32"
	}
	return title
}

// eitherCorner are the ways to shift a mask: it may be aligned to either.
func eitherCorner(q *Question, t *trial) [][]float64 { return [][]float64{{1}, {-1}} }

// windowEnds are the first end of a window, both, and the other.
func windowEnds(q *Question, t *trial) [][]float64 { return [][]float64{{0}, {2}, {1}} }

// otherPaddings are those of a grid sampler.
func otherPaddings(q *Question, t *trial) [][]float64 { return [][]float64{{0}, {1}, {2}} }

func paddingWords(q *Question, id string, figures []float64) string {
	return "the padding is " + paddings[int(figures[0])]
}

// narrowPositions are the formats of positions beside an image of another.
func narrowPositions(q *Question, t *trial) (all [][]float64) {
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		if q.Narrow != f {
			all = append(all, []float64{float64(f)})
		}
	}
	return all
}

func positionWords(q *Question, id string, figures []float64) string {
	return fmt.Sprintf("positions are computed in %v", formatOf(figures[0]))
}

// otherEpsilons are usual ones.
func otherEpsilons(q *Question, t *trial) [][]float64 {
	var all [][]float64
	for _, eps := range usualEps {
		all = append(all, []float64{eps})
	}
	return all
}

func epsWords(q *Question, id string, figures []float64) string {
	return fmt.Sprintf("eps is %.3g", figures[0])
}

// paddedCounts are how many numbers a norm's group has with those up to a whole number of blocks, of each row or of all
// of them, where all are counted, and where they are in the variance alone.
func paddedCounts(q *Question, t *trial) (all [][]float64) {
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		shape := t.b.types[n.In[0]].Shape
		if len(shape) == 0 {
			continue
		}
		size, last := 0, shape[len(shape)-1]
		switch op := n.Op.(type) {
		case graph.LayerNorm, graph.RMSNorm:
			size = last
		case graph.GroupNorm:
			size = tensor.Size(shape) / max(1, shape[0]*op.Groups)
		case graph.InstanceNorm:
			size = tensor.Size(shape) / max(1, shape[0]*shape[1])
		default:
			continue
		}
		for _, row := range []int{size, last} {
			for _, block := range []int{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096} {
				count := float64((row+block-1)/block*block) * float64(size) / float64(max(1, row))
				if f := []float64{count, 0}; count > float64(size) && count <= 2*float64(size)+morePadding &&
					!slices.ContainsFunc(all, func(g []float64) bool { return slices.Equal(f, g) }) {
					all = append(all, f, []float64{count, 1})
				}
			}
		}
	}
	return all
}

func paddedWords(q *Question, id string, figures []float64) string {
	if figures[1] == 1 {
		return fmt.Sprintf("padding is counted in the variance, up to %g numbers", figures[0])
	}
	return fmt.Sprintf("padding is counted in the statistics, up to %g numbers", figures[0])
}

// lostTerms are the first and the last of a sum's.
func lostTerms(q *Question, t *trial) [][]float64 { return [][]float64{{0}, {1}} }

// narrowInputs are the inputs that a kernel of float32 or float64 numbers may round, and to what.
func narrowInputs(q *Question, t *trial) (all [][]float64) {
	for k, x := range q.Inputs {
		if x.Format != q.steps() || q.Narrow.Half() {
			continue
		}
		for _, f := range q.narrower() {
			all = append(all, []float64{float64(k), float64(f)})
		}
	}
	return all
}

func inputWords(q *Question, id string, figures []float64) string {
	name := q.Graph.Values[q.Graph.Inputs[int(figures[0])]].Name
	return fmt.Sprintf("%s is rounded to %v", name, formatOf(figures[1]))
}

// sameInputs are the inputs of the output's shape.
func sameInputs(q *Question, t *trial) (all [][]float64) {
	for k, x := range q.Inputs {
		if slices.Equal(x.Shape, q.Output.Shape) && x.Format != fp16.Int64 {
			all = append(all, []float64{float64(k)})
		}
	}
	return all
}

func ofHalf(q *Question, t *trial) [][]float64 {
	if t.fine(q.Output.Format) { // the last of many roundings
		return nil
	}
	return none(q, t)
}

func all(v []float64, is func(float64) bool) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return !is(x) })
}

func allZeros(q *Question, t *trial) [][]float64 {
	if all(q.Output.Data, func(v float64) bool { return v == 0 }) {
		return none(q, t)
	}
	return nil
}

func onlyNaN(q *Question, t *trial) [][]float64 {
	if all(q.Output.Data, func(v float64) bool { return v != v }) {
		return none(q, t)
	}
	return nil
}

func theNumber(q *Question, t *trial) [][]float64 {
	v := q.Output.Data
	if len(v) >= fewNumbers && v[0] != 0 && !t.constant && all(v, func(x float64) bool { return x == v[0] }) {
		return [][]float64{{v[0]}}
	}
	return nil
}

// zerosAmong is where the output is not 0.
func zerosAmong(q *Question, t *trial) [][]float64 {
	mask, zeros := make([]float64, len(t.y)), 0
	for i, v := range q.Output.Data {
		if mask[i] = 1; v == 0 && t.stored[i] != 0 {
			mask[i] = 0
			zeros++
		}
	}
	if zeros == 0 || zeros == len(mask) {
		return nil
	}
	return [][]float64{mask}
}

// factorsOf are constants that the output is a multiple by: the fraction of small numbers that is near, the numbers of
// few digits, and what fits best, which roundings and operands that are rounded another way move.
func factorsOf(q *Question, t *trial) (all [][]float64) {
	w := t.weights(q.Output.Format)
	var ey, yy float64
	for i, y := range t.y {
		if got := q.Output.Data[i]; got-got == 0 && y-y == 0 {
			ey += float64(got*y) * w[i]
			yy += float64(y*y) * w[i]
		}
	}
	c := ey / yy
	if len(t.y) < fewNumbers || t.constant || !(yy > 0 && math.Abs(c) < mostFactor && math.Abs(c) > 1/mostFactor) {
		return nil
	}
	add := func(v float64) {
		if v != 1 && math.Abs(v-c) <= nearFactor*math.Abs(c) &&
			!slices.ContainsFunc(all, func(f []float64) bool { return f[0] == v }) {
			all = append(all, []float64{v})
		}
	}
	if p, d := fraction(c, nearFactor*math.Abs(c)); d > 0 {
		add(p / d)
	}
	for digits := 2; digits <= mostDigits; digits++ {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(c, 'g', digits, 64), 64)
		add(v)
	}
	if words(c) != words(1) { // units that truncate are off by less than it says
		add(c)
	}
	return all
}

// fraction is the simplest fraction within reach of a number; 0/0 of none.
func fraction(c, reach float64) (p, q float64) {
	for q = 1; q <= mostUnder; q++ {
		p = math.Floor(c*q + .5)
		if (q <= mostParts || math.Abs(p) == 1) && p != 0 && math.Abs(c-p/q) <= reach {
			return p, q
		}
	}
	return 0, 0
}

func timesWords(q *Question, id string, figures []float64) string {
	c := figures[0]
	switch p, d := fraction(c, sameFraction*math.Abs(c)); {
	case c == -1:
		return "the output has the other sign"
	case d > 1:
		return fmt.Sprintf("the output is times %g/%g", p, d)
	}
	return "the output is times " + words(c)
}

// words are the digits of a factor.
func words(c float64) string { return fmt.Sprintf("%.6g", c) }

// movedFrom are, for each axis, the place of which the output has the results at each place of it, if they are others.
func movedFrom(q *Question, t *trial) (all [][]float64) {
	shape := q.Output.Shape
	inner := len(t.y)
	for axis, s := range shape {
		inner /= max(1, s)
		each := len(t.y) / max(1, s)
		if s < 2 || s > mostPlacesMoved || each < fewNumbers {
			continue
		}
		at := func(place, k int) int { return (k/inner*s+place)*inner + k%inner }
		step := max(1, each/mostLooked)
		far := func(got, of int) (d float64) {
			for k := 0; k < each; k += step {
				e := q.Output.Data[at(got, k)] - t.stored[at(of, k)]
				d += float64(e * e)
			}
			return d
		}
		from, others := []float64{float64(axis)}, 0
		for i := range s {
			best := i
			for j, least := 0, far(i, i); j < s; j++ {
				if d := far(i, j); d < least {
					best, least = j, d
				}
			}
			if from = append(from, float64(best)); best != i {
				others++
			}
		}
		if others > 0 {
			all = append(all, from)
		}
	}
	return all
}

func movedWords(q *Question, id string, figures []float64) string {
	axis, from := int(figures[0]), figures[1:]
	n := len(from)
	is := func(place func(i int) int) bool {
		for i, v := range from {
			if int(v) != place(i) {
				return false
			}
		}
		return true
	}
	how := ""
	first := int(from[0])
	switch {
	case is(func(i int) int { return n - 1 - i }):
		how = "turned round"
	case is(func(i int) int { return (i + first) % n }):
		how = fmt.Sprintf("rolled by %d", n-first)
	default:
		how = "mixed, or there twice"
	}
	return strings.TrimSpace(fmt.Sprintf("results are in other places: axis %d is %s", axis, how))
}
