package chain_test

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/tensor"
)

// unstored keeps the results of some operations as they are.
func unstored(kinds ...operator.Op) func(*emulate.Machine, *emulate.Device) {
	return func(m *emulate.Machine, d *emulate.Device) {
		for i := range m.Nodes {
			for _, k := range kinds {
				if m.Nodes[i].Op == k {
					d.Store[i] = fp16.Float64
				}
			}
		}
	}
}

// wide multiplies what is not stored unrounded.
func wide(of emulate.Unrounded) func(*emulate.Machine, *emulate.Device) {
	return func(m *emulate.Machine, d *emulate.Device) {
		unstored(operator.OpConv, operator.OpNorm, operator.OpAct, operator.OpNoise)(m, d)
		d.Wide = of
	}
}

// folded takes batch norms into weights.
func folded(m *emulate.Machine, d *emulate.Device) {
	norms, of := emulate.Folds(m.Nodes), map[int]int{}
	for i, n := range norms {
		of[n] = i
	}
	d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		if j := norms[i]; j > 0 {
			n := rig.Fold(&m.Nodes[i], &m.Nodes[j])
			y, err := d.Convolve(&n, in[0])
			if err != nil {
				return nil, err
			}
			for p := range y.N() * y.C() {
				plane, b := y.Plane(p/y.C(), p%y.C()), fp16.BFloat16.Round(n.Bias.Data[p%y.C()])
				for k := range plane {
					plane[k] += b
				}
			}
			return y, nil
		}
		if of[i] > 0 || i > 0 && norms[of[i]] == i {
			return in[0].Clone(), nil
		}
		return nil, nil
	}
}

// split stores what a norm has normalized.
func split(m *emulate.Machine, d *emulate.Device) {
	d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		if !rig.Splits(m.Nodes[i]) {
			return nil, nil
		}
		return m.SplitNorm(i, fp16.BFloat16, in[0], nil), nil
	}
}

// TestContracts: a device of half numbers is right that leaves roundings of its claim out, of results or of operands,
// or has others that libraries and compilers have; and of the state of two steps before in place of the last one it
// fails at that step.
func TestContracts(t *testing.T) {
	t.Parallel()
	together := func(_ *emulate.Machine, d *emulate.Device) { d.BiasTogether = true }
	apart := func(_ *emulate.Machine, d *emulate.Device) { d.BiasApart = true }
	for name, of := range map[string]struct {
		autocast, norm string
		device         func(m *emulate.Machine, d *emulate.Device)
		scale          float64 // of the device's noise
	}{
		"the claim's own":                          {"cuda", "instance", unstored(), .1},
		"no result of a convolution is stored":     {"cpu", "none", unstored(operator.OpConv), .1},
		"no result is stored":                      {"cuda", "group", wide(0), .1},
		"activations are multiplied unrounded":     {"cpu", "instance", wide(emulate.WideInner), .1},
		"all operands are multiplied unrounded":    {"cpu", "none", wide(emulate.WideAll), .1},
		"a bias inside of the product's rounding":  {"cuda", "none", together, .1},
		"a bias outside of it":                     {"cpu", "none", apart, .1},
		"the scale of noise in half":               {"cuda", "instance", unstored(), fp16.BFloat16.Round(.1)},
		"batch norms in weights":                   {"cpu", "batch", folded, .1},
		"norms that are stored before their scale": {"cpu", "instance", split, .1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.NewRig(t, "bfloat16", "gaussian", .1)
			r.Config.Timesteps, r.Config.Realizations = 5, 2
			config := r.Op.Config
			config.Normalization = of.norm
			init := func(scale float64) *operator.Operator {
				config.NoiseScale = scale
				op, err := operator.Init(config, 5)
				if err != nil {
					t.Fatal(err)
				}
				return op
			}
			var err error
			if r.Mode, err = graph.ParseMode("bfloat16", of.autocast); err != nil {
				t.Fatal(err)
			}
			for _, stale := range []int{0, 3} {
				if stale > 0 && !share.All() && !strings.HasPrefix(name, "the ") { // why it fails is looked for at length
					continue
				}
				r.Op = init(of.scale)
				m := emulate.New(r.Op, r.Config)
				states := r.Run(func(_ *rig.Rig, at int, d *emulate.Device, _ *emulate.Draws, before []*tensor.Tensor) {
					if of.device(m, d); at == stale {
						copy(before[0].Data, before[1].Data)
					}
				})
				r.Op = init(.1)
				f := rig.Do(t, r.Exam(states, true), chain.Steps)
				if stale == 0 {
					rig.Want(t, "right", f, "", "", 0)
				} else if f == nil || f.Step != stale {
					t.Errorf("a state of two steps before: %v: want a failure at step %d", f, stale)
				}
			}
		})
	}
}
