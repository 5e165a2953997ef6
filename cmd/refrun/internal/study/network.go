package study

import (
	"fmt"
	"runtime"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// modelStudy is the JSON of study --onnx.
type modelStudy struct {
	Model    string          `json:"model"`
	Contract string          `json:"contract"`
	ISA      string          `json:"isa"`
	Threads  int             `json:"threads"`
	Seconds  float64         `json:"seconds"`
	Rows     []modelStudyRow `json:"rows"`
}

// modelStudyRow is how far the outputs in a precision are from those in float64: of several outputs the
// farthest.
type modelStudyRow struct {
	Twin       string      `json:"twin"`
	MaxAbs     diff.Number `json:"max_abs"`
	RMSOverStd diff.Number `json:"rms_over_std"` // of the output's standard deviation; of a single number, its size
	Error      string      `json:"error,omitempty"`
}

// studyModel evaluates a network in every precision for the given inputs.
func studyModel(c *cli.Command, m *model.Flags, autocast string) error {
	if err := m.Alone(c.Flags, "autocast"); err != nil {
		return err
	}
	n, err := m.Read()
	if err != nil {
		return err
	}
	defer n.Close()
	began := time.Now()
	truth, err := in(n, graph.Mode{Precision: fp16.Float64}, 0)
	if err != nil {
		return err
	}
	r := modelStudy{Model: m.Path(), Contract: graph.Contract, ISA: c.Isa, Threads: runtime.GOMAXPROCS(0)}
	for _, twin := range []string{"float32", "tf32", "float16", "bfloat16", "moved by 1e-6"} {
		mode, move := graph.Mode{Precision: fp16.Float64}, 1e-6
		if twin != "moved by 1e-6" {
			rules := ""
			if twin == "float16" || twin == "bfloat16" {
				rules = autocast
			}
			if mode, err = graph.ParseMode(twin, rules); err != nil {
				return fmt.Errorf("--autocast: %w", err)
			}
			move = 0
		}
		row := modelStudyRow{Twin: twin}
		out, err := in(n, mode, move)
		if err != nil {
			row.Error = err.Error()
		}
		for k := range out {
			d := diff.Compare(out[k].Data, truth[k].Data, fp16.Float64)
			row.MaxAbs = max(row.MaxAbs, d.MaxAbs)
			std := float64(d.RMSOverStd)
			if len(truth[k].Data) == 1 && truth[k].Data[0] != 0 {
				std = float64(d.MaxAbs) / max(truth[k].Data[0], -truth[k].Data[0])
			}
			row.RMSOverStd = max(row.RMSOverStd, diff.Number(std))
		}
		r.Rows = append(r.Rows, row)
	}
	r.Seconds = max(time.Since(began), time.Nanosecond).Seconds()
	if c.Json {
		return c.PrintJSON(r)
	}
	printModelStudy(c, r)
	return nil
}

// in evaluates the network in a mode, its inputs of floating-point numbers moved by that part of them.
func in(m *model.Network, mode graph.Mode, move float64) ([]*tensor.Tensor, error) {
	b, p, err := m.Complete(mode)
	if err != nil {
		return nil, err
	}
	for i, x := range b.In {
		if move != 0 && x.Format != fp16.Int64 {
			b.In[i] = x.Clone()
			for k, v := range x.Data {
				b.In[i].Data[k] = v + float64(move*v)
			}
		}
	}
	return b.Run(p)
}

func printModelStudy(c *cli.Command, r modelStudy) {
	c.Printf("%s: distance of the outputs to float64, for these inputs\n\n  %-14s %-10s RMS/std\n", r.Model, "", "largest")
	for _, row := range r.Rows {
		if row.Error != "" {
			c.Printf("  %-14s %s\n", row.Twin, row.Error)
			continue
		}
		c.Printf("  %-14s %-10s %s\n", row.Twin, cli.Num(row.MaxAbs), cli.Num(row.RMSOverStd))
	}
	c.Printf("\n%s s on %s (%s)\n", cli.Num(diff.Number(r.Seconds)), cli.Plural(r.Threads, "thread"), r.ISA)
}
