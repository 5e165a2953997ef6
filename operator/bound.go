package operator

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/noise"
)

// bound is a registered operation with its attributes and parameters, as a layer.
type bound struct {
	name    string
	op      graph.Op
	own     []*Param
	outputs int
}

func (o *bound) layers(visit func(layer)) { visit(o) }
func (o *bound) params() []*Param         { return o.own }

// initialise leaves the parameters as they are: PyTorch's constructors are those of
// modules, and the operation is none. See Init.
func (o *bound) initialise(*noise.TorchCPU) {}

func (o *bound) prepare() error { return nil }

func (o *bound) build(*builder, int) int {
	panic("operator: a registered operation stands in a program only")
}

// bind makes the registered operation of the node at work, with zero parameters, and
// returns these by their names.
func (b *programmer) bind(s *programStep) (own map[string]operand, err error) {
	n := b.node
	op, err := graph.Bind(n.Op, n.Attributes)
	if err != nil {
		return nil, b.fail("op", "%w, or conv, norm, act, add, noise", err)
	}
	if _, noisy := op.(graph.Noise); noisy {
		return nil, b.fail("op", "%.60q: want noise, with its own keys", n.Op)
	}
	if b.op.Config.GridSize == 0 {
		return nil,
			fmt.Errorf("grid_size: missing: want the side of the images, on which the shapes of op %.60q depend", n.Op)
	}
	b.other = true
	s.other = &bound{name: n.Name, op: op}
	own = map[string]operand{}
	for k, p := range n.Params {
		field := fmt.Sprintf("params[%d]", k)
		if _, twice := own[p.Name]; twice || p.Name == "" {
			return nil, b.fail(field+".name", "%.60q: want a name that no other parameter of the node has", p.Name)
		}
		size := 1.0
		for _, d := range p.Shape {
			if d < 1 {
				return nil, b.fail(field+".shape", "%d: want dimensions of 1 or more", d)
			}
			size *= float64(d)
		}
		if len(p.Shape) > 16 {
			return nil, b.fail(field+".shape", "%d dimensions: want at most 16", len(p.Shape))
		}
		if err := b.count(field+".shape", p.Shape, size); err != nil {
			return nil, err
		}
		param := newParam(join(n.Name, p.Name), p.Shape...)
		param.whole, param.infinite = p.Whole, masks(op)
		s.other.own = append(s.other.own, param)
		own[p.Name] = operand{param: param}
	}
	return own, nil
}

// masks reports whether a parameter may say with -Inf what is left out of a softmax.
func masks(op graph.Op) bool {
	switch op := op.(type) {
	case graph.Where, graph.Attention:
		return true
	case graph.Binary:
		return op.Of == pointwise.Add
	}
	return false
}

// infer returns the types of the outputs of the step at work.
func (b *programmer) infer(s *programStep) ([]graph.Type, error) {
	var in []graph.Type
	for _, o := range s.in {
		in = append(in, b.typeOf(o))
	}
	inferred, err := s.other.op.Infer(reference, in)
	if err != nil {
		return nil, b.fail("op", "%s: %w", b.node.Op, err)
	}
	for _, t := range inferred.Out {
		size := 1.0
		for _, d := range t.Shape {
			size *= float64(d)
		}
		if size > math.MaxInt32 {
			return nil, b.fail("op", "%s: output of shape %v: want at most 2^31-1 elements for a sample", b.node.Op, t.Shape)
		}
	}
	s.other.outputs = len(inferred.Out)
	return inferred.Out, nil
}

// format returns the format of a parameter's numbers.
func (p *Param) format() fp16.Format {
	if p.whole {
		return fp16.Int64
	}
	return fp16.Float32
}
