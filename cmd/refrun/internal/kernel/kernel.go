package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/oracle/factor"
	"github.com/refrun/refrun/internal/oracle/gradient"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/kernel"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

var Verb = cli.Verb{
	Name:    "kernel",
	Args:    "FILE",
	Summary: "may a right kernel return this output? if not, what is wrong",
	Help: `Judges the output of one kernel, or of a chain of operations. The safetensors file
has the inputs under ATen's names of the operation's arguments (input, weight, bias,
other, query, key, value), and output. The formats are those of the file.
docs/KERNELS.md lists the operations.

The output is right if each element is within the error bound of float32 arithmetic
in any order, and if the errors are nowhere larger than those of simulated right
kernels. There is no tolerance to set. If the output is wrong, known faults are
computed and compared with it. A kernel may round intermediate results to the
inputs' format: such steps are searched for, or claimed by --round. Faults that
these inputs would not show are listed.

  --op NAME     any operation of ATen that is judged, or swiglu, geglu,
                rotary_embedding, cross_entropy, quantize, dequantize, scaled_mm;
                cholesky, qr, eigh, svd, solve, inv, solve_triangular
  --attr K=V    an attribute, such as dim=-1 or normalized_shape=[256]
  --graph FILE  a chain of operations in place of one: docs/FORMATS.md, section 11

With --backward the file has the inputs of the forward pass, grad_output, or
grad_output.0 and on of several outputs, and the gradients that the kernel returned,
grad.NAME by the input of that name. What it read of the forward pass, such as a
norm's mean and rstd, is saved.NAME. ATen's backward operations, such as
native_layer_norm_backward, have their tensors under their names, and what they
return as output.0 and on.

If an output is large and its rows can be judged by themselves, a sample of rows is
judged. The report says which rows, and the chance to miss a wrong one; --all judges
all.

A kernel that keeps its sums in half fails, unless it says so: --accumulate float16.
Products of whole numbers, int8 by int8, are held to every bit: --accumulate int32.

With --batch, FILE has many questions, one a line, such as
["run.safetensors", "--op", "softmax"]. One process answers each with a line of
JSON: {"exit": 0, "report": ...}, or {"exit": 2, "error": ...}. Flags beside --batch
hold for all of them.

With --accumulate tensor-core:NAME every bit of a matmul [M,K] by [K,N] must be that
of the device: K ascending, in one part, or in parts by --schedule split_k=N or
part_k=N. So must every bit of --op dot, one sum for each row of a and b [rows,
terms]: docs/TENSORCORES.md.

Exit code 0: right. 1: wrong. 2: bad input. 3: these inputs cannot tell a right
kernel from one that writes zeros.

example: refrun kernel run.safetensors --op softmax --attr dim=-1
example: refrun kernel product.safetensors --op matmul
example: refrun kernel run.safetensors --op matmul --precision fp16 --accumulate tensor-core:h100`,
	Run: runKernel,
}

func runKernel(c *cli.Command) error {
	f := declareFlags(c)
	c.Judges()
	if err := c.Parse(1); err != nil {
		return err
	}
	if f.batch {
		return judgeBatch(c, c.Pos[0])
	}
	sums, emulation := "", ""
	switch f.device {
	case "float32":
		f.device = ""
	case "float16", "bfloat16", wholeSums:
		sums, f.device = f.device, ""
	default:
		if slices.Contains(judge.Emulations(), f.device) {
			emulation, f.device = f.device, ""
		}
	}
	switch {
	case f.op == "" && f.network == "":
		return errors.New("--op: want an operation, such as softmax, or --graph")
	case f.network != "" && (f.op != "" || f.attributes != nil || f.device != ""):
		return errors.New("--graph: want it without --op, --attr and --accumulate")
	}
	if quantizes(f.op) || factor.Is(f.op) {
		for flag, given := range map[string]bool{
			"precision": f.precision != "", "accumulate": f.device+sums != "", "round": f.round != nil,
			"variance": f.variance != "", "schedule": f.schedule != "", "store": f.store != "", "backward": f.backward,
		} {
			if given {
				return fmt.Errorf("--%s: says nothing of %s: want attributes (--attr)", flag, f.op)
			}
		}
		a := judged{op: f.op, report: f.report, output: f.output, attributes: f.attributes}
		if factor.Is(f.op) {
			return judgeFactor(c, c.Pos[0], a)
		}
		return judgeQuantizer(c, c.Pos[0], a)
	}
	if _, fp8 := tensorcore.ParseInput(f.precision); f.op != "dot" && f.device == "" &&
		(fp8 != nil || !strings.HasPrefix(f.precision, "E")) {
		a := judged{op: f.op, network: f.network, report: f.report, precision: f.precision, store: f.store,
			output: f.output, attributes: f.attributes, round: f.round, variance: f.variance, accumulate: sums,
			emulation: emulation, all: f.all}
		if f.seconds > 0 {
			a.until = time.Now().Add(time.Duration(f.seconds * float64(time.Second)))
		}
		if f.schedule != "" {
			a.schedule = cli.List{f.schedule}
		}
		if sums == wholeSums && (f.backward || gradient.IsATen(f.op)) {
			return fmt.Errorf("--accumulate: %s: says nothing of gradients", wholeSums)
		}
		if f.backward || gradient.IsATen(f.op) {
			return judgeBackward(c, c.Pos[0], a)
		}
		return judgeKernel(c, c.Pos[0], a)
	}
	if sums != "" && !f.backward {
		return fmt.Errorf("--accumulate: %s: want tensor-core:NAME of dot", sums)
	}
	return judgeUnit(c, f)
}

// wholeSums says that the sums are those of whole numbers, which are exact.
const wholeSums = "int32"

// kernelFlags are the flags of kernel.
type kernelFlags struct {
	op, network, precision, device, variance, schedule, store, report, output string
	attributes, round                                                         cli.List
	backward, all, batch                                                      bool
	seconds                                                                   float64
}

func declareFlags(c *cli.Command) *kernelFlags {
	f := new(kernelFlags)
	c.Flags.StringVar(&f.op, "op", "", "`name` of the operation")
	c.Flags.StringVar(&f.precision, "precision", "",
		"`format` of the operands: float32, tf32, fp16, bf16, E4M3 or E5M2 (default: the file's)")
	c.Flags.StringVar(&f.device, "accumulate", "", "`FORMAT` of sums, float32 (default), float16 or bfloat16; "+
		wholeSums+" of whole numbers; "+
		"of products in parts "+strings.Join(judge.Emulations(), ", ")+"; "+
		"or tensor-core:NAME, the device: "+strings.Join(tensorcore.Names(), ", "))
	c.Flags.StringVar(&f.network, "graph", "",
		"`FILE.json`: a chain of operations, in place of --op (docs/FORMATS.md, section 11)")
	c.Flags.StringVar(&f.report, "report", "", "`FILE.html` to write the report to")
	c.Flags.Var(&f.attributes, "attr", "`NAME=VALUE`: an attribute of the operation; may be repeated")
	c.Flags.Var(&f.round, "round", "`STEP,...` that the kernel rounds to the inputs' format")
	c.Flags.StringVar(&f.variance, "variance", "", "`how` a norm computes it: two_pass or one_pass")
	c.Flags.StringVar(&f.schedule, "schedule", "",
		"`NAME=N`: block_keys of an attention; split_k, in how many parts K is added; part_k, of how many numbers")
	c.Flags.StringVar(&f.store, "store", "",
		"`format` of the output: float32, float16 or bfloat16 (default: the file's; of tensor cores float32)")
	c.Flags.BoolVar(&f.backward, "backward", false, "judge the gradients grad.NAME of the operation, given grad_output")
	c.Flags.BoolVar(&f.all, "all", false, "judge all of a large output, and not a sample of its rows")
	c.Flags.Float64Var(&f.seconds, "seconds", 0,
		"end after about `N` seconds with the rows that were judged, which are drawn")
	c.Flags.StringVar(&f.output, "output", "output", "`name` of the tensor that is the output")
	c.Flags.BoolVar(&f.batch, "batch", false,
		"FILE has questions: JSON lines, each the list of one's arguments; - is stdin")
	return f
}

// judgeUnit judges what a matrix unit has made, to every bit.
func judgeUnit(c *cli.Command, f *kernelFlags) error {
	if f.backward {
		return errors.New("--backward: want it without tensor cores, dot and formats of 8 bits")
	}
	for flag, given := range map[string]bool{
		"attr": f.attributes != nil, "round": f.round != nil, "variance": f.variance != "", "report": f.report != "",
	} {
		if given {
			return fmt.Errorf("--%s: says nothing of tensor cores: want it without --accumulate and dot", flag)
		}
	}
	q, err := unitQuestion(f)
	if err != nil {
		return err
	}
	path := c.Pos[0]
	if err := readKernel(q, path, f.output); err != nil {
		return err
	}
	r, err := kernel.Check(*q)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.Json {
		if err := c.PrintJSON(r); err != nil {
			return err
		}
	}
	printKernel(c, r)
	switch r.Verdict {
	case kernel.Fail:
		return cli.ErrFailed
	case kernel.NoPower:
		return cli.ErrNoPower
	}
	return nil
}

// unitQuestion asks whether an operation is what a matrix unit makes of it: --precision, --store, --accumulate and
// --schedule say which.
func unitQuestion(f *kernelFlags) (*kernel.Question, error) {
	q := &kernel.Question{Op: f.op}
	var err error
	if q.Operands, err = tensorcore.ParseInput(f.precision); err != nil {
		return nil, fmt.Errorf("--precision: %w", err)
	}
	switch f.store {
	case "", "float32":
		q.Store = fp16.Float32
	case "float16", "fp16":
		q.Store = fp16.Float16
	case "bfloat16", "bf16":
		q.Store = fp16.BFloat16
	default:
		return nil, fmt.Errorf("--store: %.40q: want float32, float16 or bfloat16", f.store)
	}
	if f.device != "" {
		name, ok := strings.CutPrefix(f.device, "tensor-core:")
		if !ok {
			return nil, fmt.Errorf("--accumulate: %.40q: want float32, float16, bfloat16 or tensor-core:NAME", f.device)
		}
		q.Device = name
	}
	if f.schedule != "" {
		name, n, _ := strings.Cut(f.schedule, "=")
		to := map[string]*int{"split_k": &q.SplitK, "part_k": &q.PartK}[name]
		if to != nil {
			*to, err = strconv.Atoi(n)
		}
		if to == nil || err != nil || *to < 1 || *to > 1<<20 {
			return nil, fmt.Errorf("--schedule: %.40q: want split_k=N or part_k=N, N from 1 on", f.schedule)
		}
	}
	return q, nil
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
			return fmt.Errorf("%s: no tensor %.60q: want %s, %s and the output (--output NAME), of %.200q",
				path, of.name, a, b, names)
		}
		t, err := f.Tensor(of.name)
		if err != nil {
			return err
		}
		v, err := numbersOf(t)
		if err != nil {
			return err
		}
		*of.to = tensor.Of(fp16.Float64, v, t.Shape...)
	}
	return nil
}

func printKernel(c *cli.Command, r *kernel.Report) {
	m, err := tensorcore.Lookup(r.Device)
	if err != nil {
		return
	}
	of := m.Title()
	if r.PartK > 0 {
		of += fmt.Sprintf(", K in parts of %d", r.PartK)
	} else if r.SplitK > 1 {
		of += fmt.Sprintf(", K in %d parts", r.SplitK)
	}
	c.Printf("%s  %s of %s to %s: %s\n", r.Verdict, r.Op, r.Operands, r.Store, cli.Plural(r.Elements, "element"))
	switch r.Verdict {
	case kernel.Pass:
		c.Printf("  every bit is what %s gives, in %s sums (its rule: %s)\n", of, r.Sums, r.Source)
	case kernel.NoPower:
		c.Printf("  what is right is one number everywhere: a kernel that computes nothing has it too\n")
	case kernel.Fail:
		c.Printf("  %d are not what %s gives, in %s sums (its rule: %s)\n", r.NotEqual, of, r.Sums, r.Source)
		c.Printf("  farthest off: %v is %s\n", r.Worst.Index, r.Worst.Text)
	}
	c.Print(indented(fitting(r)))
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
			if f.PartK > 0 {
				f.Device += fmt.Sprintf(" part_k=%d", f.PartK)
			} else if f.SplitK > 1 {
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
	return cli.Hanging("", text, 2)
}
