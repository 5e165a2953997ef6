package onnx

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// call is a node of a file on its way into the graph. Its first fault is kept, and what is
// asked of it afterwards has no effect, so that the functions that map operations need not
// look at each step.
type call struct {
	*builder
	node     *nodeProto
	scope    *scope
	opset    int
	in       []int // values; absent for those that are not given
	first    int   // value of the graph that is the node's
	steps    int   // nodes of the graph that are
	asked    map[string]bool
	poisoned bool // an input has a fault of its own
	err      error
}

// mapping adds what a node computes to the graph and returns its outputs.
type mapping func(c *call) []int

// values adds the node to the graph and returns its outputs.
func (c *call) values() []int {
	n := c.node
	if len(n.out) == 0 {
		c.fail("no outputs: not supported")
		return nil
	}
	key := n.domain + "/" + n.op + "/" + n.overload
	if f := c.m.functions[key]; f != nil {
		if !c.inputs() {
			return nil
		}
		return c.inline(f)
	}
	f := operations[strings.TrimPrefix(n.domain+"."+n.op, ".")]
	if f == nil {
		c.fail("not supported")
		c.inputs() // to say so of those that do not exist
		return nil
	}
	if !c.inputs() {
		return nil
	}
	out := f(c)
	for _, a := range n.attributes {
		if c.err == nil && !c.asked[a.name] {
			c.fail("attribute %.60q: not supported", a.name)
		}
	}
	if c.err == nil {
		c.fold(out)
	}
	return out
}

// inputs finds the values of the node's inputs, and reports whether there are all.
func (c *call) inputs() bool {
	for _, name := range c.node.in {
		v := absent
		if name != "" {
			var ok bool
			if v, ok = c.scope.value(name); !ok {
				c.fail("input %.60q: made by no node before it", name)
			}
			c.poisoned = c.poisoned || v == poison
		}
		c.in = append(c.in, v)
	}
	return c.err == nil && !c.poisoned
}

// where says which node it is.
func (c *call) where() string {
	n := c.node
	if n.name != "" {
		return fmt.Sprintf("%s%s %.60q", c.scope.place, c.opName(), n.name)
	}
	return fmt.Sprintf("%s%s that makes %.60q", c.scope.place, c.opName(), strings.Join(n.out, ", "))
}

// opName is the operation's name, with its domain if that is not ONNX's.
func (c *call) opName() string {
	op := c.node.op
	if c.node.domain != "" {
		op = c.node.domain + "." + op
	}
	return fmt.Sprintf("%.60s", op)
}

// fail notes a fault, if it is the first.
func (c *call) fail(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, a...)
	}
}

// named gives an output its name.
func (c *call) named(v int, name string) int {
	x := &c.g.Values[v]
	name = c.scope.place + name
	switch {
	case v >= c.first && (x.Name == "" || x.Name[0] == hidden):
		x.Name = name
	case x.Name != name:
		x.Also = append(x.Also, name)
	}
	return v
}

// hidden begins the names of values that are within a node of the file.
const hidden = '\x00'

// has reports whether an input is given.
func (c *call) has(i int) bool { return i < len(c.in) && c.in[i] >= 0 }

// arg returns an input, which must be given.
func (c *call) arg(i int) int {
	if !c.has(i) {
		c.fail("input %d: missing", i)
		return poison
	}
	return c.in[i]
}

// args returns inputs from the first on, up to the first that is not given.
func (c *call) args(least, most int) []int {
	var of []int
	for i := range most {
		if i < least {
			of = append(of, c.arg(i))
		} else if c.has(i) {
			of = append(of, c.in[i])
		} else {
			break
		}
	}
	return of
}

// shape returns the shape of a value.
func (c *call) shape(v int) []int {
	if v < 0 {
		return nil
	}
	return c.types[v].Shape
}

// rank returns the number of axes of a value.
func (c *call) rank(v int) int { return len(c.shape(v)) }

// dtype returns the type of a value's numbers.
func (c *call) dtype(v int) DType {
	if v < 0 {
		return 0
	}
	return c.dtypes[v]
}

// add adds a node of one output.
//
// It is called in many places, none of which is hot: a copy in each is code for nothing.
//
//go:noinline
func (c *call) add(op graph.Op, in ...int) int {
	if out := c.addAll(op, 1, in...); out != nil {
		return out[0]
	}
	return poison
}

// addAll adds a node of so many outputs.
func (c *call) addAll(op graph.Op, outputs int, in ...int) []int {
	if c.err == nil && slices.ContainsFunc(in, func(v int) bool { return v < 0 }) {
		c.fail("an input is missing")
	}
	if c.err != nil {
		return nil
	}
	var types []graph.Type
	for _, v := range in {
		types = append(types, c.types[v])
	}
	inf, err := op.Infer(mode, types)
	if err == nil && len(inf.Out) != outputs {
		err = fmt.Errorf("%d outputs: want %d", outputs, len(inf.Out))
	}
	for _, t := range inf.Out {
		if err == nil {
			err = bounded(t.Shape)
		}
	}
	if err != nil {
		c.fail("%w", err)
		return nil
	}
	if !c.spend(stepBytes) {
		c.fail("what it consists of %w", errMemory)
		return nil
	}
	c.steps++
	out := c.g.AddNode(op,
		fmt.Sprintf("%c%s%s.%d:%s", hidden, c.scope.place, c.node.out[0], c.steps, op.Name()), outputs, in...)
	for k, v := range out {
		c.typed(v, inf.Out[k], c.likely(inf.Out[k], in))
		c.makers[v] = len(c.g.Nodes) - 1
	}
	return slices.Clone(out) // the node's own are not the caller's
}

// usual are the types that numbers of a format have, where nothing says otherwise.
var usual = map[fp16.Format]DType{
	fp16.Float64: Float64, fp16.Float32: Float32, fp16.Float16: Float16, fp16.BFloat16: BFloat16, fp16.Int64: Int64,
}

// likely returns the type of numbers that comes of inputs: that of the first input which
// is held in the same format.
func (c *call) likely(t graph.Type, in []int) DType {
	for _, v := range in {
		if c.types[v].Format == t.Format {
			return c.dtypes[v]
		}
	}
	return usual[t.Format]
}

// as says that the numbers of a value are of that type.
func (c *call) as(v int, d DType) int {
	if v >= 0 && c.err == nil {
		c.dtypes[v] = d
	}
	return v
}

// bind adds a node of one output of a registered operation.
func (c *call) bind(name string, attributes map[string]any, in ...int) int {
	return c.add(c.op(name, attributes), in...)
}

// op returns a registered operation.
func (c *call) op(name string, attributes map[string]any) graph.Op {
	text, err := json.Marshal(attributes)
	if err != nil {
		c.fail("%w", err)
		return nil
	}
	op, err := graph.Bind(name, text)
	if err != nil {
		c.fail("%w", err)
	}
	return op
}

// number adds a constant of one number, of the format of a value.
func (c *call) number(like int, v float64) int {
	if like < 0 {
		return poison
	}
	t := tensor.New(c.types[like].Format)
	t.Data[0] = t.Format.Round(v)
	return c.constant("", t, c.dtypes[like])
}

// room reports whether a constant may have so many numbers.
func (c *call) room(numbers int) bool {
	if c.err == nil && (numbers > mostKnown || !c.spend(8*numbers)) {
		c.fail("a constant of %d numbers: %w", numbers, errMemory)
	}
	return c.err == nil
}

// wholes adds a constant of whole numbers.
func (c *call) wholes(shape []int, data ...int) int {
	t := tensor.New(int64Format, shape...)
	for i, v := range data {
		t.Data[i] = float64(v)
	}
	return c.constant("", t, Int64)
}

// attribute returns the node's attribute of that name, or nil.
//
// It is called in many places, none of which is hot: a copy in each is code for nothing.
//
//go:noinline
func (c *call) attribute(name string) *attribute {
	if c.asked == nil {
		c.asked = map[string]bool{}
	}
	c.asked[name] = true
	for _, a := range c.node.attributes {
		if a.name != name {
			continue
		}
		if a.reference != "" {
			return c.scope.attributes[a.reference]
		}
		return a
	}
	return nil
}

// int returns a whole number.
func (c *call) int(name string, otherwise int) int {
	if a := c.attribute(name); a != nil {
		return a.int
	}
	return otherwise
}

// flag returns a truth.
func (c *call) flag(name string) bool { return c.int(name, 0) != 0 }

// float returns a number.
func (c *call) float(name string, otherwise float64) float64 {
	if a := c.attribute(name); a != nil {
		return a.float
	}
	return otherwise
}

// ints returns whole numbers, nil for none.
func (c *call) ints(name string) []int {
	if a := c.attribute(name); a != nil {
		return a.ints
	}
	return nil
}

// text returns a text.
func (c *call) text(name, otherwise string) string {
	if a := c.attribute(name); a != nil {
		return a.text
	}
	return otherwise
}
