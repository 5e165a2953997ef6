package kernel

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/safetensors"
)

// backwardFile has a softmax of one row and its gradient, in float32: y (d - sum(y d)) with y = 1/4.
func backwardFile(t *testing.T, change func(tensors map[string][]float64, shapes map[string][]int)) string {
	shapes := map[string][]int{"input": {2, 4}, "grad_output": {2, 4}, "grad.input": {2, 4}}
	tensors := map[string][]float64{"input": {1, 1, 1, 1, 5, 5, 5, 5}, "grad_output": {1, 2, 3, 6, 0, 0, 4, 8},
		"grad.input": {-.5, -.25, 0, .75, -.75, -.75, .25, 1.25}}
	if change != nil {
		change(tensors, shapes)
	}
	return clitest.KernelFile(t, tensors, shapes)
}

// TestKernelBackward: right gradients pass, wrong ones fail in their row, and what does not fit is said in a line.
func TestKernelBackward(t *testing.T) {
	for _, c := range []struct {
		change func(tensors map[string][]float64, shapes map[string][]int)
		code   int
		want   string
	}{
		{nil, cli.ExitOK, "PASS  backward of softmax: 1 gradient\n"},
		{func(x map[string][]float64, _ map[string][]int) {
			x["grad.input"] = []float64{-1, -.5, 0, 1.5, -1.5, -1.5, .5, 2.5}
		}, cli.ExitFailed, "fault: the output is times 2\n"},
		{func(x map[string][]float64, _ map[string][]int) { x["saved.output"] = x["input"] }, cli.ExitUsage,
			"saved output of shape [8]: want [2 4]"},
		{func(x map[string][]float64, _ map[string][]int) { delete(x, "grad_output") }, cli.ExitUsage,
			"no tensor grad_output: want the gradient by the output"},
		{func(x map[string][]float64, s map[string][]int) { s["grad.input"] = []int{8} }, cli.ExitUsage,
			"grad.input of shape [8]: want [2 4], that of input"},
		{func(x map[string][]float64, s map[string][]int) { s["grad_output"] = []int{4, 2} }, cli.ExitUsage,
			"grad_output of shape [4 2]: want [2 4], that of the output"},
		{func(x map[string][]float64, _ map[string][]int) { delete(x, "grad.input") }, cli.ExitUsage,
			"no gradient: want grad.NAME of one or more of input"},
	} {
		path := backwardFile(t, func(x map[string][]float64, s map[string][]int) {
			if c.change != nil {
				c.change(x, s)
			}
			if x["saved.output"] != nil {
				s["saved.output"] = []int{8}
			}
		})
		r := refrun(t, "kernel", path, "--op", "softmax", "--backward", "--attr", "dim=-1")
		if r.Code != c.code || !strings.Contains(r.Stdout+r.Stderr, c.want) ||
			c.code == cli.ExitUsage && strings.Count(r.Stderr, "\n") != 1 {
			t.Errorf("exit code %d, %s%s, want %s", r.Code, r.Stdout, r.Stderr, c.want)
		}
	}
	path := backwardFile(t, nil)
	page := filepath.Join(t.TempDir(), "r.html")
	out := refrun(t, "kernel", path, "--op", "softmax", "--attr", "dim=-1", "--backward", "--json",
		"--report", page).Decode(t)
	clitest.Has(t, "kernel", out, object{"verdict": word, "op": word, "contract": object{}, "text": word,
		"outputs": []any{object{"name": word, "verdict": word, "elements": number, "contract": object{}, "flips": number}}})
	if r := refrun(t, "kernel", path, "--op", "dot", "--backward", "--precision", "fp16"); r.Code != cli.ExitUsage ||
		!strings.Contains(r.Stderr, "--backward: want it without tensor cores") {
		t.Errorf("%d %s", r.Code, r.Stderr)
	}
	if r := refrun(t, "kernel", path, "--op", "prod", "--backward"); r.Code != cli.ExitUsage {
		t.Errorf("%d %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestKernelBackwardUnknown: an operation without a gradient that is known is NO-POWER.
func TestKernelBackwardUnknown(t *testing.T) {
	shapes := map[string][]int{"input": {2}, "grad_output": {}, "grad.input": {2}}
	path := clitest.KernelFile(t, map[string][]float64{"input": {2, 3}, "grad_output": {1}, "grad.input": {3, 2}}, shapes)
	if _, err := safetensors.Open(path); err != nil {
		t.Fatal(err)
	}
	r := refrun(t, "kernel", path, "--op", "prod", "--backward")
	if r.Code != cli.ExitNoPower || !strings.HasPrefix(r.Stdout, "NO-POWER  backward of prod: 1 gradient\n") ||
		!strings.Contains(r.Stdout, "prod: no rule") {
		t.Errorf("exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestKernelOutputs: several outputs of an operation are judged in one report, and a name that it does not have is an
// error.
func TestKernelOutputs(t *testing.T) {
	shapes := map[string][]int{"input": {2, 4}, "output": {2, 4}, "output.rstd": {2}}
	for _, c := range []struct {
		rstd []float64
		name string
		code int
		want string
	}{
		{[]float64{.5, .25}, "rstd", cli.ExitOK, "PASS  rms_norm: 2 outputs\n"},
		{[]float64{1, .5}, "rstd", cli.ExitFailed, "rstd: FAIL, 2 of 2 elements"},
		{[]float64{.5, .25}, "lse", cli.ExitUsage, `rms_norm: output "lse": want [output rstd]`},
	} {
		tensors := map[string][]float64{"input": {2, -2, 2, 2, 4, 4, 4, -4}, "output." + c.name: c.rstd}
		for _, x := range tensors["input"][:4] {
			tensors["output"] = append(tensors["output"], float64(float32(float32(x)*.5)))
		}
		for _, x := range tensors["input"][4:] {
			tensors["output"] = append(tensors["output"], float64(float32(float32(x)*.25)))
		}
		shapes["output."+c.name] = []int{2}
		path := clitest.KernelFile(t, tensors, shapes)
		r := refrun(t, "kernel", path, "--op", "rms_norm", "--attr", "normalized_shape=[4]", "--attr", "eps=0")
		if r.Code != c.code || !strings.Contains(r.Stdout+r.Stderr, c.want) {
			t.Errorf("exit code %d, %s%s, want %s", r.Code, r.Stdout, r.Stderr, c.want)
		}
	}
}

// backwardPairs are the sentences about gradients.
func backwardPairs() []clitest.Pair {
	say := func(change func(r *severalReport, row *judge.Report)) string {
		row := &judge.Report{Verdict: judge.Pass, Elements: 4, Flips: 2, Expected: 3, Errors: 1}
		r := &severalReport{backward: true, Op: "softmax", SeveralReport: &judge.SeveralReport{
			Verdict: judge.Pass, Contract: &judge.Contract{}, Outputs: []judge.Row{{Name: "input", Report: row}},
		}}
		change(r, row)
		return severalText(r)
	}
	right := say(func(*severalReport, *judge.Report) {})
	wrong := say(func(r *severalReport, row *judge.Report) {
		r.Verdict, r.Contract = judge.Fail, nil
		row.Verdict, row.Reason, row.Fault, row.Advice, row.Region = judge.Fail, "reason", "f", "a", "axis 0 at 1"
	})
	unjudged := say(func(r *severalReport, row *judge.Report) {
		r.Verdict, row.Verdict, row.Unjudged = judge.NoPower, judge.NoPower, "why"
	})
	exact := say(func(_ *severalReport, row *judge.Report) { row.Flips = 0 })
	off := say(func(_ *severalReport, row *judge.Report) { row.Errors = math.MaxFloat64 })
	blind := say(func(_ *severalReport, row *judge.Report) { row.Blind = []string{"kernel.eps-ignored"} })
	many := say(func(_ *severalReport, row *judge.Report) {
		row.Blind = slices.Repeat([]string{"kernel.eps-ignored"}, mostBlind+2)
	})
	return []clitest.Pair{
		{Says: "contract found: ", Is: right, IsNot: wrong},
		{Says: "grad.input: FAIL, reason", Is: wrong, IsNot: right},
		{Says: "fault: f\n", Is: wrong, IsNot: right},
		{Says: "to do: a\n", Is: wrong, IsNot: right},
		{Says: "most of it: axis 0 at 1\n", Is: wrong, IsNot: right},
		{Says: "  contract: ", Is: wrong, IsNot: right},
		{Says: "2 of 4 off the nearest number; simulated right kernels have up to 3\n", Is: right, IsNot: exact},
		{Says: "mean square error 1 times that of simulated right kernels", Is: right, IsNot: off},
		{Says: "every element is the nearest number to the exact value", Is: exact, IsNot: unjudged},
		{Says: "this data would not show: eps-ignored\n", Is: blind, IsNot: right},
		{Says: "eps-ignored and 2 more, which --json", Is: many, IsNot: blind},
	}
}
