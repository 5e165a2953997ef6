package oracle

import (
	"maps"

	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// application is one of the operator to the states of an engine batch,
// kept so far that what the noise touches can be evaluated again with other
// draws: in Spinlock's operator that is its last, cheap layer.
type application struct {
	machine *emulate.Machine
	d       *emulate.Device
	x       *tensor.Tensor
	noise   int                    // the node of the noise, -1 if there is none
	kept    map[int]*tensor.Tensor // outputs of earlier nodes that it and later ones read
	out     *tensor.Tensor         // the operator's, with these draws
}

// noiseNode returns the node of the noise, -1 if there is none.
func (e *evidence) noiseNode() int {
	for i := range e.machine.Nodes {
		if e.machine.Nodes[i].Op == operator.OpNoise {
			return i
		}
	}
	return -1
}

// apply applies the operator to x as device d does. d must not use Seen.
func (e *evidence) apply(d *emulate.Device, x *tensor.Tensor, draws noise.Draws) (*application, error) {
	p := &application{machine: e.machine, d: d, x: x, noise: e.noiseNode(), kept: map[int]*tensor.Tensor{}}
	needed := map[int]bool{}
	if p.noise >= 0 {
		for _, n := range e.machine.Nodes[p.noise:] {
			for _, j := range n.In {
				needed[j] = j < p.noise
			}
		}
	}
	watched := *d
	watched.Seen = func(i int, y *tensor.Tensor) {
		if needed[i] {
			p.kept[i] = y
		}
	}
	watched.Keeps = func(i int) bool { return needed[i] }
	var err error
	p.out, err = e.machine.Operator(&watched, x, draws)
	return p, err
}

// hidden returns what the noise is added to.
func (p *application) hidden() *tensor.Tensor { return p.input(p.machine.Nodes[p.noise].In[0]) }

func (p *application) input(i int) *tensor.Tensor {
	if i == operator.Input {
		return p.x
	}
	return p.kept[i]
}

// again returns the operator's output with other draws, nil for none.
func (p *application) again(draws noise.Draws) (*tensor.Tensor, error) {
	if p.noise < 0 {
		return p.out, nil
	}
	return p.machine.Rest(p.d, p.x, p.kept, draws)
}

// from returns the operator's output for an output of the noise.
func (p *application) from(noisy *tensor.Tensor) (*tensor.Tensor, error) {
	known := maps.Clone(p.kept)
	known[p.noise] = noisy
	return p.machine.Rest(p.d, p.x, known, nil)
}

// next returns the states that follow from an output of the operator.
func (p *application) next(out *tensor.Tensor) *tensor.Tensor {
	return p.machine.Advance(p.d, p.x, out)
}

// step returns the states with other draws.
func (p *application) step(draws noise.Draws) (*tensor.Tensor, error) {
	out, err := p.again(draws)
	if err != nil {
		return nil, err
	}
	return p.next(out), nil
}
