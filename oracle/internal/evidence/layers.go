package evidence

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// LayerFile is one recorded application of the operator to N samples: what
// each node left in memory.
type LayerFile struct {
	Path        string
	Step        int // the step of the rollout that it belongs to
	Realization int // of the first sample
	Input       *tensor.Tensor
	Nodes       []*tensor.Tensor // by node, nil where the file has none; Format is that of the dump
	Output      *tensor.Tensor   // "output", nil if there is none
	Also        map[string]*tensor.Tensor
	drawn       noise.Draws // the recorded draws, nil if there are none
	Alone       bool        // the application was one of its own, of fewer samples than an engine batch
	Dated       bool        // the file says of which step it is
}

// OpenLayers reads a layers file. Tensors that no module is named after are
// left out; a tensor of another shape than the module's is an error.
func OpenLayers(f *safetensors.File, m *emulate.Machine, channels int, ro rollout.Config) (*LayerFile, error) {
	l := &LayerFile{Path: f.Path, Step: 1, Nodes: make([]*tensor.Tensor, len(m.Nodes)), Also: map[string]*tensor.Tensor{}}
	err := l.readPlace(f.Metadata)
	if err != nil {
		return nil, err
	}
	read := func(name string) (*tensor.Tensor, error) { return images(f, name) }
	if l.Input, err = read("input"); err != nil {
		return nil, err
	}
	if l.Input == nil {
		return nil, fmt.Errorf("%s: input: missing: want the operator's input [N,C,H,W]", f.Path)
	}
	if l.Input.C() != channels {
		return nil, fmt.Errorf("%s: input: shape %s: want %d channels", f.Path, l.Input.Dims(), channels)
	}
	shapes, err := m.Shapes(l.Input.Shape)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		for k, name := range append([]string{n.Name}, n.Also...) {
			x, err := read(name)
			if err != nil {
				return nil, err
			}
			if x == nil {
				continue
			}
			if !slices.Equal(x.Shape, shapes[i]) {
				return nil, fmt.Errorf("%s: %s: shape %s: want %s",
					f.Path, name, x.Dims(), (&tensor.Tensor{Shape: shapes[i]}).Dims())
			}
			if l.Nodes[i] == nil {
				l.Nodes[i] = x
			} else if k > 0 {
				l.Also[name] = x
			}
		}
	}
	if l.Output, err = read("output"); err != nil {
		return nil, err
	}
	if last := len(m.Nodes) - 1; l.Output != nil {
		if x := l.Output; !slices.Equal(x.Shape, shapes[last]) {
			return nil, fmt.Errorf("%s: output: shape %s: want %s",
				f.Path, x.Dims(), (&tensor.Tensor{Shape: shapes[last]}).Dims())
		}
		if l.Nodes[last] == nil {
			l.Nodes[last] = l.Output
		} else {
			l.Also["output"] = l.Output
		}
	}
	if l.drawn, err = RecordedDraws(f); err != nil {
		return nil, err
	}
	batch, err := strconv.Atoi(f.Metadata["batch"])
	if err != nil {
		batch = l.Input.N()
	}
	_, lo, hi := BatchOf(ro, l.Realization)
	l.Alone = batch != hi-lo
	return l, nil
}

// readPlace reads of which step and realization the file is.
func (l *LayerFile) readPlace(metadata map[string]string) error {
	for key, to := range map[string]*int{"step": &l.Step, "realization": &l.Realization} {
		s, ok := metadata[key]
		if !ok {
			continue
		}
		v, err := strconv.Atoi(s)
		if err != nil || v < 0 || key == "step" && v < 1 {
			return fmt.Errorf("%s: metadata %s: %q: "+
				"want a whole number, a step counting from 1, a realization from 0", l.Path, key, s)
		}
		*to = v
		l.Dated = l.Dated || key == "step"
	}
	return nil
}

// images returns the images of a name in the file's own format, nil if there are none.
func images(f *safetensors.File, name string) (*tensor.Tensor, error) {
	if !slices.Contains(f.Names(), name) {
		return nil, nil
	}
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	x, err := NCHW(f, t, fp16.Float64)
	if err == nil {
		x.Format, _ = t.DType.Format()
	}
	return x, err
}

// BatchOf returns the engine batch that holds a realization, zeros if none does.
func BatchOf(ro rollout.Config, realization int) (k, lo, hi int) {
	for k, b := range ro.EngineBatches() {
		if realization < b[1] {
			return k, b[0], b[1]
		}
	}
	return 0, 0, 0
}

// LayerDraws returns the draws that a layers file may have been made with, the
// likeliest first: those in the file; or of the stream, those of the engine
// batch, and before them those of an application on its own if it was one. None
// if the noise is unknown.
func (e *Evidence) LayerDraws(l *LayerFile) ([]*emulate.Draws, error) {
	n, r := l.Input.N(), l.Realization
	scale := NoiseScale(e.Machine.Nodes)
	if l.drawn != nil {
		kept, err := l.take(e.Op, scale, l.drawn, n, 0, n)
		return []*emulate.Draws{kept}, err
	}
	if !e.Op.HasNoise() || e.Stream == nil {
		return nil, nil
	}
	var all []*emulate.Draws
	if l.Alone {
		d, err := e.Stream.Draws(0, r, r+n, l.Step)
		if err == nil {
			var kept *emulate.Draws
			if kept, err = l.take(e.Op, scale, d, n, 0, n); kept != nil {
				all = append(all, kept)
			}
		}
		if err != nil && e.Stream.Name != "tape" { // which need not have it
			return nil, err
		}
	}
	// Of every engine batch the part that is in the file.
	var whole *emulate.Draws
	for k, b := range e.Case.Rollout.EngineBatches() {
		lo, hi := max(b[0], r), min(b[1], r+n)
		if lo >= hi {
			continue
		}
		d, err := e.Stream.Draws(k, b[0], b[1], l.Step)
		if err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", l.Path, l.Step, err)
		}
		part, err := l.take(e.Op, scale, d, b[1]-b[0], lo-b[0], hi-b[0])
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
	if whole != nil && r+n <= e.Case.Rollout.Realizations {
		all = append(all, whole)
	}
	return all, nil
}

// take draws the operator's noise for n samples of the size of the file's, and
// keeps what samples lo to hi-1 get. nil stays nil.
func (l *LayerFile) take(op *operator.Operator, scale float64, d noise.Draws, n, lo, hi int) (*emulate.Draws, error) {
	if d == nil {
		return nil, nil
	}
	kinds, channels := op.Draws()
	kept := emulate.Keep(d)
	for _, kind := range kinds {
		shape := []int{n, channels, l.Input.H(), l.Input.W()}
		if kind == noise.Bernoulli {
			if scale == 0 || scale == 1 {
				continue // keeps all, or none: nothing is drawn
			}
			shape[2], shape[3] = 1, 1
		}
		dst := make([]float64, shape[0]*shape[1]*shape[2]*shape[3])
		if kind == noise.ComplexNormal { // pairs
			dst = make([]float64, 2*len(dst))
		}
		if err := kept.Draw(kind, 1-scale, shape, dst); err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", l.Path, l.Step, err)
		}
	}
	for i, data := range kept.Data {
		per := len(data) / n
		kept.Data[i] = data[lo*per : hi*per : hi*per]
	}
	return kept, nil
}

// NoiseScale returns the scale of the operator's noise, a float32 number.
func NoiseScale(nodes []operator.Node) float64 {
	for i := range nodes {
		if n := &nodes[i]; n.Op == operator.OpNoise {
			return fp16.Float32.Round(n.Noise.Scale)
		}
	}
	return 0
}

// OnGrid reports numbers that are not of a format: the arithmetic of a mode is
// defined on its own numbers only.
func OnGrid(path, name string, data []float64, f fp16.Format) error {
	for i, v := range data {
		if !f.Holds(v) {
			return fmt.Errorf("%s: %s: element %d is %v: want %s numbers, or --precision float64", path, name, i, v, f)
		}
	}
	return nil
}

// NCHW returns a recorded tensor of four dimensions.
func NCHW(f *safetensors.File, t *safetensors.Tensor, to fp16.Format) (*tensor.Tensor, error) {
	s := t.Shape
	if len(s) != 4 || slices.Min(s) < 1 {
		return nil, fmt.Errorf("%s: %s: shape %v: want [N,C,H,W], all of 1 or more", f.Path, t.Name, s)
	}
	data, err := t.Float64s()
	if err != nil {
		return nil, err
	}
	if err := OnGrid(f.Path, t.Name, data, to); err != nil {
		return nil, err
	}
	return tensor.Of(to, data, s[0], s[1], s[2], s[3]), nil
}

// RecordedDraws replays the draws of a layers file, stochastic_block.draw or
// stochastic_block.draw0.<kind>, draw1...; nil if it has none.
func RecordedDraws(f *safetensors.File) (noise.Draws, error) {
	var r replay
	names := f.Names()
	sort.Strings(names)
	for _, name := range names {
		if strings.HasPrefix(name, "stochastic_block.draw") {
			t, err := f.Tensor(name)
			if err != nil {
				return nil, err
			}
			data, err := t.Float64s()
			if err != nil {
				return nil, err
			}
			for i, v := range data {
				data[i] = fp16.Float32.Round(v) // as draws are in every mode
			}
			_, kind, _ := strings.Cut(strings.TrimPrefix(name, "stochastic_block.draw"), ".")
			r.draws = append(r.draws, recordedDraw{name, kind, data})
		}
	}
	if r.draws == nil {
		return nil, nil
	}
	return &r, nil
}

type recordedDraw struct {
	name string
	kind string // "" if the name does not say
	data []float64
}

// replay hands out recorded draws in order.
type replay struct {
	draws []recordedDraw
	next  int
}

func (r *replay) Draw(kind noise.Kind, _ float64, shape []int, dst []float64) error {
	if r.next == len(r.draws) {
		return fmt.Errorf("%d recorded draws: want another one, %s of shape %v", len(r.draws), kind, shape)
	}
	d := r.draws[r.next]
	r.next++
	if len(dst) != len(d.data) || d.kind != "" && d.kind != kind.String() {
		return fmt.Errorf("%s: %d numbers: want %s of shape %v", d.name, len(d.data), kind, shape)
	}
	copy(dst, d.data)
	return nil
}
