package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// Layers is the gate of recorded layers: each is the part of the step that makes it of what was recorded before, with
// the device's own numbers as inputs, so that no error of a layer is another one's. The next state is the last of them.
func Layers(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	g, done := &layers{Gate: facts.Begin(ev, f), under: map[int]candidate{}}, 0
	err := g.Case.EachLayers(func(f *safetensors.File) error {
		if done > 0 && g.Missed("layers of "+f.Path+": the budget was spent") {
			return nil
		}
		l, err := evidence.OpenLayers(f, g.Machine, g.Op.Config.InputChannels, g.Case.Rollout)
		if err != nil {
			return err
		}
		done++
		g.Progress("layers", done, 0)
		return g.file(l)
	})
	return g.Found, err
}

// layers is that gate at work.
type layers struct {
	*facts.Gate
	named bool // whether it was asked why a layer is wrong
	// under are the contracts under which layers of files before were right, other than the claim's, by value.
	under map[int]candidate
}

// recording is one recorded step.
type recording struct {
	*layers
	*evidence.LayerFile
	step   *step
	types  func(v int) graph.Type // of the step's values, as the claim has them
	known  map[int]*tensor.Tensor // by value: what the device had
	drawn  []*emulate.Draws       // what is known of them
	draws  int                    // the value that they are, -1 for none
	others []*tensor.Tensor       // what the draws may have been instead
	unlike []string               // in what layers differ from the claim's contract and are right
}

// file judges the layers of one file.
func (g *layers) file(l *evidence.LayerFile) error {
	draws, err := g.LayerDraws(l)
	if err != nil {
		return fmt.Errorf("%s: %w", l.Path, err)
	}
	r, err := g.open(l, draws, false)
	if err != nil {
		return fmt.Errorf("%s: %w", l.Path, err)
	}
	follows := g.layerInput(l)
	for i, got := range l.Nodes {
		if got == nil {
			continue
		}
		if err := r.node(i); err != nil {
			return err
		}
		g.handedOn(l, &g.Machine.Nodes[i], got)
	}
	if follows {
		if err := r.policy(); err != nil {
			return err
		}
	}
	if len(r.unlike) > 0 {
		g.Report.Notes = append(g.Report.Notes,
			fmt.Sprintf("step %d: layers are right by another contract: %s", l.Step, strings.Join(r.unlike, "; ")))
	}
	return nil
}

// open returns what was recorded of a step, with multiplicative noise as x + x n if it is added.
func (g *layers) open(l *evidence.LayerFile, drawn []*emulate.Draws, added bool) (*recording, error) {
	ro := g.Case.Rollout
	r := &recording{layers: g, LayerFile: l, known: map[int]*tensor.Tensor{}, drawn: drawn, draws: -1,
		step: stepWith(g.Op, ro, g.Mode, l.Input.H(), l.Input.W(), variant{added: added})}
	f := ro.StartFormat(g.Mode)
	if l.Step > 1 {
		f = ro.StateFormat(g.Op.Output(g.Mode))
	}
	x := kept(tensor.Of(fp16.Float64, l.Input.Data, l.Input.Shape...), f)
	types, err := r.step.typesOf([]*tensor.Tensor{x})
	if err != nil {
		return nil, err
	}
	r.known[r.step.g.Inputs[0]] = x
	if r.step.block != nil {
		if err := r.draw(types[1]); err != nil {
			return nil, err
		}
	}
	p, err := r.step.g.Infer(g.Mode, types...)
	if err != nil {
		return nil, err
	}
	r.types = p.Type
	for i, t := range l.Nodes {
		if t == nil {
			continue
		}
		v, f := r.step.values[i], t.Format
		if !f.Half() { // a file without such numbers
			f = p.Type(v).Format
		}
		r.known[v] = kept(tensor.Of(fp16.Float64, t.Data, t.Shape...), f)
	}
	return r, nil
}

// draw notes the draws, if they are known. They are rounded to the format of the noise, which is a cast here, so that
// the type of an input is that of its numbers.
func (r *recording) draw(t graph.Type) error {
	g := r.step.g
	r.draws = g.Inputs[1]
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.In[0] == r.draws && n.Op.Name() == "identity" {
			n.Op = graph.Cast{Dtype: t.Format.String()}
		}
	}
	for _, d := range r.drawn {
		for _, f := range []fp16.Format{t.Format, fp16.Float32} { // the latter where a device keeps its draws
			x, err := r.step.drawn(graph.Type{Shape: t.Shape, Format: f}, d.Rewind())
			if err != nil {
				return err
			}
			if r.known[r.draws] == nil {
				r.known[r.draws] = x
			} else if !slices.Equal(x.Data, r.known[r.draws].Data) {
				r.others = append(r.others, x)
			}
		}
	}
	return nil
}

// node judges the layer of a node.
func (r *recording) node(i int) error {
	n, v := &r.Machine.Nodes[i], r.step.values[i]
	if n.Op != operator.OpNoise {
		return r.layer(asked{v, n.Name, opName(n), r.known[v]})
	}
	if r.known[r.draws] == nil {
		r.Report.Notes = append(r.Report.Notes,
			fmt.Sprintf("step %d: layer %s is not checked: its noise is not known", r.Step, n.Name))
		return nil
	}
	return r.layer(asked{v, n.Name, opName(n), r.known[v]})
}

func opName(n *operator.Node) string {
	if n.Op == operator.OpOther {
		return n.Other.Name()
	}
	return [...]string{"conv", "norm", "act", "add", "noise"}[n.Op]
}

// policy judges the next state, as what the policy makes of the recorded output. States that are normalized over all
// of their numbers are left to the gate of the steps.
func (r *recording) policy() error {
	ro, s := r.Case.Rollout, r.States
	if r.Output == nil || !r.Dated || r.Alone || r.Step >= s.T || ro.Normalization != rollout.NoNormalization {
		return nil
	}
	n := r.Input.N()
	next := tensor.New(fp16.Float64, n, s.C, s.H, s.W)
	for i := range n {
		copy(next.Samples(i, i+1).Data, s.At(r.Realization+i, r.Step))
	}
	f := ro.StateFormat(r.Op.Output(r.Mode))
	if s.Format.Bytes() < f.Bytes() {
		f = s.Format // the file's states are rounded once more
	}
	return r.layer(asked{r.step.g.Outputs[0], policy, policy, kept(next, f)})
}

// policy is what the part of a step behind the operator is called.
const policy = "policy"

// ways are the ways in which a device may have come to what was recorded of a value, if not as it is written: each with
// what it says of it, the value that the numbers are, and the value of which they are not, so that it is not known.
func (r *recording) ways(v int) (all []way) {
	last := len(r.Machine.Nodes) - 1
	i := slices.Index(r.step.values, v)
	switch {
	case v == r.step.g.Outputs[0] && r.Output != nil && r.Output.Format.Half():
		all = append(all, way{"of an output that the file has rounded", v, r.step.values[last]})
	case i >= 0:
		if j := emulate.Folds(r.Machine.Nodes)[i]; j > 0 && r.Nodes[j] == nil {
			all = append(all, way{"batch norm folded into the convolution", r.step.values[j], v})
		}
	}
	return all
}

type way struct {
	says        string
	is, unknown int
}
