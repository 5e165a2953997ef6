package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// evaluate walks through the steps once, with balls and, beside them, with as many simulated right kernels. It returns
// the output's ball and those of the kernels, and lets go of all that is not read any more. Every second kernel fuses
// products with what adds them and, if these are set, has units that truncate, and blocks of pixels. If flips is set,
// one kernel more comes last, whose only errors are roundings and jumps that go the other way wherever they may.
// Flushed is what a kernel gives that flushes, nil where no number is subnormal.
func evaluate(
	b *builder, inputs []*tensor.Tensor, round rounded, kernels int, flips bool, seed uint64,
) (y ball, right []*tensor.Tensor, flushed *tensor.Tensor, err error) {
	balls := make([]ball, len(b.Values))
	sims, fused := make([]simulation, kernels), b.fused(round)
	for m := range sims {
		sims[m] = simulation{
			m: m, of: make([]*tensor.Tensor, len(b.Values)), r: rand.New(rand.NewPCG(uint64(m), 0x5eed+seed)),
			errs: newErrors(m), cuts: b.cores && m%2 == 1, double: b.form.Double, singles: b.singles,
			wide: b.thin && !b.form.Double,
		}
		if m%2 == 1 {
			sims[m].fused, sims[m].errs.blocks = fused, b.blocks
		}
		if b.turns != nil {
			sims[m] = simulation{of: sims[m].of, turns: b.turns[m]}
		}
	}
	if flips {
		sims = append(sims, simulation{of: make([]*tensor.Tensor, len(b.Values)), flips: true})
	}
	var flusher *simulation // that flushes, of which all else is exact
	last, made := b.lastRead(), b.made()
	if err := walk(b, inputs, func(v int, t *tensor.Tensor) {
		balls[v] = held(t)
		single := balls[v].single()
		if b.form.Double {
			single = t
		}
		if slices.Contains(b.inexact, v) {
			balls[v] = inexact(t)
		}
		for _, s := range sims {
			switch {
			case s.turns != nil:
				s.of[v] = t
			case balls[v].sigma != nil && !s.flips:
				s.of[v] = noisy(single, balls[v], s.errs.step(v), simulation{double: s.double}, false)
			default:
				s.of[v] = single
			}
		}
		balls[v].sigma = nil
	}, func(n *graph.Node) error {
		in := make([]ball, len(n.In))
		for k, v := range n.In {
			in[k] = balls[v]
		}
		out, err := step(n.Op, in, b.accumulator(n))
		if err != nil {
			return err
		}
		if out[0].ends, err = endsOf(n.Op, in); err != nil {
			return err
		}
		if flusher == nil && !b.keeps {
			flusher = flushing(n, balls, out)
		}
		var beside *tensor.Tensor // what the last kernel has where it jumps to the other side
		if of := jump(n.Op); of != nil && flips && out[0].r != nil && balls[n.In[0]].r != nil {
			in := n.In[0]
			beside = flipped(of, sims[kernels].of[in], sims[:kernels], in, balls[in])
			beside.Format = out[0].v.Format // an index stays one
		}
		every := sims
		if flusher != nil {
			every = append(slices.Clip(sims), *flusher)
		}
		for _, s := range every {
			if err := s.step(n, balls, out); err != nil {
				return err
			}
			if s.flips && beside != nil {
				s.of[n.Out[0]] = beside
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
				if b.near == nil {
					roundAll(f, sims, v, out[k])
				} else if err := b.near.look(f, sims, v, out[k]); err != nil {
					return err
				}
				if flusher != nil {
					flusher.of[v] = roundTo(f, flusher.of[v], nil)
				}
				wide := out[k]
				out[k] = wide.round(f)
				out[k].v = turn(out[k].v, v, b.turned, !shared(out[k].v, wide.v))
				for _, s := range sims {
					switch {
					case b.near != nil:
						s.of[v] = out[k].v
					case s.turns != nil:
						s.turn(f, v, wide, out[k])
					}
				}
				if !shared(out[k].v, wide.v) {
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
	if b.form.Double && b.singles == nil {
		balls[v].inDouble()
	}
	return balls[v], right, flushed, nil
}

// walk goes through inputs, constants and nodes.
func walk(
	b *builder, inputs []*tensor.Tensor, given func(v int, t *tensor.Tensor), node func(n *graph.Node) error,
) error {
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
