package onnx

import (
	"slices"

	"github.com/refrun/refrun/graph"
)

var equal = slices.Equal[[]int]

func opIdentity(c *call) []int { return one(c.arg(0)) }

// opDropout is the identity, as in evaluation.
func opDropout(c *call) []int {
	c.float("ratio", 0)
	c.int("seed", 0)
	if t := c.known(2, "training_mode"); len(t) > 0 && t[0] != 0 {
		c.fail("training_mode: not supported")
	}
	x := c.arg(0)
	if len(c.node.out) < 2 {
		return one(x)
	}
	truth := c.wholes(nil, 1)
	return []int{x, c.as(c.spread(truth, c.shape(x)), Bool)}
}

// numbers returns the whole numbers of an input, or in old files of an attribute, and
// whether they are given.
func (c *call) numbers(input int, name string) ([]int, bool) {
	if a := c.attribute(name); a != nil {
		return a.ints, true
	}
	if !c.has(input) {
		return nil, false
	}
	return c.known(input, name), true
}

func opReshape(c *call) []int {
	shape, _ := c.numbers(1, "shape")
	return one(c.reshape(c.arg(0), shape, c.flag("allowzero")))
}

// reshape gives a value another shape; zeros are sizes of 0 or stand for the value's own.
func (c *call) reshape(v int, shape []int, zeros bool) int {
	if len(shape) > mostRank {
		c.fail("shape: %d axes: want at most %d", len(shape), mostRank)
	}
	return c.add(graph.Reshape{Shape: graph.Ints(shape), AllowZero: zeros}, v)
}

func opFlatten(c *call) []int {
	x := c.arg(0)
	s, at := c.shape(x), c.int("axis", 1)
	if at < 0 {
		at += len(s)
	}
	if at < 0 || at > len(s) {
		c.fail("axis: want 0 to %d", len(s))
		return nil
	}
	return one(c.reshape(x, []int{elements(s[:at]), elements(s[at:])}, true))
}

func opTranspose(c *call) []int {
	return one(c.add(graph.Permute{Axes: graph.Ints(c.ints("perm"))}, c.arg(0)))
}

func opSqueeze(c *call) []int {
	x := c.arg(0)
	axes, given := c.numbers(1, "axes")
	if given && len(axes) == 0 {
		return one(x)
	}
	for _, a := range axes {
		if s := c.shape(x); a >= -len(s) && a < len(s) && s[(a+len(s))%len(s)] != 1 {
			c.fail("axes: axis %d of shape %v: want one of size 1", a, s)
		}
	}
	return one(c.add(graph.Squeeze{Axes: graph.Ints(axes)}, x))
}

func opUnsqueeze(c *call) []int {
	axes, _ := c.numbers(1, "axes")
	if len(axes) == 0 {
		return one(c.arg(0))
	}
	return one(c.add(graph.Unsqueeze{Axes: graph.Ints(axes)}, c.arg(0)))
}

func opExpand(c *call) []int {
	shape := c.known(1, "shape")
	if len(shape) == 0 {
		return one(c.arg(0))
	}
	return one(c.add(graph.Expand{Size: graph.Ints(shape)}, c.arg(0)))
}

func opTile(c *call) []int {
	x, repeats := c.arg(0), c.known(1, "repeats")
	if c.err == nil && len(repeats) != c.rank(x) {
		c.fail("repeats: %d numbers: want %d, one for each axis", len(repeats), c.rank(x))
	}
	if len(repeats) == 0 {
		return one(x)
	}
	return one(c.add(graph.Repeat{Repeats: graph.Ints(repeats)}, x))
}

func opConcat(c *call) []int {
	return one(c.add(graph.Cat{Axis: c.int("axis", 0)}, c.args(len(c.in), len(c.in))...))
}

// opSplit has its sizes as an input, as an attribute before opset 13, or since 18 their
// number.
func opSplit(c *call) []int {
	x, at := c.arg(0), c.axis("axis", 0, c.rank(c.arg(0)))
	sizes, given := c.numbers(1, "split")
	count := c.int("num_outputs", len(c.node.out))
	if c.err != nil {
		return nil
	}
	if !given {
		n := c.shape(x)[at]
		if count < 1 || count > len(c.node.out) {
			c.fail("num_outputs: %d: want as many as there are outputs", count)
			return nil
		}
		each := (n + count - 1) / count
		for range count {
			sizes = append(sizes, min(each, n))
			n -= min(each, n)
		}
	}
	if len(sizes) != len(c.node.out) {
		c.fail("split: %d sizes: want %d, one for each output", len(sizes), len(c.node.out))
		return nil
	}
	return c.addAll(graph.Split{Sizes: sizesOf(sizes, c.shape(x)[at]), Axis: at}, len(sizes), x)
}

// sizesOf returns sizes as Split takes them, of which a single one is that of all parts.
func sizesOf(sizes []int, n int) graph.Ints {
	if len(sizes) == 1 && sizes[0] != n {
		return graph.Ints{sizes[0], 0} // which do not add up
	}
	return graph.Ints(sizes)
}

// axis returns an attribute that is an axis of that many, from 0 on.
func (c *call) axis(name string, otherwise, rank int) int {
	a := c.int(name, otherwise)
	if a < -rank || a >= rank {
		c.fail("%s: %d: want an axis of rank %d", name, a, rank)
		return 0
	}
	if a < 0 {
		a += rank
	}
	return a
}

func opSlice(c *call) []int {
	o := graph.Slice{Start: graph.Ints(c.known(1, "starts")), End: graph.Ints(c.known(2, "ends")),
		Axes: graph.Ints(c.known(3, "axes")), Step: graph.Ints(c.known(4, "steps"))}
	if starts, old := c.numbers(9, "starts"); old {
		o.Start, o.End, o.Axes = graph.Ints(starts), graph.Ints(c.ints("ends")), graph.Ints(c.ints("axes"))
	}
	if len(o.Start) == 0 {
		return one(c.arg(0))
	}
	return one(c.add(o, c.arg(0)))
}

// opPad has its paddings and its number as inputs; since opset 18 axes too.
func opPad(c *call) []int {
	x := c.arg(0)
	rank := c.rank(x)
	pads, _ := c.numbers(1, "pads")
	axes := c.known(3, "axes")
	if c.has(3) && len(axes) == 0 {
		return one(x)
	}
	if !c.has(3) {
		for a := range rank {
			axes = append(axes, a)
		}
	}
	o := graph.Pad{Before: make(graph.Ints, rank), After: make(graph.Ints, rank), Value: c.float("value", 0)}
	if len(pads) != 2*len(axes) {
		c.fail("pads: %d numbers: want %d, before and after each axis", len(pads), 2*len(axes))
		return nil
	}
	for i, a := range axes {
		if a < -rank || a >= rank {
			c.fail("axes: %d: want an axis of rank %d", a, rank)
			return nil
		}
		a = (a + rank) % rank
		o.Before[a], o.After[a] = pads[i], pads[i+len(axes)]
	}
	if c.has(2) {
		if t := c.value(c.in[2], "constant_value"); t != nil && len(t.Data) == 1 {
			o.Value = t.Data[0]
		} else if t != nil && len(t.Data) != 0 {
			c.fail("constant_value: %d numbers: want one", len(t.Data))
		}
	}
	mode := c.text("mode", "constant")
	modes := map[string]string{"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
	if o.Mode = modes[mode]; o.Mode == "" {
		c.fail("mode %.40q: want constant, reflect, edge or wrap", mode)
	}
	if rank == 0 {
		return one(x)
	}
	return one(c.add(o, x))
}

func opTrilu(c *call) []int {
	o := graph.Triangle{Upper: c.int("upper", 1) != 0}
	if k := c.known(1, "k"); len(k) > 0 {
		o.Diagonal = k[0]
	}
	return one(c.add(o, c.arg(0)))
}

// opDepthToSpace is PyTorch's pixel_shuffle for mode CRD.
func opDepthToSpace(c *call) []int {
	x, n := c.arg(0), c.int("blocksize", 0)
	s := c.shape(x)
	mode := c.text("mode", "DCR")
	if len(s) != 4 || n < 1 || n > 1<<20 || s[1]%(n*n) != 0 {
		c.fail("input of shape %v: want [N,C,H,W] with a multiple of %d^2 channels", s, n)
		return nil
	}
	ch := s[1] / (n * n)
	split, order := []int{s[0], n, n, ch, s[2], s[3]}, graph.Ints{0, 3, 4, 1, 5, 2}
	if mode == "CRD" {
		split, order = []int{s[0], ch, n, n, s[2], s[3]}, graph.Ints{0, 1, 4, 2, 5, 3}
	}
	v := c.add(graph.Permute{Axes: order}, c.reshape(x, split, true))
	return one(c.reshape(v, []int{s[0], ch, s[2] * n, s[3] * n}, true))
}

func opSpaceToDepth(c *call) []int {
	x, n := c.arg(0), c.int("blocksize", 0)
	s := c.shape(x)
	if len(s) != 4 || n < 1 || n > 1<<20 || s[2]%n != 0 || s[3]%n != 0 {
		c.fail("input of shape %v: want [N,C,H,W] of multiples of %d", s, n)
		return nil
	}
	order := graph.Ints{0, 3, 5, 1, 2, 4}
	if c.text("mode", "DCR") == "CRD" {
		order = graph.Ints{0, 1, 3, 5, 2, 4}
	}
	v := c.add(graph.Permute{Axes: order}, c.reshape(x, []int{s[0], s[1], s[2] / n, n, s[3] / n, n}, true))
	return one(c.reshape(v, []int{s[0], s[1] * n * n, s[2] / n, s[3] / n}, true))
}
