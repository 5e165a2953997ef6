package grad

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Ask says which gradients a backward pass returns, of which given ones.
type Ask struct {
	Of    []int // the values by which gradients are given
	By    []int // the inputs by which they are wanted
	Saved []Saved
	Form  Form
}

// Saved is what the forward pass has kept, under the name that it has there: a value of the graph, or what a rule
// computes again if nobody has kept it, such as the mean and rstd of a norm and the lse of an attention.
type Saved struct {
	Name  string
	Shape []int
}

// saved is such a value in the graph, and which node reads it.
type saved struct {
	value  int
	reader string
}

// Backward returns the graph of a backward pass. After the inputs of g it takes the given gradients, in order, as
// grad_output, or of several values as grad_output.0 and so on, and then what is saved. Its outputs are the gradients.
//
// Errors are those of [Of], a saved value that nothing reads, and one of another shape.
func Backward(g *graph.Graph, m graph.Mode, a Ask, in ...graph.Type) (*graph.Graph, error) {
	p, err := g.Infer(m, in...)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Concat(a.Of, a.By) {
		if p.Type(v).Format == fp16.Int64 {
			return nil, fmt.Errorf("grad: %q: whole numbers: want floating-point ones", g.Values[v].Name)
		}
	}
	t := begin(g, m, p, a.By)
	t.graph.Outputs, t.form, t.saved = nil, a.Form, map[string]*saved{}
	for k, v := range a.Of {
		d := t.given(OutputName(k, len(a.Of)), t.types[v])
		if t.active[v] {
			t.grads[v] = d
		}
	}
	first := len(g.Nodes)
	instead := map[int]int{}
	for _, k := range a.Saved {
		of := graph.Type{Shape: k.Shape, Format: m.Precision}
		s := &saved{value: t.given(k.Name, of)}
		t.saved[k.Name] = s
		if v := slices.IndexFunc(g.Values, func(v graph.Value) bool { return v.Name == k.Name }); v >= 0 {
			if !slices.Equal(t.types[v].Shape, k.Shape) {
				return nil, fmt.Errorf("saved %s of shape %v: want %v", k.Name, k.Shape, t.types[v].Shape)
			}
			instead[v], s.reader = s.value, "the graph"
		}
	}
	if err := t.walk(g, a.By); err != nil {
		return nil, err
	}
	for i := range t.graph.Nodes[first:] {
		n := &t.graph.Nodes[first+i]
		for j, v := range n.In {
			if s, is := instead[v]; is {
				n.In[j] = s
			}
		}
	}
	for _, k := range a.Saved {
		if t.saved[k.Name].reader == "" {
			return nil, fmt.Errorf("saved %s: no gradient here reads it", k.Name)
		}
	}
	return t.graph, nil
}

// OutputName is what the given gradient by output k of so many is called.
func OutputName(k, of int) string {
	if of == 1 {
		return "grad_output"
	}
	return fmt.Sprint("grad_output.", k)
}

// given adds an input.
func (t *tape) given(name string, of graph.Type) int {
	t.types = append(t.types, of)
	return t.graph.Input(name)
}

// kept is what the forward pass has saved under a name, in a shape, or what is computed in its place.
func (s *step) kept(name string, shape []int, compute func() int) int {
	for _, n := range []string{s.node + "." + name, name} {
		k, is := s.saved[n]
		if !is {
			continue
		}
		switch v := s.shape(k.value); {
		case k.reader != "" && k.reader != s.node:
			s.fail(fmt.Errorf("saved %s: %s and %s read one: want %s.%s", n, k.reader, s.node, s.node, name))
		case tensor.Size(v) != tensor.Size(shape):
			s.fail(fmt.Errorf("saved %s of shape %v: want %v", n, v, shape))
		default:
			k.reader = s.node
			return s.reshape(k.value, shape)
		}
		return k.value
	}
	return s.named(name, compute())
}

// has reports whether the forward pass has saved something for this node.
func (s *step) has(name string) bool {
	return s.saved[name] != nil || s.saved[s.node+"."+name] != nil
}

func (t *tape) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// named gives a value that the backward pass made the name that it has in the literature.
func (s *step) named(name string, v int) int {
	if s.saved == nil || s.err != nil { // of [Of], whose names are numbers
		return v
	}
	if s.node != "output" {
		name = s.node + "." + name
	}
	if of := &s.graph.Values[v]; strings.Contains(of.Name, ".backward") {
		of.Name = name
	}
	return v
}

// Form is which rule is taken of each operation that has several, by the operation's name; of others the usual one.
type Form map[string]string

// rule is that of an operation.
func (f Form) rule(op string) (rule, bool) {
	if r, is := otherRules[op][f[op]]; is {
		return r, true
	}
	r, is := rules[op]
	return r, is
}

// Forms are those of a graph's gradients: all rules the usual ones, each of the others alone, and where several
// operations have others, all of the first ones together, and all of PyTorch's. They are the same real functions.
func Forms(g *graph.Graph) []Form {
	all := []Form{{}}
	together, torch := Form{}, Form{}
	for i := range g.Nodes {
		op := g.Nodes[i].Op.Name()
		if together[op] != "" {
			continue
		}
		for _, name := range names(op) {
			all = append(all, Form{op: name})
			if name == autograd {
				torch[op] = name
			}
			if together[op] == "" {
				together[op] = name
			}
		}
	}
	if len(together) > 1 {
		all = append(all, together)
	}
	if len(torch) > 1 && !maps.Equal(torch, together) {
		all = append(all, torch)
	}
	return all
}

// names are those of an operation's other rules, sorted.
func names(op string) (all []string) {
	for name := range otherRules[op] {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
