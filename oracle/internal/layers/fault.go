package layers

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/match"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// layerFault reports a layer that is wrong by itself.
func (e *gate) layerFault(l *evidence.LayerFile, g *layerGate, i int, in []layerValue, s *layerScore) {
	n := &g.m.Nodes[i]
	x := s.got
	realization := s.first(l.Realization)
	where := s.where()
	f := report.Finding{Gate: s.gate, Step: l.Step, Realization: realization, Layer: n.Name, Slice: where,
		Excess: diff.Number(s.excess)}
	f.Verdict = s.verdict(n, where)
	at := ""
	if where != "" {
		at = " in " + where
	}
	switch s.gate {
	case "bound":
		f.Text = fmt.Sprintf("%s: %d of %d elements are outside of what any right device can have%s, "+
			"the worst %.3g times the bound away", n.Name, s.violations, len(x.Data), at, float64(s.row.MaxE))
	default:
		f.Text = fmt.Sprintf("%s: errors%s are %.3g times what a right device's can be: "+
			"%d of %d elements are not the rounded value (limit %.0f), variance %.3g",
			n.Name, at, s.excess, s.row.Flips, len(x.Data), float64(s.row.FlipLimit), float64(s.row.Variance))
	}
	if g.faults++; g.faults == 1 && !e.Late("diagnosis of layer "+n.Name) {
		e.diagnose(g, i, in, s, &f)
	}
	e.Find(f)
	if len(e.Report.Worst) == 0 || e.Report.Worst[0].Layer == "" {
		worst := append(s.elements(n.Name, l.Step, l.Realization), e.Report.Worst...)
		e.Report.Worst = worst[:min(10, len(worst))]
	}
}

// where names the slice that a fault sits in: one that holds nearly all of
// what is wrong and is less than half of the layer, the smallest such; or, where
// nothing is outside of its interval, the one that is farthest over its limit
// while the layer as a whole is not.
func (s *layerScore) where() string {
	f := newFigures(len(s.bad))
	total := 0
	for k, bad := range s.bad {
		if bad {
			f.flips[k] = 1
			total++
		}
	}
	if total == 0 {
		if s.row.Flips <= int(s.row.FlipLimit) {
			return s.slice.name
		}
		return ""
	}
	best := slice{}
	for _, v := range slicesOf(s.got, f) {
		// That many wrong elements come together by chance in some slice of
		// this size with a chance below 2^-30 times the number of slices.
		rare := total*(bits.Len(uint(len(s.bad)/v.n))-1) >= 30
		if rare && v.flips >= 0.9*float64(total) && 2*v.n < len(s.bad) && (best.n == 0 || v.n < best.n) {
			best = v
		}
	}
	if best.n > 0 && best.n <= s.got.H()*s.got.W() {
		return best.name + s.box()
	}
	return best.name
}

// box names the rectangle around what is wrong, if it is less than half of the
// image.
func (s *layerScore) box() string {
	x := s.got
	y0, y1, x0, x1 := x.H(), -1, x.W(), -1
	for k, bad := range s.bad {
		if bad {
			i, j := k/x.W()%x.H(), k%x.W()
			y0, y1, x0, x1 = min(y0, i), max(y1, i), min(x0, j), max(x1, j)
		}
	}
	if 2*(y1-y0+1)*(x1-x0+1) > x.H()*x.W() {
		return ""
	}
	return fmt.Sprintf(", a tile of %dx%d at (%d,%d)", y1-y0+1, x1-x0+1, y0, x0)
}

// verdict says what kind of fault a wrong layer speaks for: errors that are
// small beside the layer and spread over all of it are ones of precision.
func (s *layerScore) verdict(n *operator.Node, where string) report.Verdict {
	size := s.relative
	if n.Op == operator.OpAct {
		size = s.local // a function of one number has errors of its size
	}
	switch {
	case n.Op == operator.OpNoise:
		return report.FailRNG
	case s.gate == "bound" && (where != "" || size > s.coarse(n)):
		return report.FailLogic
	}
	return report.FailPrecision
}

// coarse is how large errors of a wrong precision may be beside their layer:
// 2^-6, and in a half type four ulps, or what an accumulator of that type has
// after all terms of a convolution.
func (s *layerScore) coarse(n *operator.Node) float64 {
	if s.store == fp16.Float64 {
		return 0x1p-6
	}
	ulp := s.store.Ulp(1)
	if n.Op == operator.OpConv {
		w := n.Weight.Shape
		return max(0x1p-6, 4*ulp, 2*roundingSD*ulp*math.Sqrt(float64(w[1]*w[2]*w[3])/2))
	}
	return max(0x1p-6, 4*ulp)
}

// diagnose looks for the fault with a name that makes of the layer's recorded
// inputs what the device has.
func (e *gate) diagnose(g *layerGate, i int, in []layerValue, s *layerScore, f *report.Finding) {
	step := match.NodeStep{Node: i, Got: s.got, Store: s.store, Draws: g.draws, Size: make([]float64, len(s.got.Data)),
		Limit: s.answer.wide}
	for _, v := range in {
		if v.bound != nil {
			return
		}
		step.In = append(step.In, v.Tensor)
	}
	for k, mid := range s.answer.mid {
		if !measure.Finite(mid) {
			return
		}
		ulp := 0.0
		if s.store != fp16.Float64 {
			ulp = s.store.Ulp(mid)
		}
		step.Size[k] = math.Sqrt(float64(ulp*ulp)/12 + float64(s.answer.sd[k]*s.answer.sd[k]))
	}
	if s.store.Half() {
		// A flip is an ulp, and so 12 times the expected square.
		step.Limit = math.Sqrt(12 * float64(s.row.FlipLimit) / float64(len(s.got.Data)))
	}
	rows := match.NodeFilters(e.Gate, step)
	if len(rows) == 0 || !rows[0].Found {
		return
	}
	if len(e.Report.Filters) == 0 || !e.Report.Filters[0].Found {
		e.Report.Filters = rows
	}
	f.Verdict, f.ID, f.Diagnosis = rows[0].Verdict, rows[0].ID, rows[0].Name
	f.Text += fmt.Sprintf("; %s explains %.3g of the errors", rows[0].Name, float64(rows[0].Gain))
}

// formatBits writes a number as a dump of a format shows it.
func formatBits(f fp16.Format, v float64) string {
	if v != v || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%#0*x", 2+2*f.Bytes(), f.Bits(v))
}
