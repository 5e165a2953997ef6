package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/noise"
	graphplan "github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// servedNetwork is a network that was opened, in one mode.
type servedNetwork struct {
	net     *network.Network
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
	n := &servedNetwork{net: net, types: net.Types()}
	if mode.Precision == fp16.Float64 {
		for i := range n.types {
			if n.types[i].Format != fp16.Int64 {
				n.types[i].Format = fp16.Float64
			}
		}
		n.program, err = net.Graph.Infer(mode, n.types...)
	} else {
		n.plan, err = graphplan.New(net.Graph, mode, n.types...)
	}
	if err != nil {
		return nil, err
	}
	*s = session{net: n}
	return map[string]string{
		"mode": mode.String(), "noise": "none", "contract": graph.Contract, "version": version, "draws": "0",
	}, nil
}

// apply evaluates the network for its inputs by their names. The answer has "output0",
// "output1", ..., and how long it took.
func (n *servedNetwork) apply(m *safetensors.File) ([]*safetensors.Tensor, time.Duration, error) {
	in := make([]*tensor.Tensor, len(n.types))
	for i, of := range n.net.Inputs {
		t, err := m.Tensor(of.Name)
		if err != nil {
			return nil, 0, err
		}
		if in[i], err = network.TensorOf(t); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", of.Name, err)
		}
		if !slices.Equal(t.Shape, of.Type.Shape) {
			return nil, 0, fmt.Errorf("%s: shape %v: want %v", of.Name, t.Shape, of.Type.Shape)
		}
		want := n.types[i].Format
		if in[i].Format != of.Type.Format && in[i].Format != want {
			return nil, 0, fmt.Errorf("%s: %v numbers: want %s", of.Name, in[i].Format, of.Dtype)
		}
		in[i].Format = want // float64 holds the others
	}
	began := time.Now()
	out, err := n.evaluate(in)
	took := time.Since(began)
	if err != nil {
		return nil, 0, err
	}
	var all []*safetensors.Tensor
	for k, t := range out {
		y, err := storedTensor(fmt.Sprintf("output%d", k), t)
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
	for i := range n.net.Graph.Outputs {
		t := n.plan.Type(i)
		out = append(out, tensor.New(t.Format, t.Shape...))
	}
	return out, n.plan.Run(nil, noise.Time{}, out, in)
}
