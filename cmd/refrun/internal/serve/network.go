package serve

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/grad"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/noise"
	graphplan "github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// servedNetwork is a network that was opened, in one mode.
type servedNetwork struct {
	net     *network.Network
	graph   *graph.Graph    // the network's, with gradients if they are wanted
	types   []graph.Type    // of its inputs, in the mode
	program *graph.Program  // in float64
	plan    *graphplan.Plan // in other modes
}

// openNetwork reads the network of a message: the text "graph", and the weights as tensors.
func (s *session) openNetwork(m *safetensors.File) (map[string]string, error) {
	weights, err := owned(m)
	if err != nil {
		return nil, err
	}
	net, err := network.Parse("graph", []byte(m.Metadata["graph"]),
		func(string) (*safetensors.File, error) { return weights, nil })
	if err != nil {
		return nil, err
	}
	precision := m.Metadata["precision"]
	if precision == "" {
		precision = "float32"
	}
	mode, err := graph.ParseMode(precision, m.Metadata["autocast"])
	if err != nil {
		return nil, fmt.Errorf("precision: %w", err)
	}
	n := &servedNetwork{net: net, types: typesIn(net, mode), graph: net.Graph}
	if names := m.Metadata["gradients"]; names != "" {
		if err := n.differentiate(mode, strings.Split(names, ",")); err != nil {
			return nil, fmt.Errorf("gradients: %w", err)
		}
	}
	if mode.Precision == fp16.Float64 {
		n.program, err = n.graph.Infer(mode, n.types...)
	} else {
		n.plan, err = graphplan.New(n.graph, mode, n.types...)
	}
	if err != nil {
		return nil, err
	}
	*s = session{net: n}
	return map[string]string{
		"mode": mode.String(), "noise": "none", "contract": graph.Contract, "version": cli.Version, "draws": "0",
	}, nil
}

// typesIn returns the types of a network's inputs in a mode.
func typesIn(net *network.Network, mode graph.Mode) []graph.Type {
	types := net.Types()
	for i := range types {
		if mode.Precision == fp16.Float64 && types[i].Format != fp16.Int64 {
			types[i].Format = fp16.Float64
		}
	}
	return types
}

// differentiate adds outputs: the gradients of the first one, or of the sum of its numbers, by some inputs.
func (n *servedNetwork) differentiate(mode graph.Mode, names []string) (err error) {
	var by []int
	for _, name := range names {
		at, err := n.inputNamed(name)
		if err != nil {
			return err
		}
		by = append(by, n.graph.Inputs[at])
	}
	n.graph, err = grad.Of(n.graph, mode, n.graph.Outputs[0], by, n.types...)
	return err
}

// inputNamed returns the place of an input.
func (n *servedNetwork) inputNamed(name string) (int, error) {
	at := slices.IndexFunc(n.net.Inputs, func(in network.Input) bool { return in.Name == name })
	if at < 0 {
		return 0, fmt.Errorf("%.80q: no input of the network", name)
	}
	return at, nil
}

// given reads the network's inputs by their names, in the formats of types.
func (n *servedNetwork) given(m *safetensors.File, types []graph.Type) ([]*tensor.Tensor, error) {
	in := make([]*tensor.Tensor, len(types))
	for i, of := range n.net.Inputs {
		t, err := m.Tensor(of.Name)
		if err != nil {
			return nil, err
		}
		if in[i], err = network.TensorOf(t); err != nil {
			return nil, fmt.Errorf("%s: %w", of.Name, err)
		}
		if !slices.Equal(t.Shape, of.Type.Shape) {
			return nil, fmt.Errorf("%s: shape %v: want %v", of.Name, t.Shape, of.Type.Shape)
		}
		want := types[i].Format
		if in[i].Format != of.Type.Format && in[i].Format != want {
			return nil, fmt.Errorf("%s: %v numbers: want %s", of.Name, in[i].Format, of.Dtype)
		}
		in[i].Format = want // float64 holds the others
	}
	return in, nil
}

// apply evaluates the network for its inputs by their names. The answer has "output0",
// "output1", ..., and how long it took.
func (n *servedNetwork) apply(m *safetensors.File) ([]*safetensors.Tensor, time.Duration, error) {
	in, err := n.given(m, n.types)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	out, err := n.evaluate(in)
	took := time.Since(began)
	if err != nil {
		return nil, 0, err
	}
	var all []*safetensors.Tensor
	for k, t := range out {
		y, err := model.StoredTensor(fmt.Sprintf("output%d", k), t)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, y)
	}
	return all, took, nil
}

func (n *servedNetwork) evaluate(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if n.plan == nil {
		return n.program.Run(new(graph.Run), in...)
	}
	var out []*tensor.Tensor
	for i := range n.graph.Outputs {
		t := n.plan.Type(i)
		out = append(out, tensor.New(t.Format, t.Shape...))
	}
	return out, n.plan.Run(nil, noise.Time{}, out, in)
}
