package onnx

import "fmt"

// The messages of an ONNX file, as far as they say what is computed. Numbers of tensors stay
// in the file.

// graphProto is a GraphProto, or the body of a function.
type graphProto struct {
	nodes        []*nodeProto
	constants    []*tensorProto
	inputs       []valueProto
	outputs      []valueProto
	sparse       int    // sparse constants
	name, domain string // of a function
	overload     string
	attributes   []*attribute
	opsets       map[string]int
}

// nodeProto is a NodeProto.
type nodeProto struct {
	op, domain, name, overload string
	in, out                    []string
	attributes                 []*attribute
}

// attribute is an AttributeProto.
type attribute struct {
	name, reference string // reference is the name of an attribute of the function around it
	kind            uint64
	float           float64
	int             int
	text            string
	tensor          *tensorProto
	graph           *graphProto
	floats          []float64
	ints            []int
	texts           []string
	sparse          bool
}

// tensorProto is a TensorProto, whose numbers lie in the file.
type tensorProto struct {
	name     string
	dims     []int
	dtype    DType
	external map[string]string // of numbers in another file
	outside  bool
	raw      section
	isRaw    bool
	of       section // the message
}

// valueProto is a ValueInfoProto.
type valueProto struct {
	name  string
	dtype DType // 0 for what is no tensor
	dims  []Dim
	known bool // the rank is
}

// Dim is one size of an input as a file states it.
type Dim struct {
	Size int    // -1 where the file leaves it open
	Name string // of an open size: inputs with sizes of one name have the same
}

func (w *wire) model(m *Model) (g *graphProto, functions []*graphProto, err error) {
	opsets := map[string]int{}
	err = w.fields(section{0, w.size}, func(v field) error {
		switch v.number {
		case 2:
			return w.set(&m.Producer, v)
		case 7:
			if g == nil {
				g = &graphProto{}
			}
			return w.graph(g, v.of)
		case 8:
			return w.opset(opsets, v.of)
		case 25:
			f := &graphProto{opsets: map[string]int{}}
			functions = append(functions, f)
			return w.function(f, v.of)
		}
		return nil
	})
	if g != nil {
		g.opsets = opsets
	}
	return g, functions, err
}

func (w *wire) opset(of map[string]int, s section) error {
	domain, version := "", 1
	err := w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			return w.set(&domain, v)
		case 2:
			version = int(min(v.bits, 1<<30))
		}
		return nil
	})
	of[standard(domain)] = version
	return err
}

// standard returns "" for both names of ONNX's own domain.
func standard(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

func (w *wire) graph(g *graphProto, s section) error {
	return w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			return w.node(g, v.of)
		case 5:
			t := &tensorProto{}
			g.constants = append(g.constants, t)
			return w.tensor(t, v.of)
		case 11:
			g.inputs = append(g.inputs, valueProto{})
			return w.value(&g.inputs[len(g.inputs)-1], v.of)
		case 12:
			g.outputs = append(g.outputs, valueProto{})
			return w.value(&g.outputs[len(g.outputs)-1], v.of)
		case 15:
			g.sparse++
		}
		return nil
	})
}

func (w *wire) function(g *graphProto, s section) error {
	var in, out []string
	err := w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			return w.set(&g.name, v)
		case 4:
			return w.appendText(&in, v)
		case 5:
			return w.appendText(&out, v)
		case 7:
			return w.node(g, v.of)
		case 9:
			return w.opset(g.opsets, v.of)
		case 10:
			return w.set(&g.domain, v)
		case 11:
			a := &attribute{}
			g.attributes = append(g.attributes, a)
			return w.attribute(a, v.of)
		case 13:
			return w.set(&g.overload, v)
		}
		return nil
	})
	for _, name := range in {
		g.inputs = append(g.inputs, valueProto{name: name})
	}
	for _, name := range out {
		g.outputs = append(g.outputs, valueProto{name: name})
	}
	return err
}

func (w *wire) node(g *graphProto, s section) error {
	n := &nodeProto{}
	g.nodes = append(g.nodes, n)
	return w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			return w.appendText(&n.in, v)
		case 2:
			return w.appendText(&n.out, v)
		case 3:
			return w.set(&n.name, v)
		case 4:
			return w.set(&n.op, v)
		case 5:
			a := &attribute{}
			n.attributes = append(n.attributes, a)
			return w.attribute(a, v.of)
		case 7:
			err := w.set(&n.domain, v)
			n.domain = standard(n.domain)
			return err
		case 8:
			return w.set(&n.overload, v)
		}
		return nil
	})
}

func (w *wire) attribute(a *attribute, s section) error {
	return w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			return w.set(&a.name, v)
		case 2:
			a.float = float32Of(v.bits)
		case 3:
			a.int = int(int64(v.bits))
		case 4:
			return w.set(&a.text, v)
		case 5:
			a.tensor = &tensorProto{}
			return w.tensor(a.tensor, v.of)
		case 6:
			a.graph = &graphProto{}
			return w.graph(a.graph, v.of)
		case 7:
			return w.floats(&a.floats, v)
		case 8:
			return w.ints(&a.ints, v)
		case 9:
			return w.appendText(&a.texts, v)
		case 20:
			a.kind = v.bits
		case 21:
			return w.set(&a.reference, v)
		case 22, 23:
			a.sparse = true
		}
		return nil
	})
}

func (w *wire) tensor(t *tensorProto, s section) error {
	t.of = s
	err := w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			return w.ints(&t.dims, v)
		case 2:
			t.dtype = DType(min(v.bits, 1<<30))
		case 8:
			return w.set(&t.name, v)
		case 9:
			t.raw, t.isRaw = v.of, true
		case 13:
			if t.external == nil {
				t.external = map[string]string{}
			}
			return w.entry(t.external, v.of)
		case 14:
			t.outside = v.bits == 1
		}
		return nil
	})
	if err == nil && len(t.dims) > mostRank {
		err = fmt.Errorf("tensor %.60q: rank %d: want at most %d", t.name, len(t.dims), mostRank)
	}
	return err
}

// mostRank is the most axes that a tensor of a graph has.
const mostRank = 16

func (w *wire) entry(of map[string]string, s section) error {
	var key, value string
	err := w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			return w.set(&key, v)
		case 2:
			return w.set(&value, v)
		}
		return nil
	})
	of[key] = value
	return err
}

func (w *wire) value(t *valueProto, s section) error {
	err := w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			return w.set(&t.name, v)
		case 2:
			return w.fields(v.of, func(v field) error {
				if v.number != 1 { // no tensor
					return nil
				}
				return w.tensorType(t, v.of)
			})
		}
		return nil
	})
	if err == nil && len(t.dims) > mostRank {
		err = fmt.Errorf("value %.60q: rank %d: want at most %d", t.name, len(t.dims), mostRank)
	}
	return err
}

func (w *wire) tensorType(t *valueProto, s section) error {
	return w.fields(s, func(v field) error {
		switch v.number {
		case 1:
			t.dtype = DType(min(v.bits, 1<<30))
		case 2:
			t.known, t.dims = true, nil
			return w.fields(v.of, func(v field) error {
				if v.number != 1 {
					return nil
				}
				d := Dim{Size: -1}
				err := w.fields(v.of, func(v field) error {
					switch v.number {
					case 1:
						if d.Size = -1; int64(v.bits) >= 0 { // some write -1 for a size that is open
							d.Size = int(min(v.bits, 1<<40))
						}
					case 2:
						return w.set(&d.Name, v)
					}
					return nil
				})
				if d.Name == "?" || d.Name == "-1" { // no name, each its own size
					d.Name = ""
				}
				t.dims = append(t.dims, d)
				return err
			})
		}
		return nil
	})
}
