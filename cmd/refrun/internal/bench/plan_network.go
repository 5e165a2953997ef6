package bench

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	graphplan "github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// modelPlan compiles a network, for the inputs that are given or inputs of ones, and measures it.
func modelPlan(c *cli.Command, m *model.Flags, f *benchFlags) (*planReport, error) {
	if err := m.Alone(c.Flags, "precision", "autocast", "seconds"); err != nil {
		return nil, err
	}
	mode, err := graph.ParseMode(f.precision, f.autocast)
	if err == nil && mode.Precision == fp16.Float64 {
		err = fmt.Errorf("float64: is evaluated by definition: want another precision")
	}
	if err != nil {
		return nil, fmt.Errorf("--precision: %w", err)
	}
	n, err := m.Read()
	if err != nil {
		return nil, err
	}
	defer n.Close()
	b, p, err := n.Build(mode)
	if err != nil {
		return nil, err
	}
	b.Fill(1)
	fast, err := graphplan.New(b.Graph, mode, b.Types...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path(), err)
	}
	r := &planReport{
		Mode: mode.String(), What: m.Path(), Compiled: true, Kernels: append([]graphplan.Node{}, fast.Nodes()...),
		FLOPs: 2 * p.Products(), Build: fast.Build().Seconds(), Arena: fast.Arena(), Weights: fast.Bytes(), PaysFrom: -1,
	}
	for _, n := range r.Kernels {
		r.Passes, r.Bytes = max(r.Passes, n.Pass), r.Bytes+n.Bytes
	}
	for _, v := range b.Graph.Values {
		if v.Const != nil {
			r.Weights += 8 * int64(len(v.Const.Data))
		}
	}
	var out []*tensor.Tensor
	for _, v := range b.Graph.Outputs {
		out = append(out, tensor.New(p.Type(v).Format, p.Type(v).Shape...))
	}
	row, general := benchRow{}, benchRow{}
	row.time(float64(r.FLOPs), time.Duration(f.seconds*float64(time.Second)),
		func() { err = cmp.Or(fast.Run(nil, noise.Time{}, out, b.In), err) })
	general.time(float64(r.FLOPs), 1, func() {
		_, e := p.Run(new(graph.Run), b.In...)
		err = cmp.Or(err, e)
	})
	r.First, r.Seconds, r.Calls, r.CPUTime, r.GFLOPS = row.First, row.Seconds, row.Calls, row.processor, row.GFLOPS
	r.General = general.Seconds
	if saved := r.General - r.Seconds; saved > 0 {
		r.PaysFrom = math.Ceil(r.Build / saved)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", m.Path(), err)
	}
	return r, err
}
