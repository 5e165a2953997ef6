package judge

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/tensor"
)

// rounded are the values of steps that are rounded.
type rounded map[int]rounding

// rounding is the format of one step's results; if some, not of all elements.
type rounding struct {
	fp16.Format
	some bool
	tf32 fp16.Rounding // to TF32: in which of the ways of devices
}

// Round returns v, rounded.
func (r rounding) Round(v float64) float64 {
	if r.Format == fp16.TF32 {
		return fp16.RoundTF32(v, r.tf32)
	}
	return r.Format.Round(v)
}

// RoundSlice rounds src into dst.
func (r rounding) RoundSlice(dst, src []float64) {
	if r.tf32 == fp16.NearestEven {
		r.Format.RoundSlice(dst, src)
		return
	}
	for i, v := range src {
		dst[i] = r.Round(v)
	}
}

// rounds returns what the steps of a contract round: its operands, and those steps.
func (b *builder) rounds(values []int, f fp16.Format) rounded {
	r, some := maps.Clone(b.round), map[int]bool{}
	for _, p := range b.points {
		some[p.value] = some[p.value] || p.some
	}
	for _, v := range values {
		r[v] = rounding{Format: f, some: some[v]}
	}
	return r
}

// evaluate walks through the steps once, with balls and, beside them, with as many simulated right
// kernels. It returns the output's ball and those of the kernels, and lets go of all that is not read any
// more. If cores is set, every second kernel has units that truncate. If flips is set, one kernel more comes
// last, whose only errors are roundings that go the other way wherever they may. Flushed is what a kernel gives that
// flushes, nil where no number is subnormal.
func evaluate(b *builder, inputs []*tensor.Tensor, round rounded, kernels int, flips bool, seed uint64) (y ball, right []*tensor.Tensor, flushed *tensor.Tensor, err error) {
	balls := make([]ball, len(b.Values))
	sims := make([]simulation, kernels)
	for m := range sims {
		sims[m] = simulation{of: make([]*tensor.Tensor, len(b.Values)), r: rand.New(rand.NewPCG(uint64(m), 0x5eed+seed)), cuts: b.cores && m%2 == 1}
	}
	if flips {
		sims = append(sims, simulation{of: make([]*tensor.Tensor, len(b.Values)), flips: true})
	}
	var flusher *simulation // that flushes, of which all else is exact
	last, made := b.lastRead(), b.made()
	if err := walk(b, inputs, func(v int, t *tensor.Tensor) {
		balls[v] = held(t)
		single := balls[v].single()
		for _, s := range sims {
			s.of[v] = single
		}
	}, func(n *graph.Node) error {
		in := make([]ball, len(n.In))
		for k, v := range n.In {
			in[k] = balls[v]
		}
		out, err := step(n.Op, in, b.accumulator(n.Op))
		if err != nil {
			return err
		}
		if flusher == nil {
			flusher = flushing(n, balls, out)
		}
		every := sims
		if flusher != nil {
			every = append(slices.Clip(sims), *flusher)
		}
		for _, s := range every {
			if err := s.step(n, balls, out); err != nil {
				return err
			}
			for k, v := range n.In { // before the next kernel's are made
				if last[v] == n && !slices.Contains(n.In[:k], v) {
					if !shared(s.of[v], balls[v].v) {
						release(s.of[v])
					}
					s.of[v] = nil
				}
			}
		}
		for k, v := range n.Out {
			if f, is := round[v]; is {
				roundAll(f, sims, v, out[k])
				if flusher != nil {
					flusher.of[v] = roundTo(f, flusher.of[v], nil)
				}
				wide := out[k]
				if out[k] = wide.round(f); !shared(out[k].v, wide.v) {
					release(wide.v)
				}
				release(wide.r, wide.sigma, wide.cut, wide.drift)
			}
			release(out[k].cut, out[k].drift)
			if v != b.Graph.Outputs[0] {
				release(out[k].sigma)
				out[k].sigma = nil
			}
			out[k].cut, out[k].drift = nil, nil
			balls[v] = out[k]
		}
		for _, v := range n.In {
			if last[v] == n {
				if made[v] {
					release(balls[v].v, balls[v].r)
				}
				balls[v] = ball{}
			}
		}
		return nil
	}); err != nil {
		return ball{}, nil, nil, err
	}
	v := b.Graph.Outputs[0]
	for _, s := range sims {
		right = append(right, s.of[v])
	}
	if flusher != nil {
		flushed = flusher.of[v]
	}
	return balls[v], right, flushed, nil
}

// simulate sets the output's numbers, how far right kernels are from them, and those of simulated right
// kernels and, if asked for, of one more that rounds to the other side of near edges.
func (q *Question) simulate(types []graph.Type, t *trial, kernels int, flips bool) error {
	n, all := len(q.Output.Data), kernels
	if flips {
		all++
	}
	t.y, t.r, t.sigma, t.right = make([]float64, n), make([]float64, n), make([]float64, n), make([][]float64, all)
	var mu sync.Mutex
	parts := map[int][]float64{} // what flushes, by its place
	for m := range t.right {
		t.right[m] = make([]float64, n)
	}
	err := q.each(q.blocks(types), t.Contract, func(of *Question, b *builder, round rounded) error {
		b.cores, b.thin = t.b.cores, t.b.thin
		out, right, flushed, err := evaluate(b, of.Inputs, round, kernels, flips, uint64(of.offset))
		if err != nil {
			return err
		}
		from := of.offset - q.offset
		copy(t.y[from:], out.v.Data)
		of.defined(t.y[from : from+len(out.v.Data)])
		if out.r != nil {
			copy(t.r[from:], out.r.Data)
		}
		if out.sigma != nil {
			copy(t.sigma[from:], out.sigma.Data)
		}
		for m, k := range right {
			t.store(q.Output.Format, t.right[m][from:from+len(k.Data)], k.Data)
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
	if len(parts) > 0 {
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
				err = do(of, b, b.rounds(values, q.Narrow))
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

// simulation is a right kernel: each step in float32, with random errors as large as those of sums in the
// worst usual order and of a library's functions; if it cuts, products are those of units that truncate.
type simulation struct {
	of   []*tensor.Tensor // by value
	r    *rand.Rand
	cuts bool
	// flips is a kernel without errors of its own but that, wherever another's errors could move a number
	// over the edge between two roundings, rounds to the other one.
	flips bool
	// flushes is a kernel whose only errors are flushes.
	flushes bool
}

// step is one of the kernel's; out are the results without its errors, of inputs without any.
func (s simulation) step(n *graph.Node, balls, out []ball) error {
	in := make([]*tensor.Tensor, len(n.In))
	op, changed := scalarsIn(n.Op, fp16.Float32)
	same := !changed
	flushes := s.flushes && computes(op)
	for k, v := range n.In {
		if in[k] = s.of[v]; flushes {
			in[k] = flush(in[k])
		}
		same = same && in[k] == balls[v].v
	}
	if made := out[0].made; made != nil && !s.flips && !s.flushes {
		y, err := made(in, s.r)
		if err == nil {
			s.of[n.Out[0]] = noisy(y, out[0], s.r, s.cuts, true)
		}
		return err
	}
	if !same {
		given, err := apply(op, in...)
		if err != nil {
			return err
		}
		for k, v := range n.Out {
			s.of[v] = given[k]
		}
	}
	for k, v := range n.Out {
		if same {
			s.of[v] = out[k].v
		}
		switch {
		case flushes:
			s.of[v] = less(flush(s.of[v]), out[k].lost)
		case !s.flips && !s.flushes:
			s.of[v] = noisy(s.of[v], out[k], s.r, s.cuts, !same)
		}
	}
	return nil
}

// roundAll rounds a step of all kernels.
func roundAll(f rounding, sims []simulation, v int, b ball) {
	last := sims[len(sims)-1]
	if last.flips && b.r != nil {
		exact := last.of[v]
		last.of[v] = flipped(f, exact, sims[:len(sims)-1], v, b)
		if !shared(exact, b.v) {
			release(exact)
		}
		sims = sims[:len(sims)-1]
	}
	for _, s := range sims {
		wide := s.of[v]
		if s.of[v] = roundTo(f, wide, s.r); wide != s.of[v] && !shared(wide, b.v) {
			release(wide)
		}
	}
}

// flipped rounds numbers to the other side of an edge if they are within mostFlip deviations of it. A
// deviation is that of the simulated kernels' errors, element by element, and that of the bound, scaled to
// them, together: a few kernels alone say little of one element. One such flip is as large as the format is
// coarse, and rare: simulated kernels seldom have the one that an output has.
func flipped(f rounding, t *tensor.Tensor, sims []simulation, v int, b ball) *tensor.Tensor {
	squares := make([]float64, len(t.Data))
	var all, bound float64
	for i, r := range b.r.Data {
		for _, s := range sims {
			if d := s.of[v].Data[i] - b.v.Data[i]; d-d == 0 {
				squares[i] += d * d / float64(len(sims))
			}
		}
		if r-r == 0 {
			all += squares[i]
			bound += r * r
		}
	}
	out := fresh(fp16.Float64, t.Shape...)
	f.RoundSlice(out.Data, t.Data)
	for i, x := range t.Data {
		r := b.r.Data[i]
		if r-r != 0 || bound == 0 {
			continue
		}
		s := mostFlip * math.Sqrt(squares[i]+r*r*all/bound)
		if other := f.Round(x + s); other != out.Data[i] {
			out.Data[i] = other
		} else {
			out.Data[i] = f.Round(x - s)
		}
	}
	return out
}

// mostFlip is how many deviations a number is moved at most: of a million one goes farther.
const mostFlip = 5

// walk goes through inputs, constants and nodes.
func walk(b *builder, inputs []*tensor.Tensor, given func(v int, t *tensor.Tensor), node func(n *graph.Node) error) error {
	for k, v := range b.Inputs {
		given(v, inputs[k])
	}
	for v := range b.Values {
		if c := b.Values[v].Const; c != nil {
			given(v, c)
		}
	}
	for i := range b.Nodes {
		if err := node(&b.Nodes[i]); err != nil {
			return fmt.Errorf("%s: %w", b.Name(&b.Nodes[i]), err)
		}
	}
	return nil
}

// round is a ball whose numbers are rounded to a format: each side of it has a number there.
func (b ball) round(f rounding) ball {
	if f.some {
		r := fresh(fp16.Float64, b.v.Shape...)
		for i, v := range b.v.Data {
			e := 0.0
			if b.r != nil {
				e = b.r.Data[i]
			}
			if r.Data[i] = max(e, max(math.Abs(f.Round(v+e)-v), math.Abs(f.Round(v-e)-v))); v-v != 0 {
				r.Data[i] = 0
			}
		}
		return ball{v: b.v, r: r}
	}
	out := ball{v: fresh(fp16.Float64, b.v.Shape...)}
	f.RoundSlice(out.v.Data, b.v.Data)
	if b.r == nil {
		return out
	}
	out.r = fresh(fp16.Float64, b.v.Shape...)
	for i, v := range b.v.Data {
		if r := b.r.Data[i]; r > 0 {
			y := out.v.Data[i]
			if out.r.Data[i] = max(f.Round(v+r)-y, y-f.Round(v-r)); out.r.Data[i] != out.r.Data[i] {
				out.r.Data[i] = math.Inf(1)
			}
		}
	}
	return out
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
		out, err := apply(n.Op, in...)
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

// lastRead returns the last node that reads each value.
func (b *builder) lastRead() map[int]*graph.Node {
	last := map[int]*graph.Node{}
	for i := range b.Nodes {
		for _, v := range b.Nodes[i].In {
			last[v] = &b.Nodes[i]
		}
	}
	for _, v := range b.Graph.Outputs {
		delete(last, v)
	}
	return last
}

// made returns which values a node makes; the others are inputs and constants.
func (b *builder) made() []bool {
	made := make([]bool, len(b.Values))
	for i := range b.Nodes {
		for _, v := range b.Nodes[i].Out {
			made[v] = true
		}
	}
	return made
}

func (b *builder) outputs(of []*tensor.Tensor) (out []*tensor.Tensor) {
	for _, v := range b.Graph.Outputs {
		out = append(out, of[v])
	}
	return out
}

// noisy adds a step's errors to its result and rounds it to float32: in its place, if nobody else has it.
func noisy(t *tensor.Tensor, like ball, r *rand.Rand, cuts, own bool) *tensor.Tensor {
	if t.Format == fp16.Int64 || like.exact {
		return t
	}
	out := t
	if !own {
		out = fresh(fp16.Float64, t.Shape...)
	}
	if like.sigma == nil {
		fp16.Float32.RoundSlice(out.Data, t.Data)
		return out
	}
	if cuts && like.cut != nil {
		for i, v := range t.Data {
			out.Data[i] = v - math.Copysign(like.drift.Data[i], v) + float64(like.cut.Data[i]*wandering(r))
		}
		fp16.Float32.RoundSlice(out.Data, out.Data)
		return out
	}
	for i, v := range t.Data {
		if s := like.sigma.Data[i]; s > 0 {
			if like.sum {
				v += float64(s * wandering(r))
			} else {
				v += float64(s * r.NormFloat64())
			}
		}
		out.Data[i] = v
	}
	fp16.Float32.RoundSlice(out.Data, out.Data)
	return out
}

// wandering is a random error of a sum in units of its deviation. The variance of such an error is that of
// the partial sums, whose way is random too: the square of a bridge, integrated, has the mean 1/6 and the
// variance 1/45, so that in proportion to its mean it varies by 0.9. This has 0.85.
func wandering(r *rand.Rand) float64 {
	z := r.NormFloat64()
	return math.Sqrt(.4+.6*z*z) * r.NormFloat64()
}

// roundTo returns a tensor's numbers rounded to a format: if only some are, those that r chooses, or
// none.
func roundTo(f rounding, t *tensor.Tensor, r *rand.Rand) *tensor.Tensor {
	if f.some && r == nil {
		return t
	}
	out := fresh(fp16.Float64, t.Shape...)
	if f.some {
		for i, v := range t.Data {
			if out.Data[i] = v; r.IntN(2) == 0 {
				out.Data[i] = f.Round(v)
			}
		}
		return out
	}
	f.RoundSlice(out.Data, t.Data)
	return out
}
