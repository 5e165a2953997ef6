package run

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/graph"
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

// evaluate evaluates a network once.
func evaluate(c *cli.Command, m *model.Flags, want setup.Arithmetic, out string, force bool) error {
	if err := m.Alone(c.Flags, "precision", "autocast", "arith", "o", "force"); err != nil {
		return err
	}
	precision, err := want.Named(cmp.Or(want.Precision, "float32"))
	if err != nil {
		return err
	}
	mode, err := graph.ParseMode(precision, want.Autocast)
	if err != nil {
		return fmt.Errorf("--precision: %w", err)
	}
	if err := model.VacantOutput(out, force); err != nil {
		return err
	}
	n, err := m.Read()
	if err != nil {
		return err
	}
	defer n.Close()
	b, p, err := n.Complete(mode)
	if err != nil {
		return err
	}
	start := time.Now()
	y, err := b.Run(p)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Path(), err)
	}
	seconds := max(time.Since(start), time.Nanosecond).Seconds()
	r := modelReport{Model: m.Path(), Mode: mode.String(),
		Contract: graph.Contract, Fixed: b.Fixed, Output: out, Nodes: len(b.Graph.Nodes), Products: p.Products(),
		Seconds: seconds, GFLOPS: 2 * float64(p.Products()) / seconds / 1e9, ISA: c.Isa, Threads: runtime.GOMAXPROCS(0),
		PeakBytes: cli.PeakBytes()}
	all := sha256.New()
	for k, t := range y {
		raw := model.RawBytes(t)
		all.Write(raw)
		sum := sha256.Sum256(raw)
		r.Outputs = append(r.Outputs,
			modelOutput{n.Outputs[k], append([]int{}, t.Shape...), t.Format.String(), hex.EncodeToString(sum[:])})
	}
	r.Digest = hex.EncodeToString(all.Sum(nil))
	if out != "" {
		if err := model.WriteOutputs(out, n.Outputs, y); err != nil {
			return err
		}
	}
	if c.Json {
		return c.PrintJSON(r)
	}
	printEvaluation(c, r)
	return nil
}

func printEvaluation(c *cli.Command, r modelReport) {
	c.Printf("%s: %s, %s multiplications\n", r.Model, cli.Plural(r.Nodes, "operation"), cli.Num(diff.Number(r.Products)))
	c.Printf("mode %s, contract %s\n", r.Mode, r.Contract)
	for _, name := range r.Fixed {
		c.Printf("sizes depend on the numbers of input %s\n", name)
	}
	for _, o := range r.Outputs {
		c.Printf("  %s %s %s\n", o.Name, o.Format, strings.ReplaceAll(fmt.Sprint(o.Shape), " ", ","))
	}
	c.Printf("%.3g s on %s (%s)\ndigest %s\n", r.Seconds, cli.Plural(r.Threads, "thread"), r.ISA, r.Digest)
}
