package about

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
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

// infoOfNetwork says what a network is.
func infoOfNetwork(c *cli.Command, m *model.Flags) error {
	if err := m.Alone(c.Flags); err != nil {
		return err
	}
	n, err := m.Read()
	if err != nil {
		return err
	}
	defer n.Close()
	out := modelInfo{Model: m.Path(), Producer: n.Producer, Opset: n.Opset, Outputs: n.Outputs}
	for _, in := range n.Inputs {
		out.Inputs = append(out.Inputs, model.InputText(in))
	}
	b, p, err := n.Build(graph.Mode{Precision: fp16.Float32})
	var unsupported onnx.Unsupported
	switch {
	case errors.As(err, &unsupported):
		out.Unsupported, out.reasons = unsupported.Strings(), unsupported.Clauses()
	case err != nil && n.Open() && len(n.Given) < len(n.Inputs):
		out.Open = strings.TrimPrefix(err.Error(), m.Path()+": ")
	case err != nil:
		return err
	default:
		out.Supported, out.Operations, out.Nodes, out.FLOPs = true, map[string]int{}, len(b.Graph.Nodes), 2*p.Products()
		for _, node := range b.Graph.Nodes {
			name := node.Op.Name()
			out.Operations[name]++
			if !judge.Knows(node.Op) && !slices.Contains(out.NotJudged, name) {
				out.NotJudged = append(out.NotJudged, name)
			}
		}
		for _, v := range b.Graph.Values {
			if v.Const != nil && v.Const.Format != fp16.Int64 {
				out.Parameters += int64(len(v.Const.Data))
			}
		}
	}
	if c.Json {
		if err := c.PrintJSON(out); err != nil {
			return err
		}
	}
	printModel(c, out)
	if unsupported != nil {
		return fmt.Errorf("%s: %s: not supported: want an export without, or what the list says", m.Path(),
			cli.Plural(len(unsupported), "node"))
	}
	return nil
}

func printModel(c *cli.Command, o modelInfo) {
	c.Printf("%s: ", o.Model)
	if o.Opset > 0 {
		c.Printf("opset %d, ", o.Opset)
	}
	c.Printf("made by %s\n", cmp.Or(o.Producer, "an unknown program"))
	c.Printf("inputs       %s\n", strings.Join(o.Inputs, ", "))
	c.Printf("outputs      %s\n", strings.Join(o.Outputs, ", "))
	switch {
	case o.Open != "":
		c.Printf("open         %s; with --input the rest is said\n", o.Open)
		return
	case !o.Supported:
		for _, u := range o.reasons {
			c.Printf("unsupported  %s\n", u)
		}
		return
	}
	c.Printf("parameters   %d\nFLOPs        %s in one evaluation\n", o.Parameters, cli.Num(diff.Number(o.FLOPs)))
	names := slices.Collect(maps.Keys(o.Operations))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(o.Operations[b]-o.Operations[a], strings.Compare(a, b))
	})
	if len(o.NotJudged) > 0 {
		c.Printf("not judged   %s: check skips what has them\n", strings.Join(o.NotJudged, ", "))
	}
	c.Printf("operations   %d:", o.Nodes)
	for _, name := range names {
		c.Printf(" %s %d", name, o.Operations[name])
	}
	c.Printf("\n")
}
