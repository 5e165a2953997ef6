package kernel

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/kernel"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// judged are the flags of a kernel that is held to what right ones may return.
type judged struct {
	op, network              string // one of them
	precision, store, output string
	report                   string // a page to write, or ""
	attributes, round        cli.List
	schedule                 cli.List
	variance, accumulate     string
	emulation                string    // one of judge.Emulations, or ""
	all                      bool      // and not a sample of a large output
	until                    time.Time // when to end, if it is set
}

// kernelReport is what a judged kernel's --json prints.
type kernelReport struct {
	Op string `json:"op"`
	*judge.Report
	// Diagnosis is the name of the fault, as the report of a rollout and of a network has it.
	Diagnosis string `json:"diagnosis"`
	// Fits are the devices whose tensor cores were tried, of a matmul of half operands.
	Fits []kernel.Fit `json:"fits,omitempty"`
	// Text is what is printed for people.
	Text string `json:"text"`
}

// judgeKernel reads one kernel's tensors and judges its output.
func judgeKernel(c *cli.Command, path string, a judged) error {
	attributes, err := attributesOf(a.attributes)
	if err != nil {
		return err
	}
	tensors, names, err := readTensors(path)
	if err != nil {
		return err
	}
	numbers := int64(0)
	for _, t := range tensors {
		numbers += int64(len(t.Data))
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, a.output+".") }) {
		return judgeOutputs(c, path, a, attributes, tensors, names)
	}
	defer cli.CollectWithin(4*8*numbers - 20<<20)() // with the program itself less than four times the tensors
	out, ok := tensors[a.output]
	if !ok {
		return fmt.Errorf("%s: no tensor %.60q: want the output (--output NAME), of %.200q", path, a.output, names)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == a.output })
	g, order, err := a.graph(attributes, names)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	q := judge.Question{Graph: g, Output: out, Sample: !a.all, Until: a.until}
	for _, n := range order {
		q.Inputs = append(q.Inputs, tensors[n])
	}
	if q.Claimed, err = a.claim(q.Inputs); err != nil {
		return err
	}
	if err := a.formats(&q); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r, err := judge.Check(q)
	if errors.Is(err, judge.ErrNotJudged) {
		r, err = &judge.Report{Verdict: judge.NoPower, Store: out.Format.String(), Elements: len(out.Data),
			Reason: err.Error(), Unjudged: err.Error()}, nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if a.op == "" {
		a.op = "graph"
	}
	all := &kernelReport{Op: a.op, Report: r, Diagnosis: r.Fault, Fits: devices(a.op, q)}
	all.Text = judgedText(all)
	c.Ci.Rule = r.FaultID
	if c.Json {
		if err := c.PrintJSON(all); err != nil {
			return err
		}
	}
	c.Print(all.Text)
	if a.report != "" {
		if err := disk.WriteFile(a.report, kernelPage(all.Text), 0o644); err != nil {
			return err
		}
	}
	switch r.Verdict {
	case judge.Fail:
		return cli.ErrFailed
	case judge.NoPower:
		return cli.ErrNoPower
	}
	return nil
}

// kernelPage is a report as a page of HTML.
func kernelPage(text string) []byte {
	verdict, _, _ := strings.Cut(text, " ")
	page := strings.NewReplacer("TITLE", html.EscapeString(verdict), "TEXT", html.EscapeString(text))
	return []byte(page.Replace(kernelHTML))
}

//go:embed kernel.html
var kernelHTML string

// graph is what the kernel computes, of tensors of these names, and the order in which it takes them.
func (a *judged) graph(attributes []byte, names []string) (*graph.Graph, []string, error) {
	if a.network == "" {
		return judge.Kernel(a.op, attributes, names)
	}
	return a.opened(names)
}

// opened is the graph of --graph and the order of its inputs, which are among those names.
func (a *judged) opened(names []string) (g *graph.Graph, order []string, err error) {
	n, err := network.Open(a.network)
	if err != nil {
		return nil, nil, err
	}
	for _, in := range n.Inputs {
		if !slices.Contains(names, in.Name) {
			return nil, nil, fmt.Errorf("no tensor %.60q: want the inputs of %s", in.Name, a.network)
		}
		order = append(order, in.Name)
	}
	return n.Graph, order, nil
}

// attributesOf makes a JSON object of NAME=VALUE, where a value is JSON or a bare word.
func attributesOf(given cli.List) ([]byte, error) {
	all := map[string]json.RawMessage{}
	for _, a := range given {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--attr: %.60q: want NAME=VALUE, such as dim=-1", a)
		}
		if !json.Valid([]byte(value)) {
			quoted, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			value = string(quoted)
		}
		all[name] = json.RawMessage(value)
	}
	return json.Marshal(all)
}

// claim is what the flags say of how the kernel computes, of its inputs; nil if nothing.
func (a *judged) claim(inputs []*tensor.Tensor) (*judge.Contract, error) {
	var c judge.Contract
	if c.Accumulate = a.accumulate; a.accumulate == wholeSums {
		if !slices.ContainsFunc(inputs, func(t *tensor.Tensor) bool { return t.Format == fp16.Int64 }) {
			return nil, fmt.Errorf("--accumulate: %s: no input has whole numbers", wholeSums)
		}
		c.Accumulate = "" // they are exact
	}
	for _, r := range a.round {
		for name := range strings.SplitSeq(r, ",") {
			c.Round = append(c.Round, name)
		}
	}
	switch a.variance {
	case "", "two_pass":
	case "one_pass":
		c.OnePass = true
	default:
		return nil, fmt.Errorf("--variance: %.60q: want two_pass or one_pass", a.variance)
	}
	for _, s := range a.schedule {
		for part := range strings.SplitSeq(s, ",") {
			name, value, _ := strings.Cut(part, "=")
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 1<<30 {
				return nil, fmt.Errorf("--schedule: %.60q: want NAME=N, such as block_keys=32", part)
			}
			switch name {
			case "block_keys":
				c.Online, c.BlockKeys = true, n
			case "block_queries", "split_k", "part_k": // changes no step
			default:
				return nil, fmt.Errorf("--schedule: %.60q: want block_keys, block_queries, split_k or part_k", name)
			}
		}
	}
	if slices.Contains(c.Round, "probabilities_unnormalized") {
		c.Online = true
	}
	c.Operands = a.emulation
	if a.precision == "tf32" {
		c.Operands = "tf32"
	}
	if slices.Equal(c.Round, nil) && c.Form == (judge.Form{}) {
		return nil, nil
	}
	return &c, nil
}

// formats takes the tensors as what --precision and --store say, which the file may hold as wider numbers.
func (a *judged) formats(q *judge.Question) error {
	as := func(flag, name string, t *tensor.Tensor) (*tensor.Tensor, error) {
		f, err := fp16.ParseFormat(fullFormat(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %.60q: want float64, float32, float16, bfloat16 or tf32", flag, name)
		}
		if f == fp16.TF32 {
			f = fp16.Float32
		}
		for i, v := range t.Data {
			if !f.Holds(v) {
				return nil, fmt.Errorf("%s: number %d is %v: want %v numbers", flag, i, v, f)
			}
		}
		return &tensor.Tensor{Format: f, Shape: t.Shape, Data: t.Data}, nil
	}
	var err error
	if a.precision != "" {
		for k, t := range q.Inputs {
			// which has a format of its own
			if scalar := t.Format == fp16.Float64 && len(t.Data) == 1; t.Format != fp16.Int64 && !scalar {
				if q.Inputs[k], err = as("--precision", a.precision, t); err != nil {
					return err
				}
			}
		}
	}
	if a.store != "" {
		if q.Output, err = as("--store", a.store, q.Output); err != nil {
			return err
		}
	}
	q.Double = a.double(q.Inputs, q.Output)
	return nil
}

// double reports whether a kernel is one in float64: --precision says so, or else its tensors.
func (a *judged) double(inputs []*tensor.Tensor, outputs ...*tensor.Tensor) bool {
	if a.precision != "" {
		return fullFormat(a.precision) == fp16.Float64.String()
	}
	return judge.IsDouble(inputs, outputs...)
}

// fullFormat is a format's name in full.
func fullFormat(name string) string {
	switch name {
	case "fp16":
		return "float16"
	case "bf16":
		return "bfloat16"
	case "fp32":
		return "float32"
	}
	return name
}

// formatsOf are the formats of what a safetensors file holds.
var formatsOf = map[safetensors.DType]fp16.Format{"F32": fp16.Float32, "F16": fp16.Float16, "BF16": fp16.BFloat16,
	"F64": fp16.Float64, "I64": fp16.Int64, "I32": fp16.Int64, "BOOL": fp16.Int64}

// readTensors reads all tensors of a safetensors file.
func readTensors(path string) (map[string]*tensor.Tensor, []string, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want a safetensors file", path, c)
		}
		return nil, nil, err
	}
	all := map[string]*tensor.Tensor{}
	for _, name := range f.Names() {
		t, err := f.Tensor(name)
		if err != nil {
			return nil, nil, err
		}
		format, ok := formatsOf[t.DType]
		if _, narrow := t.DType.Narrow(); narrow { // float32 has all of them
			format, ok = fp16.Float32, true
		}
		if !ok {
			return nil, nil, fmt.Errorf("%s: %q: dtype %s: want F32, F16, BF16, F64, I64 or one of 8 bits", path, name, t.DType)
		}
		var v []float64
		if format == fp16.Int64 {
			whole, err := t.Int64s()
			if err != nil {
				return nil, nil, err
			}
			for _, w := range whole {
				if w > 1<<53 || w < -1<<53 {
					return nil, nil, fmt.Errorf("%s: %q: %d: want whole numbers up to 2^53", path, name, w)
				}
				v = append(v, float64(w))
			}
		} else if v, err = numbersOf(t); err != nil {
			return nil, nil, err
		}
		all[name] = tensor.Of(format, v, t.Shape...)
	}
	return all, f.Names(), nil
}

// devices says which tensor cores would give a matmul's very bits; nil where that is not asked.
func devices(op string, q judge.Question) []kernel.Fit {
	if op != "matmul" && op != "mm" || len(q.Inputs) != 2 || len(q.Output.Shape) != 2 {
		return nil
	}
	var operands tensorcore.Input
	switch q.Inputs[0].Format {
	case fp16.Float16:
		operands = tensorcore.FP16
	case fp16.BFloat16:
		operands = tensorcore.BF16
	default:
		return nil
	}
	wide := func(t *tensor.Tensor) *tensor.Tensor {
		return &tensor.Tensor{Format: fp16.Float64, Shape: t.Shape, Data: t.Data}
	}
	fits, err := kernel.Fits(kernel.Question{Op: "matmul", A: wide(q.Inputs[0]), B: wide(q.Inputs[1]),
		Output: wide(q.Output), Operands: operands, Store: q.Output.Format})
	if err != nil {
		return nil
	}
	return fits
}

// ordered says which order of k fits a product's bits, and how sure that is.
func ordered(o *report.Order) string {
	s := fmt.Sprintf("no order of k that is known gives these bits: %s, %d of %d sums", o.Name, o.Equal, o.Of)
	if o.Equal == o.Of {
		s = fmt.Sprintf("order of the sums: %s gives all %d that were looked at", o.Name, o.Of)
		if n := len(o.Alike); n > 0 {
			s += fmt.Sprintf(", and so do %s", cli.Plural(n, "other order"))
		}
		if o.Next != "" {
			s += fmt.Sprintf("; the next best, %s, gives %d", o.Next, o.NextEqual)
		}
	}
	return s
}

// hidden are faults by the last part of their IDs: all of them are of kernels.
func hidden(ids []string) string {
	var names []string
	for _, id := range ids {
		names = append(names, strings.TrimPrefix(id, "kernel."))
	}
	return strings.Join(names, ", ")
}

// mostBlind bounds the faults that are listed, so that a report fits a screen.
const mostBlind = 8

// judgedText is a report for people: 24 lines of 80 columns at most.
func judgedText(r *kernelReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s to %s: %s\n", r.Verdict, r.Op, r.Store, cli.Plural(r.Elements, "element"))
	if r.Sample != nil {
		b.WriteString(indented(r.Sample.String()))
	}
	switch r.Verdict {
	case judge.Pass:
		if r.Sample == nil {
			b.WriteString(indented("every element is what a right kernel may return"))
		}
	default:
		b.WriteString(indented(r.Reason))
		switch r.Known {
		case report.Proved:
			b.WriteString(indented("proved: outside the interval of all right kernels"))
		case report.ByOdds:
			b.WriteString(indented(fmt.Sprintf("odds: of right kernels %.1g have such errors", r.Chance)))
		}
		if r.Fault != "" {
			b.WriteString(indented("fault: " + r.Fault))
			b.WriteString(indented("to do: " + r.Advice))
		}
		if r.Region != "" {
			b.WriteString(indented("most of it: " + r.Region))
		}
	}
	if r.Unjudged != "" { // there are no figures
		return b.String()
	}
	claimed := "contract found"
	if r.Claimed {
		claimed = "contract claimed"
	}
	b.WriteString(indented(claimed + ": " + r.Contract.String()))
	if w := r.Worst; w != nil && r.Flips > 0 {
		b.WriteString(indented(fmt.Sprintf("worst element %v: %s, exact %s, right kernels %s to %s",
			w.Index, w.Got, w.Exact, w.Low, w.High)))
	}
	if r.Flips > 0 {
		b.WriteString(indented(fmt.Sprintf("%s off the nearest number; simulated right kernels have up to %d",
			cli.Plural(r.Flips, "element"), r.Expected)))
	} else {
		b.WriteString(indented("every element is the nearest number to the exact value"))
	}
	if r.Errors < math.MaxFloat64 {
		b.WriteString(indented(fmt.Sprintf("mean square error %.3g times that of simulated right kernels", r.Errors)))
	}
	if n := len(r.Blind); n > mostBlind {
		b.WriteString(indented(fmt.Sprintf("this data would not show: %s and %d more, which --json has",
			hidden(r.Blind[:mostBlind]), n-mostBlind)))
	} else if n > 0 {
		b.WriteString(indented("this data would not show: " + hidden(r.Blind)))
	}
	if r.Untried > 0 {
		b.WriteString(indented(fmt.Sprintf("a long graph: not tried as the one that alone is rounded: %s",
			cli.Plural(r.Untried, "step"))))
	}
	if r.Fits != nil && r.Verdict == judge.Pass {
		b.WriteString(indented(fitting(&kernel.Report{Elements: r.Elements, Fits: r.Fits})))
	}
	if r.Order != nil && r.Verdict == judge.Pass {
		b.WriteString(indented(ordered(r.Order)))
	}
	if r.Close > 0 {
		b.WriteString(indented(fmt.Sprintf("torch.testing.assert_close finds %s off", cli.Plural(r.Close, "element"))))
	} else {
		b.WriteString(indented("torch.testing.assert_close finds nothing"))
	}
	return b.String()
}
