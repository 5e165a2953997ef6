// Package probe writes inputs that show what ordinary states cannot, and reads what a
// device answered.
package probe

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// Write writes directed inputs for the operator of a case to folders
// below dir, and returns the names of the files. Each folder is a case without a
// trajectory, of two states under the autoregressive policy, so that the second
// one is the operator's output: a device runs it, from initial_condition and
// with the draws of noise.safetensors, and stores its trajectory (and, if it
// can, its layers) there; a check of the folder judges the answer.
//
//	ladders    the operator as it is; inputs at sizes and of shapes that its
//	           own states may not have
//	integers   integer weights and inputs: every sum is exact in every
//	           format, so that each wrong index is a wrong number
//	nonfinite  a NaN and an infinity in one pixel; for operators whose norms
//	           spread them over a known set
//
// Images have the size of the case's states, or of its grid_size.
func Write(dir string, c *rollout.Case) (files []string, err error) {
	op, err := c.NewOperator()
	if err != nil {
		return nil, err
	}
	if err := emulate.Known(op); err != nil {
		return nil, err
	}
	p := &prober{c: c, op: op, m: emulate.New(op, c.Rollout)}
	if p.shape, err = p.size(); err != nil {
		return nil, err
	}
	for _, folder := range []func() (*probeCase, error){p.ladders, p.integers, p.nonfinite} {
		f, err := folder()
		if err != nil {
			return files, err
		}
		if f == nil {
			continue
		}
		names, err := p.write(filepath.Join(dir, f.name), f)
		files = append(files, names...)
		if err != nil {
			return files, err
		}
	}
	return files, nil
}

// prober makes the probes of one operator.
type prober struct {
	c     *rollout.Case
	op    *operator.Operator
	m     *emulate.Machine
	shape rollout.Shape
}

// probeCase is a folder of probes.
type probeCase struct {
	name    string
	probes  []evidence.Probe
	inputs  []float64            // [M,C,H,W], float32 numbers
	weights map[string][]float64 // in place of the operator's, by parameter
}

func (f *probeCase) add(p evidence.Probe, x []float64) {
	f.probes = append(f.probes, p)
	for _, v := range x {
		f.inputs = append(f.inputs, fp16.Float32.Round(v))
	}
}

// size returns the size of the states that the operator is probed with.
func (p *prober) size() (rollout.Shape, error) {
	channels, side := p.c.Operator.InputChannels, p.c.Operator.GridSize
	if p.c.Trajectory != nil {
		for _, name := range p.c.Trajectory.Names() {
			if name == "trajectory" || name == "initial_condition" {
				t, err := p.c.Trajectory.Tensor(name)
				if err == nil && len(t.Shape) >= 3 {
					return rollout.Shape{C: channels, H: t.Shape[len(t.Shape)-2], W: t.Shape[len(t.Shape)-1]}, nil
				}
			}
		}
	}
	if side < 1 {
		return rollout.Shape{},
			fmt.Errorf("%s: operator.grid_size: missing: want the side of the images, or a trajectory", p.c.File)
	}
	return rollout.Shape{C: channels, H: side, W: side}, nil
}

func (p *prober) elements() int { return p.shape.C * p.shape.H * p.shape.W }

// white returns standard normals; k numbers the field.
func (p *prober) white(k int) ([]float64, error) {
	x := make([]float64, p.elements())
	return x, rollout.White(uint64(k), p.shape, x)
}

// forward returns, for one input, the outputs of all nodes in float64, without
// noise.
func (p *prober) forward(x []float64) ([]*tensor.Tensor, error) {
	of := make([]*tensor.Tensor, len(p.m.Nodes))
	d := &emulate.Device{Seen: func(i int, y *tensor.Tensor) { of[i] = y }}
	_, err := p.m.Operator(d, tensor.Of(fp16.Float64, x, 1, p.shape.C, p.shape.H, p.shape.W), nil)
	return of, err
}

// write writes a folder of probes.
func (p *prober) write(dir string, f *probeCase) (files []string, err error) {
	if err := disk.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	m, s := len(f.probes), p.shape
	config, err := p.config(m)
	if err != nil {
		return nil, err
	}
	list, err := json.MarshalIndent(evidence.ProbeList{Probes: f.probes}, "", " ")
	if err != nil {
		return nil, err
	}
	tensors := func(name string, all []*safetensors.Tensor, err error) error {
		if err != nil {
			return err
		}
		path := filepath.Join(dir, name)
		if err := safetensors.WriteFile(path, all, nil); err != nil {
			return err
		}
		files = append(files, path)
		return nil
	}
	start, err := safetensors.OfFloat64s("initial_condition", safetensors.F32, []int{m, s.C, s.H, s.W}, f.inputs)
	if err := tensors("trajectory.safetensors", []*safetensors.Tensor{start}, err); err != nil {
		return files, err
	}
	weights, err := p.weights(f.weights)
	if err := tensors("weights.safetensors", weights, err); err != nil {
		return files, err
	}
	if p.op.HasNoise() {
		tape, err := p.tape(m, f.weights)
		if err := tensors("noise.safetensors", tape, err); err != nil {
			return files, err
		}
	}
	// Without case.json it is no case: one that is not whole is not mistaken for one.
	for _, file := range []struct {
		name string
		data []byte
	}{{evidence.ProbesFile, list}, {"case.json", config}} {
		path := filepath.Join(dir, file.name)
		if err := disk.WriteFile(path, append(file.data, '\n'), 0o666); err != nil {
			return files, err
		}
		files = append(files, path)
	}
	return files, nil
}

// config returns the case.json of m probes: the operator of the case as it is
// written there, and a rollout of one step.
func (p *prober) config(m int) ([]byte, error) {
	data, err := p.c.ReadFile("case.json")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.c.File, err)
	}
	var from struct {
		Operator json.RawMessage            `json:"operator"`
		Rollout  map[string]json.RawMessage `json:"rollout"`
	}
	if err := json.Unmarshal(data, &from); err != nil {
		return nil, fmt.Errorf("%s: %w", p.c.File, err)
	}
	to := map[string]any{"policy_type": "autoregressive", "num_timesteps": 2, "num_realizations": m}
	for _, key := range []string{"precision", "autocast", "base_seed"} {
		if v, ok := from.Rollout[key]; ok {
			to[key] = v
		}
	}
	return json.MarshalIndent(map[string]any{
		"version": 1, "operator": from.Operator, "rollout": to,
		"note": "probes: run it with the draws of noise.safetensors, or without noise; " +
			"probes.json says what each realization is",
	}, "", " ")
}

// weights returns the operator's parameters, some of them replaced.
func (p *prober) weights(other map[string][]float64) ([]*safetensors.Tensor, error) {
	var all []*safetensors.Tensor
	for _, w := range p.op.Params() {
		var t *safetensors.Tensor
		var err error
		if w.Counter {
			t, err = safetensors.New(w.Name, safetensors.I64, w.Shape, make([]byte, 8*len(w.Data)))
		} else {
			data := w.Data
			if v := other[w.Name]; v != nil {
				data = v
			}
			t, err = safetensors.OfFloat64s(w.Name, safetensors.F32, w.Shape, data)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// tape returns draws of the operator's noise for m samples.
func (p *prober) tape(m int, other map[string][]float64) ([]*safetensors.Tensor, error) {
	d, err := (noise.Counter{Seed: p.c.Rollout.BaseSeed}).At(1, 0, m)
	if err != nil {
		return nil, err
	}
	kinds, channels := p.op.Draws()
	scale := evidence.NoiseScale(p.m.Nodes)
	for name, v := range other {
		if isScale(name) {
			scale = v[0]
		}
	}
	var all []*safetensors.Tensor
	for i, kind := range kinds {
		shape := []int{m, channels, p.shape.H, p.shape.W}
		if kind == noise.Bernoulli {
			shape[2], shape[3] = 1, 1
		}
		data := make([]float64, shape[0]*shape[1]*shape[2]*shape[3])
		if err := d.Draw(kind, 1-scale, shape, data); err != nil {
			return nil, err
		}
		name := "batch0"
		if len(kinds) > 1 {
			name = fmt.Sprintf("batch0.draw%d.%v", i, kind)
		}
		t, err := safetensors.OfFloat64s(name, safetensors.F32, append([]int{1}, shape...), data)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// isScale reports whether a parameter is the scale of the noise.
func isScale(name string) bool { return strings.HasSuffix(name, "noise_scale") }
