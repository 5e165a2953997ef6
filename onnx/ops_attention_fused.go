package onnx

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// attentions are ONNX Runtime's. Each is its projections, if it has them, and one attention.
func attentions() map[string]mapping {
	return map[string]mapping{
		"MultiHeadAttention": opMultiHead, "GroupQueryAttention": opGroupQuery, "Attention": opFusedAttention,
		"QAttention": opQAttention,
	}
}

// attend begins an attention of heads, with keys and values of the past before those given, if there are any.
func (c *call) attend(q, k, v, pastKey, pastValue int) *heads {
	h := &heads{call: c, q: q, k: k, v: v, bias: absent, allowed: absent, seen: absent, left: -1, right: -1}
	if pastKey >= 0 && c.err == nil {
		if c.rank(pastKey) != 4 {
			c.fail("past of shape %v: want four axes", c.shape(pastKey))
			return h
		}
		h.before = c.shape(pastKey)[2]
		h.k, h.v = c.add(graph.Cat{Axis: 2}, pastKey, k), c.add(graph.Cat{Axis: 2}, pastValue, v)
	}
	if c.err == nil && (c.rank(h.q) != 4 || c.rank(h.k) != 4 || c.rank(h.v) != 4) {
		c.fail("query, key and value of shapes %v, %v and %v: want heads", c.shape(h.q), c.shape(h.k), c.shape(h.v))
	}
	if c.err == nil {
		h.queries, h.keys = c.shape(h.q)[2], c.shape(h.k)[2]
	}
	if s := c.float("scale", 0); s != 0 {
		h.scale = &s
	}
	return h
}

// padding adds what a mask of ONNX Runtime says of keys: truths of each, how many count, or where they end and begin.
func (h *heads) padding(mask int) {
	c := h.call
	if mask < 0 || c.err != nil {
		return
	}
	filter, s, batch := c.float("mask_filter_value", -10000), c.shape(mask), c.shape(h.q)[0]
	switch {
	case len(s) == 1 && s[0] == batch:
		h.counted(pointwise.Less, c.reshape(mask, []int{batch, 1, 1, 1}, true))
	case len(s) == 1 && s[0] == 2*batch:
		ends := c.addAll(graph.Split{Sizes: graph.Ints{batch}}, 2, mask)
		if ends != nil {
			h.counted(pointwise.Less, c.reshape(ends[0], []int{batch, 1, 1, 1}, true))
			h.counted(pointwise.GreaterEqual, c.reshape(ends[1], []int{batch, 1, 1, 1}, true))
		}
	case len(s) == 2 || len(s) == 3:
		shape := []int{s[0], 1, 1, s[len(s)-1]}
		if len(s) == 3 {
			shape[2] = s[1]
		}
		h.plusBias(c.add(graph.Where{}, c.reshape(mask, shape, true), c.number(h.q, 0), c.number(h.q, filter)))
	default:
		c.fail("mask of shape %v: want [%d], [%d], [batch,keys] or [batch,queries,keys]", s, batch, 2*batch)
	}
}

// counted allows keys whose places compare with a number of each sample.
func (h *heads) counted(of pointwise.Op, number int) {
	if !h.room(h.keys) {
		return
	}
	j := make([]int, h.keys)
	for k := range j {
		j[k] = k
	}
	h.and(h.add(graph.Binary{Of: of}, h.wholes([]int{1, 1, 1, h.keys}, j...), number))
}

// plusBias adds numbers to what is added to scores, if they are given.
func (h *heads) plusBias(v int) {
	if v >= 0 && h.bias >= 0 {
		v = h.plus(h.bias, v)
	}
	if v >= 0 {
		h.bias = v
	}
}

// causal lets queries see no keys after their own places, if the node says so.
func (h *heads) causal() {
	if h.flag("unidirectional") && h.call.err == nil {
		h.before = h.keys - h.queries
		h.within(0)
	}
}

// opMultiHead has query, key and value apart, or in one tensor, or key and value in one.
func opMultiHead(c *call) []int {
	n, q := c.int("num_heads", 0), c.arg(0)
	k, v, bias := c.optional(1), c.optional(2), c.optional(3)
	if n < 1 {
		c.fail("num_heads: %d: want 1 or more", n)
	}
	if c.err != nil {
		return nil
	}
	switch s := c.shape(q); {
	case len(s) == 5 && k < 0: // [batch,length,heads,3,size]
		q, k, v = c.three(q, 3)
	case k >= 0 && c.rank(k) == 5: // [batch,keys,heads,2,size]
		both := c.addAll(graph.Unbind{Axis: 3}, 2, k)
		if both == nil {
			return nil
		}
		k, v = c.flat(both[0]), c.flat(both[1])
	case k < 0 || v < 0:
		c.fail("key and value: want both, or a query [batch,length,heads,3,size]")
	}
	if bias >= 0 && c.err == nil {
		sizes := graph.Ints{c.shape(q)[c.rank(q)-1], 0, 0}
		cross := c.rank(k) == 4
		if sizes[1], sizes[2] = sizes[0], c.shape(v)[c.rank(v)-1]; cross {
			sizes[2] = c.shape(v)[c.rank(v)-1] * n
		}
		parts := c.addAll(graph.Split{Sizes: sizes}, 3, bias)
		if parts == nil {
			return nil
		}
		q = c.plus(q, parts[0])
		if !cross {
			k, v = c.plus(k, parts[1]), c.plus(v, parts[2])
		}
	}
	q, _ = c.split(q, n)
	k, _ = c.split(k, n)
	v, _ = c.split(v, n)
	h := c.attend(q, k, v, c.optional(6), c.optional(7))
	h.padding(c.optional(4))
	h.plusBias(c.optional(5))
	h.causal()
	keys, values := h.k, h.v
	return []int{c.joinHeads(h.whole()), keys, values}
}

// flat joins the last two axes.
func (c *call) flat(v int) int {
	s := c.shape(v)
	if c.err != nil || len(s) < 2 {
		return poison
	}
	return c.reshape(v, append(s[:len(s)-2:len(s)-2], s[len(s)-2]*s[len(s)-1]), true)
}

// three takes query, key and value out of an axis of three.
func (c *call) three(v, axis int) (q, k, of int) {
	parts := c.addAll(graph.Unbind{Axis: axis}, 3, v)
	if parts == nil {
		return poison, poison, poison
	}
	return c.flat(parts[0]), c.flat(parts[1]), c.flat(parts[2])
}

// opFusedAttention begins with the projection of its input to query, key and value, a product with a bias.
func opFusedAttention(c *call) []int {
	x, w := c.arg(0), c.arg(1)
	if c.err == nil && (c.rank(x) != 3 || c.rank(w) != 2) {
		c.fail("input and weights of shapes %v and %v: want three axes and two", c.shape(x), c.shape(w))
	}
	if c.flag("do_rotary") || c.has(6) {
		c.fail("do_rotary, past_sequence_length: not supported")
	}
	if c.err != nil {
		return nil
	}
	s := c.shape(x)
	in := []int{c.reshape(x, []int{s[0] * s[1], s[2]}, true), w}
	if c.has(2) {
		in = append(in, c.in[2])
	}
	v := c.add(graph.Gemm{Alpha: 1, Beta: 1}, in...)
	return c.projected(v, s, c.optional(3), c.optional(4), c.optional(5))
}

// opQAttention has an input and weights of whole numbers.
func opQAttention(c *call) []int {
	c.whole(0, 1, 6, 7)
	x, w := c.arg(0), c.arg(1)
	if c.err == nil && (c.rank(x) != 3 || c.rank(w) != 2) {
		c.fail("input and weights of shapes %v and %v: want three axes and two", c.shape(x), c.shape(w))
	}
	if c.flag("do_rotary") {
		c.fail("do_rotary: not supported")
	}
	if c.err != nil {
		return nil
	}
	s := c.shape(x)
	sum := c.wholeProduct(c.reshape(x, []int{s[0] * s[1], s[2]}, true), c.optional(6), w, c.optional(7))
	return c.projected(c.scaled(sum, c.arg(3), c.arg(4), c.arg(2)), s, c.optional(5), c.optional(8), absent)
}

// projected is attention of query, key and value side by side, [batch*length,sizes].
func (c *call) projected(v int, s []int, mask, past, bias int) []int {
	n, sizes := c.int("num_heads", 0), c.ints("qkv_hidden_sizes")
	if c.err != nil {
		return nil
	}
	if all := c.shape(v)[1]; sizes == nil {
		sizes = []int{all / 3, all / 3, all - all/3*2}
	}
	if len(sizes) != 3 {
		c.fail("qkv_hidden_sizes: %d numbers: want 3", len(sizes))
		return nil
	}
	all := c.reshape(v, []int{s[0], s[1], c.shape(v)[1]}, true)
	parts := c.addAll(graph.Split{Sizes: graph.Ints(sizes), Axis: 2}, 3, all)
	if parts == nil {
		return nil
	}
	for i := range parts {
		parts[i], _ = c.split(parts[i], n)
	}
	pastKey, pastValue := absent, absent
	if past >= 0 {
		both := c.addAll(graph.Unbind{}, 2, past)
		if both == nil {
			return nil
		}
		pastKey, pastValue = both[0], both[1]
	}
	h := c.attend(parts[0], parts[1], parts[2], pastKey, pastValue)
	h.padding(mask)
	h.plusBias(bias)
	h.causal()
	present := absent
	if len(c.node.out) > 1 && c.node.out[1] != "" {
		present = c.add(graph.Stack{}, h.k, h.v)
	}
	return []int{c.joinHeads(h.whole()), present}
}

// opGroupQuery is causal, of fewer heads of keys than of queries, whose places it may turn. Keys of the past are
// whole: those of a sample end where its new ones begin.
func opGroupQuery(c *call) []int {
	n, kv, q := c.int("num_heads", 0), c.int("kv_num_heads", 0), c.arg(0)
	k, v := c.optional(1), c.optional(2)
	if n < 1 || kv < 1 || n%kv != 0 || n > 1<<20 {
		c.fail("num_heads, kv_num_heads: %d, %d: want 1 or more, and a multiple", n, kv)
	}
	if c.err == nil && c.rank(q) != 3 {
		c.fail("query of shape %v: want [batch,length,size]", c.shape(q))
	}
	if c.has(9) || c.has(11) {
		c.fail("position_ids, head_sink: not supported")
	}
	if c.flag("smooth_softmax") {
		c.fail("smooth_softmax: not supported")
	}
	cap := c.float("softcap", 0)
	left := c.int("local_window_size", -1)
	seen := c.arg(5)
	c.arg(6)
	if c.err != nil {
		return nil
	}
	if k < 0 {
		size := c.shape(q)[2] / (n + 2*kv)
		parts := c.addAll(graph.Split{Sizes: graph.Ints{size * n, size * kv, size * kv}, Axis: 2}, 3, q)
		if parts == nil {
			return nil
		}
		q, k, v = parts[0], parts[1], parts[2]
	}
	q, _ = c.split(q, n)
	k, _ = c.split(k, kv)
	v, _ = c.split(v, kv)
	if c.err != nil {
		return nil
	}
	batch, before := c.shape(q)[0], 0
	if c.has(3) && c.rank(c.in[3]) == 4 {
		before = c.shape(c.in[3])[2]
	}
	if before > 0 && batch > 1 {
		c.fail("a past of %d samples: want one", batch)
	}
	if c.flag("do_rotary") {
		r := rotary{c, c.flag("rotary_interleaved"), 0}
		if cos := c.arg(7); c.err == nil && c.rank(cos) == 2 {
			r.size = 2 * c.shape(cos)[1]
		}
		from := c.wholes(nil, before)
		cos, sin := c.anglesAt(c.arg(7), from, c.shape(q)), c.anglesAt(c.arg(8), from, c.shape(q))
		q, k = r.turn(q, cos, sin), r.turn(k, cos, sin)
	}
	pastKey, pastValue := absent, absent
	if before > 0 {
		pastKey, pastValue = c.in[3], c.optional(4)
	}
	h := c.attend(q, k, v, pastKey, pastValue)
	h.plusBias(c.optional(10))
	h.within(0)
	if left > 0 {
		h.window(pointwise.Greater, -left)
	}
	h.counted(pointwise.LessEqual, c.reshape(seen, []int{batch, 1, 1, 1}, true)) // the number is of the last key
	keys, values := h.k, h.v
	var y int
	if cap > 0 {
		y, _ = h.chain(cap, 0)
	} else {
		y = h.whole()
	}
	return []int{c.joinHeads(y), keys, values}
}
