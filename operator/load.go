package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

func params(modules ...module) []*Param {
	var all []*Param
	visitAll(func(l layer) { all = append(all, l.params()...) }, modules...)
	return all
}

// prepare makes the layers ready after their parameters were set.
func prepare(modules ...module) (err error) {
	visitAll(func(l layer) {
		if err == nil {
			err = l.prepare()
		}
	}, modules...)
	return err
}

// initialise gives the modules the weights PyTorch draws for them, in the
// order of construction, after torch.manual_seed(seed). The stream is the same
// in every version of PyTorch: it uses uniform draws only.
func initialise(seed uint64, modules ...module) error {
	g, err := noise.ParseTorchCPU("torch-cpu:2.x", "")
	if err != nil {
		return err
	}
	g.Seed(seed)
	visitAll(func(l layer) { l.initialise(g) }, modules...)
	return prepare(modules...)
}

// Prefix returns what stands before the names of all tensors of a file of weights
// because the module was wrapped: "_orig_mod." of torch.compile, "module." of
// nn.DataParallel, or both. [Load] leaves it out. It is "" if there is none, or if
// a node of the configuration has such a name itself.
func Prefix(c Config, f *safetensors.File) string {
	prefix, names := "", f.Names()
	for more := len(names) > 0; more; {
		more = false
		for _, wrapper := range []string{"_orig_mod.", "module."} {
			next := prefix + wrapper
			if !slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, next) }) &&
				!slices.ContainsFunc(c.Nodes, func(n NodeConfig) bool { return strings.HasPrefix(n.Name+".", next) }) {
				prefix, more = next, true
			}
		}
	}
	return prefix
}

// load fills the parameters of modules from f, which must hold exactly them.
// prefixes maps the first part of a name to what the file calls it, behind prefix.
func load(f *safetensors.File, prefix string, prefixes map[string]string, modules ...module) error {
	known := map[string]bool{}
	for _, p := range params(modules...) {
		name := prefix + renamed(p.Name, prefixes)
		known[name] = true
		if err := p.load(f, name); err != nil {
			return err
		}
	}
	for _, name := range f.Names() {
		if !known[name] {
			return fmt.Errorf("%s: %s: unknown tensor: the operator has no such parameter", f.Path, name)
		}
	}
	if err := prepare(modules...); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

func renamed(name string, prefixes map[string]string) string {
	for from, to := range prefixes {
		if rest, ok := strings.CutPrefix(name, from+"."); ok {
			return join(to, rest)
		}
	}
	return name
}

func (p *Param) load(f *safetensors.File, name string) error {
	want := p.Shape
	t, err := f.Tensor(name)
	if err != nil && p.Counter {
		return nil // nothing reads it, and only PyTorch writes it
	}
	if err != nil {
		return fmt.Errorf("%s: %s: missing: want a tensor of shape %v", f.Path, name, want)
	}
	if p.complex && t.DType == safetensors.C64 {
		t = t.Pairs()
	}
	if n := len(t.Shape); p.flat && n < len(want) && slices.Equal(t.Shape, want[:n]) &&
		len(p.Data) == tensor.Size(t.Shape) {
		want = want[:n]
	}
	// Numbers without dimensions are written as [] or [1].
	if !slices.Equal(t.Shape, want) && !(len(want) == 1 && want[0] == 1 && len(t.Shape) == 0) {
		return fmt.Errorf("%s: %s: shape %v: want %v", f.Path, name, t.Shape, want)
	}
	p.allocate()
	if p.Counter {
		if t.DType != safetensors.I64 {
			return fmt.Errorf("%s: %s: dtype %s: want I64", f.Path, name, t.DType)
		}
		return nil
	}
	if p.whole {
		return p.loadWhole(f, name, t)
	}
	if t.DType != safetensors.F32 {
		return fmt.Errorf("%s: %s: dtype %s: want F32", f.Path, name, t.DType)
	}
	data, err := t.Float64s()
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(data, func(v float64) bool { return v-v != 0 && !(p.infinite && v < 0) }); i >= 0 {
		return fmt.Errorf("%s: %s: element %d is %v: want finite numbers", f.Path, name, i, data[i])
	}
	if p.nonNegative {
		for i, v := range data {
			if v < 0 {
				return fmt.Errorf("%s: %s: element %d is %v: want 0 or more", f.Path, name, i, v)
			}
		}
	}
	copy(p.Data, data)
	return nil
}

// loadWhole is load of int64 numbers.
func (p *Param) loadWhole(f *safetensors.File, name string, t *safetensors.Tensor) error {
	if t.DType != safetensors.I64 {
		return fmt.Errorf("%s: %s: dtype %s: want I64", f.Path, name, t.DType)
	}
	data, err := t.Int64s()
	if err != nil {
		return err
	}
	for i, v := range data {
		if v < -1<<53 || v > 1<<53 {
			return fmt.Errorf("%s: %s: element %d is %d: want at most 2^53 in magnitude", f.Path, name, i, v)
		}
		p.Data[i] = float64(v)
	}
	return nil
}
