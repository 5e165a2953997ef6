package match

import (
	"cmp"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// NodeStep is one layer of one step, with the inputs that the device had.
type NodeStep struct {
	Node  int
	In    []*tensor.Tensor
	Got   *tensor.Tensor
	Store fp16.Format    // in which the device keeps the output
	Size  []float64      // expected standard deviation of each element's error, rounding included
	Draws *emulate.Draws // of the noise node
	// Limit is the root mean square of (got - rounded exact value)/size that
	// correct devices reach at most; 0 for one flipped rounding in fifty, or 8
	// standard deviations where the output is not of a half type.
	Limit float64
}

// NodeFilters holds the hypotheses about one layer against its own residual,
// which is far sharper than that of a step: nothing of it comes from other
// layers. The rows are sorted, those that were found first.
func NodeFilters(e *facts.Gate, n NodeStep) []report.FilterRow {
	of := make([]fp16.Format, len(e.Machine.Nodes))
	for i := range of {
		of[i] = fp16.Float64
	}
	of[n.Node] = n.Store
	limit := n.Limit
	if limit == 0 {
		limit = 8
		if n.Store.Half() {
			limit = math.Sqrt(12. / 50)
		}
	}
	v := &trial.View{Evidence: e.Evidence, Machine: e.Machine, X: n.In[0], Draws: n.Draws,
		Outputs: make([]*tensor.Tensor, len(of)), Contract: true,
		Device: &emulate.Device{Mode: e.Mode, Store: of, State: fp16.Float64}, Drawn: func(int) *emulate.Draws { return nil }}
	for k, j := range e.Machine.Nodes[n.Node].In {
		if j == operator.Input {
			v.X = n.In[k]
		} else {
			v.Outputs[j] = n.In[k]
		}
	}
	base, err := v.Local(nil, n.Node)
	if err != nil {
		return nil
	}
	v.Outputs[n.Node], v.Next, v.Noisy = base, base, [4]int{base.N(), base.C(), base.H(), base.W()}
	f := &filter{
		e: &Matcher{Gate: e}, s: &Step{Limit: limit}, got: n.Got.Data, size: n.Size, near: v, exact: v, node: n.Node,
	}
	f.divide(base.N(), base.C(), base.H(), base.W())
	for i, u := range f.got {
		if !measure.Finite(u) || !measure.Finite(base.Data[i]) || !(f.size[i] > 0) {
			return nil
		}
	}
	f.change = measure.RelativeChange(n.Got, base)
	f.strong = measure.RMS(f.residual(v, base)) > 3*limit
	var rows []report.FilterRow
	for _, h := range fault.Library() {
		if !h.On() || h.Whole || !h.At(&e.Machine.Nodes[n.Node]) || h.Slow && f.change > 0.1 {
			continue
		}
		t, err := f.try(h, trial.Scope(n.Node), v, 3)
		if t == nil || err != nil || !(math.Abs(t.Match.T) > 0) {
			continue
		}
		t.fits = f.named(t) && t.Match.Gain > 0.5 && f.conforms(t)
		rows = append(rows, report.FilterRow{
			ID: h.ID, Name: f.name(t), Verdict: h.Verdict, Layer: e.Machine.Nodes[n.Node].Name,
			Amplitude: diff.Number(t.Match.C), T: diff.Number(t.Match.T), Gain: diff.Number(t.Match.Gain), Found: t.fits,
		})
		if t.fits && t.Match.After < 0.1*limit {
			break
		}
	}
	slices.SortStableFunc(rows, func(a, b report.FilterRow) int {
		if a.Found != b.Found {
			return map[bool]int{true: -1, false: 1}[a.Found]
		}
		return cmp.Compare(b.Gain, a.Gain)
	})
	return rows[:min(len(rows), filterRows)]
}
