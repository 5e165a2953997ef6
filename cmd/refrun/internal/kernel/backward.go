package kernel

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/internal/oracle/gradient"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/tensor"
)

// severalReport is what the --json of a kernel of several outputs prints, and that of a backward kernel.
type severalReport struct {
	Op string `json:"op"`
	*judge.SeveralReport
	backward bool
	// Diagnosis is the fault of the first output that has one with a name.
	Diagnosis string `json:"diagnosis"`
	Text      string `json:"text"`
}

// judgeBackward reads the tensors of a backward kernel and judges the gradients: inputs under their names, grad_output,
// or grad_output.N of several outputs, grad.NAME, and saved.NAME. One of ATen's backward operations has its tensors
// under their names in the schema, and output, or output.N of several.
func judgeBackward(c *cli.Command, path string, a judged) error {
	attributes, err := attributesOf(a.attributes)
	if err != nil {
		return err
	}
	tensors, names, err := readTensors(path)
	if err != nil {
		return err
	}
	read := a.backward
	if gradient.IsATen(a.op) {
		read = a.aten
	}
	q, err := read(attributes, tensors, names)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if q.Claimed, err = a.claim(q.Inputs); err != nil {
		return err
	}
	if err := a.gradFormats(q); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r, err := gradient.Check(*q)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if a.op == "" {
		a.op = "graph"
	}
	return printSeveral(c, &severalReport{Op: a.op, SeveralReport: r, backward: true}, a.report)
}

// printSeveral prints what was found of several outputs.
func printSeveral(c *cli.Command, r *severalReport, page string) error {
	for _, row := range r.Outputs {
		if r.Diagnosis == "" {
			r.Diagnosis = row.Fault
		}
	}
	r.Text = severalText(r)
	return printJudged(c, r, r.Text, r.Verdict, page)
}

// backward is the question of the gradients of a forward pass.
func (a *judged) backward(
	attributes []byte, tensors map[string]*tensor.Tensor, names []string,
) (*gradient.Question, error) {
	q := &gradient.Question{Grads: map[string]*tensor.Tensor{}, Saved: map[string]*tensor.Tensor{}}
	inputs := slices.DeleteFunc(names, func(n string) bool {
		if name, is := strings.CutPrefix(n, "grad."); is {
			q.Grads[name] = tensors[n]
			return true
		}
		if name, is := strings.CutPrefix(n, "saved."); is {
			q.Saved[name] = tensors[n]
			return true
		}
		return n == "grad_output" || strings.HasPrefix(n, "grad_output.")
	})
	order, err := a.forward(q, attributes, inputs)
	if err != nil {
		return nil, err
	}
	for _, n := range order {
		q.Inputs = append(q.Inputs, tensors[n])
	}
	q.GradOutputs, err = gradOutputs(tensors, len(q.Graph.Outputs))
	return q, err
}

// aten is the question of one of ATen's backward operations.
func (a *judged) aten(
	attributes []byte, tensors map[string]*tensor.Tensor, names []string,
) (*gradient.Question, error) {
	var outputs []*tensor.Tensor
	for _, name := range names {
		k, is := 0, name == a.output && !gradient.Reads(a.op, name)
		if rest, of := strings.CutPrefix(name, a.output+"."); of {
			n, err := strconv.Atoi(rest)
			if k, is = n, err == nil && n >= 0 && n < mostOutputs; !is {
				return nil, fmt.Errorf("tensor %.60q: want %s.0, %s.1 and so on", name, a.output, a.output)
			}
		}
		if is {
			outputs = append(outputs, make([]*tensor.Tensor, max(0, k+1-len(outputs)))...)
			outputs[k] = tensors[name]
			delete(tensors, name)
		}
	}
	return gradient.ATen(a.op, attributes, tensors, outputs)
}

// mostOutputs bounds those of an operation.
const mostOutputs = 16

// forward sets the forward's graph and returns the order of its inputs.
func (a *judged) forward(q *gradient.Question, attributes []byte, names []string) (order []string, err error) {
	if a.network == "" {
		q.Graph, order, err = gradient.Kernel(a.op, attributes, names)
		return order, err
	}
	n, err := network.Open(a.network)
	if err != nil {
		return nil, err
	}
	q.Graph = n.Graph
	for _, in := range n.Inputs {
		if !slices.Contains(names, in.Name) {
			return nil, fmt.Errorf("no tensor %.60q: want the inputs of %s", in.Name, a.network)
		}
		order = append(order, in.Name)
	}
	return order, nil
}

// gradOutputs are the given gradients, in the order of the outputs.
func gradOutputs(tensors map[string]*tensor.Tensor, outputs int) (all []*tensor.Tensor, err error) {
	for k := range outputs {
		name := fmt.Sprint("grad_output.", k)
		d := tensors[name]
		if d == nil && outputs == 1 {
			name = "grad_output"
			d = tensors[name]
		}
		if d == nil {
			return nil, fmt.Errorf("no tensor %s: want the gradient by the output that the kernel was given", name)
		}
		all = append(all, d)
	}
	return all, nil
}

// gradFormats takes the tensors as what --precision and --store say.
func (a *judged) gradFormats(q *gradient.Question) error {
	in := judge.Question{Inputs: slices.Concat(q.Inputs, q.GradOutputs)}
	only := *a
	only.store = ""
	if err := only.formats(&in); err != nil {
		return err
	}
	q.Double = a.double(in.Inputs, slices.Collect(maps.Values(q.Grads))...)
	q.Inputs, q.GradOutputs = in.Inputs[:len(q.Inputs)], in.Inputs[len(q.Inputs):]
	for name, d := range q.Grads {
		out := judge.Question{Output: d}
		if err := a.formats(&out); err != nil {
			return err
		}
		q.Grads[name] = out.Output
	}
	return nil
}

// severalText is a report for people: a row for each output, and what is wrong with those that fail.
func severalText(r *severalReport) string {
	var b strings.Builder
	prefix := ""
	if r.backward {
		prefix = "grad."
		fmt.Fprintf(&b, "%s  backward of %s: %s\n", r.Verdict, r.Op, cli.Plural(len(r.Outputs), "gradient"))
	} else {
		fmt.Fprintf(&b, "%s  %s: %s\n", r.Verdict, r.Op, cli.Plural(len(r.Outputs), "output"))
	}
	if r.Contract != nil {
		b.WriteString(indented("contract found: " + r.Contract.String()))
	}
	for _, row := range r.Outputs {
		line := fmt.Sprintf("%s%s: %s", prefix, row.Name, row.Verdict)
		if row.Report.Reason != "" {
			line += ", " + row.Report.Reason
		}
		b.WriteString(indented(line))
		if row.Unjudged == "" {
			b.WriteString(rowText(&row, r.Contract == nil))
		}
	}
	return b.String()
}

// rowText is what was found of one output that was judged.
func rowText(row *judge.Row, contract bool) string {
	lines := []string{"every element is the nearest number to the exact value"}
	if row.Flips > 0 {
		of := fmt.Sprintf("%d of %d", row.Flips, row.Elements)
		lines[0] = fmt.Sprintf("%s off the nearest number; simulated right kernels have up to %d", of, row.Expected)
	}
	if row.Errors < math.MaxFloat64 {
		lines = append(lines, fmt.Sprintf("mean square error %.3g times that of simulated right kernels", row.Errors))
	}
	if row.Fault != "" {
		lines = append(lines, "fault: "+row.Fault, "to do: "+row.Advice)
	}
	if row.Region != "" {
		lines = append(lines, "most of it: "+row.Region)
	}
	if contract {
		lines = append(lines, "contract: "+row.Report.Contract.String())
	}
	if n := len(row.Blind); n > mostBlind {
		lines = append(lines, fmt.Sprintf("this data would not show: %s and %d more, which --json has",
			hidden(row.Blind[:mostBlind]), n-mostBlind))
	} else if n > 0 {
		lines = append(lines, "this data would not show: "+hidden(row.Blind))
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(cli.Hanging("", l, 4))
	}
	return b.String()
}
