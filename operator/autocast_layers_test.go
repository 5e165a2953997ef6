package operator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// TestAutocastLayers takes every module of the recorded operators by itself: its
// input is what PyTorch's modules before it returned, so that its own arithmetic
// is all that may differ, by the criteria of TestAutocastOps. The type of its
// output must be the recorded one.
func TestAutocastLayers(t *testing.T) {
	for _, d := range devices {
		t.Run(d.set, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("../testdata/autocast", d.set, "rollouts/*/layers.safetensors"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no layers: %v", err)
			}
			sums := counts{}
			for _, file := range files {
				f, err := safetensors.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				w := walk{t: t, device: d, rollout: filepath.Base(filepath.Dir(file)), f: f,
					seen: map[string]bool{"input": true, "output": true}, sums: sums}
				x := readAsStored(t, f, "input")
				for _, m := range openOperator(t, filepath.Dir(file)).modules {
					x = w.module(m, x)
				}
				if out := readAsStored(t, f, "output"); !slices.Equal(x.Data, out.Data) || x.Format != out.Format {
					t.Errorf("%s: the last module's output is not the operator's", file)
				}
				for _, name := range f.Names() {
					if !w.seen[name] && !strings.HasPrefix(name, "stochastic_block.draw") {
						t.Errorf("%s: %s: no module has this name", file, name)
					}
				}
			}
			sums.report(t)
		})
	}
}

// openOperator returns the operator of a case, whose package is above this one.
func openOperator(t *testing.T, folder string) *Operator {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Operator struct {
			NumLayers      int     `json:"num_layers"`
			BaseChannels   int     `json:"base_channels"`
			InputChannels  int     `json:"input_channels"`
			OutputChannels int     `json:"output_channels"`
			KernelSize     int     `json:"kernel_size"`
			Normalization  string  `json:"normalization"`
			Activation     string  `json:"activation"`
			NoiseType      string  `json:"noise_type"`
			NoiseScale     float64 `json:"noise_scale"`
		}
	}
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	o := c.Operator
	weights, err := safetensors.Open(filepath.Join(folder, "weights.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	op, err := Load(Config{NumLayers: o.NumLayers, BaseChannels: o.BaseChannels, InputChannels: o.InputChannels,
		OutputChannels: o.OutputChannels, KernelSize: o.KernelSize, Normalization: o.Normalization,
		Activation: o.Activation, NoiseType: o.NoiseType, NoiseScale: o.NoiseScale}, weights)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// walk goes through the modules of one recorded application.
type walk struct {
	t       *testing.T
	device  device
	rollout string
	f       *safetensors.File
	seen    map[string]bool
	sums    counts
}

// module checks a module for the recorded input x, and returns its recorded
// output.
func (w *walk) module(m module, x *tensor.Tensor) *tensor.Tensor {
	w.t.Helper()
	switch m := m.(type) {
	case *convBlock:
		for _, l := range m.seq {
			x = w.module(l, x)
		}
		return x
	case *outputLayer:
		return w.module(m.act, w.module(m.conv, x))
	case *residualBlock:
		path, short := x, x
		for _, b := range m.blocks {
			path = w.module(b, path)
		}
		if m.projection != nil {
			short = w.module(m.projection, x)
		}
		theirs := w.recorded(m.name)
		y := joined(w.t, w.device.mode, graph.Addition, path, short)
		w.sums.add(w.t, "sum", w.rollout+" "+m.name, compare(w.t, w.rollout+" "+m.name, y, theirs, exactly(y.Data)))
		return theirs
	}
	l, ok := m.(layer)
	if !ok {
		w.t.Fatalf("unknown module %T", m)
	}
	var draws [][]float64
	if _, ok := m.(*stochasticBlock); ok {
		names := w.f.Names()
		sort.Strings(names) // draw0.exponential, draw1.normal
		for _, name := range names {
			if strings.HasPrefix(name, "stochastic_block.draw") {
				draws = append(draws, readAsStored(w.t, w.f, name).Data)
			}
		}
	}
	name := nameOf(l)
	theirs := w.recorded(name)
	kind, got := w.device.check(w.t, w.rollout+" "+name, l, x, theirs, draws)
	w.sums.add(w.t, kind, w.rollout+" "+name, got)
	return theirs
}

func (w *walk) recorded(name string) *tensor.Tensor {
	w.t.Helper()
	w.seen[name] = true
	return readAsStored(w.t, w.f, name)
}

func nameOf(l layer) string {
	switch l := l.(type) {
	case *conv2d:
		return l.name
	case *normalization:
		return l.name
	case *activation:
		return l.name
	case *stochasticBlock:
		return l.name
	}
	panic("layer of no operator")
}
