package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	return kernelFile(t, tensors, shapes)
}

// TestKernelBackward: right gradients pass, wrong ones fail in their row, and what does not fit is said in a line.
func TestKernelBackward(t *testing.T) {
	for _, c := range []struct {
		change func(tensors map[string][]float64, shapes map[string][]int)
		code   int
		want   string
	}{
		{nil, exitOK, "PASS  backward of softmax: 1 gradient\n"},
		{func(x map[string][]float64, _ map[string][]int) {
			x["grad.input"] = []float64{-1, -.5, 0, 1.5, -1.5, -1.5, .5, 2.5}
		}, exitFailed, "fault: the output is times 2\n"},
		{func(x map[string][]float64, _ map[string][]int) { x["saved.output"] = x["input"] }, exitUsage,
			"saved output of shape [8]: want [2 4]"},
		{func(x map[string][]float64, _ map[string][]int) { delete(x, "grad_output") }, exitUsage,
			"no tensor grad_output: want the gradient by the output"},
		{func(x map[string][]float64, s map[string][]int) { s["grad.input"] = []int{8} }, exitUsage,
			"grad.input of shape [8]: want [2 4], that of input"},
		{func(x map[string][]float64, s map[string][]int) { s["grad_output"] = []int{4, 2} }, exitUsage,
			"grad_output of shape [4 2]: want [2 4], that of the output"},
		{func(x map[string][]float64, _ map[string][]int) { delete(x, "grad.input") }, exitUsage,
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
		if r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) ||
			c.code == exitUsage && strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("exit code %d, %s%s, want %s", r.code, r.stdout, r.stderr, c.want)
		}
	}
	path := backwardFile(t, nil)
	page := filepath.Join(t.TempDir(), "r.html")
	out := refrun(t, "kernel", path, "--op", "softmax", "--attr", "dim=-1", "--backward", "--json",
		"--report", page).decode(t)
	has(t, "kernel", out, object{"verdict": word, "op": word, "contract": object{}, "text": word,
		"outputs": []any{object{"name": word, "verdict": word, "elements": number, "contract": object{}, "flips": number}}})
	if r := refrun(t, "kernel", path, "--op", "dot", "--backward", "--precision", "fp16"); r.code != exitUsage ||
		!strings.Contains(r.stderr, "--backward: want it without tensor cores") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
	if r := refrun(t, "kernel", path, "--op", "prod", "--backward"); r.code != exitUsage {
		t.Errorf("%d %s%s", r.code, r.stdout, r.stderr)
	}
}

// TestKernelBackwardUnknown: an operation without a gradient that is known is NO-POWER.
func TestKernelBackwardUnknown(t *testing.T) {
	shapes := map[string][]int{"input": {2}, "grad_output": {}, "grad.input": {2}}
	path := kernelFile(t, map[string][]float64{"input": {2, 3}, "grad_output": {1}, "grad.input": {3, 2}}, shapes)
	if _, err := safetensors.Open(path); err != nil {
		t.Fatal(err)
	}
	r := refrun(t, "kernel", path, "--op", "prod", "--backward")
	if r.code != exitNoPower || !strings.HasPrefix(r.stdout, "NO-POWER  backward of prod: 1 gradient\n") ||
		!strings.Contains(r.stdout, "prod: no rule") {
		t.Errorf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
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
		{[]float64{.5, .25}, "rstd", exitOK, "PASS  rms_norm: 2 outputs\n"},
		{[]float64{1, .5}, "rstd", exitFailed, "rstd: FAIL, 2 of 2 elements"},
		{[]float64{.5, .25}, "lse", exitUsage, `rms_norm: output "lse": want [output rstd]`},
	} {
		tensors := map[string][]float64{"input": {2, -2, 2, 2, 4, 4, 4, -4}, "output." + c.name: c.rstd}
		for _, x := range tensors["input"][:4] {
			tensors["output"] = append(tensors["output"], float64(float32(float32(x)*.5)))
		}
		for _, x := range tensors["input"][4:] {
			tensors["output"] = append(tensors["output"], float64(float32(float32(x)*.25)))
		}
		shapes["output."+c.name] = []int{2}
		path := kernelFile(t, tensors, shapes)
		r := refrun(t, "kernel", path, "--op", "rms_norm", "--attr", "normalized_shape=[4]", "--attr", "eps=0")
		if r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
			t.Errorf("exit code %d, %s%s, want %s", r.code, r.stdout, r.stderr, c.want)
		}
	}
}

// backwardPairs are the sentences about gradients.
func backwardPairs() []pair {
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
	return []pair{
		{"contract found: ", right, wrong},
		{"grad.input: FAIL, reason", wrong, right},
		{"fault: f\n", wrong, right},
		{"to do: a\n", wrong, right},
		{"most of it: axis 0 at 1\n", wrong, right},
		{"  contract: ", wrong, right},
		{"2 of 4 off the nearest number; simulated right kernels have up to 3\n", right, exact},
		{"mean square error 1 times that of simulated right kernels", right, off},
		{"every element is the nearest number to the exact value", exact, unjudged},
		{"this data would not show: eps-ignored\n", blind, right},
		{"eps-ignored and 2 more, which --json", many, blind},
	}
}
