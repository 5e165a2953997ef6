package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/attention"
	"github.com/refrun/refrun/tensor"
)

// Attention is scaled_dot_product_attention: of a query [...,L,E], a key [...,S,E], a value
// [...,S,V] and, as a fourth input, a mask spread to [...,L,S], truth values or numbers that
// are added, or none. See [attention.Forward].
type Attention struct {
	Dropout float64  `json:"dropout_p"`  // 0 only
	Causal  bool     `json:"is_causal"`  // query i sees keys 0 to i
	Scale   *float64 `json:"scale"`      // nil is 1/sqrt(E)
	Grouped bool     `json:"enable_gqa"` // each head of key and value is that of several of the query, side by side
}

// Name implements [Op].
func (Attention) Name() string { return "scaled_dot_product_attention" }

// Infer implements [Op].
func (o Attention) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 3, 4); err != nil {
		return Inference{}, err
	}
	if err := real(in[:3]); err != nil {
		return Inference{}, err
	}
	switch {
	case o.Dropout != 0:
		return Inference{}, fmt.Errorf("dropout_p: %v: want 0", o.Dropout)
	case o.Scale != nil && !(math.Abs(*o.Scale) <= attention.MostScale):
		return Inference{}, fmt.Errorf("scale: %v: want a number of at most 2^500", *o.Scale)
	case o.Causal && len(in) == 4:
		return Inference{}, fmt.Errorf("is_causal: true: want no mask beside it")
	}
	least := 2
	if o.Grouped {
		least = 3
	}
	for i, name := range []string{"query", "key", "value"} {
		if len(in[i].Shape) < least {
			return Inference{}, fmt.Errorf("%s of shape %v: want %d dimensions or more", name, in[i].Shape, least)
		}
	}
	last := func(k, i int) int { return in[k].Shape[len(in[k].Shape)-i] }
	switch {
	case last(0, 1) < 1:
		return Inference{}, fmt.Errorf("query of shape %v: want numbers along the last dimension", in[0].Shape)
	case last(1, 1) != last(0, 1):
		return Inference{}, fmt.Errorf("key of shape %v: want %d numbers along the last dimension, as the query has",
			in[1].Shape, last(0, 1))
	case last(2, 2) != last(1, 2):
		return Inference{}, fmt.Errorf("value of shape %v: want %d rows, one for each key", in[2].Shape, last(1, 2))
	}
	s := make([][]int, len(in))
	for i := range in {
		s[i] = in[i].Shape
	}
	if o.Grouped {
		h := last(0, 3)
		if last(1, 3) != last(2, 3) {
			return Inference{}, fmt.Errorf("enable_gqa: %d heads of key and %d of value: want as many", last(1, 3), last(2, 3))
		}
		for k := 1; k < 3; k++ {
			if n := last(k, 3); n < 1 || h%n != 0 {
				return Inference{}, fmt.Errorf("enable_gqa: %d heads of the query and %d of %s: want a multiple", h, n,
					[]string{"", "key", "value"}[k])
			}
			s[k] = slices.Clone(s[k])
			s[k][len(s[k])-3] = h
		}
	}
	var heads []Type
	for k := range 3 {
		heads = append(heads, Type{Shape: s[k][:len(s[k])-2]})
	}
	leading, err := spread(heads)
	if err != nil {
		return Inference{}, fmt.Errorf("query of shape %v, key of shape %v and value of shape %v: want leading "+
			"dimensions that are equal or 1", in[0].Shape, in[1].Shape, in[2].Shape)
	}
	if len(in) == 4 {
		scores := append(slices.Clone(leading), last(0, 2), last(1, 2))
		if all, err := spread([]Type{{Shape: scores}, in[3]}); len(s[3]) < 2 || err != nil || !slices.Equal(all, scores) {
			return Inference{}, fmt.Errorf(
				"mask of shape %v: want one of two dimensions or more that can be spread to %v", s[3], scores,
			)
		}
	}
	shape := append(slices.Clone(leading), last(0, 2), last(2, 1))
	numbers := in
	if len(in) == 4 && in[3].Format == fp16.Int64 {
		numbers = in[:3]
	}
	return multiplied(m, o.Name(), numbers, 3, shape)
}

// Eval implements [Op].
func (o Attention) Eval(c *Call) error {
	of := make([]*tensor.Tensor, 5)
	of[0] = c.Out[0]
	for k := range c.Inputs() {
		of[1+k] = c.In(k)
	}
	if o.Grouped {
		groups(of)
	}
	attention.Forward(of[0], of[1], of[2], of[3], attention.Params{Mask: of[4], Causal: o.Causal, Scale: o.Scale})
	return nil
}

// groups divides the heads of all operands, the dimension before the last two, into those of
// key and value and the query's for each of them.
func groups(of []*tensor.Tensor) {
	heads := of[2].Shape[len(of[2].Shape)-3]
	for k, t := range of {
		if t == nil || len(t.Shape) < 3 {
			continue
		}
		at := len(t.Shape) - 3
		n := max(1, heads)
		if t.Shape[at] == 1 {
			n = t.Shape[at]
		}
		s := slices.Clone(t.Shape)
		s[at] = n
		of[k] = &tensor.Tensor{Shape: slices.Insert(s, at+1, t.Shape[at]/max(n, 1)), Format: t.Format, Data: t.Data}
	}
}

// products of attention: of query and key, and of weights and value.
func (Attention) products(in, out []Type) int64 {
	q, v := in[0].Shape, in[2].Shape
	rows := out[0].elements() / max(1, int64(v[len(v)-1]))
	return rows * int64(v[len(v)-2]) * int64(q[len(q)-1]+v[len(v)-1])
}

func init() { register(Attention{}, since2(half, half)) }
