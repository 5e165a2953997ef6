package oracle

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/chain"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// TestUAFNOOneStep: single steps of U-AFNO rollouts that PyTorch recorded, with their tape
// and with PyTorch's stream from the seeds, one of them with weights from its seed.
func TestUAFNOOneStep(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"group_residual", "layers"} {
		for _, stream := range []string{"tape", "torch-cpu:2.x"} {
			c, err := rollout.OpenCase("../testdata/uafno/" + name)
			if err != nil {
				t.Fatal(err)
			}
			r, err := CheckOneStep(c, OneStepOptions{Mode: graph.Mode{Precision: fp16.Float32}, Noise: stream})
			if err != nil {
				t.Fatal(err)
			}
			if !(r.All.MaxOverStd <= 1e-5) {
				t.Errorf("%s, %s: largest difference %v of the std: want at most 1e-5", name, stream, r.All.MaxOverStd)
			}
			if !(r.Truth.Ratio <= 1.02) {
				t.Errorf("%s, %s: %v times as far from float64 as PyTorch: want at most 1.02", name, stream, r.Truth.Ratio)
			}
			if name == "layers" && len(r.Layers) < 40 {
				t.Errorf("%s: %d layers compared: want those of all modules", name, len(r.Layers))
			}
			for _, l := range r.Layers {
				if !(l.MaxOverStd <= 2e-5) {
					t.Errorf("%s: layer %s is %v of its std away: want at most 2e-5", name, l.Name, l.MaxOverStd)
				}
			}
		}
	}
}

// TestUAFNOCheck: a recorded rollout passes as what it claims to be, layer by layer.
func TestUAFNOCheck(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"layers"} {
		c, err := rollout.OpenCase("../testdata/uafno/" + name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := CheckCase(t.Context(), c, CheckOptions{Mode: graph.Mode{Precision: fp16.Float32}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != report.PassConforming {
			t.Errorf("%s: %s: want %s", name, r.Verdict, report.PassConforming)
		}
		if name == "layers" {
			spectral := slices.ContainsFunc(r.Layers,
				func(l report.LayerRow) bool { return l.Name == "bottleneck.0.spectral.mlp.0" })
			if len(r.Layers) < 30 || !spectral {
				t.Errorf("%s: %d layers checked, a spectral one among them: %v: want all", name, len(r.Layers), spectral)
			}
		}
	}
}

// spectralFault changes the output of the node of a U-AFNO whose name ends so.
func spectralFault(suffix string, f func(y *tensor.Tensor, in []*tensor.Tensor)) rig.Mischief {
	return func(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		nodes := r.Op.Nodes()
		d.Perturb = func(i int, y *tensor.Tensor, in []*tensor.Tensor) {
			if strings.HasSuffix(nodes[i].Name, suffix) {
				f(y, in)
			}
		}
	}
}

// uncut keeps the frequencies that a spectral block does not mix.
func uncut(r *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
	nodes := r.Op.Nodes()
	var whole *tensor.Tensor
	d.Perturb = func(i int, y *tensor.Tensor, _ []*tensor.Tensor) {
		switch name := nodes[i].Name; {
		case strings.HasSuffix(name, "spectral.rfft2"):
			whole = y.Clone()
		case strings.HasSuffix(name, "spectral.out_fft"):
			for k, v := range y.Data {
				if v == 0 {
					y.Data[k] = whole.Data[k]
				}
			}
		}
	}
}

// TestUAFNOFaults: devices whose spectra, joins or sums are wrong fail, and a right one
// does not.
func TestUAFNOFaults(t *testing.T) {
	scaled := func(s float64) func(*tensor.Tensor, []*tensor.Tensor) {
		return func(y *tensor.Tensor, _ []*tensor.Tensor) {
			for k := range y.Data {
				y.Data[k] *= s
			}
		}
	}
	for _, f := range []struct {
		name string
		do   rig.Mischief
	}{
		{"right", nil},
		{"the cut of modes missing", uncut},
		{"norm backward in place of ortho", spectralFault("spectral.irfft2", scaled(1/math.Sqrt(64)))},
		{"skips joined in another order", spectralFault(".fusion", func(y *tensor.Tensor, in []*tensor.Tensor) {
			for n := range y.N() {
				at := copy(y.Samples(n, n+1).Data, in[1].Samples(n, n+1).Data)
				copy(y.Samples(n, n+1).Data[at:], in[0].Samples(n, n+1).Data)
			}
		})},
		{"the first sum of an AFNO block missing", spectralFault("bottleneck.0.residual",
			func(y *tensor.Tensor, in []*tensor.Tensor) { copy(y.Data, in[1].Data) })},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := rig.NewRig(t, "float32", "gaussian", 0.05)
			var err error
			r.Op, err = operator.Init(operator.Config{BaseChannels: 2, GridSize: 16, NoiseType: "gaussian", NoiseScale: 0.05,
				UAFNO: &operator.UAFNO{EncoderLevels: 1, Modes: 3, AFNOBlocks: 1, BlocksPerLevel: 1}}, 5)
			if err != nil {
				t.Fatal(err)
			}
			r.Config.Timesteps, r.Config.Realizations = 2, 2
			found := rig.Do(t, r.Exam(r.Run(f.do), true), chain.Steps)
			switch {
			case f.do == nil && found != nil:
				t.Errorf("a right device: %s: %s", found.Verdict, found.Text)
			case f.do != nil && (found == nil || !strings.HasPrefix(string(found.Verdict), "FAIL") || found.Step != 1):
				t.Errorf("%+v: want a fault at step 1", found)
			}
		})
	}
}
