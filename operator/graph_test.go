package operator

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestNodes: the names of the nodes, with those they pass on, are the features
// of a Forward, in order; and every node's format and shape are its feature's.
func TestNodes(t *testing.T) {
	for _, layers := range []int{0, 2, 5} {
		for _, kind := range []string{"instance", "batch", "group", "layer", "none"} {
			op, err := Init(Config{NumLayers: layers, BaseChannels: 4, InputChannels: 2, OutputChannels: 2, KernelSize: 3,
				Normalization: kind, Activation: "silu", DropoutRate: 0.1, NoiseType: "gaussian", NoiseScale: 0.1}, 1)
			if err != nil {
				t.Fatal(err)
			}
			mode, err := graph.ParseMode("bfloat16", "cpu")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			formats := map[string]fp16.Format{}
			x := tensor.New(fp16.Float32, 1, 2, 5, 6)
			if _, err := op.Forward(&Pass{Mode: mode, Feature: func(name string, y *tensor.Tensor) {
				names = append(names, name)
				formats[name] = y.Format
			}}, x); err != nil {
				t.Fatal(err)
			}
			nodes := op.Nodes()
			want := []string{"input"}
			of := make([]fp16.Format, len(nodes))
			for i, n := range nodes {
				want = append(append(want, n.Name), n.Also...)
				var in []fp16.Format
				for _, j := range n.In {
					f := x.Format
					if j != Input {
						f = of[j]
					}
					in = append(in, f)
				}
				if _, of[i], err = n.Formats(mode, in...); err != nil {
					t.Fatal(err)
				}
				if of[i] != formats[n.Name] {
					t.Errorf("%d layers, %s norm: %s is %v: want %v", layers, kind, n.Name, of[i], formats[n.Name])
				}
			}
			if want = append(want, "output"); !slices.Equal(names, want) {
				t.Errorf("%d layers, %s norm: features %q: want %q", layers, kind, names, want)
			}
		}
	}
}
