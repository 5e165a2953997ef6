package fault

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// TestNoiseAsClaimed: a fault of the noise that changes no draw is none, under PyTorch 1.13's autocast too, which
// rounds the scale.
func TestNoiseAsClaimed(t *testing.T) {
	mode, err := graph.ParseMode("bfloat16", "cpu:1.13")
	if err != nil {
		t.Fatal(err)
	}
	r := rig.NewRig(t, "bfloat16", "gaussian", 0.01824)
	r.Mode = mode
	e, s, d := secondStep(t, r)
	v := &trial.View{Evidence: e.Evidence, Machine: e.Machine, Device: d, X: s.X, Draws: s.Draws, Contract: true,
		Drawn: func(int) *emulate.Draws { return nil }}
	if err := v.Compute(); err != nil {
		t.Fatal(err)
	}
	same := redrawn(&table.Row{}, func(_ *trial.View, _ int, _ noise.Kind, data []float64) []float64 { return data })
	y, err := v.Anew(same, trial.Everywhere)
	if err != nil {
		t.Fatal(err)
	}
	if far := measure.RootMeanSquareDiff(y.Data, v.Next.Data); far != 0 {
		t.Errorf("the same noise moves a step by %.3g", far)
	}
}

// TestPerturbedStatistics: devices that an amplitude's scatter is taken from add the statistics of a large norm up one
// after another, and differ by as much.
func TestPerturbedStatistics(t *testing.T) {
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 4, InputChannels: 3, OutputChannels: 3,
		KernelSize: 1, Activation: "relu", Normalization: "layer"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	r := rig.NewRig(t, "float32", "", 0)
	r.Op, r.Size, r.Config.Realizations, r.Config.Timesteps = op, 128, 1, 2
	e := r.Exam(r.Run(nil), true)
	s, err := e.Step(0, 0, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	v := &trial.View{Evidence: e.Evidence, Machine: e.Machine, X: s.X, Draws: s.Draws, Step: 1,
		Device: &emulate.Device{Mode: e.Mode, Wide: emulate.WideAll, State: fp16.Float64}}
	if err := v.Compute(); err != nil {
		t.Fatal(err)
	}
	scale := func(y *tensor.Tensor) float64 { // what all numbers share
		return measure.Dot(y.Data, v.Next.Data)/measure.Dot(v.Next.Data, v.Next.Data) - 1
	}
	var whole, blocks float64
	for k := range uint64(12) {
		y, err := v.Perturbed(&trial.Fault{Row: &table.Row{}}, trial.Everywhere, k+1)
		if err != nil {
			t.Fatal(err)
		}
		d := *v.Device
		d.Perturb = (&emulate.Legal{
			Machine: e.Machine, U: emulate.Accumulator(e.Mode), Lambda: emulate.CoarseLambda, Member: 1<<30 + k + 1,
		}).Disturb
		z, err := e.Machine.Step(&d, s.X, s.Draws.Rewind())
		if err != nil {
			t.Fatal(err)
		}
		whole, blocks = whole+scale(y)*scale(y), blocks+scale(z)*scale(z)
	}
	if whole < 9*blocks { // 16384 numbers and more, in blocks of 1024
		t.Errorf("the scale's variance is %.3g times that of blocks, want 9 or more", whole/blocks)
	}
}
