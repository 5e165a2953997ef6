package noisestat

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/structure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestNormalOfLaplace: both numbers are exceeded as often.
func TestNormalOfLaplace(t *testing.T) {
	last := 0.0
	for _, x := range []float64{1e-9, 1e-3, 0.3, 1, 3, 10, 17, 300, 640, 1e6} {
		y := normalOfLaplace(x)
		if y != -normalOfLaplace(-x) || !(y > last) {
			t.Errorf("%v: %v, after %v, and %v of -x: want it to grow, and odd", x, y, last, normalOfLaplace(-x))
		}
		last = y
		if p, q := math.Erfc(y/math.Sqrt2), math.Exp(-math.Sqrt2*x); x < 20 && math.Abs(p-q) > 1e-12*(q+1e-3*(1-q)) {
			t.Errorf("%v: exceeded with probability %.12g: want %.12g", x, p, q)
		}
	}
	if normalOfLaplace(0) != 0 {
		t.Error("0 does not stay")
	}
}

// TestUnknownNoiseFewChannels: sums over few draws with long tails, or over factors
// of few numbers that may be near zero, have long tails too, and no other draws are
// taken for them.
func TestUnknownNoiseFewChannels(t *testing.T) {
	for _, c := range []struct {
		kind, act string
		scale     float64
		channels  int
	}{{"laplace", "gelu", .05, 1}, {"laplace", "gelu", .05, 2}, {"laplace", "silu", .02, 4}, {"laplace", "tanh", .02, 5},
		{"multiplicative", "gelu", .05, 1}, {"multiplicative", "relu", .05, 2}, {"multiplicative", "silu", .05, 3}} {
		for _, precision := range []string{"float32", "tf32", "float16"} {
			for seed := range 3 {
				r := rig.FewChannels(t, precision, c.kind, c.scale, c.channels, c.act)
				r.Config.BaseSeed = uint64(100 * seed)
				name := fmt.Sprintf("%s, %s of %d channels, seed %d", precision, c.kind, c.channels, seed)
				e := r.Exam(r.Run(nil), false)
				rig.Want(t, name, rig.Do(t, e, ReadMasks, structure.Check, Check), "", "", 0)
				if c.kind != "laplace" || seed > 0 {
					continue
				}
				e = r.Exam(r.Run(func(r *rig.Rig, _ int, _ *emulate.Device, d *emulate.Draws, _ []*tensor.Tensor) {
					for i, v := range d.Data[1] {
						d.Data[0][i] = math.Sqrt2 * math.Abs(v) // and its sign
					}
				}), false)
				rig.Want(t, name+", normal", rig.Do(t, e, Check), report.FailRNG, "noise of another distribution", -1)
			}
		}
	}
}

// TestUnknownNoiseNormalized: the line that undoes a normalization of the states is
// off by more than noise that small numbers multiply.
func TestUnknownNoiseNormalized(t *testing.T) {
	r := rig.NewRig(t, "float32", "multiplicative", .03)
	r.Config.Normalization = rollout.MinMax
	config := r.Op.Config
	config.Activation = "relu"
	var err error
	if r.Op, err = operator.Init(config, 5); err != nil {
		t.Fatal(err)
	}
	e := r.Exam(r.Run(nil), false)
	rig.Want(t, "states from 0 to 1", rig.Do(t, e, Check), "", "", 0)
}

// TestUnknownNoiseBelowRoundings: where noise is far below the roundings of a half
// type, it is not as large as it would be without any, and neither are those of a
// device that stores less.
func TestUnknownNoiseBelowRoundings(t *testing.T) {
	for _, scale := range []float64{.0003, .001, .003} {
		r := rig.NewRig(t, "bfloat16", "laplace", scale)
		config := r.Op.Config
		config.NumLayers = 6
		var err error
		if r.Op, err = operator.Init(config, 5); err != nil {
			t.Fatal(err)
		}
		r.Config.Policy, r.Config.Alpha, r.Config.Timesteps = rollout.Autoregressive, 0, 6
		nodes := emulate.New(r.Op, r.Config).Nodes
		e := r.Exam(r.Run(func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			d.Store = slices.Clone(d.Store)
			for i, n := range nodes {
				if n.Op == operator.OpNorm || n.Op == operator.OpAdd {
					d.Store[i] = fp16.Float32
				}
			}
		}), false)
		rig.Want(t, fmt.Sprint("fewer roundings, noise ", scale), rig.Do(t, e, Check), "", "", 0)
	}
}

// TestUnknownNoiseApart: where an operator makes more and more of its roundings, a
// device that stores less than the claim has others, beside those of the claim.
func TestUnknownNoiseApart(t *testing.T) {
	for _, seed := range []uint64{5, 7} {
		r := rig.NewRig(t, "bfloat16", "laplace", 0.12)
		config := r.Op.Config
		config.NumLayers, config.Normalization, config.Activation = 4, "none", "relu"
		var err error
		if r.Op, err = operator.Init(config, seed); err != nil {
			t.Fatal(err)
		}
		nodes := r.Op.Nodes()
		for _, n := range nodes {
			if n.Op == operator.OpConv {
				for k := range n.Weight.Data {
					n.Weight.Data[k] *= 2.2
				}
			}
		}
		r.Config.Policy, r.Config.Alpha, r.Config.Timesteps = rollout.Autoregressive, 0, 6
		e := r.Exam(r.Run(func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
			d.Store = slices.Clone(d.Store)
			for i, n := range nodes {
				if n.Op == operator.OpAdd {
					d.Store[i] = fp16.Float32
				}
			}
			d.BiasTogether = true
		}), false)
		rig.Want(t, fmt.Sprint("fewer roundings, weights ", seed), rig.Do(t, e, Check), "", "", 0)
	}
}

// TestUnknownNoiseTruncated: operands that are cut off make an output a little smaller
// everywhere, which is no mean of a small multiplicative noise.
func TestUnknownNoiseTruncated(t *testing.T) {
	r := rig.NewRig(t, "tf32", "multiplicative", .015)
	config := r.Op.Config
	config.Normalization, config.Activation = "none", "tanh"
	var err error
	if r.Op, err = operator.Init(config, 5); err != nil {
		t.Fatal(err)
	}
	r.Config.Policy, r.Config.Alpha = rollout.Autoregressive, 0
	e := r.Exam(r.Run(func(_ *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		d.Mode.TF32 = fp16.TowardZero
	}), false)
	rig.Want(t, "cut off", rig.Do(t, e, Check), "", "", 0)
	e = r.Exam(r.Run(func(r *rig.Rig, _ int, d *emulate.Device, draws *emulate.Draws, _ []*tensor.Tensor) {
		for i := range draws.Data[0] {
			draws.Data[0][i] += .5
		}
	}), false)
	rig.Want(t, "a mean", rig.Do(t, e, Check), report.FailRNG, "noise has a mean", -1)
}

// TestUnknownNoiseSwallowed: in a rollout that grows without bound the states' format
// takes the noise in; that is no step without noise, and none of another size.
func TestUnknownNoiseSwallowed(t *testing.T) {
	for _, seed := range []uint64{0, 3} {
		r := rig.NewRig(t, "bfloat16", "gaussian", .02)
		config := r.Op.Config
		config.Normalization, config.Activation = "none", "relu"
		var err error
		if r.Op, err = operator.Init(config, seed); err != nil {
			t.Fatal(err)
		}
		for _, n := range r.Op.Nodes() {
			if n.Op == operator.OpConv && n.Weight.Shape[3] > 1 {
				for k := range n.Weight.Data {
					n.Weight.Data[k] *= 5
				}
			}
		}
		r.Config.Policy, r.Config.Alpha, r.Config.Timesteps = rollout.Autoregressive, 0, 16
		e := r.Exam(r.Run(nil), false)
		rig.Want(t, fmt.Sprint("growing states, seed ", seed), rig.Do(t, e, Check), "", "", 0)
	}
}

// TestSwallowed: what counts is where the noise is. Zeros have none to lose where it
// multiplies.
func TestSwallowed(t *testing.T) {
	r := rig.NewRig(t, "bfloat16", "multiplicative", .05)
	e := r.Exam(r.Run(nil), false)
	for _, c := range []struct {
		kind          noise.Type
		sigma, centre float64
		hidden        []float64
		want          bool
	}{
		{noise.Multiplicative, .05, 1, []float64{0, 0, 0, 2}, false},
		{noise.Multiplicative, 1e-5, 1, []float64{0, 0, 0, 2}, true},
		{noise.Gaussian, .05, 1, []float64{1, 1, 1, 1e6}, false},
		{noise.Gaussian, .05, 1, []float64{1, 1e6, 1e6, 1e6}, true},
		{noise.Gaussian, .05, 1e9, []float64{1, 1, 1, 1}, true}, // a state in float32
	} {
		u := &Unseen{E: e, M: &Model{Kind: c.kind, sigma: c.sigma, W: [][]float64{{1, 1, 1, 1}}, Rows: []int{0}}}
		hidden := tensor.Of(fp16.Float64, c.hidden, 1, 4, 1, 1)
		st := &UnseenStep{
			BatchStep: &evidence.BatchStep{X: tensor.New(fp16.Float64, 1, 1, 1, 1)}, Centre: []float64{c.centre},
		}
		if got := u.swallowed(st, hidden, 0, 0); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
