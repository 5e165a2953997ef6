package judge

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// A library divides the terms of a long product among several groups of threads, of which each adds up a part of them
// (split-K). With PyTorch's allow_bf16_reduced_precision_reduction and that of fp16, which are on, these sums may be
// stored in the half format. cuBLAS names two ways: in place, each part is added to what the ones before it have
// stored, the first to the bias; out of place, all are stored and added up at the end.

// division is how the terms of products are divided: by node a way, 0 for none, and the format that stores their sums.
type division struct {
	ways string
	in   fp16.Format
}

// way is one of them, from 1 on: 2 to mostSplit parts, in place (odd) and out of place.
func way(parts int, apart bool) (k int) {
	if k = 2*(parts-2) + 1; apart {
		k++
	}
	return k
}

// divided is how many parts the terms of a node's product have, 0 for one, and whether they are stored apart.
func (f Form) divided(node int) (parts int, apart bool) {
	if node >= len(f.division.ways) || f.division.ways[node] == 0 {
		return 0, false
	}
	k := int(f.division.ways[node]) - 1
	return k/2 + 2, k%2 > 0
}

// splits are the changes of a form by which the terms of one product are divided.
func (q *Question) splits(types []graph.Type, from Form) (all []change) {
	if !q.Narrow.Half() || q.built.id != "" || len(q.Graph.Nodes) > mostNodes {
		return nil
	}
	for i := range q.Graph.Nodes {
		n := &q.Graph.Nodes[i]
		_, axis, can := matrixAxes(n.Op)
		if add, is := n.Op.(graph.AddMM); !can || is && (add.Alpha != 1 || add.Beta != 1) {
			continue
		}
		matrix := types[n.In[firstMatrix(n.Op)+1]].Shape
		if len(matrix) < 2 {
			continue
		}
		for parts := 2; parts <= mostSplit; parts++ {
			if eachPart(matrix[len(matrix)+axis], parts) > 0 {
				all = append(all, change{form: q.dividing(from, i, way(parts, false))})
				all = append(all, change{form: q.dividing(from, i, way(parts, true))})
			}
		}
	}
	return all
}

// firstMatrix is the place of a product's first matrix among its inputs.
func firstMatrix(op graph.Op) int {
	if op.Name() == "addmm" {
		return 1
	}
	return 0
}

// eachPart is how many of n terms each part but the last has: a multiple of the eight half numbers that are read at
// once. It is 0 if fewer parts hold them all.
func eachPart(n, parts int) int {
	each := (n + parts*vector - 1) / (parts * vector) * vector
	if each*(parts-1) >= n {
		return 0
	}
	return each
}

// inParts is the best of a trial, if it does not pass, and those of products in parts by which an output is plainly
// nearer.
func (s *finder) inParts(best *trial) (*trial, error) {
	changes := s.q.splits(s.types, Form{})
	if changes == nil || best.passes() {
		return best, nil
	}
	if s.off == nil {
		if err := s.compare(); err != nil {
			return nil, err
		}
	}
	i := s.starts()[0]
	c, off, err := s.step(s.all[i], s.off[i], changes)
	if err != nil || c.Parts == "" {
		return best, err
	}
	if c, _, err = s.climb(c, off); err != nil {
		return nil, err
	}
	return s.q.best(s.types, []Contract{c}, best)
}

// dividing is a form in which the terms of node i's product are divided in way k.
func (q *Question) dividing(from Form, i, k int) Form {
	of := []byte(cmp.Or(from.division.ways, strings.Repeat("\x00", len(q.Graph.Nodes))))
	of[i] = byte(k)
	f := Form{division: division{string(of), q.Narrow}}
	var said []string
	for i := range of {
		if n, apart := f.divided(i); n > 0 {
			how := "one after another"
			if apart {
				how = "apart"
			}
			words := "the terms"
			if len(q.Graph.Nodes) > 1 {
				words += " of " + q.Graph.Name(&q.Graph.Nodes[i])
			}
			said = append(said, fmt.Sprintf("%s in %d parts, stored %s in %v", words, n, how, q.Narrow))
		}
	}
	f.Parts = strings.Join(said, ", ")
	return f
}

// inParts adds a product of two matrices, whose terms are divided, to a bias, -1 for none.
func (b *builder) inParts(op graph.Op, x, y, bias, parts int, apart bool) int {
	axisX, axisY, _ := matrixAxes(op)
	shape := b.in[firstMatrix(op)].Shape
	n := shape[len(shape)-1]
	if _, is := op.(graph.AddMM); is {
		op = graph.MatMul{}
	}
	stored := func(v int) int {
		b.round[v] = rounding{Format: b.form.division.in}
		return v
	}
	each, sum := eachPart(n, parts), -1
	for k := 0; k < n; k += each {
		part := func(v, axis int) int {
			return b.step("part", graph.Slice{Axes: graph.Ints{axis}, Start: graph.Ints{k}, End: graph.Ints{min(k+each, n)}}, v)
		}
		p := b.summed("product", op, part(x, axisX), part(y, axisY))
		switch {
		case apart:
			p = stored(p)
		case sum < 0:
			sum = bias
		}
		if sum >= 0 {
			p = b.step("sum", plus, sum, p)
		}
		if sum = p; !apart {
			stored(p)
		}
	}
	if apart && bias >= 0 {
		sum = b.step("output", plus, sum, bias)
	}
	return sum
}
