package onnx

import (
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// LSTM, GRU and RNN are in the graph as the nodes that their steps consist of, one step after another. The sum
// under a gate is one product of [x h 1] and [W R b], with a bias, rounded once; every activation, product and
// sum of gates behind it rounds once as well. So plans and judges see only operations that they know.

// recurrent is what the three have in common.
type recurrent struct {
	*call
	steps, batch, inputs, hidden int
	x                            []int // of each step, [batch,inputs]
	live                         []int // of each step, which samples have it, [batch,1]; nil for all
	clip                         float64
	batchFirst                   bool
	directions                   []*direction
}

// direction is one of the one or two in which the steps are taken.
type direction struct {
	*recurrent
	w, r, wb, rb int // [gates*hidden,inputs], [gates*hidden,hidden] and twice [gates*hidden], absent without biases
	backward     bool
	functions    []squash // f, g and h
	peepholes    []int    // of an LSTM's i, o and f, [hidden] each; nil for none
	state        []int    // h, and an LSTM's c, [batch,hidden]
}

// cell makes the state after a step of what comes in and the state before it.
type cell func(t int, state []int) []int

func opRNN(c *call) []int {
	return c.recurrent(1, 1, "Tanh").run(func(d *direction) cell {
		of := d.joined(0, 1)
		return func(t int, state []int) []int { return one(d.gate(0, of.sum(d.x[t], state[0]))) }
	})
}

// opLSTM has the gates i, o, f and c, of which input_forget makes f 1 - i.
func opLSTM(c *call) []int {
	return c.recurrent(4, 2, "Sigmoid", "Tanh", "Tanh").lstm(func(d *direction) func(t, h int) int {
		of := d.joined(0, 4)
		return func(t, h int) int { return of.sum(d.x[t], h) }
	})
}

// lstm takes all steps of an LSTM, whose sums under gates are given.
func (r *recurrent) lstm(sums func(*direction) func(t, h int) int) []int {
	coupled := r.flag("input_forget")
	return r.run(func(d *direction) cell {
		sum := sums(d)
		return func(t int, state []int) []int {
			last := state[1]
			gates := d.parts(sum(t, state[0]), 4)
			i := d.gate(0, d.peep(0, gates[0], last))
			f := poison
			if coupled {
				f = d.oneMinus(i)
			} else {
				f = d.gate(0, d.peep(2, gates[2], last))
			}
			next := d.plus(d.times(f, last), d.times(i, d.gate(1, gates[3])))
			o := d.gate(0, d.peep(1, gates[1], next))
			return []int{d.times(o, d.squash(2, next)), next}
		}
	})
}

// opGRU has the gates z, r and h. Gate r scales the state, or with linear_before_reset what the weights of h
// make of it, which then is a product of its own.
func opGRU(c *call) []int {
	after := c.flag("linear_before_reset")
	return c.recurrent(3, 1, "Sigmoid", "Tanh").run(func(d *direction) cell {
		gates, new := d.joined(0, 2), d.candidate(after)
		return func(t int, state []int) []int {
			h := state[0]
			both := d.parts(d.gate(0, gates.sum(d.x[t], h)), 2)
			z, n := both[0], d.gate(1, new(d.x[t], both[1], h))
			return one(d.plus(d.times(d.oneMinus(z), n), d.times(z, h)))
		}
	})
}

// candidate returns the sum under a GRU's gate h, of what comes in, the gate r and the state.
func (d *direction) candidate(after bool) func(x, reset, h int) int {
	if after {
		of, inner := d.apart(2, 3)
		return func(x, reset, h int) int { return d.plus(of.sum(x), d.times(reset, inner.sum(h))) }
	}
	of := d.joined(2, 3)
	return func(x, reset, h int) int { return of.sum(x, d.times(reset, h)) }
}

// recurrent reads what the three have in common: the number of gates, of states, and the functions that are
// taken if none are named.
func (c *call) recurrent(gates, states int, functions ...string) *recurrent {
	r := &recurrent{call: c, clip: c.float("clip", 0)}
	layout := c.int("layout", 0)
	if r.batchFirst = layout == 1; layout != 0 && !r.batchFirst {
		c.fail("layout: %d: want 0 or 1", layout)
	}
	x, w, weights := c.arg(0), c.arg(1), c.arg(2)
	backward := map[string][]bool{"forward": {false}, "reverse": {true}, "bidirectional": {false, true}}
	name := c.text("direction", "forward")
	n := len(backward[name])
	if n == 0 {
		c.fail("direction %.40q: want forward, reverse or bidirectional", name)
	}
	if c.err == nil && (c.rank(x) != 3 || c.rank(weights) != 3) {
		c.fail("input and R of shapes %v and %v: want 3 axes each", c.shape(x), c.shape(weights))
	}
	if r.batchFirst {
		x = c.add(graph.Permute{Axes: graph.Ints{1, 0, 2}}, x)
	}
	all := r.squashes(functions, n)
	if c.err != nil {
		return r
	}
	s := c.shape(x)
	r.steps, r.batch, r.inputs, r.hidden = s[0], s[1], s[2], c.shape(weights)[2]
	if r.steps < 1 || r.steps > mostTurns {
		c.fail("input of shape %v: want 1 to %d steps", c.shape(c.in[0]), mostTurns)
	}
	rows := gates * r.hidden
	c.want("W", w, n, rows, r.inputs)
	c.want("R", weights, n, rows, r.hidden)
	if size := c.int("hidden_size", r.hidden); size != r.hidden {
		c.fail("hidden_size: %d: want that of R, %d", size, r.hidden)
	}
	r.lengths()
	for k, back := range backward[name] {
		d := &direction{recurrent: r, backward: back, functions: all[k*len(functions):]}
		d.w, d.r, d.wb, d.rb = c.pick(w, k), c.pick(weights, k), absent, absent
		if c.has(3) {
			c.want("B", c.in[3], n, 2*rows)
			b := c.parts(c.pick(c.in[3], k), 2)
			d.wb, d.rb = b[0], b[1]
		}
		for i := range states {
			d.state = append(d.state, r.initial(5+i, k, n))
		}
		if states == 2 && c.has(7) {
			c.want("P", c.in[7], n, 3*r.hidden)
			d.peepholes = c.parts(c.pick(c.in[7], k), 3)
		}
		r.directions = append(r.directions, d)
	}
	r.x = c.addAll(graph.Unbind{}, r.steps, x)
	return r
}

// pick returns a value's part along its first axis.
func (c *call) pick(v, k int) int { return c.add(graph.Select{Index: k}, v) }

// want notes an input that does not have the shape which it must have.
func (c *call) want(name string, v int, shape ...int) {
	if c.err == nil && !equal(c.shape(v), shape) {
		c.fail("%s of shape %v: want %v", name, c.shape(v), shape)
	}
}

// initial returns the state before the first step, of zeros if it is not given.
func (r *recurrent) initial(input, k, directions int) int {
	if !r.has(input) {
		return r.filled(r.in[0], 0, r.batch, r.hidden)
	}
	v := r.in[input]
	name := []string{"initial_h", "initial_c"}[input-5]
	if r.batchFirst {
		r.want(name, v, r.batch, directions, r.hidden)
		return r.add(graph.Select{Axis: 1, Index: k}, v)
	}
	r.want(name, v, directions, r.batch, r.hidden)
	return r.pick(v, k)
}

// filled adds a constant of one number, of the type of a value.
func (c *call) filled(like int, v float64, shape ...int) int {
	if !c.room(elements(shape)) || like < 0 {
		return poison
	}
	t := tensor.New(c.types[like].Format, shape...)
	for i := range t.Data {
		t.Data[i] = v
	}
	return c.constant("", t, c.dtypes[like])
}

// lengths notes which samples have which steps.
func (r *recurrent) lengths() {
	if !r.has(4) || r.err != nil {
		return
	}
	v := r.in[4]
	r.want("sequence_lens", v, r.batch)
	if t := r.g.Values[v].Const; t != nil && r.err == nil {
		whole := true
		for b, n := range t.Data {
			if whole = whole && n == float64(r.steps); n < 0 || n > float64(r.steps) {
				r.fail("sequence_lens: %.0f of sample %d: want 0 to %d steps", n, b, r.steps)
			}
		}
		if whole {
			return
		}
	}
	v = r.reshape(v, []int{r.batch, 1}, true)
	for t := 0; t < r.steps && r.err == nil; t++ {
		after := float64(t)
		r.live = append(r.live, r.add(graph.Binary{Of: pointwise.Greater, Other: &after}, v))
	}
}

// run takes all steps in each direction and returns Y and the last states.
func (r *recurrent) run(of func(*direction) cell) []int {
	var cells []cell
	for _, d := range r.directions {
		cells = append(cells, of(d))
	}
	var outputs [][]int // of each direction and step
	for k, d := range r.directions {
		if r.err == nil {
			outputs = append(outputs, d.run(cells[k]))
		}
	}
	if r.err != nil {
		return nil
	}
	var all, out []int
	for _, y := range outputs {
		all = append(all, r.add(graph.Stack{}, y...))
	}
	y := r.add(graph.Stack{Axis: 1}, all...) // [steps,directions,batch,hidden]
	at := 0                                  // the axis of directions in states
	if r.batchFirst {
		y, at = r.add(graph.Permute{Axes: graph.Ints{2, 0, 1, 3}}, y), 1
	}
	out = append(out, y)
	for i := range r.directions[0].state {
		var ends []int
		for _, d := range r.directions {
			ends = append(ends, d.state[i])
		}
		out = append(out, r.add(graph.Stack{Axis: at}, ends...))
	}
	return out
}

// run takes all steps in one direction and returns what each of them puts out.
func (d *direction) run(f cell) []int {
	y := make([]int, d.steps)
	for k := range y {
		t := k
		if d.backward {
			t = d.steps - 1 - k
		}
		if d.err != nil {
			return nil
		}
		next := f(t, d.state)
		y[t] = next[0]
		if d.live != nil {
			y[t] = d.add(graph.Where{}, d.live[t], next[0], d.number(next[0], 0))
			for i := range next {
				next[i] = d.add(graph.Where{}, d.live[t], next[i], d.state[i])
			}
		}
		d.state = next
	}
	return y
}
