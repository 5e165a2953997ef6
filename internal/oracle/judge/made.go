package judge

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// made evaluates steps in float64, as exactly does, block by block. A fault may mix the rows of a piece, but
// few mix the queries of an attention.
func (q *Question) made(c Contract) ([]float64, error) {
	blocks := q.queries(mostScored)
	if blocks == nil || q.built.whole() {
		if y, err := q.again(c); y != nil || err != nil {
			return y, err
		}
		blocks = []Question{*q}
	}
	y := make([]float64, len(q.Output.Data))
	return y, q.each(blocks, c, func(of *Question, b *builder, round rounded) error {
		b.wide = q.wide
		out, err := exactly(b, of.Inputs, round)
		if err == nil && len(out[0].Data) != len(of.Output.Data) { // a fault of the shape
			err = errNotJudged
		}
		if err == nil {
			copy(y[of.offset-q.offset:], out[0].Data)
			if b.made()[b.Graph.Outputs[0]] {
				release(out[0])
			}
		}
		return err
	})
}

// Wide is what a graph makes of inputs, in some digits fewer than float64 has.
func Wide(g *graph.Graph, inputs []*tensor.Tensor) ([]float64, error) {
	q := Question{Graph: g, Inputs: inputs}
	types, err := q.types()
	if err != nil {
		return nil, err
	}
	b := expand(g, types, Form{}, built{})
	b.wide = true
	out, err := exactly(b, inputs, nil)
	if err != nil {
		return nil, err
	}
	return out[0].Data, nil
}

// exactly evaluates steps in float64, rounding only what is to be rounded, and returns the outputs.
func exactly(b *builder, inputs []*tensor.Tensor, round rounded) ([]*tensor.Tensor, error) {
	of := make([]*tensor.Tensor, len(b.Values))
	last, made := b.lastRead(), b.made()
	if err := walk(b, inputs, func(v int, t *tensor.Tensor) { of[v] = t }, func(n *graph.Node) error {
		in := make([]*tensor.Tensor, len(n.In))
		for k, v := range n.In {
			in[k] = of[v]
		}
		out, err := evaluator(b.wide)(n.Op, in...)
		if err != nil {
			return err
		}
		for k, v := range n.Out {
			if f, is := round[v]; is {
				wide := out[k]
				if out[k] = roundTo(f, wide, nil); out[k] != wide {
					release(wide)
				}
			}
			of[v] = out[k]
		}
		for _, v := range n.In {
			if last[v] == n {
				if made[v] {
					release(of[v])
				}
				of[v] = nil
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return b.outputs(of), nil
}
