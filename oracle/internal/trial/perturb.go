package trial

import (
	"math/rand/v2"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// Perturbed returns a step, perhaps with a fault, with the errors of another
// correct device: other sums, and, if the view rounds nothing, other roundings.
func (v *View) Perturbed(h *Fault, s Scope, seed uint64) (*tensor.Tensor, error) {
	rng := rand.NewPCG(seed, 0x9e3779b97f4a7c15)
	l := &emulate.Legal{Machine: v.Machine, U: emulate.Accumulator(v.Device.Mode), Lambda: emulate.CoarseLambda,
		Whole: true, Member: 1<<30 + seed}
	var stored []fp16.Format
	if v.Device.Mode.Precision.Half() {
		l.Half = v.Device.Store != nil
		if !l.Half {
			stored = emulate.FormatsOf(v.Machine.Nodes, v.Device.Mode, fp16.Float32)
		}
	}
	d := *v.Device
	d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
		l.Disturb(i, y, in)
		if stored == nil {
			return
		}
		for k, u := range y.Data { // somewhere within half an ulp
			y.Data[k] = u + float64(stored[i].Ulp(u)*(float64(rng.Uint64()<<11>>11)*0x1p-53-0.5))
		}
	}
	if d.Update == nil && d.State == fp16.Float64 &&
		(d.Mode.Precision == fp16.Float32 || d.Mode.Precision == fp16.Float64) {
		d.Update = l.Update(d.Mode)
	}
	p := *v
	p.Device = &d
	p.Outputs, p.whole = make([]*tensor.Tensor, len(v.Outputs)), false // everything is new
	return p.Anew(h, s)
}

// Anew returns the states after a step with a fault, every node evaluated.
func (v *View) Anew(h *Fault, s Scope) (*tensor.Tensor, error) {
	r := newRun(v)
	defer r.end()
	if h.Input != nil {
		r.X = h.Input(v)
	}
	for i := range v.Machine.Nodes {
		n, d := &v.Machine.Nodes[i], *v.Device
		if emulate.IsNoise(n) && v.Device.Store != nil {
			d.Perturb = nil // its operations round, each by itself
		}
		if s.Acts(h, i, n) {
			r.fault(h, i, &d)
		}
		y, made, err := v.Machine.Make(&d, i, r.inputs(i), v.Draws.Rewind())
		if err != nil {
			return nil, err
		}
		r.has(i, y, made)
		r.forget(i)
	}
	out := r.Outputs[len(r.Outputs)-1]
	if h.Advance != nil {
		return h.Advance(v, out), nil
	}
	return v.Machine.Advance(v.Device, v.X, out), nil
}
