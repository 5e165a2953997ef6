package graph

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/index"
)

// EmbeddingBag takes together the rows of a table [N,D], its first input, that an index,
// its second, names: embedding_bag. An index [B,L] has a bag in each row; of one [n], an
// input of offsets [B] says where each bag begins, and with LastOffset also the end of
// the index. For the sum, and after all those, may come a factor for each number of the
// index. A bag without rows is 0, and row Padding belongs to none. Mode is sum, mean or
// max. See [index.EmbeddingBag].
type EmbeddingBag struct {
	Mode       string `json:"mode"`
	LastOffset bool   `json:"include_last_offset"`
	Padding    *int   `json:"padding_idx"`
}

// bags are the modes.
var bags = map[string]index.Reduction{"sum": index.Sum, "mean": index.Mean, "max": index.Max}

// Name implements [Op].
func (EmbeddingBag) Name() string { return "embedding_bag" }

// Infer implements [Op].
func (o EmbeddingBag) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 2, 4); err != nil {
		return Inference{}, err
	}
	if err := real(in[:1]); err != nil {
		return Inference{}, err
	}
	if err := whole(1, in[1]); err != nil {
		return Inference{}, err
	}
	table, i, rest := in[0].Shape, in[1].Shape, in[2:]
	if _, ok := bags[o.Mode]; !ok {
		return Inference{}, fmt.Errorf("mode: %.40q: want sum, mean or max", o.Mode)
	}
	if len(table) != 2 {
		return Inference{}, fmt.Errorf("input 0: shape %v: want a table [N,D]", table)
	}
	if p := o.Padding; p != nil {
		if _, err := axis("padding_idx", *p, table[0]); err != nil {
			return Inference{}, fmt.Errorf("padding_idx: %d: want a row of the %d", *p, table[0])
		}
	}
	count := 0
	switch len(i) {
	case 2:
		count = i[0]
	case 1:
		if len(rest) == 0 || rest[0].Format != fp16.Int64 || len(rest[0].Shape) != 1 {
			return Inference{}, fmt.Errorf("input 2: want offsets [B] of int64, as the index has one axis")
		}
		if count = rest[0].Shape[0]; o.LastOffset {
			if count--; count < 0 {
				return Inference{}, fmt.Errorf("include_last_offset: of no offsets: want the last one")
			}
		}
		rest = rest[1:]
	default:
		return Inference{}, fmt.Errorf("input 1: shape %v: want an index [n] or [B,L]", i)
	}
	if len(rest) > 1 ||
		len(rest) == 1 && (o.Mode != "sum" || !slices.Equal(rest[0].Shape, i) || rest[0].Format != in[0].Format) {
		return Inference{}, fmt.Errorf(
			"input %d: want nothing, or for mode sum factors of shape %v and of the table's format", len(in)-1, i,
		)
	}
	return moved(m, o, in, []int{count, table[1]}, nil)
}

// Eval implements [Op].
func (o EmbeddingBag) Eval(c *Call) error {
	table, i, next := c.In(0), c.In(1), 2
	if err := front(i, table.Shape[0]); err != nil {
		return err
	}
	var first []int
	if len(i.Shape) == 2 {
		if len(c.Out[0].Data) == 0 { // of any number of bags
			return nil
		}
		for b := range i.Shape[0] + 1 {
			first = append(first, b*i.Shape[1])
		}
	} else {
		next++
		var err error
		if first, err = o.begins(c.In(2).Data, len(i.Data)); err != nil {
			return err
		}
	}
	var factor []float64
	if next < c.Inputs() {
		factor = c.In(next).Data
	}
	skip := -1
	if o.Padding != nil {
		skip, _ = axis("padding_idx", *o.Padding, table.Shape[0])
	}
	return index.EmbeddingBag(c.Out[0], table, i, first, factor, bags[o.Mode], skip)
}

// begins returns where bags begin, and where the last ends, of n numbers.
func (o EmbeddingBag) begins(offsets []float64, n int) ([]int, error) {
	var first []int
	least := 0
	for b, v := range offsets {
		if v < float64(least) || v > float64(n) || b == 0 && v != 0 {
			return nil, fmt.Errorf("offsets[%d]: %.0f: want 0 first, and then %d to %d", b, v, least, n)
		}
		least = int(v)
		first = append(first, least)
	}
	switch {
	case !o.LastOffset:
		first = append(first, n)
	case least != n:
		return nil, fmt.Errorf("offsets[%d]: %d: want %d, where the last bag ends", len(offsets)-1, least, n)
	}
	return first, nil
}

func init() { register(EmbeddingBag{Mode: "mean"}, since2(same, same)) }
