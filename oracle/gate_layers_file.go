package oracle

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// layerFile is one recorded application of the operator to N samples: what
// each node left in memory.
type layerFile struct {
	path        string
	step        int // the step of the rollout that it belongs to
	realization int // of the first sample
	input       *tensor.Tensor
	nodes       []*tensor.Tensor // by node, nil where the file has none; Format is that of the dump
	output      *tensor.Tensor   // "output", nil if there is none
	also        map[string]*tensor.Tensor
	drawn       noise.Draws // the recorded draws, nil if there are none
	alone       bool        // the application was one of its own, of fewer samples than an engine batch
	dated       bool        // the file says of which step it is
}

// openLayers reads a layers file. Tensors that no module is named after are
// left out; a tensor of another shape than the module's is an error.
func openLayers(f *safetensors.File, m *emulate.Machine, channels int, ro rollout.Config) (*layerFile, error) {
	l := &layerFile{path: f.Path, step: 1, nodes: make([]*tensor.Tensor, len(m.Nodes)), also: map[string]*tensor.Tensor{}}
	for key, to := range map[string]*int{"step": &l.step, "realization": &l.realization} {
		s, ok := f.Metadata[key]
		if !ok {
			continue
		}
		v, err := strconv.Atoi(s)
		if err != nil || v < 0 || key == "step" && v < 1 {
			return nil, fmt.Errorf("%s: metadata %s: %q: want a whole number, a step counting from 1, a realization from 0", f.Path, key, s)
		}
		*to = v
		l.dated = l.dated || key == "step"
	}
	read := func(name string) (*tensor.Tensor, error) {
		if !slices.Contains(f.Names(), name) {
			return nil, nil
		}
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		x, err := nchw(f, t, fp16.Float64)
		if err == nil {
			x.Format, _ = t.DType.Format()
		}
		return x, err
	}
	var err error
	if l.input, err = read("input"); err != nil {
		return nil, err
	}
	if l.input == nil {
		return nil, fmt.Errorf("%s: input: missing: want the operator's input [N,C,H,W]", f.Path)
	}
	if l.input.C() != channels {
		return nil, fmt.Errorf("%s: input: shape %s: want %d channels", f.Path, l.input.Dims(), channels)
	}
	width := map[int]int{operator.Input: channels}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		width[i] = width[n.In[0]]
		if n.Op == operator.OpConv {
			width[i] = n.Weight.Shape[0]
		}
		for k, name := range append([]string{n.Name}, n.Also...) {
			x, err := read(name)
			if err != nil {
				return nil, err
			}
			if x == nil {
				continue
			}
			in := l.input
			if x.N() != in.N() || x.C() != width[i] || x.H() != in.H() || x.W() != in.W() {
				return nil, fmt.Errorf("%s: %s: shape %s: want [%d,%d,%d,%d]", f.Path, name, x.Dims(), in.N(), width[i], in.H(), in.W())
			}
			if l.nodes[i] == nil {
				l.nodes[i] = x
			} else if k > 0 {
				l.also[name] = x
			}
		}
	}
	if l.output, err = read("output"); err != nil {
		return nil, err
	}
	if last := len(m.Nodes) - 1; l.output != nil {
		in := l.input
		if x := l.output; x.N() != in.N() || x.C() != width[last] || x.H() != in.H() || x.W() != in.W() {
			return nil, fmt.Errorf("%s: output: shape %s: want [%d,%d,%d,%d]", f.Path, x.Dims(), in.N(), width[last], in.H(), in.W())
		}
		if l.nodes[last] == nil {
			l.nodes[last] = l.output
		} else {
			l.also["output"] = l.output
		}
	}
	if l.drawn, err = recordedDraws(f); err != nil {
		return nil, err
	}
	batch, err := strconv.Atoi(f.Metadata["batch"])
	if err != nil {
		batch = l.input.N()
	}
	_, lo, hi := batchOf(ro, l.realization)
	l.alone = batch != hi-lo
	return l, nil
}

// batchOf returns the engine batch that holds a realization, zeros if none does.
func batchOf(ro rollout.Config, realization int) (k, lo, hi int) {
	for k, b := range ro.EngineBatches() {
		if realization < b[1] {
			return k, b[0], b[1]
		}
	}
	return 0, 0, 0
}

// layerDraws returns the draws that a layers file may have been made with, the
// likeliest first: those in the file; or of the stream, those of the engine
// batch, and before them those of an application on its own if it was one. None
// if the noise is unknown.
func (e *evidence) layerDraws(l *layerFile) ([]*emulate.Draws, error) {
	n, r := l.input.N(), l.realization
	scale := noiseScale(e.machine.Nodes)
	if l.drawn != nil {
		kept, err := l.take(e.op, scale, l.drawn, n, 0, n)
		return []*emulate.Draws{kept}, err
	}
	if !e.op.HasNoise() || e.stream == nil {
		return nil, nil
	}
	var all []*emulate.Draws
	if l.alone {
		d, err := e.stream.Draws(0, r, r+n, l.step)
		if err == nil {
			var kept *emulate.Draws
			if kept, err = l.take(e.op, scale, d, n, 0, n); kept != nil {
				all = append(all, kept)
			}
		}
		if err != nil && e.stream.Name != "tape" { // which need not have it
			return nil, err
		}
	}
	// Of every engine batch the part that is in the file.
	var whole *emulate.Draws
	for k, b := range e.c.Rollout.EngineBatches() {
		lo, hi := max(b[0], r), min(b[1], r+n)
		if lo >= hi {
			continue
		}
		d, err := e.stream.Draws(k, b[0], b[1], l.step)
		if err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", l.path, l.step, err)
		}
		part, err := l.take(e.op, scale, d, b[1]-b[0], lo-b[0], hi-b[0])
		if err != nil {
			return nil, err
		}
		if whole == nil {
			whole = part
			continue
		}
		for i := range part.Data {
			whole.Data[i] = append(whole.Data[i], part.Data[i]...)
		}
	}
	if whole != nil && r+n <= e.c.Rollout.Realizations {
		all = append(all, whole)
	}
	return all, nil
}

// take draws the operator's noise for n samples of the size of the file's, and
// keeps what samples lo to hi-1 get. nil stays nil.
func (l *layerFile) take(op *operator.Operator, scale float64, d noise.Draws, n, lo, hi int) (*emulate.Draws, error) {
	if d == nil {
		return nil, nil
	}
	kinds, channels := op.Draws()
	kept := emulate.Keep(d)
	for _, kind := range kinds {
		shape := []int{n, channels, l.input.H(), l.input.W()}
		if kind == noise.Bernoulli {
			if scale == 0 || scale == 1 {
				continue // keeps all, or none: nothing is drawn
			}
			shape[2], shape[3] = 1, 1
		}
		dst := make([]float64, shape[0]*shape[1]*shape[2]*shape[3])
		if err := kept.Draw(kind, 1-scale, shape, dst); err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", l.path, l.step, err)
		}
	}
	for i, data := range kept.Data {
		per := len(data) / n
		kept.Data[i] = data[lo*per : hi*per : hi*per]
	}
	return kept, nil
}

// noiseScale returns the scale of the operator's noise, a float32 number.
func noiseScale(nodes []operator.Node) float64 {
	for i := range nodes {
		if n := &nodes[i]; n.Op == operator.OpNoise {
			return fp16.Float32.Round(n.Noise.Scale)
		}
	}
	return 0
}
