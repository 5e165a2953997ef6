package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// judgeOutputs judges a kernel that returns several outputs: output and output.NAME of an operation, output.0 and so on
// of a graph.
func judgeOutputs(c *cli.Command,
	path string, a judged, attributes []byte, tensors map[string]*tensor.Tensor, names []string,
) error {
	var returned []string
	inputs := slices.DeleteFunc(names, func(n string) bool {
		if n != a.output && !strings.HasPrefix(n, a.output+".") {
			return false
		}
		returned = append(returned, n)
		return true
	})
	slices.Sort(returned)
	s := judge.Several{Attends: a.op == "scaled_dot_product_attention"}
	for _, n := range returned {
		s.Names = append(s.Names, strings.TrimPrefix(n, a.output+"."))
		s.Outputs = append(s.Outputs, tensors[n])
	}
	g, order, err := a.outputs(attributes, inputs, tensors, s.Names)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.Graphs = []*graph.Graph{g}
	if a.network == "" { // statistics of rows, which libraries keep with the axes of their sums or without
		s.Loose = slices.DeleteFunc(slices.Clone(s.Names), func(n string) bool { return n == "output" })
	}
	for _, n := range order {
		s.Inputs = append(s.Inputs, tensors[n])
	}
	if s.Claimed, err = a.claim(s.Inputs); err != nil {
		return err
	}
	q := judge.Question{Inputs: s.Inputs}
	wide := a
	wide.store = ""
	if err := wide.formats(&q); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.Inputs, s.Double = q.Inputs, a.double(q.Inputs, s.Outputs...)
	r, err := judge.CheckSeveral(s)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if a.op == "" {
		a.op = "graph"
	}
	return printSeveral(c, &severalReport{Op: a.op, SeveralReport: r}, a.report)
}

// outputs is the graph of those outputs, and the order of its inputs.
func (a *judged) outputs(
	attributes []byte, inputs []string, tensors map[string]*tensor.Tensor, names []string,
) (*graph.Graph, []string, error) {
	if a.network == "" {
		return judge.KernelOutputs(a.op, attributes, inputs, tensors, names)
	}
	of, order, err := a.opened(inputs)
	if err != nil {
		return nil, nil, err
	}
	g := *of
	g.Outputs = nil
	for _, name := range names {
		k, err := strconv.Atoi(name)
		if err != nil || k < 0 || k >= len(of.Outputs) {
			return nil, nil, fmt.Errorf("output %.60q: want %s.0 to %s.%d", name, a.output, a.output, len(of.Outputs)-1)
		}
		g.Outputs = append(g.Outputs, of.Outputs[k])
	}
	return &g, order, nil
}
