package randgraph

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Odd returns a graph with one node of an operation whose inputs have shapes that nobody thinks
// of first: axes of size 0 and 1, single numbers, vectors for matrices, an axis too few or too many.
// It is nil where inference refuses what was drawn.
func Odd(name string, seed uint64) *Case {
	h := fnv.New64a()
	h.Write([]byte(name))
	seed ^= h.Sum64()
	b := &builder{Rand: rand.New(rand.NewPCG(seed, 4)), g: graph.New(new(graph.Kept))}
	made := makers[name](b)
	attributes, err := json.Marshal(made.attributes)
	if err != nil {
		panic(err)
	}
	op, err := graph.Bind(name, attributes)
	if err != nil {
		return nil
	}
	c := &Case{Graph: graph.New(new(graph.Kept)), Names: []string{name}, seed: seed}
	var in []int
	var of []graph.Type
	change, apart := b.oddness(), b.IntN(3) == 0
	for _, v := range made.in {
		if apart {
			change = b.oddness()
		}
		t := graph.Type{Shape: change(b.types[v].Shape), Format: b.types[v].Format}
		of = append(of, t)
		if t.Format == fp16.Int64 {
			in = append(in, c.Graph.Constant("whole", b.resized(b.g.Values[v].Const, t.Shape)))
			continue
		}
		in = append(in, c.Graph.Input(fmt.Sprintf("x%d", len(c.Graph.Inputs))))
		c.Types = append(c.Types, t)
	}
	inf, err := op.Infer(inferred, of)
	if err != nil {
		return nil
	}
	for _, t := range slices.Concat(of, inf.Out) {
		if tensor.Size(t.Shape) > most/10 {
			return nil
		}
	}
	c.Graph.Outputs = c.Graph.AddNode(op, name, len(inf.Out), in...)
	return c
}

// oddness draws a way to change shapes.
func (b *builder) oddness() func(shape []int) []int {
	size, at, kind := b.IntN(2), b.IntN(4), b.IntN(9)
	one := func(s []int) []int {
		s = slices.Clone(s)
		switch kind {
		case 0: // an axis of one size, counted from the front
			if at < len(s) {
				s[at] = size
			}
		case 1: // from the end
			if at < len(s) {
				s[len(s)-1-at] = size
			}
		case 2:
			return s[min(at, len(s)):]
		case 3:
			return s[:max(0, len(s)-at)]
		case 4:
			return nil
		case 5:
			for i := range s {
				s[i] = size
			}
		case 6:
			return slices.Insert(s, min(at, len(s)), size)
		case 7: // one size of all, so that anything fits
			for i := range s {
				s[i] = 1 + at
			}
		case 8: // a vector
			if len(s) > 0 {
				return s[at%len(s):][:1]
			}
		}
		return s
	}
	return func(s []int) []int {
		if b.IntN(4) == 0 {
			return slices.Clone(s)
		}
		return one(s)
	}
}

// resized returns whole numbers of another shape, those that are there over and over.
func (b *builder) resized(t *tensor.Tensor, shape []int) *tensor.Tensor {
	x := tensor.New(fp16.Int64, shape...)
	for i := range x.Data {
		if t != nil && len(t.Data) > 0 {
			x.Data[i] = t.Data[i%len(t.Data)]
		}
	}
	return x
}
