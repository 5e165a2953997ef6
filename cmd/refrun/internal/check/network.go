package check

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
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
func again(m *model.Flags, outputs cli.List, w *checkFlags) string {
	flags := [][2]string{{"onnx", m.Onnx}, {"graph", m.Graph}}
	for _, in := range m.Inputs {
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
func checkModel(c *cli.Command, m *model.Flags, outputs cli.List, w *checkFlags) error {
	err := m.Alone(c.Flags, "output", "layers", "claim", "autocast", "budget", "report", "junit", "sarif", "only")
	if err != nil {
		return err
	}
	began := time.Now()
	claim, err := forward.ParseClaim(cmp.Or(w.claim, "float32"), w.autocast)
	if err != nil {
		return fmt.Errorf("--claim: %w", err)
	}
	claimed := w.claim != "" || w.autocast != ""
	if len(outputs) == 0 && w.layers == "" {
		return errors.New("--output: missing: want the file of the outputs that the device returned")
	}
	n, err := m.Read()
	if err != nil {
		return err
	}
	defer n.Close()
	b, _, err := n.Complete(claim.Given())
	if err != nil {
		return err
	}
	if !claimed {
		claim = forward.Own(b.Graph, b.In)
	}
	q := forward.Question{Name: filepath.Base(m.Path()), Graph: b.Graph, Inputs: b.In, Claim: claim, Budget: w.budget}
	if q.Outputs, err = deviceOutputs(n, outputs); err != nil {
		return err
	}
	var unknown []string
	if w.layers != "" {
		if q.Layers, unknown, err = deviceLayers(w.layers, b.Graph); err != nil {
			return err
		}
	}
	ctx, stop := cli.Interruptible()
	p := c.Progress("check")
	q.Progress = p.Step
	r, err := forward.Check(ctx, q)
	p.Done()
	if cause := stop(); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Path(), err)
	}
	r.Only, r.Notes = w.only, append(r.Notes, layerNotes(unknown)...)
	out := modelCheckReport{Model: m.Path(), ISA: c.Isa, Threads: runtime.GOMAXPROCS(0), Seconds: max(time.Since(began),
		time.Nanosecond).Seconds(), PeakBytes: cli.PeakBytes(), Text: render.Text(r), Report: r}
	r.Made = made(m.Path(), again(m, outputs, w))
	found(c, r)
	unwritten := cmp.Or(files.Write("--report", w.report, r, render.WriteHTML), files.Write("--junit", w.junit, r,
		render.WriteJUnit))
	if c.Json {
		if err := c.PrintJSON(out); err != nil {
			return err
		}
	}
	c.Print(out.Text)
	c.Printf("%s s on %s (%s)\n", cli.Num(diff.Number(out.Seconds)), cli.Plural(out.Threads, "thread"), out.ISA)
	return cmp.Or(unwritten, verdictError(r))
}

// layerNotes says which of the tensors of --layers have not been judged.
func layerNotes(unknown []string) []string {
	if len(unknown) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("--layers: no values of the network: %s", cli.Short(unknown))}
}

// found keeps what CI is told of a report.
func found(c *cli.Command, r *report.Report) {
	c.Ci.Verdict = string(r.Verdict)
	if r.Verdict.Failed() && len(r.Findings) > 0 {
		c.Ci.Rule = r.Findings[0].ID
	}
}

// verdictError returns the error whose exit code a verdict has.
func verdictError(r *report.Report) error {
	switch {
	case r.Fails():
		return cli.ErrFailed
	case r.Verdict == report.NoPower:
		return cli.ErrNoPower
	}
	return nil
}

// deviceOutputs reads the outputs that a device returned: from NAME=FILE each, or from a FILE with all of
// them by their names, or with one array if there is one output.
func deviceOutputs(m *model.Network, args cli.List) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(m.Outputs))
	for _, arg := range args {
		name, file, one := strings.Cut(arg, "=")
		if one {
			k := slices.Index(m.Outputs, name)
			if k < 0 {
				return nil, fmt.Errorf("--output: %q: not an output of the network: want %s", name, cli.Short(m.Outputs))
			}
			t, err := readTensor("--output", file, "")
			if err != nil {
				return nil, err
			}
			out[k] = t
			continue
		}
		if strings.HasSuffix(arg, ".npy") && len(m.Outputs) != 1 {
			return nil, fmt.Errorf("--output: %s: one array for %d outputs: want NAME=FILE, of %s", arg, len(m.Outputs),
				cli.Short(m.Outputs))
		}
		found := 0
		for k, name := range m.Outputs {
			t, err := readTensor("--output", arg, name)
			if errors.Is(err, model.ErrNoTensor) && model.EntryName(name) != name {
				t, err = readTensor("--output", arg, model.EntryName(name))
			}
			if errors.Is(err, model.ErrNoTensor) && len(m.Outputs) == 1 {
				t, err = readTensor("--output", arg, "")
			}
			if errors.Is(err, model.ErrNoTensor) {
				continue
			}
			if err != nil {
				return nil, err
			}
			out[k], found = t, found+1
		}
		if found == 0 {
			return nil, fmt.Errorf("--output: %s: none of the network's outputs: want %s", arg, cli.Short(m.Outputs))
		}
	}
	return out, nil
}

// readTensor reads an array of a file, or FILE:TENSOR, in its own type.
func readTensor(flag, arg, name string) (*tensor.Tensor, error) {
	file := arg
	if name == "" {
		file, name = model.CutTensor(arg)
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
	if name, err = model.Pick(file, name, z.Names()); err != nil {
		return nil, err
	}
	a, err := z.Array(name)
	if err != nil {
		return nil, err
	}
	return arrayTensor(a)
}

func safeTensor(file, name string) (*tensor.Tensor, error) {
	f, closer, err := files.OpenTensors(file)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	if name, err = model.Pick(file, name, f.Names()); err != nil {
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
		f, closer, err := files.OpenTensors(file)
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
				of[n], of[model.EntryName(n)] = v, v
			}
		}
	}
	layers, unknown := map[int]*tensor.Tensor{}, []string(nil)
	for _, name := range names {
		v, ok := of[name]
		if !ok {
			unknown = append(unknown, cli.Clean(name))
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
			"want such as %.60q", file, cli.Plural(len(names), "tensor"), g.Name(&g.Nodes[0]))
	}
	return layers, unknown, nil
}

func asFile(flag, file string, err error) error {
	return fmt.Errorf("%s: %s: %w: want a file of tensors", flag, file, fault.Cause(err))
}
