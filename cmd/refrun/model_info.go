package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/onnx"
)

// modelInfo is the JSON of info --onnx.
type modelInfo struct {
	Model       string         `json:"model"`
	Producer    string         `json:"producer"`
	Opset       int            `json:"opset,omitempty"` // of ONNX
	Inputs      []string       `json:"inputs"`
	Outputs     []string       `json:"outputs"`
	Supported   bool           `json:"supported"`
	Unsupported []string       `json:"unsupported,omitempty"` // every node that is not
	reasons     []string       // the same, in a line for each reason
	Open        string         `json:"open,omitempty"`       // why no graph could be made yet
	Operations  map[string]int `json:"operations,omitempty"` // of the graph, how often each
	// operations of which check does not know what right devices return
	NotJudged  []string `json:"not_judged,omitempty"`
	Nodes      int      `json:"nodes,omitempty"`
	Parameters int64    `json:"parameters,omitempty"`
	FLOPs      int64    `json:"flops,omitempty"` // two for each multiplication of a product, in one evaluation
}

// modelInfo says what a network is.
func (c *command) modelInfo(m *modelFlags) error {
	if err := m.alone(c.flags); err != nil {
		return err
	}
	n, err := m.read()
	if err != nil {
		return err
	}
	defer n.close()
	out := modelInfo{Model: m.path(), Producer: n.producer, Opset: n.opset, Outputs: n.outputs}
	for _, in := range n.inputs {
		out.Inputs = append(out.Inputs, inputText(in))
	}
	b, p, err := n.build(graph.Mode{Precision: fp16.Float32})
	var unsupported onnx.Unsupported
	switch {
	case errors.As(err, &unsupported):
		out.Unsupported, out.reasons = unsupported.Strings(), unsupported.Clauses()
	case err != nil && n.open() && len(n.given) < len(n.inputs):
		out.Open = strings.TrimPrefix(err.Error(), m.path()+": ")
	case err != nil:
		return err
	default:
		out.Supported, out.Operations, out.Nodes, out.FLOPs = true, map[string]int{}, len(b.graph.Nodes), 2*p.Products()
		for _, node := range b.graph.Nodes {
			name := node.Op.Name()
			out.Operations[name]++
			if !judge.Knows(node.Op) && !slices.Contains(out.NotJudged, name) {
				out.NotJudged = append(out.NotJudged, name)
			}
		}
		for _, v := range b.graph.Values {
			if v.Const != nil && v.Const.Format != fp16.Int64 {
				out.Parameters += int64(len(v.Const.Data))
			}
		}
	}
	if c.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	}
	c.printModel(out)
	if unsupported != nil {
		return fmt.Errorf("%s: %s: not supported: want an export without, or what the list says", m.path(),
			plural(len(unsupported), "node"))
	}
	return nil
}

// open reports whether an input has sizes that the file leaves open.
func (m *model) open() bool {
	return slices.ContainsFunc(m.inputs, func(in onnx.Input) bool {
		return !in.Rank || slices.ContainsFunc(in.Shape, func(d onnx.Dim) bool { return d.Size < 0 })
	})
}

func (c *command) printModel(o modelInfo) {
	c.printf("%s: ", o.Model)
	if o.Opset > 0 {
		c.printf("opset %d, ", o.Opset)
	}
	c.printf("made by %s\n", cmp.Or(o.Producer, "an unknown program"))
	c.printf("inputs       %s\n", strings.Join(o.Inputs, ", "))
	c.printf("outputs      %s\n", strings.Join(o.Outputs, ", "))
	switch {
	case o.Open != "":
		c.printf("open         %s; with --input the rest is said\n", o.Open)
		return
	case !o.Supported:
		for _, u := range o.reasons {
			c.printf("unsupported  %s\n", u)
		}
		return
	}
	c.printf("parameters   %d\nFLOPs        %s in one evaluation\n", o.Parameters, num(diff.Number(o.FLOPs)))
	names := slices.Collect(maps.Keys(o.Operations))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(o.Operations[b]-o.Operations[a], strings.Compare(a, b))
	})
	if len(o.NotJudged) > 0 {
		c.printf("not judged   %s: check skips what has them\n", strings.Join(o.NotJudged, ", "))
	}
	c.printf("operations   %d:", o.Nodes)
	for _, name := range names {
		c.printf(" %s %d", name, o.Operations[name])
	}
	c.printf("\n")
}
