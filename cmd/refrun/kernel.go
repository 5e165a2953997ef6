package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/oracle/kernel"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

var kernelVerb = verb{
	name:    "kernel",
	args:    "FILE",
	summary: "whether a kernel's output has the very bits of a device's tensor cores",
	help: `Reads the inputs and the output of one kernel from a safetensors file and computes
what a device's tensor cores give, bit for bit: the output is right if every
element is that. The file has input and other, or a and b, what is added to as c if
there is such, and output.

  --op matmul  [M,K] by [K,N], K ascending, in one part or --schedule split_k=N
  --op dot     rows of a and b [rows, terms], one sum each

Without --accumulate it says which devices and splits of K would give these bits.
How well the rule of each device is known is said too: docs/TENSORCORES.md.

Exit code 0: every bit is right. 1: some are not. 3: what is right is one number
everywhere, which a kernel that computes nothing has as well.

example: refrun kernel run.safetensors --op matmul --precision fp16 --accumulate tensor-core:h100`,
	run: runKernel,
}

func runKernel(c *command) error {
	op := c.flags.String("op", "", "`name` of the operation: matmul or dot")
	precision := c.flags.String("precision", "", "`format` of the operands: fp16, bf16, tf32, E4M3 or E5M2")
	device := c.flags.String("accumulate", "", "`tensor-core:NAME`, the device: "+strings.Join(tensorcore.Names(), ", "))
	schedule := c.flags.String("schedule", "", "`split_k=N`: K is added in N parts, and those in order")
	store := c.flags.String("store", "float32", "`format` of the output: float32, float16 or bfloat16")
	output := c.flags.String("output", "output", "`name` of the tensor that is the output")
	if err := c.parse(1); err != nil {
		return err
	}
	q := kernel.Question{Op: *op}
	if *op == "" {
		return errors.New("--op: want matmul or dot")
	}
	var err error
	if q.Operands, err = tensorcore.ParseInput(*precision); err != nil {
		return fmt.Errorf("--precision: %w", err)
	}
	switch *store {
	case "float32":
		q.Store = fp16.Float32
	case "float16", "fp16":
		q.Store = fp16.Float16
	case "bfloat16", "bf16":
		q.Store = fp16.BFloat16
	default:
		return fmt.Errorf("--store: %.40q: want float32, float16 or bfloat16", *store)
	}
	if *device != "" {
		name, ok := strings.CutPrefix(*device, "tensor-core:")
		if !ok {
			return fmt.Errorf("--accumulate: %.40q: want tensor-core:NAME", *device)
		}
		q.Device = name
	}
	if *schedule != "" {
		n, ok := strings.CutPrefix(*schedule, "split_k=")
		if q.SplitK, err = strconv.Atoi(n); !ok || err != nil || q.SplitK < 1 || q.SplitK > 1<<20 {
			return fmt.Errorf("--schedule: %.40q: want split_k=N, N from 1 on", *schedule)
		}
	}
	path := c.pos[0]
	if err := readKernel(&q, path, *output); err != nil {
		return err
	}
	r, err := kernel.Check(q)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.json {
		if err := c.printJSON(r); err != nil {
			return err
		}
	}
	c.printKernel(r)
	switch r.Verdict {
	case kernel.Fail:
		return errFailed
	case kernel.NoPower:
		return errNoPower
	}
	return nil
}

// readKernel reads the tensors of a question: the operands under ATen's names, or a and b.
func readKernel(q *kernel.Question, path, output string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want a safetensors file", path, c)
		}
		return err
	}
	names := f.Names()
	a, b := "a", "b"
	if slices.Contains(names, "input") {
		a, b = "input", "other"
	}
	for _, of := range []struct {
		name string
		to   **tensor.Tensor
	}{{a, &q.A}, {b, &q.B}, {"c", &q.C}, {output, &q.Output}} {
		if !slices.Contains(names, of.name) {
			if of.name == "c" {
				continue
			}
			return fmt.Errorf("%s: no tensor %.60q: want %s, %s and the output (--output NAME), of %.200q", path, of.name, a, b, names)
		}
		t, err := f.Tensor(of.name)
		if err != nil {
			return err
		}
		v, err := t.Float64s()
		if err != nil {
			return err
		}
		*of.to = tensor.Of(fp16.Float64, v, t.Shape...)
	}
	return nil
}

func (c *command) printKernel(r *kernel.Report) {
	m, err := tensorcore.Lookup(r.Device)
	if err != nil {
		return
	}
	of := m.Title()
	if r.SplitK > 1 {
		of += fmt.Sprintf(", K in %d parts", r.SplitK)
	}
	c.printf("%s  %s of %s to %s: %s\n", r.Verdict, r.Op, r.Operands, r.Store, plural(r.Elements, "element"))
	switch r.Verdict {
	case kernel.Pass:
		c.printf("  every bit is what %s gives, in %s sums (its rule: %s)\n", of, r.Sums, r.Source)
	case kernel.NoPower:
		c.printf("  what is right is one number everywhere: a kernel that computes nothing has it too\n")
	case kernel.Fail:
		c.printf("  %d are not what %s gives, in %s sums (its rule: %s)\n", r.NotEqual, of, r.Sums, r.Source)
		c.printf("  farthest off: %v is %s\n", r.Worst.Index, r.Worst.Text)
	}
	c.print(indented(fitting(r)))
}

// fitting says which devices give these bits.
func fitting(r *kernel.Report) string {
	var names []string
	whole, fit, other := map[string]bool{}, 0, 0
	for _, f := range r.Fits {
		switch {
		case f.WithoutC && f.NotEqual == 0 && fit == 0:
			names = append(names, f.Device+" with nothing added to")
		case f.WithoutC:
		case f.NotEqual > 0:
			other++
		case whole[f.Device]: // in more parts, or other sums
			fit++
		default:
			whole[f.Device] = true
			fit++
			if f.SplitK > 1 {
				f.Device += fmt.Sprintf(" split_k=%d", f.SplitK)
			}
			names = append(names, f.Device)
		}
	}
	of := "all elements"
	if n := r.Fits[0].Elements; n < r.Elements {
		of = fmt.Sprintf("the first %d elements", n)
	}
	switch {
	case len(names) == 0:
		return "no device that is known gives these bits"
	case other == 0:
		return of + " fit every device that is known: they tell none apart"
	}
	return of + " fit " + strings.Join(names, ", ")
}

// indented folds a line below a verdict.
func indented(text string) string {
	return "  " + strings.ReplaceAll(fold(text, 78), "\n", "\n  ") + "\n"
}
