package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/noise"
	graphplan "github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// modelReport is the JSON of run --onnx.
type modelReport struct {
	Model     string        `json:"model"`
	Mode      string        `json:"mode"`
	Contract  string        `json:"contract"`
	Digest    string        `json:"digest"` // SHA-256 of the outputs' numbers, one after the other
	Outputs   []modelOutput `json:"outputs"`
	Fixed     []string      `json:"fixed_inputs,omitempty"` // whose numbers have decided shapes
	Output    string        `json:"output,omitempty"`
	Nodes     int           `json:"nodes"`
	Products  int64         `json:"products"`
	Seconds   float64       `json:"seconds"` // of the evaluation
	GFLOPS    float64       `json:"gflops"`
	ISA       string        `json:"isa"`
	Threads   int           `json:"threads"`
	PeakBytes int64         `json:"peak_bytes"`
}

// modelOutput is one output of a network.
type modelOutput struct {
	Name   string `json:"name"`
	Shape  []int  `json:"shape"`
	Format string `json:"format"`
	Digest string `json:"digest"`
}

// model evaluates a network once.
func (c *command) model(m *modelFlags, want arithmetic, out string, force bool) error {
	if err := m.alone(c.flags, "precision", "autocast", "arith", "o", "force"); err != nil {
		return err
	}
	precision, err := want.named(cmp.Or(want.precision, "float32"))
	if err != nil {
		return err
	}
	mode, err := graph.ParseMode(precision, want.autocast)
	if err != nil {
		return fmt.Errorf("--precision: %w", err)
	}
	if err := vacantOutput(out, force); err != nil {
		return err
	}
	n, err := m.read()
	if err != nil {
		return err
	}
	defer n.close()
	b, p, err := n.complete(mode)
	if err != nil {
		return err
	}
	start := time.Now()
	y, err := b.run(p)
	if err != nil {
		return fmt.Errorf("%s: %w", m.path(), err)
	}
	seconds := max(time.Since(start), time.Nanosecond).Seconds()
	r := modelReport{Model: m.path(), Mode: mode.String(),
		Contract: graph.Contract, Fixed: b.fixed, Output: out, Nodes: len(b.graph.Nodes), Products: p.Products(),
		Seconds: seconds, GFLOPS: 2 * float64(p.Products()) / seconds / 1e9, ISA: c.isa, Threads: runtime.GOMAXPROCS(0),
		PeakBytes: peakBytes()}
	all := sha256.New()
	for k, t := range y {
		raw := rawBytes(t)
		all.Write(raw)
		sum := sha256.Sum256(raw)
		r.Outputs = append(r.Outputs,
			modelOutput{n.outputs[k], append([]int{}, t.Shape...), t.Format.String(), hex.EncodeToString(sum[:])})
	}
	r.Digest = hex.EncodeToString(all.Sum(nil))
	if out != "" {
		if err := writeOutputs(out, n.outputs, y); err != nil {
			return err
		}
	}
	if c.json {
		return c.printJSON(r)
	}
	c.printEvaluation(r)
	return nil
}

func (c *command) printEvaluation(r modelReport) {
	c.printf("%s: %s, %s multiplications\n", r.Model, plural(r.Nodes, "operation"), num(diff.Number(r.Products)))
	c.printf("mode %s, contract %s\n", r.Mode, r.Contract)
	for _, name := range r.Fixed {
		c.printf("sizes depend on the numbers of input %s\n", name)
	}
	for _, o := range r.Outputs {
		c.printf("  %s %s %s\n", o.Name, o.Format, strings.ReplaceAll(fmt.Sprint(o.Shape), " ", ","))
	}
	c.printf("%.3g s on %s (%s)\ndigest %s\n", r.Seconds, plural(r.Threads, "thread"), r.ISA, r.Digest)
}

// run evaluates the network: by a plan where the mode has one, which has the same bits.
func (b *built) run(p *graph.Program) ([]*tensor.Tensor, error) {
	if b.mode.Precision == fp16.Float64 {
		return p.Run(new(graph.Run), b.in...)
	}
	fast, err := graphplan.New(b.graph, b.mode, b.types...)
	if err != nil {
		return nil, err
	}
	var out []*tensor.Tensor
	for _, v := range b.graph.Outputs {
		t := p.Type(v)
		out = append(out, tensor.New(t.Format, t.Shape...))
	}
	return out, fast.Run(nil, noise.Time{}, out, b.in)
}

// vacantOutput refuses a file that is there, and a kind that is not written.
func vacantOutput(path string, force bool) error {
	switch ext := filepath.Ext(path); {
	case path == "":
		return nil
	case ext != ".npy" && ext != ".npz" && ext != ".safetensors":
		return fmt.Errorf("-o: %s: file type %q: want .npz, .npy or .safetensors", path, ext)
	}
	if _, err := disk.Lstat(path); err == nil && !force {
		return fmt.Errorf("-o: %s: exists: want another file, or --force to overwrite it", path)
	}
	return nil
}

// rawBytes returns a tensor's numbers as a file holds them.
func rawBytes(t *tensor.Tensor) []byte {
	if t.Format == fp16.Int64 {
		return wholeBytes(t)
	}
	return t.Format.Append(nil, t.Data)
}

func wholeBytes(t *tensor.Tensor) []byte {
	var b []byte
	for _, v := range t.Data {
		b = binary.LittleEndian.AppendUint64(b, uint64(int64(v)))
	}
	return b
}

// writeOutputs writes the outputs by their names, whole or not at all.
func writeOutputs(path string, names []string, of []*tensor.Tensor) error {
	write := writeNpz
	switch filepath.Ext(path) {
	case ".npy":
		if len(of) != 1 {
			return fmt.Errorf("-o: %s: %d outputs: want .npz or .safetensors", path, len(of))
		}
		write = writeNpy
	case ".safetensors":
		write = writeTensors
	}
	err := disk.Replace(path, 0o666, func(w io.Writer) error { return write(w, names, of) })
	if err != nil {
		return fmt.Errorf("-o: %s: %w", path, err)
	}
	return nil
}

func writeNpy(w io.Writer, _ []string, of []*tensor.Tensor) error {
	if of[0].Format == fp16.Int64 {
		return errors.New("whole numbers: want .npz or .safetensors")
	}
	n, err := npy.NewWriter(w, of[0].Format, of[0].Shape)
	if err != nil {
		return err
	}
	if err := n.Write(of[0].Data); err != nil {
		return err
	}
	return n.Close()
}

func writeNpz(w io.Writer, names []string, of []*tensor.Tensor) error {
	z := npy.NewArchiveWriter(w, false)
	for k, t := range of {
		descr := "<i8"
		if t.Format != fp16.Int64 {
			descr = npy.TypeOf(t.Format)
		}
		if err := z.Copy(entryName(names[k]), descr, t.Shape, bytes.NewReader(rawBytes(t))); err != nil {
			return err
		}
	}
	return z.Close()
}

// entryName returns the name of an output as one of an archive: exporters write names such as
// /fc/Gemm_output_0 and Identity:0.
func entryName(name string) string {
	return strings.TrimLeft(strings.NewReplacer(":", "_", "\\", "_").Replace(name), "/")
}

func writeTensors(w io.Writer, names []string, of []*tensor.Tensor) error {
	var all []*safetensors.Tensor
	for k, t := range of {
		s, err := storedTensor(names[k], t)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return safetensors.Write(w, all, nil)
}
