package onnx

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// heads are the operands of attention, [batch,heads,length,size].
type heads struct {
	*call
	q, k, v     int
	bias        int // numbers that are added to scores, or absent
	allowed     int // truths, or absent
	scale       *float64
	queries     int // L
	keys        int // S
	before      int // keys of the past
	seen        int // how many keys of each sample count, or absent
	flat        bool
	left, right int // how far a query sees, -1 for all
}

// opAttention is one function of its operands where nothing between them is asked for and
// scores have no cap; else a chain.
func opAttention(c *call) []int {
	h := &heads{call: c, bias: absent, allowed: absent, seen: absent}
	h.operands()
	cap := c.float("softcap", 0)
	mode := c.int("qk_matmul_output_mode", 0)
	c.int("softmax_precision", 1) // every function is exact
	causal := c.flag("is_causal")
	h.left, h.right = c.int("left_window_size", -1), c.int("right_window_size", -1)
	if s := c.attribute("scale"); s != nil {
		h.scale = &s.float
	}
	if c.err != nil {
		return nil
	}
	h.masks(causal)
	keys, values := h.k, h.v // before heads are repeated
	scores := absent
	var y int
	wanted := len(c.node.out) > 3 && c.node.out[3] != ""
	if cap > 0 || wanted {
		y, scores = h.chain(cap, mode)
	}
	if cap <= 0 {
		h.k, h.v = keys, values
		y = h.whole()
	}
	if h.flat {
		s := c.shape(y)
		if y = c.add(graph.Transpose{A: 1, B: 2}, y); c.err == nil {
			y = c.reshape(y, []int{s[0], s[2], s[1] * s[3]}, true)
		}
	}
	return []int{y, keys, values, scores}
}

// operands finds query, key and value, with keys and values of the past before them.
func (h *heads) operands() {
	c := h.call
	of := [3]int{c.arg(0), c.arg(1), c.arg(2)}
	qh, kh := c.int("q_num_heads", 0), c.int("kv_num_heads", 0)
	for i, v := range of {
		s := c.shape(v)
		switch {
		case c.err != nil:
		case len(s) == 3:
			n := kh
			if i == 0 {
				n = qh
			}
			if n < 1 || s[2]%n != 0 {
				c.fail("q_num_heads, kv_num_heads: %d: want a divisor of %d", n, s[2])
				return
			}
			h.flat = true
			v = c.reshape(v, []int{s[0], s[1], n, s[2] / n}, true)
			of[i] = c.add(graph.Transpose{A: 1, B: 2}, v)
		case len(s) != 4:
			c.fail("operand of shape %v: want [batch,length,size] or [batch,heads,length,size]", s)
		}
	}
	h.q, h.k, h.v = of[0], of[1], of[2]
	if c.has(4) != c.has(5) {
		c.fail("past_key, past_value: want both or none")
	}
	if c.has(4) && c.err == nil {
		if c.rank(c.in[4]) != 4 {
			c.fail("past_key of shape %v: want four axes", c.shape(c.in[4]))
			return
		}
		h.before = c.shape(c.in[4])[2]
		h.k = c.add(graph.Cat{Axis: 2}, c.in[4], h.k)
		h.v = c.add(graph.Cat{Axis: 2}, c.in[5], h.v)
	}
	if c.err == nil {
		h.queries, h.keys = c.shape(h.q)[2], c.shape(h.k)[2]
	}
	if c.has(6) && c.err == nil {
		n := c.in[6]
		h.seen = c.reshape(n, []int{elements(c.shape(n)), 1, 1, 1}, true)
	}
}

// masks brings together the mask, causality and windows, and how many keys count.
func (h *heads) masks(causal bool) {
	c := h.call
	if c.has(3) {
		m := c.in[3]
		truths := c.dtype(m) == Bool
		if r := c.rank(m); r < 2 && c.err == nil {
			m = c.reshape(m, []int{1, elements(c.shape(m))}, true)
		}
		if c.err == nil && c.shape(m)[c.rank(m)-1] < h.keys {
			pad := graph.Pad{Before: graph.Ints{0}, After: graph.Ints{h.keys - c.shape(m)[c.rank(m)-1]}, Mode: "constant"}
			if !truths {
				pad.Value = math.Inf(-1)
			}
			m = c.add(pad, m)
		}
		if truths {
			h.allowed = m
		} else {
			h.bias = m
		}
	}
	if causal {
		h.within(0)
	}
	if h.right >= 0 {
		h.within(h.right)
	}
	if h.left >= 0 { // i - j <= left
		h.window(pointwise.GreaterEqual, -h.left)
	}
	if h.seen >= 0 && c.room(h.keys) {
		j := make([]int, h.keys)
		for k := range j {
			j[k] = k
		}
		h.and(c.add(graph.Binary{Of: pointwise.Less}, c.wholes([]int{1, 1, 1, h.keys}, j...), h.seen))
	}
}

// within lets a query see keys up to so many after its own place.
func (h *heads) within(right int) { h.window(pointwise.LessEqual, right) }

// window lets query i see keys j for which j - (i + offset) compares with a number, where
// the offset is how many keys there are before the queries.
func (h *heads) window(op pointwise.Op, than int) {
	c := h.call
	if h.queries > mostKnown || h.keys > mostKnown || !c.room(h.queries*h.keys) {
		c.fail("%d queries of %d keys: %w", h.queries, h.keys, errMemory)
		return
	}
	of := make([]int, 0, h.queries*h.keys)
	for i := range h.queries {
		for j := range h.keys {
			d := j - i - than
			if h.seen >= 0 {
				d += h.queries // less the keys that count, which are not known yet
			} else {
				d -= h.before
			}
			of = append(of, d)
		}
	}
	d := c.wholes([]int{1, 1, h.queries, h.keys}, of...)
	limit := c.wholes(nil, 0)
	if h.seen >= 0 {
		limit = h.seen
	}
	h.and(c.add(graph.Binary{Of: op}, d, limit))
}

// and allows only what is allowed already.
func (h *heads) and(v int) {
	if h.allowed >= 0 {
		v = h.add(graph.Binary{Of: pointwise.And}, h.allowed, v)
	}
	h.allowed = v
}

// mask returns the one mask there is, or absent.
func (h *heads) mask() int {
	if h.bias >= 0 && h.allowed >= 0 {
		h.bias = h.add(graph.Where{}, h.allowed, h.bias, h.number(h.bias, math.Inf(-1)))
		h.allowed = absent
	}
	if h.bias >= 0 {
		return h.bias
	}
	return h.allowed
}

// whole is attention as one function.
func (h *heads) whole() int {
	in := []int{h.q, h.k, h.v}
	if m := h.mask(); m >= 0 {
		in = append(in, m)
	}
	if h.call.err != nil {
		return poison
	}
	return h.add(graph.Attention{Scale: h.scale, Grouped: h.shape(h.q)[1] != h.shape(h.k)[1]}, in...)
}

// chain is attention step by step, each rounded. It also returns the scores, as the mode
// asks for them.
func (h *heads) chain(cap float64, mode int) (y, scores int) {
	c := h.call
	q, k := c.shape(h.q), c.shape(h.k)
	if c.err != nil || k[1] < 1 || q[1]%k[1] != 0 || q[3] < 1 {
		c.fail("%d heads of the query and %d of the key: want a multiple", q[1], k[1])
		return poison, poison
	}
	if n := q[1] / k[1]; n > 1 {
		axis := 1
		h.k = c.add(graph.RepeatInterleave{Repeats: n, Axis: &axis}, h.k)
		h.v = c.add(graph.RepeatInterleave{Repeats: n, Axis: &axis}, h.v)
	}
	scale := 1 / math.Sqrt(float64(q[3]))
	if h.scale != nil {
		scale = *h.scale
	}
	s := c.add(graph.MatMul{}, h.q, c.add(graph.Transpose{A: 2, B: 3}, h.k))
	s = c.add(graph.Binary{Of: pointwise.Mul, Other: &scale}, s)
	steps := [4]int{s, s, s, s} // ONNX's modes: as they are, with a cap, with the mask, and as weights
	if cap > 0 {
		s = c.add(graph.Binary{Of: pointwise.Div, Other: &cap}, s)
		s = c.add(graph.Binary{Of: pointwise.Mul, Other: &cap}, c.bind("tanh", nil, s))
		steps[1] = s
	}
	masked := absent
	if m := h.mask(); m >= 0 {
		if c.dtype(m) == Bool || c.types[m].Format == int64Format {
			zero := tensor.New(c.types[s].Format)
			m = c.add(graph.Where{}, m, c.constant("", zero, c.dtype(s)), c.number(s, math.Inf(-1)))
		}
		s = c.add(graph.Addition, s, m)
		masked = c.add(graph.Reduction{Of: "amax", Axes: graph.Ints{-1}, Keep: true}, m)
		inf := math.Inf(-1)
		masked = c.add(graph.Binary{Of: pointwise.Equal, Other: &inf}, masked)
	}
	steps[2] = s
	s = c.add(graph.Softmax{Axis: -1}, s)
	if masked >= 0 {
		s = c.add(graph.Where{}, masked, c.number(s, 0), s)
	}
	steps[3] = s
	if mode < 0 || mode > 3 {
		c.fail("qk_matmul_output_mode: %d: want 0 to 3", mode)
		return poison, poison
	}
	return c.add(graph.MatMul{}, s, h.v), steps[mode]
}
