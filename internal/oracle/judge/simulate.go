package judge

import (
	"math"
	"slices"
	"sync"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/par"
)

// simulate sets the output's numbers, how far right kernels are from them, and those of simulated right
// kernels and, if asked for, of one more that rounds to the other side of near edges.
func (q *Question) simulate(types []graph.Type, t *trial, kernels int, flips bool) error {
	n, all := len(q.Output.Data), kernels
	if flips {
		all++
	}
	t.ends = [2][]float64{}
	t.y, t.r, t.sigma, t.right = make([]float64, n), make([]float64, n), make([]float64, n), make([][]float64, all)
	var mu sync.Mutex
	parts := map[int][]float64{} // what flushes, by its place
	if t.wide = nil; q.slips(t) {
		t.wide = make([][]float64, t.kinds())
		for kind := range t.wide {
			t.wide[kind] = make([]float64, n)
		}
	}
	for m := range t.right {
		t.right[m] = make([]float64, n)
	}
	err := q.each(q.blocks(types), t.Contract, func(of *Question, b *builder, round rounded) error {
		b.cores, b.thin, b.keeps, b.blocks = t.b.cores, t.b.thin, t.b.keeps, t.b.blocks
		b.near, b.turned, b.turns = t.b.near, t.b.turned, t.b.turns
		for k, is := range of.Inexact {
			if is {
				b.inexact = append(b.inexact, b.Inputs[k])
			}
		}
		out, right, flushed, err := evaluate(b, of.Inputs, round, kernels, flips, uint64(of.offset))
		if err != nil {
			return err
		}
		from := of.offset - q.offset
		copy(t.y[from:], out.v.Data)
		of.defined(t.y[from : from+len(out.v.Data)])
		of.withoutKeys(t.y[from : from+len(out.v.Data)])
		if out.r != nil {
			copy(t.r[from:], out.r.Data)
		}
		if out.sigma != nil {
			copy(t.sigma[from:], out.sigma.Data)
		}
		for m, k := range right {
			if m < kernels && t.wide != nil {
				addSquares(t.wide[m%len(t.wide)][from:], k.Data, t.y[from:])
			}
			t.store(q.Output.Format, t.right[m][from:from+len(k.Data)], k.Data)
		}
		for k, end := range out.ends {
			if end == nil {
				continue
			}
			mu.Lock()
			if t.ends[k] == nil {
				t.ends[k] = slices.Repeat([]float64{math.Inf(2*k - 1)}, n)
			}
			copy(t.ends[k][from:], end.Data)
			mu.Unlock()
		}
		if flushed != nil {
			mu.Lock()
			parts[from] = slices.Clone(flushed.Data)
			mu.Unlock()
		}
		if b.made()[b.Graph.Outputs[0]] {
			release(append(right, out.v, out.r, out.sigma)...)
		}
		return nil
	})
	if t.flushed = nil; len(parts) > 0 {
		t.flushed = slices.Clone(t.y)
		for from, y := range parts {
			copy(t.flushed[from:], y)
		}
		q.Output.Format.RoundSlice(t.flushed, t.flushed)
	}
	return err
}

// each expands the steps of each block and calls do for it.
func (q *Question) each(blocks []Question, c Contract, do func(of *Question, b *builder, round rounded) error) error {
	failed := make([]error, len(blocks))
	par.For(len(blocks), func(i int) {
		of := &blocks[i]
		types, err := of.types()
		if err == nil {
			b := expand(of.Graph, types, c.Form, of.built)
			var values []int
			if values, err = b.values(c.Round); err == nil {
				err = do(of, b, of.somewhere(b.rounds(values, q.Narrow)))
			}
		}
		failed[i] = err
	})
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
