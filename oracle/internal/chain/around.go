package chain

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// around are steps with a fault of what is around an operator: of the policy, of the post-processing, and of where and
// how the noise enters.
func (c *checker) around(k lower.Contract) (all []judge.Other) {
	if c.Case.Step != nil || c.layer {
		return nil
	}
	ro, h, w := c.Case.Rollout, c.States.H, c.States.W
	add := func(row *table.Row, s *step) {
		if s != nil {
			all = append(all, judge.Other{Fault: named(row), Given: true, At: c.askedOf(s, k)})
		}
	}
	with := func(change func(r *rollout.Config) bool, id string, args ...any) {
		if r := ro; change(&r) {
			add(table.Named(id, args...), stepOf(c.Op, r, c.Mode, h, w))
		}
	}
	otherPolicies(with)
	otherPosts(with)
	after := func(id string, f func(g *graph.Graph, y int) int) { add(table.ByID(id), c.step.followed(f)) }
	centred := func(id string, axes ...int) {
		after(id, func(g *graph.Graph, y int) int {
			mean := g.Add(graph.Reduction{Of: "mean", Axes: axes, Keep: true}, "state.mean", y)
			return g.Add(graph.Binary{Of: pointwise.Sub}, "state.centred", y, mean)
		})
	}
	centred("rollout.mean-of-each-channel-removed-from-the-state", 2, 3)
	centred("rollout.mean-removed-from-the-state", 1, 2, 3)
	if h == w {
		after("rollout.state-h-and-w-swapped", func(g *graph.Graph, y int) int {
			return g.Add(graph.Transpose{A: 2, B: 3}, "state.swapped", y)
		})
	}
	if c.step.block == nil {
		return all
	}
	for _, of := range []struct {
		by int
		id string
	}{{-2, "noise.noise-of-two-steps-before"}, {2, "noise.noise-of-the-step-after-the-next"}} {
		all = append(all, judge.Other{Fault: named(table.ByID(of.id)), Given: true, At: c.moved(k, of.by, kindNoise)})
	}
	otherNoises(c.step.block.Type, func(id string, as variant) {
		add(table.ByID(id), stepWith(c.Op, ro, c.Mode, h, w, as))
	})
	return append(all, c.otherDropouts(k)...)
}

// askedOf asks a step that is another one, with the inputs of the claim's, if it takes these.
func (c *checker) askedOf(s *step, k lower.Contract) func(i int) (judge.Question, error) {
	return func(i int) (judge.Question, error) {
		in, err := c.inputs(c.places[i])
		if err != nil {
			return judge.Question{}, err
		}
		if s.block != nil && s.block.Type != noise.Dropout {
			types, err := s.types(graph.Type{Shape: in[0].Shape, Format: in[0].Format})
			if err != nil || !slices.Equal(types[1].Shape, in[1].Shape) {
				return judge.Question{}, err
			}
		}
		return c.ask(s, k, c.places[i], in)
	}
}

// followed is a step whose state something is done to.
func (s *step) followed(f func(g *graph.Graph, y int) int) *step {
	g := *s.g
	g.Values, g.Nodes, g.Kept = slices.Clone(g.Values), slices.Clone(g.Nodes), new(graph.Kept)
	g.Outputs = []int{f(&g, g.Outputs[0])}
	to := *s
	to.g = &g
	return &to
}

// changing adds a fault of the configuration, if change says that it is another one.
type changing func(change func(r *rollout.Config) bool, id string, args ...any)

func otherPolicies(with changing) {
	with(func(r *rollout.Config) bool {
		was := r.Policy
		r.Policy, r.Alpha = rollout.Convex, 1-r.Dt
		return was == rollout.Residual
	}, "rollout.convex-policy-in-place-of-residual")
}

func otherPosts(with changing) {
	norm := func(from, to rollout.Normalization, id string) {
		with(func(r *rollout.Config) bool { ok := r.Normalization == from; r.Normalization = to; return ok }, id)
	}
	with(func(r *rollout.Config) bool {
		ok := r.Normalization != rollout.NoNormalization
		r.Normalization = rollout.NoNormalization
		return ok
	}, "rollout.normalization-missing")
	norm(rollout.ZScore, rollout.MinMax, "rollout.min-max-in-place-of-z-score")
	norm(rollout.MinMax, rollout.ZScore, "rollout.z-score-in-place-of-min-max")
	over := func(batch bool, size int, id string) {
		with(func(r *rollout.Config) bool {
			ok := r.Normalization != rollout.NoNormalization && (r.EngineBatch > 0) == batch
			r.EngineBatch = size
			return ok
		}, id)
	}
	over(true, 0, "rollout.normalization-of-each-realization-in-place-of-the-batch")
	over(false, 1, "rollout.normalization-of-the-batch-in-place-of-each-realization")
	with(func(r *rollout.Config) bool { ok := r.Clamp != nil; r.Clamp = nil; return ok }, "rollout.clamp-missing")
	for _, to := range [][2]float64{{-1, 1}, {0, 1}} {
		with(func(r *rollout.Config) bool { r.Clamp = &to; return true }, "rollout.clamp-to", to[0], to[1])
	}
}

// otherNoises adds noise of another kind or at another place, in place of that of a type.
func otherNoises(of noise.Type, add func(id string, as variant)) {
	kind := func(from, to noise.Type) variant {
		return variant{block: func(b *noise.Block) bool { ok := b.Type == from; b.Type = to; return ok }}
	}
	add("noise.activation-after-the-noise", variant{active: true})
	add("noise.multiplicative-noise-in-place-of-additive", kind(noise.Gaussian, noise.Multiplicative))
	add("noise.additive-noise-in-place-of-multiplicative", kind(noise.Multiplicative, noise.Gaussian))
	if of == noise.Dropout {
		return
	}
	add("noise.noise-before-the-norm", variant{before: func(_ *graph.Graph, n *graph.Node) bool {
		switch n.Op.(type) {
		case graph.InstanceNorm, graph.GroupNorm, graph.BatchNorm, graph.LayerNorm:
			return true
		}
		return false
	}})
	add("noise.noise-before-the-activation", variant{
		before: func(_ *graph.Graph, n *graph.Node) bool { return isActivation(*n) },
	})
	add("noise.noise-before-the-last-convolution-block", variant{before: func(g *graph.Graph, n *graph.Node) bool {
		if _, is := n.Op.(graph.Conv); !is {
			return false
		}
		w := g.Values[n.In[1]].Const
		return w != nil && tensor.Size(w.Shape[2:]) > 1
	}})
}

// otherDropouts are dropouts whose planes take another factor, of what is kept, 0 or 1, and of the chance to be
// dropped.
func (c *checker) otherDropouts(k lower.Contract) (all []judge.Other) {
	if c.step.block.Type != noise.Dropout {
		return nil
	}
	p := fp16.Float32.Round(c.step.block.Scale)
	add := func(id string, f func(keep float64) float64) {
		all = append(all, judge.Other{Fault: named(table.ByID(id)), Given: true,
			At: c.asked(k, func(p place) ([]*tensor.Tensor, error) {
				in, err := c.inputs(p)
				if err != nil {
					return nil, err
				}
				in[1] = in[1].Clone()
				for i, v := range in[1].Data {
					in[1].Data[i] = in[1].Format.Round(f(min(1, math.Ceil(v))))
				}
				return in, nil
			})})
	}
	add("noise.dropout-missing", func(float64) float64 { return 1 })
	add("noise.dropout-not-rescaled", func(keep float64) float64 { return keep })
	add("noise.dropout-rescaled-twice", func(keep float64) float64 { return keep / ((1 - p) * (1 - p)) })
	add("noise.dropout-rescaled-by-p-for-1-p", func(keep float64) float64 { return keep / p })
	add("noise.dropout-keeps-what-it-should-drop", func(keep float64) float64 { return (1 - keep) / (1 - p) })
	add("noise.dropout-keeps-what-it-should-drop-p-and-1-p-swapped", func(keep float64) float64 { return (1 - keep) / p })
	add("noise.dropout-as-in-evaluation-scaled-by-1-p", func(float64) float64 { return 1 - p })
	return all
}
