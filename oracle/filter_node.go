package oracle

import (
	"cmp"
	"math"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// nodeStep is one layer of one step, with the inputs that the device had.
type nodeStep struct {
	node  int
	in    []*tensor.Tensor
	got   *tensor.Tensor
	store fp16.Format    // in which the device keeps the output
	size  []float64      // expected standard deviation of each element's error, rounding included
	draws *emulate.Draws // of the noise node
	// limit is the root mean square of (got - rounded exact value)/size that
	// correct devices reach at most; 0 for one flipped rounding in fifty, or 8
	// standard deviations where the output is not of a half type.
	limit float64
}

// nodeFilters holds the hypotheses about one layer against its own residual,
// which is far sharper than that of a step: nothing of it comes from other
// layers. The rows are sorted, those that were found first.
func nodeFilters(e *gate, n nodeStep) []report.FilterRow {
	of := make([]fp16.Format, len(e.machine.Nodes))
	for i := range of {
		of[i] = fp16.Float64
	}
	of[n.node] = n.store
	half := n.store == fp16.Float16 || n.store == fp16.BFloat16
	limit := n.limit
	if limit == 0 {
		limit = 8
		if half {
			limit = math.Sqrt(12. / 50)
		}
	}
	v := &view{e: e.evidence, m: e.machine, x: n.in[0], draws: n.draws, of: make([]*tensor.Tensor, len(of)), contract: true,
		d: &emulate.Device{Mode: e.mode, Store: of, State: fp16.Float64}, drawn: func(int) *emulate.Draws { return nil }}
	for k, j := range e.machine.Nodes[n.node].In {
		if j == operator.Input {
			v.x = n.in[k]
		} else {
			v.of[j] = n.in[k]
		}
	}
	base, err := v.local(nil, n.node)
	if err != nil {
		return nil
	}
	v.of[n.node], v.next, v.noisy = base, base, [4]int{base.N(), base.C(), base.H(), base.W()}
	f := &filter{e: &matcher{gate: e}, s: &fullStep{Limit: limit}, got: n.got.Data, size: n.size, near: v, exact: v, node: n.node}
	f.divide(base.N(), base.C(), base.H(), base.W())
	for i, u := range f.got {
		if !finite(u) || !finite(base.Data[i]) || !(f.size[i] > 0) {
			return nil
		}
	}
	f.change = relativeChange(n.got, base)
	f.strong = rootMean(f.residual(v, base)) > 3*limit
	var rows []report.FilterRow
	for _, h := range library() {
		if !h.on() || h.whole || !h.at(&e.machine.Nodes[n.node]) || h.slow && f.change > 0.1 {
			continue
		}
		t, err := f.try(h, scope(n.node), v, 3)
		if t == nil || err != nil || !(math.Abs(t.match.t) > 0) {
			continue
		}
		t.fits = f.named(t) && t.match.gain > 0.5 && f.conforms(t)
		rows = append(rows, report.FilterRow{Name: f.name(t), Verdict: h.verdict, Layer: e.machine.Nodes[n.node].Name,
			Amplitude: diff.Number(t.match.c), T: diff.Number(t.match.t), Gain: diff.Number(t.match.gain), Found: t.fits})
		if t.fits && t.match.after < 0.1*limit {
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

// local returns the output of node i with a fault, nil if it is none there; h
// may be nil.
func (v *view) local(h *hypothesis, i int) (*tensor.Tensor, error) {
	r, d := newRun(v), *v.d
	if h != nil && !r.fault(h, i, &d) {
		return nil, nil
	}
	in := make([]*tensor.Tensor, len(v.m.Nodes[i].In))
	for k := range in {
		in[k] = r.in(i, k)
	}
	y, err := v.m.Node(&d, i, in, v.draws.Rewind())
	if err != nil || h != nil && equal(y.Data, v.of[i].Data) {
		return nil, err
	}
	return y, nil
}
