package oracle

import (
	"math/rand/v2"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// perturbed returns a step, perhaps with a fault, with the errors of another
// correct device: other sums, and, if the view rounds nothing, other roundings.
func (v *view) perturbed(h *hypothesis, s scope, seed uint64) (*tensor.Tensor, error) {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	l := &legal{machine: v.m, u: accumulator(v.d.Mode), lambda: coarseLambda, member: 1<<30 + seed}
	var stored []fp16.Format
	if half := v.d.Mode.Precision == fp16.Float16 || v.d.Mode.Precision == fp16.BFloat16; half {
		l.half = v.d.Store != nil
		if !l.half {
			stored = formatsOf(v.m.Nodes, v.d.Mode, fp16.Float32)
		}
	}
	d := *v.d
	d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
		l.disturb(i, y, in)
		if stored == nil {
			return
		}
		for k, u := range y.Data {
			y.Data[k] = u + float64(stored[i].Ulp(u)*(rng.Float64()-0.5))
		}
	}
	p := *v
	p.d = &d
	p.of, p.whole = make([]*tensor.Tensor, len(v.of)), false // everything is new
	return p.anew(h, s)
}

// anew returns the states after a step with a fault, every node evaluated.
func (v *view) anew(h *hypothesis, s scope) (*tensor.Tensor, error) {
	r := newRun(v)
	defer r.end()
	if h.input != nil {
		r.x = h.input(v)
	}
	for i := range v.m.Nodes {
		n, d := &v.m.Nodes[i], *v.d
		if isNoise(n) && v.d.Store != nil {
			d.Perturb = nil // its operations round, each by itself
		}
		if s.acts(h, i, n) {
			r.fault(h, i, &d)
		}
		in := make([]*tensor.Tensor, len(n.In))
		for k := range in {
			in[k] = r.in(i, k)
		}
		y, made, err := v.m.Make(&d, i, in, v.draws.Rewind())
		if err != nil {
			return nil, err
		}
		r.has(i, y, made)
		r.forget(i)
	}
	out := r.of[len(r.of)-1]
	if h.advance != nil {
		return h.advance(v, out), nil
	}
	return v.m.Advance(v.d, v.x, out), nil
}
