// Package layers is the gate of recorded layers: each is held, from its own recorded
// inputs, against an interval that no right device leaves, and against statistics.
package layers

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// Check is gates 1 and 2: each recorded layer against what right devices make
// of the inputs that this device itself had stored, so that no error of a layer
// is another one's.
func Check(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	e, done := &gate{facts.Begin(ev, f)}, 0
	err := e.Case.EachLayers(func(f *safetensors.File) error {
		if done > 0 && e.Missed("layers of "+f.Path+": the budget was spent") {
			return nil
		}
		l, err := evidence.OpenLayers(f, e.Machine, e.Op.Config.InputChannels, e.Case.Rollout)
		if err != nil {
			return err
		}
		done++
		e.Progress("layers", done, 0)
		return e.layerFile(l)
	})
	return e.Found, err
}

// gate is these gates at work.
type gate struct{ *facts.Gate }

// layerGate is the examination of one layers file.
type layerGate struct {
	m      *emulate.Machine
	mode   operator.Mode
	u      float64              // unit roundoff of the device's arithmetic
	draws  *emulate.Draws       // nil if unknown
	faults int                  // layers found wrong
	shapes [][]int              // of each node's output
	of     []fp16.Format        // in which the contract stores each node's output
	folds  []int                // see emulate.Folds
	also   map[int][]layerValue // possible outputs of unrecorded norms, if folded into the convolution before
	plain  []bool               // instance norms whose statistics PyTorch's CPU autocast keeps in the half type
	orders orders
}

// layerFile examines one recorded run of the operator.
func (e *gate) layerFile(l *evidence.LayerFile) error {
	g := &layerGate{also: map[int][]layerValue{}, m: e.Machine, mode: e.Mode, u: emulate.Accumulator(e.Mode),
		plain: emulate.PlainNorms(e.Op.Config, e.Machine.Nodes, e.Mode)}
	var err error
	if g.of, err = e.Machine.Formats(g.mode, l.Input.Format); err != nil {
		return fmt.Errorf("%s: %w", l.Path, err)
	}
	if g.shapes, err = e.Machine.Shapes(l.Input.Shape); err != nil {
		return fmt.Errorf("%s: %w", l.Path, err)
	}
	draws, err := e.LayerDraws(l)
	if err != nil {
		return err
	}
	if len(draws) > 0 {
		g.draws = draws[0]
	}
	follows := e.layerInput(l)
	// by node: one if recorded, several ways if not, none if nothing is known
	known := make([][]layerValue, len(g.m.Nodes))
	var unlike []string
	for i := range g.m.Nodes {
		n := &g.m.Nodes[i]
		ways := g.inputs(n, l, known)
		got := l.Nodes[i]
		if got == nil && known[i] != nil {
			continue // folded into the node before
		}
		if got == nil {
			known[i] = append(append(g.derive(i, ways), g.also[i]...), g.split(i, ways)...)
			if len(ways) > 0 {
				if a, j := g.folded(i, l, ways[0][0]); j > 0 {
					g.also[j] = unrecorded(a, g.of[j], g.shapes[j])
				}
			}
			continue
		}
		known[i] = []layerValue{recorded(got)}
		if len(ways) == 0 {
			e.Report.Unjudged = append(e.Report.Unjudged,
				fmt.Sprintf("layer %s at step %d: its input is not known", n.Name, l.Step))
			continue
		}
		store := g.store(i, got)
		s := g.best(i, ways, got, store)
		if n.Op == operator.OpNoise {
			for _, d := range draws[min(1, len(draws)):] {
				if s != nil && s.right() {
					break
				}
				g.draws = d
				if t := g.best(i, ways, got, store); s == nil || t.better(s) {
					s = t
				}
			}
		}
		if s != nil && !s.right() {
			if a, j := g.folded(i, l, ways[0][0]); j > 0 {
				if t := nearest(a, got, g.store(j, got)); t.right() {
					s, known[i], known[j] = t, nil, known[i]
				}
			}
		}
		if s == nil {
			e.Report.Notes = append(e.Report.Notes,
				fmt.Sprintf("step %d: layer %s is not checked: its noise is not known", l.Step, n.Name))
			continue
		}
		if s.right() {
			if store != g.of[i] {
				unlike = append(unlike, n.Name+" keeps "+store.String())
			}
			if s.answer.how != "" {
				unlike = append(unlike, n.Name+": "+s.answer.how)
			}
		}
		s.row.Step, s.row.Name, s.row.Op = l.Step, n.Name, opName(n)
		e.Report.Layers = append(e.Report.Layers, s.row)
		if !s.right() {
			e.layerFault(l, g, i, ways[0], s)
		}
		e.handedOn(l, n, got)
	}
	if follows {
		e.layerPolicy(g, l)
	}
	if len(unlike) > 0 {
		e.Report.Notes = append(e.Report.Notes,
			fmt.Sprintf("step %d: layers are right by another contract: %s", l.Step, strings.Join(unlike, "; ")))
	}
	return nil
}

func opName(n *operator.Node) string {
	if n.Op == operator.OpOther {
		return n.Other.Name()
	}
	return [...]string{"conv", "norm", "act", "add", "noise"}[n.Op]
}

func recorded(t *tensor.Tensor) layerValue {
	return layerValue{Tensor: tensor.Of(fp16.Float64, t.Data, t.Shape...)}
}

// inputs returns the ways in which a node's inputs are known, each a value per
// input; none if one of them is not known at all.
func (g *layerGate) inputs(n *operator.Node, l *evidence.LayerFile, known [][]layerValue) [][]layerValue {
	of := func(j int) []layerValue {
		if j == operator.Input {
			return []layerValue{recorded(l.Input)}
		}
		return known[j]
	}
	count := 1
	for _, j := range n.In {
		if len(of(j)) == 0 {
			return nil
		}
		count = max(count, len(of(j)))
	}
	ways := make([][]layerValue, count)
	for k := range ways {
		for _, j := range n.In {
			ways[k] = append(ways[k], of(j)[min(k, len(of(j))-1)])
		}
	}
	return ways
}

// derive returns what is known of a node that is not recorded. What follows another such node
// is handed on as that one is, as far as it is rounded at all.
func (g *layerGate) derive(i int, ways [][]layerValue) (all []layerValue) {
	for _, in := range ways {
		values := unrecorded(g.answers(i, in, nil), g.of[i], g.shapes[i])
		if values == nil {
			return nil
		}
		k := slices.IndexFunc(in, func(v layerValue) bool { return v.bound != nil })
		switch {
		case k < 0:
			all = append(all, values...)
		case len(values) == 1:
			values[0].manner = in[k].manner
			all = append(all, values[0].after(in[k]))
		case in[k].manner != isKept || len(values) == 3:
			all = append(all, values[in[k].manner].after(in[k]))
		default:
			for _, v := range []layerValue{values[isKept], values[3]} {
				if turns := v.wide != in[k].wide; !turns || !in[k].turned {
					v.turned = turns || in[k].turned
					all = append(all, v)
				}
			}
		}
	}
	return all
}

// after is a value that was handed on as the one before it was.
func (v layerValue) after(in layerValue) layerValue {
	v.wide, v.turned = in.wide, in.turned
	return v
}

// store returns the format to which a recorded output was rounded: the
// contract's, or float32 if the dump is of float32 and its numbers are not the
// contract's halves.
func (g *layerGate) store(i int, got *tensor.Tensor) fp16.Format {
	f := g.of[i]
	if f.Half() && got.Format != f && !evidence.OnFormat(f, got.Data) {
		return fp16.Float32
	}
	return f
}

// best returns the score of the first answer that is right, or of the one that
// is nearest to it; nil if there is no answer.
func (g *layerGate) best(i int, ways [][]layerValue, got *tensor.Tensor, store fp16.Format) *layerScore {
	var best *layerScore
	for _, in := range ways {
		s := nearest(g.answers(i, in, got), got, store)
		if s != nil && s.better(best) {
			best = s
		}
		if s != nil && s.right() {
			break
		}
	}
	return best
}

// nearest returns the score of the first answer that is right, or of the nearest one.
func nearest(answers iter.Seq[*answer], got *tensor.Tensor, store fp16.Format) (best *layerScore) {
	for a := range answers {
		s := judge(a, got, store)
		if s.better(best) {
			best = s
		}
		if s.right() {
			break
		}
	}
	return best
}

// better reports whether s is nearer to right than t, which may be nil.
func (s *layerScore) better(t *layerScore) bool {
	switch {
	case t == nil:
		return true
	case s.right() || t.right():
		return s.right() && !t.right()
	case s.violations != t.violations:
		return s.violations < t.violations
	}
	return s.excess < t.excess
}

// handedOn holds modules that only hand an output on to the output.
func (e *gate) handedOn(l *evidence.LayerFile, n *operator.Node, got *tensor.Tensor) {
	names := append([]string(nil), n.Also...)
	for _, name := range append(names, "output") {
		x := l.Also[name]
		if x == nil || name == "output" && n != &e.Machine.Nodes[len(e.Machine.Nodes)-1] {
			continue
		}
		coarse := got.Format
		if x.Format.Bytes() < coarse.Bytes() {
			coarse = x.Format
		}
		for k, v := range x.Data {
			if a, b := coarse.Round(v), coarse.Round(got.Data[k]); a != b && (a == a || b == b) {
				e.Find(report.Finding{
					Verdict: report.FailLogic, Gate: "bound", Step: l.Step,
					Realization: l.Realization + k/(x.C()*x.H()*x.W()), Layer: name, Excess: diff.Number(math.Inf(1)),
					Text: fmt.Sprintf("%s hands %s on and changes it: element %d is %v, want %v",
						name, n.Name, k, v, got.Data[k]),
				})
				break
			}
		}
	}
}
