package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// StepGraph is one step of a rollout as a network of any operations: of the states, and of what else it reads, it
// makes the next states. Its inputs say by their names what they are:
//
//	state          the state          state.1        the one before it, state.2 the one before that
//	state.NAME     another state      state.NAME.1   the one before it
//	static.NAME    what is the same in all steps
//	forcing.NAME   what is given for each step
//	noise.NAME     what was drawn for each step
//
// Its outputs are the next states, in the order in which the states stand among the inputs. A policy is nodes of it.
type StepGraph struct {
	Network *network.Network
	States  []StepState
	Inputs  []StepInput // those of the network

	given *safetensors.File // inputs.safetensors, nil if there is none
	text  []byte            // of the graph
}

// StepState is a state that a step makes.
type StepState struct {
	Name string // NAME of state.NAME, "" of state
	Past int    // how many of the ones before it a step reads
	graph.Type
}

// In returns what a state is called in a sentence.
func (s *StepState) In() string { return strings.TrimSuffix("state."+s.Name, ".") }

// StepInput says what an input of a step is.
type StepInput struct {
	Name  string // state.NAME.1
	Kind  string // state, static, forcing or noise
	State int    // which state it is
	Age   int    // how many steps that is old
	graph.Type
}

// inputsFile holds what a step graph reads beside its states.
const inputsFile = "inputs.safetensors"

// openStep reads the step graph of a case, of that name.
func (c *Case) openStep(name string) error {
	file := path.Join(c.Dir, name)
	if name == "" || name != path.Base(name) || name == ".." || name == "." {
		return fmt.Errorf("%s: step: %.60q: want the name of a graph's file in the same folder", c.File, name)
	}
	text, err := readFile(c.fsys, name, 1<<28)
	if err != nil {
		return fmt.Errorf("%s: %w: want the graph that case.json names as its step", file, fault.Cause(err))
	}
	n, err := network.Parse(file, text, func(name string) (*safetensors.File, error) {
		f, err := openTensors(c.fsys, name, path.Join(c.Dir, name))
		if err == nil && f == nil {
			err = fmt.Errorf("%s: %w", path.Join(c.Dir, name), fs.ErrNotExist)
		}
		return f, err
	})
	if err != nil {
		return err
	}
	if c.Step, err = newStepGraph(n); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	c.Step.text = text
	if c.Step.given, err = openTensors(c.fsys, inputsFile, path.Join(c.Dir, inputsFile)); err != nil {
		return err
	}
	return c.Step.fits(path.Join(c.Dir, inputsFile), c.Rollout, false)
}

// newStepGraph says of a network whose inputs have the names of a [StepGraph] what each of them is.
func newStepGraph(n *network.Network) (*StepGraph, error) {
	g := &StepGraph{Network: n}
	for _, in := range n.Inputs {
		i, err := inputOf(in)
		if err != nil {
			return nil, err
		}
		if i.Kind == "state" && i.Age == 0 {
			if in.Type.Format == fp16.Int64 {
				return nil, fmt.Errorf("inputs: %s: type %s: want a state of numbers that a step rounds; "+
					"whole numbers may be a forcing", in.Name, in.Dtype)
			}
			g.States = append(g.States, StepState{Name: i.Name, Type: in.Type})
		}
		g.Inputs = append(g.Inputs, i)
	}
	for k := range g.Inputs {
		if err := g.past(&g.Inputs[k]); err != nil {
			return nil, err
		}
		g.Inputs[k].Name = n.Inputs[k].Name
	}
	return g, g.next()
}

// inputOf takes the name of an input apart. Of a state Name is that of the state.
func inputOf(in network.Input) (StepInput, error) {
	i := StepInput{Type: in.Type, Name: in.Name}
	kind, rest, more := strings.Cut(in.Name, ".")
	switch i.Kind = kind; {
	case kind == "state":
		part := strings.Split(rest, ".")
		if age, err := strconv.Atoi(part[len(part)-1]); err == nil && age > 0 && age < 1<<10 {
			i.Age, part = age, part[:len(part)-1]
		}
		if i.Name = strings.Join(part, "."); more && i.Age == 0 && i.Name == "" {
			break
		}
		return i, nil
	case more && rest != "" && slices.Contains([]string{"static", "forcing", "noise"}, kind):
		return i, nil
	}
	return i, fmt.Errorf("inputs: %.60q: want state, state.1 (the one before), state.NAME, static.NAME, "+
		"forcing.NAME or noise.NAME", in.Name)
}

// past finds the state of an input, and takes note of how far back it goes.
func (g *StepGraph) past(i *StepInput) error {
	if i.Kind != "state" {
		return nil
	}
	if i.State = slices.IndexFunc(g.States, func(s StepState) bool { return s.Name == i.Name }); i.State < 0 {
		return fmt.Errorf("inputs: an older %s and not the last one: want %[1]s as well", (&StepState{Name: i.Name}).In())
	}
	s := &g.States[i.State]
	s.Past = max(s.Past, i.Age)
	if !slices.Equal(s.Shape, i.Shape) || i.Format == fp16.Int64 {
		return fmt.Errorf("inputs: %s.%d: %v: want %v, as %[1]s", s.In(), i.Age, typeText(i.Type), typeText(s.Type))
	}
	return nil
}

// next holds the outputs against the states.
func (g *StepGraph) next() error {
	var names []string
	for i := range g.States {
		names = append(names, g.States[i].In())
	}
	if len(names) == 0 {
		return fmt.Errorf("inputs: no state: want an input named state")
	}
	n := g.Network
	if len(n.Outputs) != len(names) {
		return fmt.Errorf("outputs: %d: want %d, what follows on %s in this order", len(n.Outputs), len(names),
			strings.Join(names, ", "))
	}
	p, err := n.Graph.Infer(graph.Mode{Precision: fp16.Float32}, n.Types()...)
	if err != nil {
		return err
	}
	for k, v := range n.Graph.Outputs {
		if t := p.Type(v); !slices.Equal(t.Shape, g.States[k].Shape) || t.Format == fp16.Int64 {
			return fmt.Errorf("outputs: %.60q: %v: want %v, as %s has, whose next one it is", n.Outputs[k], typeText(t),
				typeText(g.States[k].Type), names[k])
		}
	}
	return nil
}

func typeText(t graph.Type) string { return fmt.Sprintf("%v %v", t.Format, t.Shape) }

// fits holds what a rollout is given against what its steps read: as much, or as a part of a rollout at least that.
func (g *StepGraph) fits(file string, c Config, part bool) error {
	for _, in := range g.Inputs {
		if in.Kind == "state" {
			continue
		}
		if g.given == nil {
			return fmt.Errorf("%s: missing: want this file with %s", file, in.Name)
		}
		t, err := g.given.Tensor(in.Name)
		if err != nil {
			return err
		}
		one, what := slices.Clone(in.Shape), ""
		if in.Kind != "static" {
			one, what = append([]int{c.Timesteps - 1}, one...), ", one for each step"
		}
		each := append([]int{c.Realizations}, one...)
		if !covers(t.Shape, each, len(in.Shape), part) && !covers(t.Shape, one, len(in.Shape), part) {
			return fmt.Errorf("%s: %s: shape %v: want %v%s, or %v for each realization", file, in.Name, t.Shape, one, what, each)
		}
		if in.Format != fp16.Int64 {
			if err := t.Read(0, nil); err != nil { // of a type that has no such numbers
				return err
			}
		}
	}
	return nil
}

// covers reports whether a shape is the wanted one, or where a part will do has as many realizations and steps or
// more, the axes before those of an input of that rank.
func covers(shape, want []int, rank int, part bool) bool {
	if part && len(shape) == len(want) {
		shape = slices.Clone(shape)
		for a := range len(want) - rank {
			shape[a] = min(shape[a], want[a])
		}
	}
	return slices.Equal(shape, want)
}

// Given returns input k of step t (from 1 on) of realization m, which is no state.
func (g *StepGraph) Given(k, m, t int) (*tensor.Tensor, error) {
	in := g.Inputs[k]
	from, err := g.given.Tensor(in.Name)
	if err != nil {
		return nil, err
	}
	x := tensor.New(in.Format, in.Shape...)
	at, rank := 0, len(in.Shape)
	if in.Kind != "static" {
		rank++
		at = t - 1
	}
	if len(from.Shape) > rank {
		each := 1
		if in.Kind != "static" {
			each = from.Shape[1]
		}
		at += m * each
	}
	at *= len(x.Data)
	if in.Format != fp16.Int64 {
		if err = from.Read(at, x.Data); err == nil {
			x.Format.RoundSlice(x.Data, x.Data)
		}
		return x, err
	}
	whole, err := from.Int64s()
	if err != nil {
		return nil, err
	}
	for i := range x.Data {
		x.Data[i] = float64(whole[at+i])
	}
	return x, nil
}

// Formats returns the formats of the states after t steps: those of the inputs at first, and then what the operations
// of the mode give.
func (g *StepGraph) Formats(m graph.Mode, t int) ([]fp16.Format, error) {
	first, past := make([]fp16.Format, len(g.States)), 0
	for i, s := range g.States {
		first[i], past = s.Format, max(past, s.Past)
	}
	all, alike := [][]fp16.Format{first}, 0
	for len(all) <= t && alike <= past { // once all that a step reads is as before, the rest is
		types := make([]graph.Type, len(g.Inputs))
		for k, in := range g.Inputs {
			if types[k] = in.Type; in.Kind == "state" {
				types[k].Format = all[max(0, len(all)-1-in.Age)][in.State]
			}
		}
		p, err := g.Network.Graph.Infer(m, types...)
		if err != nil {
			return nil, err
		}
		made := make([]fp16.Format, len(g.States))
		for i, v := range g.Network.Graph.Outputs {
			made[i] = p.Type(v).Format
		}
		if alike++; !slices.Equal(made, all[len(all)-1]) {
			alike = 0
		}
		all = append(all, made)
	}
	return all[min(t, len(all)-1)], nil
}

// OpenStates returns the recorded trajectory of each state: [M,T,...], a state's shape in the end.
func (c *Case) OpenStates() (all []*States, err error) {
	for i := range c.Step.States {
		s := &c.Step.States[i]
		name := strings.TrimSuffix("trajectory."+s.Name, ".")
		if c.Trajectory == nil {
			return nil, fmt.Errorf("%s: missing: want the recorded trajectory", path.Join(c.Dir, "trajectory.safetensors"))
		}
		t, err := c.Trajectory.Tensor(name)
		if err != nil {
			return nil, err
		}
		if want := append([]int{c.Rollout.Realizations, c.Rollout.Timesteps}, s.Shape...); !slices.Equal(t.Shape, want) {
			return nil, fmt.Errorf("%s: %s: shape %v: want %v, as case.json and the step's %s say",
				c.Trajectory.Path, name, t.Shape, want, s.In())
		}
		if err := t.Read(0, nil); err != nil { // of a type that has no such numbers
			return nil, err
		}
		x := &States{M: c.Rollout.Realizations, T: c.Rollout.Timesteps, Name: s.Name, Dims: s.Shape, file: t,
			failed: new(atomic.Pointer[error])}
		x.Format, _ = t.DType.Format()
		x.C, x.H, x.W = planes(s.Shape)
		all = append(all, x)
	}
	return all, nil
}

// planes are a state's numbers as images: the last two axes of four or more are those of an image, of three
// the last is a row, and all numbers of a shorter one are.
func planes(shape []int) (c, h, w int) {
	c, h, w = 1, 1, tensor.Size(shape)
	if n := len(shape); n > 2 {
		if w = shape[n-1]; n > 3 {
			h = shape[n-2]
		}
		c = tensor.Size(shape) / max(1, h*w)
	}
	return c, h, w
}

// Before returns the state of realization m that many steps before the first one, as it was recorded: 0 is the
// initial condition.
func (c *Case) Before(i, m, steps int) ([]float64, error) {
	s := &c.Step.States[i]
	name := strings.TrimSuffix("initial_condition."+s.Name, ".")
	if steps > 0 {
		name += fmt.Sprint(".", steps)
	}
	if c.Trajectory == nil {
		return nil, fmt.Errorf("%s: missing: want it with %s", path.Join(c.Dir, "trajectory.safetensors"), name)
	}
	t, err := c.Trajectory.Tensor(name)
	if err != nil {
		return nil, err
	}
	each := append([]int{c.Rollout.Realizations}, s.Shape...)
	switch {
	case slices.Equal(t.Shape, s.Shape):
		m = 0
	case !slices.Equal(t.Shape, each):
		return nil, fmt.Errorf("%s: %s: shape %v: want %v, or %v for each realization", c.Trajectory.Path, name,
			t.Shape, s.Shape, each)
	}
	x := make([]float64, tensor.Size(s.Shape)) // as many as the file has
	return x, t.Read(m*len(x), x)
}

// Contents is a hash of the graph, its weights and what its steps are given.
func (g *StepGraph) Contents(c Config) (string, error) {
	h := sha256.New()
	h.Write(g.text)
	for _, v := range g.Network.Graph.Values {
		if v.Const != nil {
			h.Write(fp16.Float64.Append(nil, v.Const.Data))
		}
	}
	for k, in := range g.Inputs {
		for m := range c.Realizations {
			for t := 1; t < c.Timesteps && in.Kind != "state"; t++ {
				x, err := g.Given(k, m, t)
				if err != nil {
					return "", err
				}
				h.Write(fp16.Float64.Append(nil, x.Data))
				if in.Kind == "static" {
					break
				}
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ModeName returns the canonical name of how a rollout is computed, as [Config.ModeName].
func (g *StepGraph) ModeName(m graph.Mode) (string, error) {
	f, err := g.Formats(m, 1<<20)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%v/state-%v/noise-%s", m, f[0], g.Noise()), nil
}

// Noise is the name of the stream of a step's draws: the tape of its inputs, or none.
func (g *StepGraph) Noise() string {
	if slices.ContainsFunc(g.Inputs, func(in StepInput) bool { return in.Kind == "noise" }) {
		return "tape"
	}
	return "none"
}
