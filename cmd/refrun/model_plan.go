package main

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	graphplan "github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// modelPlan compiles a network, for the inputs that are given or inputs of ones, and measures it.
func (c *command) modelPlan(m *modelFlags, f *benchFlags) (*planReport, error) {
	if err := m.alone(c.flags, "precision", "autocast", "seconds"); err != nil {
		return nil, err
	}
	mode, err := graph.ParseMode(f.precision, f.autocast)
	if err == nil && mode.Precision == fp16.Float64 {
		err = fmt.Errorf("float64: is evaluated by definition: want another precision")
	}
	if err != nil {
		return nil, fmt.Errorf("--precision: %w", err)
	}
	n, err := m.read()
	if err != nil {
		return nil, err
	}
	defer n.close()
	b, p, err := n.build(mode)
	if err != nil {
		return nil, err
	}
	b.fill(1)
	fast, err := graphplan.New(b.graph, mode, b.types...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.path(), err)
	}
	r := &planReport{
		Mode: mode.String(), What: m.path(), Compiled: true, Kernels: append([]graphplan.Node{}, fast.Nodes()...),
		FLOPs: 2 * p.Products(), Build: fast.Build().Seconds(), Arena: fast.Arena(), Weights: fast.Bytes(), PaysFrom: -1,
	}
	for _, n := range r.Kernels {
		r.Passes, r.Bytes = max(r.Passes, n.Pass), r.Bytes+n.Bytes
	}
	for _, v := range b.graph.Values {
		if v.Const != nil {
			r.Weights += 8 * int64(len(v.Const.Data))
		}
	}
	var out []*tensor.Tensor
	for _, v := range b.graph.Outputs {
		out = append(out, tensor.New(p.Type(v).Format, p.Type(v).Shape...))
	}
	row, general := benchRow{}, benchRow{}
	row.time(float64(r.FLOPs), time.Duration(f.seconds*float64(time.Second)),
		func() { err = cmp.Or(fast.Run(nil, noise.Time{}, out, b.in), err) })
	general.time(float64(r.FLOPs), 1, func() {
		_, e := p.Run(new(graph.Run), b.in...)
		err = cmp.Or(err, e)
	})
	r.First, r.Seconds, r.Calls, r.CPUTime, r.GFLOPS = row.First, row.Seconds, row.Calls, row.processor, row.GFLOPS
	r.General = general.Seconds
	if saved := r.General - r.Seconds; saved > 0 {
		r.PaysFrom = math.Ceil(r.Build / saved)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", m.path(), err)
	}
	return r, err
}

// fill sets the inputs that are not given to a number.
func (b *built) fill(v float64) {
	for i, t := range b.types {
		if b.in[i] == nil {
			b.in[i] = tensor.New(t.Format, t.Shape...)
			for k := range b.in[i].Data {
				b.in[i].Data[k] = v
			}
		}
	}
}
