package evidence

import (
	"maps"
	"slices"

	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// Application is one of the operator to the states of an engine batch,
// kept so far that what the noise touches can be evaluated again with other
// draws: in Spinlock's operator that is its last, cheap layer.
type Application struct {
	Machine *emulate.Machine
	D       *emulate.Device
	X       *tensor.Tensor
	Noise   int                    // the node of the noise, -1 if there is none
	kept    map[int]*tensor.Tensor // outputs of earlier nodes that it and later ones read
	Out     *tensor.Tensor         // the operator's, with these draws
}

// NoiseNode returns the first node of noise, -1 if there is none.
func (e *Evidence) NoiseNode() int {
	return slices.IndexFunc(e.Machine.Nodes, func(n operator.Node) bool { return n.Op == operator.OpNoise })
}

// Apply applies the operator to x as device d does. d must not use Seen.
func (e *Evidence) Apply(d *emulate.Device, x *tensor.Tensor, draws noise.Draws) (*Application, error) {
	p := &Application{Machine: e.Machine, D: d, X: x, Noise: e.NoiseNode(), kept: map[int]*tensor.Tensor{}}
	needed := map[int]bool{}
	if p.Noise >= 0 {
		for _, n := range e.Machine.Nodes[p.Noise:] {
			for _, j := range n.In {
				needed[j] = j < p.Noise
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
	p.Out, err = e.Machine.Operator(&watched, x, draws)
	return p, err
}

// Hidden returns what the noise is added to.
func (p *Application) Hidden() *tensor.Tensor { return p.input(p.Machine.Nodes[p.Noise].In[0]) }

func (p *Application) input(i int) *tensor.Tensor {
	if i == operator.Input {
		return p.X
	}
	return p.kept[i]
}

// Again returns the operator's output with other draws, nil for none.
func (p *Application) Again(draws noise.Draws) (*tensor.Tensor, error) {
	if p.Noise < 0 {
		return p.Out, nil
	}
	return p.Machine.Rest(p.D, p.X, p.kept, draws)
}

// From returns the operator's output for an output of the noise.
func (p *Application) From(noisy *tensor.Tensor) (*tensor.Tensor, error) {
	known := maps.Clone(p.kept)
	known[p.Noise] = noisy
	return p.Machine.Rest(p.D, p.X, known, nil)
}

// Next returns the states that follow from an output of the operator.
func (p *Application) Next(out *tensor.Tensor) *tensor.Tensor {
	return p.Machine.Advance(p.D, p.X, out)
}

// Step returns the states with other draws.
func (p *Application) Step(draws noise.Draws) (*tensor.Tensor, error) {
	out, err := p.Again(draws)
	if err != nil {
		return nil, err
	}
	return p.Next(out), nil
}
