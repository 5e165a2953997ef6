package rig

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// NewExam prepares the check of a case, with no gate run.
func NewExam(t *testing.T, c *rollout.Case, mode graph.Mode, noise string) *facts.Gate {
	t.Helper()
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	states, err := c.ReadTrajectory()
	if err != nil {
		t.Fatal(err)
	}
	e := facts.Begin(&evidence.Evidence{
		Ctx: context.Background(), Case: c, Op: op, Machine: emulate.New(op, c.Rollout), States: states, Mode: mode,
	}, &facts.Facts{Report: &report.Report{FirstStep: -1}})
	if noise != "unknown" {
		if e.Stream, err = c.OpenStream(noise, op, mode); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// Scattered changes every number by a part of it, up or down by its place.
func Scattered(part float64) func(y *tensor.Tensor) {
	return func(y *tensor.Tensor) {
		for k, v := range y.Data {
			if measure.Mix64(uint64(k))%2 == 0 {
				v = -v
			}
			y.Data[k] += v * part
		}
	}
}

// Recording is one application of an operator by some device, as a layers file
// has it.
type Recording struct {
	Exam    *facts.Gate
	from    int // realization
	Names   []string
	Outputs map[string]*tensor.Tensor
}

// Record runs a device on a state of two realizations of the case, from is the
// first of them.
func Record(t *testing.T, e *facts.Gate, d emulate.Device, step, from int) *Recording {
	t.Helper()
	b, err := e.Step(0, from, min(from+2, e.States.M), step)
	if err != nil {
		t.Fatal(err)
	}
	r := &Recording{Exam: e, from: from, Outputs: map[string]*tensor.Tensor{}}
	keep := func(name string, f fp16.Format, x *tensor.Tensor) {
		r.Names = append(r.Names, name)
		r.Outputs[name] = tensor.Of(f, append([]float64(nil), x.Data...), x.Shape...)
	}
	keep("input", fp16.Float32, b.X)
	d.Seen = func(i int, y *tensor.Tensor) {
		f := d.Store[i]
		if !evidence.OnFormat(f, y.Data) || f == fp16.Float64 {
			f = fp16.Float32
			f.RoundSlice(y.Data, y.Data)
		}
		keep(e.Machine.Nodes[i].Name, f, y)
	}
	if _, err := e.Machine.Operator(&d, b.X, b.Draws.Rewind()); err != nil {
		t.Fatal(err)
	}
	return r
}

// Examine runs a gate on what is left of the recording without some modules.
func (r *Recording) Examine(t *testing.T, layers facts.Check, step string, without ...string) *report.Report {
	t.Helper()
	var all []*safetensors.Tensor
	for _, name := range r.Names {
		drop := false
		for _, w := range without {
			drop = drop || strings.HasSuffix(name, w)
		}
		if drop {
			continue
		}
		x := r.Outputs[name]
		s, err := safetensors.OfFloat64s(name, safetensors.DTypeOf(x.Format), []int{x.N(), x.C(), x.H(), x.W()}, x.Data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	var b bytes.Buffer
	_, lo, hi := evidence.BatchOf(r.Exam.Case.Rollout, r.from)
	if err := safetensors.Write(&b, all,
		map[string]string{"step": step, "realization": fmt.Sprint(r.from), "batch": fmt.Sprint(hi - lo)}); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Parse("layers", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	e, c := *r.Exam.Evidence, *r.Exam.Case
	c.Layers, e.Case = f, &c
	found := &facts.Facts{Report: &report.Report{FirstStep: -1}}
	if found.Report.Findings, err = layers(&e, found); err != nil {
		t.Fatal(err)
	}
	return found.Report
}

func LayerExam(t *testing.T, name, precision string) (*facts.Gate, emulate.Device) {
	t.Helper()
	mode, err := graph.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	e := NewExam(t, OpenCase(t, name), mode, "counter")
	d := emulate.Device{Mode: mode}
	if d.Store, err = e.Machine.Formats(mode, fp16.Float32); err != nil {
		t.Fatal(err)
	}
	return e, d
}
