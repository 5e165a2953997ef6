package onnx

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/tensor"
)

// opCompress has those parts of its input along an axis, or its numbers in one line, for which a condition is true. The
// condition must be known; what is beyond its end is left out.
func opCompress(c *call) []int {
	x := c.arg(0)
	of := c.value(c.arg(1), "condition")
	flat := c.attribute("axis") == nil
	axis := 0
	if !flat {
		axis = c.axis("axis", 0, c.rank(x))
	}
	if c.err != nil {
		return nil
	}
	n := elements(c.shape(x))
	if !flat {
		n = c.shape(x)[axis]
	}
	if len(of.Shape) != 1 || len(of.Data) > n {
		c.fail("condition of shape %v: want a line of at most %d", of.Shape, n)
		return nil
	}
	var places []int
	for i, v := range of.Data {
		if v != 0 {
			places = append(places, i)
		}
	}
	return one(c.chosen(x, flat, axis, places))
}

// chosen adds what takes parts along an axis, or numbers of one line.
func (c *call) chosen(x int, flat bool, axis int, places []int) int {
	if flat {
		x = c.reshape(x, []int{-1}, true)
	}
	if !c.room(len(places)) {
		return poison
	}
	return c.add(graph.IndexSelect{Axis: axis}, x, c.wholes([]int{len(places)}, places...))
}

// opUnique has each number once, or each part along an axis, in rising order or as they come first. The input must be
// known. NaNs are one number, the greatest, as numpy and the suite have it.
func opUnique(c *call) []int {
	x := c.arg(0)
	t := c.value(x, "input")
	flat, sorted := c.attribute("axis") == nil, c.int("sorted", 1) != 0
	axis := 0
	if !flat {
		axis = c.axis("axis", 0, c.rank(x))
	}
	if c.err != nil {
		return nil
	}
	outer, n, inner := 1, len(t.Data), 1
	if !flat {
		outer, n, inner = elements(t.Shape[:axis]), t.Shape[axis], elements(t.Shape[axis+1:])
	}
	if !c.room(4 * n) {
		return nil
	}
	compare := func(a, b int) int {
		for o := range outer {
			for i := range inner {
				if d := order(t.Data[(o*n+a)*inner+i], t.Data[(o*n+b)*inner+i]); d != 0 {
					return d
				}
			}
		}
		return 0
	}
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, compare)
	var groups [][]int // of equal parts, each in order
	for k, p := range places {
		if k == 0 || compare(places[k-1], p) != 0 {
			groups = append(groups, nil)
		}
		last := &groups[len(groups)-1]
		*last = append(*last, p)
	}
	if !sorted {
		slices.SortFunc(groups, func(a, b []int) int { return a[0] - b[0] })
	}
	first, counts, back := make([]int, len(groups)), make([]int, len(groups)), make([]int, n)
	for g, group := range groups {
		first[g], counts[g] = group[0], len(group)
		for _, p := range group {
			back[p] = g
		}
	}
	return []int{
		c.chosen(x, flat, axis, first),
		c.wholes([]int{len(first)}, first...), c.wholes([]int{n}, back...), c.wholes([]int{len(counts)}, counts...),
	}
}

// order compares two numbers; NaN is the greatest.
func order(a, b float64) int {
	switch {
	case a < b || a == a && b != b:
		return -1
	case a > b || a != a && b == b:
		return 1
	}
	return 0
}

// opMelWeightMatrix is known: so is all that it is made of. Edges of bands are places of a spectrum at equal steps of
// 2595 log10(1 + f/700); the quotients between them are rounded once.
func opMelWeightMatrix(c *call) []int {
	var of [5]float64
	for i, name := range []string{"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"} {
		t := c.value(c.arg(i), name)
		if t != nil && (len(t.Data) != 1 || !(t.Data[0] >= 0 && t.Data[0] < 1<<31)) {
			c.fail("%s: want one number, from 0 on", name)
		}
		if c.err != nil {
			return nil
		}
		of[i] = t.Data[0]
	}
	d := DType(c.int("output_datatype", int(Float32)))
	f, ok := d.Format()
	bands, length, rate := int(of[0]), of[1], of[2]
	if !ok || rate == 0 || of[3] > of[4] {
		c.fail("sample_rate %v, edges of %v and %v, numbers of %v: want a rate, rising edges, and a type of a graph",
			rate, of[3], of[4], d)
		return nil
	}
	lines := int(length)/2 + 1
	if bands > mostKnown || !c.room(lines*max(bands, 1)) {
		c.fail("%d bands of %d numbers: %w", bands, lines, errMemory)
		return nil
	}
	low, high := elem.Log1p(of[3]/700), elem.Log1p(of[4]/700)
	edges := make([]int, bands+2)
	for i := range edges {
		along := float64(float64(i) * ((high - low) / float64(bands+2)))
		hertz := float64(700 * elem.Expm1(along+low))
		edges[i] = int(math.Floor(float64((length+1)*hertz) / rate))
		if edges[i] > lines || edges[i] == lines && i <= bands {
			c.fail("an edge at %v of %v hertz: want less than half of it", hertz, rate)
			return nil
		}
	}
	t := tensor.New(f, lines, bands)
	for i := range bands {
		from, top, to := edges[i], edges[i+1], edges[i+2]
		put := func(j int, v float64) {
			if f == fp16.Int64 { // numpy cuts off what is behind the point
				v = math.Trunc(v)
			}
			t.Data[j*bands+i] = f.Round(v)
		}
		if put(top, 1); from < top {
			for j := from; j < top; j++ {
				put(j, float64(j-from)/float64(top-from))
			}
		}
		for j := top + 1; j < to; j++ {
			put(j, float64(to-j)/float64(to-top))
		}
	}
	return one(c.constant("", t, d))
}
