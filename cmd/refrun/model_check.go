package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/oracle/forward"
	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// modelCheckReport is the JSON of check --onnx.
type modelCheckReport struct {
	Model     string  `json:"model"`
	ISA       string  `json:"isa"`
	Threads   int     `json:"threads"`
	Seconds   float64 `json:"seconds"`
	PeakBytes int64   `json:"peak_bytes"`
	Text      string  `json:"text"` // what is printed without --json
	*report.Report
}

// again is the command that makes a report again.
func (m *modelFlags) again(outputs list, w *checkFlags) string {
	flags := [][2]string{{"onnx", m.onnx}, {"graph", m.graph}}
	for _, in := range m.inputs {
		flags = append(flags, [2]string{"input", in})
	}
	for _, out := range outputs {
		flags = append(flags, [2]string{"output", out})
	}
	return checkOf(append(flags, [][2]string{
		{"layers", w.layers}, {"claim", w.claim}, {"autocast", w.autocast}, {"only", w.only},
	}...))
}

// checkModel judges one evaluation of a network.
func (c *command) checkModel(m *modelFlags, outputs list, w *checkFlags) error {
	err := m.alone(c.flags, "output", "layers", "claim", "autocast", "budget", "report", "junit", "sarif", "only")
	if err != nil {
		return err
	}
	began := time.Now()
	claim, err := forward.ParseClaim(cmp.Or(w.claim, "float32"), w.autocast)
	if err != nil {
		return fmt.Errorf("--claim: %w", err)
	}
	if len(outputs) == 0 && w.layers == "" {
		return errors.New("--output: missing: want the file of the outputs that the device returned")
	}
	n, err := m.read()
	if err != nil {
		return err
	}
	defer n.close()
	b, _, err := n.complete(graph.Mode{Precision: fp16.Float32})
	if err != nil {
		return err
	}
	q := forward.Question{Name: filepath.Base(m.path()), Graph: b.graph, Inputs: b.in, Claim: claim, Budget: w.budget}
	if q.Outputs, err = n.deviceOutputs(outputs); err != nil {
		return err
	}
	var unknown []string
	if w.layers != "" {
		if q.Layers, unknown, err = deviceLayers(w.layers, b.graph); err != nil {
			return err
		}
	}
	ctx, stop := interruptible()
	p := c.progress("check")
	q.Progress = p.step
	r, err := forward.Check(ctx, q)
	p.done()
	if cause := stop(); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.path(), err)
	}
	r.Only, r.Notes = w.only, append(r.Notes, layerNotes(unknown)...)
	out := modelCheckReport{Model: m.path(), ISA: c.isa, Threads: runtime.GOMAXPROCS(0), Seconds: max(time.Since(began),
		time.Nanosecond).Seconds(), PeakBytes: peakBytes(), Text: render.Text(r), Report: r}
	r.Made = made(m.path(), m.again(outputs, w))
	c.found(r)
	unwritten := cmp.Or(write("--report", w.report, r, render.WriteHTML), write("--junit", w.junit, r, render.WriteJUnit))
	if c.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	}
	c.print(out.Text)
	c.printf("%s s on %s (%s)\n", num(diff.Number(out.Seconds)), plural(out.Threads, "thread"), out.ISA)
	return cmp.Or(unwritten, verdictError(r))
}

// layerNotes says which of the tensors of --layers have not been judged.
func layerNotes(unknown []string) []string {
	if len(unknown) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("--layers: no values of the network: %s", short(unknown))}
}

// found keeps what CI is told of a report.
func (c *command) found(r *report.Report) {
	c.ci.verdict = string(r.Verdict)
	if r.Verdict.Failed() && len(r.Findings) > 0 {
		c.ci.rule = r.Findings[0].ID
	}
}

// verdictError returns the error whose exit code a verdict has.
func verdictError(r *report.Report) error {
	switch {
	case r.Fails():
		return errFailed
	case r.Verdict == report.NoPower:
		return errNoPower
	}
	return nil
}

// short lists the first few names.
func short(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}

// complete makes the graph, of which all inputs must be given.
func (m *model) complete(mode graph.Mode) (*built, *graph.Program, error) {
	for _, in := range m.inputs {
		if m.given[in.Name] == nil {
			return nil, nil, fmt.Errorf("--input: %s: missing: want %s", in.Name, inputText(in))
		}
	}
	return m.build(mode)
}

// deviceOutputs reads the outputs that a device returned: from NAME=FILE each, or from a FILE with all of
// them by their names, or with one array if there is one output.
func (m *model) deviceOutputs(args list) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(m.outputs))
	for _, arg := range args {
		name, file, one := strings.Cut(arg, "=")
		if one {
			k := slices.Index(m.outputs, name)
			if k < 0 {
				return nil, fmt.Errorf("--output: %q: not an output of the network: want %s", name, short(m.outputs))
			}
			t, err := readTensor("--output", file, "")
			if err != nil {
				return nil, err
			}
			out[k] = t
			continue
		}
		if strings.HasSuffix(arg, ".npy") && len(m.outputs) != 1 {
			return nil, fmt.Errorf("--output: %s: one array for %d outputs: want NAME=FILE, of %s", arg, len(m.outputs),
				short(m.outputs))
		}
		found := 0
		for k, name := range m.outputs {
			t, err := readTensor("--output", arg, name)
			if errors.Is(err, errNoTensor) && entryName(name) != name {
				t, err = readTensor("--output", arg, entryName(name))
			}
			if errors.Is(err, errNoTensor) && len(m.outputs) == 1 {
				t, err = readTensor("--output", arg, "")
			}
			if errors.Is(err, errNoTensor) {
				continue
			}
			if err != nil {
				return nil, err
			}
			out[k], found = t, found+1
		}
		if found == 0 {
			return nil, fmt.Errorf("--output: %s: none of the network's outputs: want %s", arg, short(m.outputs))
		}
	}
	return out, nil
}

// readTensor reads an array of a file, or FILE:TENSOR, in its own type.
func readTensor(flag, arg, name string) (*tensor.Tensor, error) {
	file := arg
	if name == "" {
		file, name = cutTensor(arg)
	}
	var t *tensor.Tensor
	var err error
	switch {
	case strings.HasSuffix(file, ".npz"):
		t, err = npzTensor(file, name)
	case strings.HasSuffix(file, ".safetensors"):
		t, err = safeTensor(file, name)
	case strings.HasSuffix(file, ".npy"):
		if t, err = npyTensor(file); name != "" && err == nil {
			name = ""
		}
	default:
		return nil, fmt.Errorf("%s: %s: want a .npy, .npz or .safetensors file", flag, arg)
	}
	if c := fault.Cause(err); c != err {
		err = fmt.Errorf("%s: %w: want a file of tensors", file, c)
	}
	return t, err
}

// arrayTensor returns an array of numpy's in its own type.
func arrayTensor(a *npy.Array) (*tensor.Tensor, error) {
	f, ok := a.Format()
	if !ok {
		f = fp16.Int64
	}
	data, err := a.Float64s()
	if err != nil {
		return nil, err
	}
	return tensor.Of(f, data, a.Shape...), nil
}

func npyTensor(file string) (*tensor.Tensor, error) {
	a, err := npy.Open(file)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return arrayTensor(a)
}

func npzTensor(file, name string) (*tensor.Tensor, error) {
	z, err := npy.OpenArchive(file)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	if name, err = pick(file, name, z.Names()); err != nil {
		return nil, err
	}
	a, err := z.Array(name)
	if err != nil {
		return nil, err
	}
	return arrayTensor(a)
}

func safeTensor(file, name string) (*tensor.Tensor, error) {
	f, closer, err := openTensors(file)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	if name, err = pick(file, name, f.Names()); err != nil {
		return nil, err
	}
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	return network.TensorOf(t)
}

// deviceLayers reads what a device has recorded of values, by their names or those of modules that end
// with them, and returns the names that are none.
func deviceLayers(file string, g *graph.Graph) (map[int]*tensor.Tensor, []string, error) {
	var names []string
	switch {
	case strings.HasSuffix(file, ".npz"):
		z, err := npy.OpenArchive(file)
		if err != nil {
			return nil, nil, asFile("--layers", file, err)
		}
		names = z.Names()
		z.Close()
	case strings.HasSuffix(file, ".safetensors"):
		f, closer, err := openTensors(file)
		if err != nil {
			return nil, nil, asFile("--layers", file, err)
		}
		names = f.Names()
		closer.Close()
	default:
		return nil, nil, fmt.Errorf("--layers: %s: want a .npz or .safetensors file", file)
	}
	of := map[string]int{}
	for i := range g.Nodes {
		for _, v := range g.Nodes[i].Out {
			for _, n := range append([]string{g.Values[v].Name}, g.Values[v].Also...) {
				of[n], of[entryName(n)] = v, v
			}
		}
	}
	layers, unknown := map[int]*tensor.Tensor{}, []string(nil)
	for _, name := range names {
		v, ok := of[name]
		if !ok {
			unknown = append(unknown, clean(name))
			continue
		}
		t, err := readTensor("--layers", file, name)
		if err != nil {
			return nil, nil, err
		}
		layers[v] = t
	}
	if len(layers) == 0 {
		return nil, nil, fmt.Errorf("--layers: %s: %s, and none has the name of a value of the network: "+
			"want such as %.60q", file, plural(len(names), "tensor"), g.Name(&g.Nodes[0]))
	}
	return layers, unknown, nil
}

func asFile(flag, file string, err error) error {
	return fmt.Errorf("%s: %s: %w: want a file of tensors", flag, file, fault.Cause(err))
}
