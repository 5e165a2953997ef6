package kernel

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/kernel"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/safetensors"
)

// TestKernel: what an A100 returned passes as an A100's, fails as an H100's, and is said to be
// an A100's or that of a device which adds alike.
func TestKernel(t *testing.T) {
	args := []string{"kernel", clitest.RecordedDot, "--op", "dot", "--precision", "fp16", "--output"}
	for _, c := range []struct {
		more string
		code int
		want string
	}{
		{"d_fp32 --accumulate tensor-core:a100", cli.ExitOK, "PASS  dot of fp16 to float32: 100 elements\n" +
			"  every bit is what NVIDIA A100 gives, in float32 sums (its rule: recorded)\n" +
			"  all elements fit t4, a100, a2, ada, l40s\n"},
		{"d_fp32 --accumulate tensor-core:h100", cli.ExitFailed,
			" are not what NVIDIA H100 gives, in float32 sums (its rule: recorded)\n  farthest off: ["},
		{"d_fp16 --store float16 --accumulate tensor-core:a100", cli.ExitOK,
			"every bit is what NVIDIA A100 gives, in float16 sums"},
		{"d_fp32", cli.ExitOK, "all elements fit t4, a100, a2, ada, l40s\n"},
		{"c", cli.ExitFailed, "no device that is known gives these bits\n"},
	} {
		r := refrun(t, append(args, strings.Fields(c.more)...)...)
		if r.Code != c.code || !strings.Contains(r.Stdout, c.want) || r.Stderr != "" {
			t.Errorf("%s: exit code %d, %s%s", c.more, r.Code, r.Stderr, r.Stdout)
		}
	}
	out := refrun(t, append(args, "d_fp32", "--json")...).Decode(t)
	clitest.Has(t, "kernel", out, object{"verdict": word, "op": word, "operands": word, "store": word, "device": word,
		"source": word, "split_k": number, "sums": word, "elements": number, "not_equal": number, "fits": []any{
			object{"device": word, "split_k": number, "sums": word, "elements": number, "not_equal": number},
		}})
}

// TestKernelZeros: a product of zeros is right of zeros, and shows nothing.
func TestKernelZeros(t *testing.T) {
	path := filepath.Join(t.TempDir(), "z.safetensors")
	var all []*safetensors.Tensor
	for name, shape := range map[string][]int{"input": {3, 5}, "other": {5, 2}, "output": {3, 2}} {
		x, err := safetensors.OfFloat64s(name, safetensors.DTypeOf(fp16.Float32), shape, make([]float64, shape[0]*shape[1]))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	if err := safetensors.WriteFile(path, all, nil); err != nil {
		t.Fatal(err)
	}
	r := refrun(t, "kernel", path, "--op", "matmul", "--precision", "bf16", "--accumulate", "tensor-core:b200")
	if r.Code != cli.ExitNoPower || !strings.HasPrefix(r.Stdout, "NO-POWER") {
		t.Errorf("exit code %d, %s%s", r.Code, r.Stderr, r.Stdout)
	}
}

func TestKernelUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                    "--op: want an operation, such as softmax",
		"--op dot":                            `--precision: operands "": want one of fp16, bf16, tf32, E4M3, E5M2`,
		"--op dot --precision int8":           `--precision: operands "int8": want one of fp16`,
		"--op dot --precision fp16 --store f": `--store: "f": want float32, float16 or bfloat16`,
		"--op dot --precision fp16 --accumulate a100": `--accumulate: "a100": want float32, ` +
			`float16, bfloat16 or tensor-core:NAME`,
		"--op dot --precision fp16 --accumulate tensor-core:a1": `accumulate: tensor core "a1": want one of v100`,
		"--op dot --precision fp16 --schedule split_k=0": `--schedule: "split_k=0": want split_k=N or part_k=N, ` +
			`N from 1 on`,
		"--op dot --precision fp16 --output y": `no tensor "y": want a, b and the output ` +
			`(--output NAME), of [`,
		"--op sum --precision fp16 --accumulate tensor-core:a100":    `op "sum": want dot or matmul`,
		"--op matmul --precision fp16 --accumulate tensor-core:a100": "b: shape [100 8]: want 8 rows, as a has columns",
		"--op matmul --precision fp16 --output d_fp32":               "matmul: no tensor input: want input other, of [",
		"--op softmx --precision fp16 --output d_fp32":               `unknown operation "softmx"`,
		"--op dot --precision fp16 --attr dim=1":                     "--attr: says nothing of tensor cores",
		"--op matmul --output d_fp32 --accumulate int32 --backward":  "--accumulate: int32: says nothing of gradients",
		"--op dot --precision fp16 --round x":                        "--round: says nothing of tensor cores",
		"--op matmul --attr dim":                                     `--attr: "dim": want NAME=VALUE, such as dim=-1`,
		"--op matmul --output y": `no tensor "y": want the output ` +
			`(--output NAME), of [`,
		"--op dot --precision E4M3 --output d_fp32":                      "want numbers of E4M3",
		"--op dot --precision fp16 --output d_fp32 --schedule split_k=2": "split_k: 2: want 1, or for a matmul up to its K",
	} {
		if strings.Contains(args, "precision fp16 --") && !strings.Contains(args, "--output") {
			args += " --output d_fp32"
		}
		r := refrun(t, append([]string{"kernel", clitest.RecordedDot}, strings.Fields(args)...)...)
		if r.Code != cli.ExitUsage || !strings.Contains(r.Stderr, want) || strings.Count(r.Stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %s, want %s", args, r.Code, r.Stderr, want)
		}
	}
	if r := refrun(t, "kernel", "no such file", "--op", "dot", "--precision", "fp16"); r.Code != cli.ExitUsage ||
		!strings.Contains(r.Stderr, "no such file: ") {
		t.Errorf("%d %s", r.Code, r.Stderr)
	}
}

// TestKernelJudged: a softmax passes, one that sums too little fails with what is wrong, and what is
// claimed is said.
func TestKernelJudged(t *testing.T) {
	shapes := map[string][]int{"input": {1, 4}, "output": {1, 4}}
	x := []float64{0, 1, 2, 3}
	for _, c := range []struct {
		output []float64
		more   string
		code   int
		want   string
	}{
		{[]float64{
			0.032058604061603546, 0.08714432269334793, 0.23688282072544098, 0.6439142227172852,
		}, "", cli.ExitOK, "PASS  softmax to float32: 4 elements\n  every element is what a right kernel may return\n" +
			"  contract found: float32 steps, one rounding at the end\n"},
		{[]float64{0.09003057330846786, 0.24472847580909729, 0.6652409434318542, 1.8083124160766602}, "",
			cli.ExitFailed, "FAIL  softmax to float32: 4 elements\n  4 of 4 elements are what no right kernel returns\n" +
				"  proved: outside the interval of all right kernels\n  fault: the last term of the sums is left out\n"},
		{make([]float64, 4), "", cli.ExitFailed, "fault: the output is zeros\n"},
		{[]float64{
			0.0320587158203125, 0.08714432269334793, 0.23688282072544098, 0.6439142227172852,
		}, "--variance one_pass", cli.ExitFailed,
			"contract claimed: float32 steps, one rounding at the end; one-pass variance\n"},
	} {
		path := clitest.KernelFile(t, map[string][]float64{"input": x, "output": c.output}, shapes)
		args := append([]string{"kernel", path, "--op", "softmax", "--attr", "dim=-1"}, strings.Fields(c.more)...)
		r := refrun(t, args...)
		if r.Code != c.code || !strings.Contains(r.Stdout, c.want) || r.Stderr != "" {
			t.Errorf("%v: exit code %d, %s%s", c.output, r.Code, r.Stderr, r.Stdout)
		}
		for line := range strings.Lines(r.Stdout) {
			if len(line) > 81 {
				t.Errorf("%d columns: %s", len(line)-1, line)
			}
		}
		if strings.Count(r.Stdout, "\n") > 24 {
			t.Errorf("more than 24 lines: %s", r.Stdout)
		}
		out := refrun(t, append(args, "--json")...).Decode(t)
		clitest.Has(t, "kernel", out, object{"verdict": word, "op": word, "store": word, "elements": number,
			"contract": object{}, "claimed": true, "violations": number, "flips": number,
			"flips_of_right_kernels": number, "errors": number, "assert_close_mismatches": number, "text": word})
		if fault, _ := out["fault"].(string); out["diagnosis"] != fault {
			t.Errorf("diagnosis %v of the fault %q", out["diagnosis"], fault)
		}
	}
}

// TestKernelFits: the longest report of a failure is 24 lines of 80 columns.
func TestKernelFits(t *testing.T) {
	longest := func(words func(f judge.Fault) string) (most string) {
		for _, f := range judge.Faults {
			if w := words(f); len(w) > len(most) {
				most = w
			}
		}
		return most
	}
	r := &kernelReport{Op: "scaled_dot_product_attention", Report: &judge.Report{
		Verdict: judge.Fail, Known: report.ByOdds, Chance: 1e-300, Store: "bfloat16", Elements: 1 << 30,
		Violations: 1 << 30, Flips: 1 << 30, Expected: 1 << 30, Errors: 1.234e+300, Close: 1 << 30,
		Reason: "1073741824 of 1073741824 elements are what no right kernel returns",
		Region: "the last, partial tile of rows 1048448 to 1048575, columns 1048448 to 1048575",
		Fault:  longest(func(f judge.Fault) string { return f.Title }),
		Advice: longest(func(f judge.Fault) string { return f.Advice }),
		Worst: &judge.Worst{Index: []int{1023, 1023, 1023, 1048575}, Got: "-1.23456789e-38", Exact: "-1.23456789e-38",
			Low: "-1.23456789e-38", High: "-1.23456789e-38"},
		Contract: judge.Contract{Form: judge.Form{Affine: true, BiasAfter: true, CoarseExp: true, Lanes: 16,
			Online: true, BlockKeys: 512, Operands: "tf32 ties away"}, Round: []string{"products", "scores", "masked",
			"probabilities_unnormalized", "normalized", "statistics", "variances"}},
	}}
	for _, f := range judge.Faults {
		r.Blind = append(r.Blind, f.ID)
	}
	for _, r.Verdict = range []string{judge.Fail, judge.Pass} {
		r.Order = &report.Order{
			Name: "k in tiles of 128 of (kh, kw, c), fused multiply-adds, the bias last", Equal: 256, Of: 256,
			Alike: make([]string, 20), Next: "k in 16 parts of (kh, kw, c), fused multiply-adds, the bias last",
		}
		text := judgedText(r)
		if n := strings.Count(text, "\n"); n > 24 {
			t.Errorf("%d lines:\n%s", n, text)
		}
		for line := range strings.Lines(text) {
			if len(line) > 81 {
				t.Errorf("%d columns: %s", len(line)-1, line)
			}
		}
	}
}

// judgedPairs are the sentences about a kernel that is judged.
func judgedPairs() []clitest.Pair {
	say := func(change func(r *kernelReport)) string {
		r := &kernelReport{Op: "softmax", Report: &judge.Report{
			Verdict: judge.Pass, Store: "float32", Elements: 4, Flips: 2, Expected: 3, Errors: 1,
			Worst: &judge.Worst{Index: []int{1}, Got: "1", Exact: "2", Low: "1.5", High: "2.5"},
		}}
		change(r)
		return judgedText(r)
	}
	right := say(func(*kernelReport) {})
	wrong := say(func(r *kernelReport) {
		r.Verdict, r.Reason, r.Fault, r.Advice, r.Region = judge.Fail, "reason", "f", "a", "axis 0 at 1"
	})
	proved := say(func(r *kernelReport) { r.Verdict, r.Known = judge.Fail, report.Proved })
	odds := say(func(r *kernelReport) { r.Verdict, r.Known, r.Chance = judge.Fail, report.ByOdds, 2e-9 })
	empty := say(func(r *kernelReport) { r.Verdict, r.Flips = judge.NoPower, 0 })
	unjudged := say(func(r *kernelReport) { r.Verdict, r.Flips, r.Unjudged = judge.NoPower, 0, "why" })
	claimed := say(func(r *kernelReport) { r.Claimed = true })
	blind := say(func(r *kernelReport) { r.Blind = []string{"kernel.eps-ignored"} })
	long := say(func(r *kernelReport) { r.Untried = 738 })
	many := say(func(r *kernelReport) { r.Blind = slices.Repeat([]string{"kernel.eps-ignored"}, mostBlind+2) })
	ordered := say(func(r *kernelReport) {
		r.Order = &report.Order{
			Name: "k ascending", Equal: 9, Of: 9, Alike: []string{"another"}, Next: "k in 2 parts", NextEqual: 3,
		}
	})
	unordered := say(func(r *kernelReport) { r.Order = &report.Order{Name: "k ascending", Equal: 4, Of: 9} })
	off := say(func(r *kernelReport) { r.Close, r.Errors = 2, math.MaxFloat64 })
	return []clitest.Pair{
		{Says: "every element is what a right kernel may return", Is: right, IsNot: wrong},
		{Says: "torch.testing.assert_close finds nothing", Is: right, IsNot: unjudged},
		{Says: "fault: f\n", Is: wrong, IsNot: right},
		{Says: "to do: a\n", Is: wrong, IsNot: right},
		{Says: "proved: outside the interval of all right kernels\n", Is: proved, IsNot: odds},
		{Says: "odds: of right kernels 2e-09 have such errors\n", Is: odds, IsNot: proved},
		{Says: "most of it: axis 0 at 1\n", Is: wrong, IsNot: right},
		{Says: "contract found: ", Is: right, IsNot: claimed},
		{Says: "contract claimed: ", Is: claimed, IsNot: right},
		{Says: "worst element [1]: 1, exact 2, right kernels 1.5 to 2.5", Is: right, IsNot: empty},
		{Says: "2 elements off the nearest number; simulated right kernels have up to 3\n", Is: right, IsNot: empty},
		{Says: "every element is the nearest number to the exact value", Is: empty, IsNot: right},
		{Says: "mean square error 1 times that of simulated right kernels", Is: right, IsNot: off},
		{Says: "this data would not show: eps-ignored", Is: blind, IsNot: right},
		{Says: "a long graph: not tried as the one that alone is rounded: 738 steps", Is: long, IsNot: right},
		{Says: "eps-ignored and 2 more, which --json", Is: many, IsNot: blind},
		{Says: "order of the sums: k ascending gives all 9 that were looked at, and so do", Is: ordered, IsNot: unordered},
		{Says: "the next best, k in 2 parts,", Is: ordered, IsNot: unordered},
		{Says: "no order of k that is known gives these bits: k ascending, 4 of 9 sums", Is: unordered, IsNot: ordered},
		{Says: "torch.testing.assert_close finds nothing", Is: right, IsNot: off},
		{Says: "torch.testing.assert_close finds 2 elements off", Is: off, IsNot: right},
	}
}

func kernelPairs() []clitest.Pair {
	said := func(r kernel.Report, fits ...kernel.Fit) string {
		r.Device, r.Source, r.Sums, r.Elements, r.Fits = "a100", "recorded", "float32", 4, fits
		if r.Verdict == kernel.Fail {
			r.NotEqual, r.Worst = 2, &kernel.Worst{Index: []int{1}, Text: "1 where the device gives 2"}
		}
		return clitest.Printed(func(c *cli.Command) { printKernel(c, &r) })
	}
	fit := func(device string, elements, wrong int) kernel.Fit {
		return kernel.Fit{Device: device, SplitK: 1, Sums: "float32", Elements: elements, NotEqual: wrong}
	}
	bare := fit("h100", 4, 0)
	bare.WithoutC = true
	right, wrong := said(kernel.Report{Verdict: kernel.Pass}, fit("a100", 4, 0), fit("v100", 4, 1)),
		said(kernel.Report{Verdict: kernel.Fail}, fit("h100", 4, 1))
	empty := said(kernel.Report{Verdict: kernel.NoPower}, fit("a100", 4, 0))
	return []clitest.Pair{
		{Says: "every bit is what NVIDIA A100 gives, in float32 sums (its rule: recorded)", Is: right, IsNot: wrong},
		{Says: "2 are not what NVIDIA A100 gives, in float32 sums (its rule: recorded)", Is: wrong, IsNot: right},
		{Says: "farthest off: [1] is 1 where the device gives 2", Is: wrong, IsNot: right},
		{Says: "what is right is one number everywhere: a kernel that computes nothing has it too", Is: empty, IsNot: right},
		{Says: ", K in parts of 128", Is: said(kernel.Report{Verdict: kernel.Pass, PartK: 128}, fit("a100", 4, 0)),
			IsNot: right},
		{Says: "all elements fit a100 part_k=128\n", Is: said(kernel.Report{Verdict: kernel.Pass},
			kernel.Fit{Device: "a100", PartK: 128, Elements: 4}, fit("v100", 4, 1)), IsNot: right},
		{Says: ", K in 2 parts", Is: said(kernel.Report{Verdict: kernel.Pass, SplitK: 2}, fit("a100", 4, 0)), IsNot: right},
		{Says: "no device that is known gives these bits", Is: wrong, IsNot: right},
		{Says: "all elements fit a100\n", Is: right, IsNot: wrong},
		{Says: "fit every device that is known: they tell none apart", Is: empty, IsNot: right},
		{Says: "the first 2 elements fit a100\n",
			Is: said(kernel.Report{Verdict: kernel.Pass}, fit("a100", 2, 0), fit("v100", 2, 1)), IsNot: right},
		{Says: "all elements fit a100 split_k=2\n", Is: said(kernel.Report{Verdict: kernel.Pass},
			kernel.Fit{Device: "a100", SplitK: 2, Elements: 4}, fit("v100", 4, 1)), IsNot: right},
		{Says: "h100 with nothing added to", Is: said(kernel.Report{Verdict: kernel.Fail}, bare, fit("a100", 4, 1)),
			IsNot: said(kernel.Report{Verdict: kernel.Fail}, fit("a100", 4, 1), fit("v100", 4, 1))},
	}
}
