package onnx

import (
	"slices"

	"github.com/refrun/refrun/graph"
)

// Sequences of tensors are lists of values while a graph is made: what is in them, and where, is known.

// firstSequence is the value that stands for the first sequence; others follow downwards.
const firstSequence = -10

// sequence adds a sequence.
func (c *call) sequence(of []int) []int {
	c.sequences = append(c.sequences, of)
	return one(firstSequence - len(c.sequences) + 1)
}

// isSequence reports whether a value is a sequence.
func isSequence(v int) bool { return v <= firstSequence }

// list returns the values of an input that is a sequence.
func (c *call) sequenceIn(i int) []int {
	if i >= len(c.in) || !isSequence(c.in[i]) {
		c.fail("input %d: want a sequence", i)
		return nil
	}
	return c.sequences[firstSequence-c.in[i]]
}

// place returns an input that is a place in a sequence of n, or otherwise where it is not given.
func (c *call) place(i, n, otherwise int) int {
	at := otherwise
	if c.has(i) {
		if t := c.known(i, "position"); len(t) == 1 {
			at = t[0]
		}
	}
	if at < -n || at >= n {
		c.fail("position: %d: want one of %d", at, n)
		return 0
	}
	return (at + n) % n
}

func opSequenceConstruct(c *call) []int {
	var of []int
	for i := range c.in {
		of = append(of, c.arg(i))
	}
	return c.sequence(of)
}

func opSequenceEmpty(c *call) []int {
	c.int("dtype", 1)
	return c.sequence(nil)
}

func opSequenceAt(c *call) []int {
	of := c.sequenceIn(0)
	at := c.place(1, len(of), 0)
	if c.err != nil {
		return nil
	}
	return one(of[at])
}

// opSequenceInsert puts a tensor before a place, or at the end.
func opSequenceInsert(c *call) []int {
	of, v := c.sequenceIn(0), c.arg(1)
	at := c.place(2, len(of)+1, len(of))
	if c.err != nil {
		return nil
	}
	return c.sequence(slices.Insert(slices.Clone(of), at, v))
}

func opSequenceErase(c *call) []int {
	of := c.sequenceIn(0)
	at := c.place(1, len(of), len(of)-1)
	if c.err != nil {
		return nil
	}
	return c.sequence(slices.Delete(slices.Clone(of), at, at+1))
}

func opSequenceLength(c *call) []int { return one(c.wholes(nil, len(c.sequenceIn(0)))) }

func opConcatFromSequence(c *call) []int {
	of, at := c.sequenceIn(0), c.int("axis", 0)
	if c.flag("new_axis") {
		return one(c.add(graph.Stack{Axis: at}, of...))
	}
	return one(c.add(graph.Cat{Axis: at}, of...))
}

// opSplitToSequence cuts a tensor into parts of a size, of sizes, or of one number without the axis.
func opSplitToSequence(c *call) []int {
	x := c.arg(0)
	at := c.axis("axis", 0, c.rank(x))
	keep := c.int("keepdims", 1) != 0
	sizes := c.known(1, "split")
	if c.err != nil {
		return nil
	}
	n := c.shape(x)[at]
	switch {
	case !c.has(1) && !keep:
		if !c.room(n) {
			return nil
		}
		return c.sequence(c.addAll(graph.Unbind{Axis: at}, n, x))
	case !c.has(1):
		sizes = []int{1}
		fallthrough
	case c.rank(c.in[1]) == 0:
		size := sizes[0]
		if size < 1 || n/size > mostTurns {
			c.fail("split: parts of %d of %d: want 1 or more", size, n)
			return nil
		}
		sizes = nil
		for left := n; left > 0; left -= size {
			sizes = append(sizes, min(size, left))
		}
	}
	return c.sequence(c.addAll(graph.Split{Sizes: sizesOf(sizes, n), Axis: at}, len(sizes), x))
}
