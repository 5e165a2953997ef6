package chain

import (
	"errors"
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/internal/oracle/part"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// asked is a value of a recorded step and what the device made of it.
type asked struct {
	value    int
	name, op string
	got      *tensor.Tensor
}

// layer judges what was recorded of a value.
func (r *recording) layer(a asked) error {
	best, err := r.found(a.value, -1, a.got)
	if err != nil {
		r.Report.Unjudged = append(r.Report.Unjudged, fmt.Sprintf("layer %s at step %d: %v", a.name, r.Step, cause(err)))
		return r.Ctx.Err()
	}
	how := ""
	if !best.own {
		how = best.contract()
	}
	if !best.Passes() {
		if best, how, err = r.otherwise(a, best); err != nil {
			return err
		}
	}
	r.row(a, best)
	if !best.Passes() {
		return r.fail(a, best)
	}
	if how != "" {
		r.unlike = append(r.unlike, a.name+": "+how)
	}
	return nil
}

// cause is the last part of an error's text: of what nothing is known.
func cause(err error) error {
	for errors.Unwrap(errors.Unwrap(err)) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// otherwise is what a layer is in the other ways in which a device may have come to it, if it is right in one of them.
func (r *recording) otherwise(a asked, best *found) (*found, string, error) {
	if a.op == "noise" {
		draws := r.known[r.draws]
		for _, x := range r.others {
			r.known[r.draws] = x
			to, err := r.found(a.value, -1, a.got)
			if err != nil || to.Passes() {
				return to, "", err
			}
		}
		r.known[r.draws] = draws
		if r.step.block.Type == noise.Multiplicative {
			other, err := r.open(r.LayerFile, r.drawn, true)
			if err != nil {
				return nil, "", err
			}
			to, err := other.found(other.step.values[slices.Index(r.step.values, a.value)], -1, a.got)
			if err != nil || to.Passes() {
				return to, emulate.AddedHow, err
			}
		}
	}
	for _, w := range r.ways(a.value) {
		to, err := r.found(w.is, w.unknown, a.got)
		if err != nil {
			return nil, "", err
		}
		if to.Passes() {
			if delete(r.known, w.unknown); w.is != a.value {
				r.known[w.is] = a.got
			}
			return to, w.says, nil
		}
	}
	return best, "", nil
}

// found is what the part of the step that makes a value of what is known is under the contract that fits best. One
// value of those that are known is unknown here, -1 for none.
func (r *recording) found(value, unknown int, got *tensor.Tensor) (*found, error) {
	p, err := part.To(r.step.g, value, func(v int) bool { return v != unknown && (r.known[v] != nil || v == r.draws) })
	if err != nil {
		return nil, err
	}
	c := &checker{Gate: r.Gate, claim: lower.Claim{Mode: r.Mode}, layer: true, last: true, places: []place{{t: r.Step}},
		step: &step{g: p.Graph, mode: r.Mode, axes: r.step.axes}}
	if c.claim.Mode.Precision == fp16.Float64 { // whose own errors are not followed: it is held to those of float32
		c.claim.Mode.Precision = fp16.Float32
	}
	in := make([]*tensor.Tensor, len(p.From))
	for k, v := range p.From {
		if in[k] = r.known[v]; in[k] == nil {
			return nil, errors.New("its input is not known")
		}
		t := r.types(v)
		c.step.given = append(c.step.given, t)
		c.claim.Unrounded = append(c.claim.Unrounded, t.Format.Half() && !in[k].Format.Half())
		c.step.inexact = append(c.step.inexact, v == r.draws)
	}
	c.input = func(k int, _ place) (*tensor.Tensor, error) { return in[k], nil }
	c.after = func(place) (*tensor.Tensor, error) { return got, nil }
	if err := c.judgeable(); err != nil {
		return nil, err
	}
	if u, is := r.under[value]; is {
		u.many = c.many(u.k)
		if best, err := c.under(u); err != nil || best.Passes() {
			return best, err
		}
	}
	best, err := c.own()
	if err != nil || best.Passes() {
		return best, err
	}
	own := best
	if best, err = r.sought(c, best); err == nil && best.Passes() {
		if r.keepsStatistics(value) && len(best.Round) > 0 {
			return own, nil
		}
		r.under[value] = candidate{k: best.k, contract: best.Contract}
	}
	return best, err
}

// keepsStatistics reports whether a value is a norm that keeps its statistics in float32: all but those that
// [emulate.PlainNorms] has.
func (r *recording) keepsStatistics(value int) bool {
	i := slices.Index(r.step.values, value)
	return i >= 0 && r.Machine.Nodes[i].Op == operator.OpNorm &&
		!emulate.PlainNorms(r.Op.Config, r.Machine.Nodes, r.Mode)[i]
}

// sought is a layer under the contract that is looked for: of half numbers first by what it rounds alone, since to look
// for the form of operations takes most of the time; of others first by the form of another layer.
func (r *recording) sought(c *checker, best *found) (*found, error) {
	if _, half := c.claim.Narrow(); half {
		c.plain = true
		best, err := c.looked(best)
		if c.plain = false; err != nil || best.Passes() {
			return best, err
		}
		return c.looked(best)
	}
	likely, err := c.likely(best, 0)
	if err != nil {
		return nil, err
	}
	known := map[string]int{}
	for _, u := range r.under {
		known[u.contract.String()] = -1
	}
	slices.SortStableFunc(likely, func(a, b candidate) int {
		return known[a.contract.String()] - known[b.contract.String()]
	})
	return c.first(likely, best, []int{0})
}
