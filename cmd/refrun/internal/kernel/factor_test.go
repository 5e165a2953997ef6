package kernel

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/internal/oracle/factor"
)

// TestKernelFactor: factors and solutions by ATen's names, with and without linalg_, outputs by names and by places,
// and what is missing.
func TestKernelFactor(t *testing.T) {
	square := []int{2, 2}
	shapes := map[string][]int{"input": square, "A": square, "B": {2, 1}, "other": square, "output": square,
		"output.Q": square, "output.R": square, "output.0": square, "output.1": square}
	a, lower, one := []float64{4, 2, 2, 5}, []float64{2, 0, 1, 2}, []float64{1, 0, 0, 1}
	type numbers = map[string][]float64
	for _, c := range []struct {
		op, attr string
		given    numbers
		code     int
		want     string
	}{
		{"cholesky", "", numbers{"input": a, "output": lower}, cli.ExitOK, "PASS  cholesky to float32: 1 matrix\n"},
		{"linalg_cholesky_ex", "", numbers{"A": a, "output.0": lower}, cli.ExitOK, "PASS"},
		{"cholesky", "upper=true", numbers{"input": a, "output": lower}, cli.ExitFailed, "fault: the factor is transposed"},
		{"cholesky", "lower=true", numbers{"input": a, "output": lower}, cli.ExitUsage, "want upper"},
		{"linalg_qr", "", numbers{"A": {1, 2, 0, 1}, "output.Q": one, "output.R": {1, 2, 0, 1}}, cli.ExitOK, "PASS  qr"},
		{"qr", "", numbers{"A": {1, 2, 0, 1}, "output.0": one, "output.1": {1, 2, 0, 2}}, cli.ExitFailed, "Q times R"},
		{"qr", "", numbers{"A": a, "output.Q": a}, cli.ExitUsage, `no tensor "output.R"`},
		{"solve_triangular", "upper=false", numbers{"A": lower, "B": {2, 5}, "output": {1, 2, 1, 2}}, cli.ExitUsage,
			"output: shape [2 2]: want [2 1]"},
		{"inv", "", numbers{"other": a, "output": a}, cli.ExitUsage, `no tensor "input"`},
		{"inv", "", numbers{"A": {1, 1, 1, 1}, "output": a}, cli.ExitNoPower, "singular"},
	} {
		args := []string{"kernel", clitest.KernelFile(t, c.given, shapes), "--op", c.op}
		if c.attr != "" {
			args = append(args, "--attr", c.attr)
		}
		if r := refrun(t, args...); r.Code != c.code || !strings.Contains(r.Stdout+r.Stderr, c.want) {
			t.Errorf("%+v: %d %s%s", c, r.Code, r.Stdout, r.Stderr)
		}
	}
	path := clitest.KernelFile(t, numbers{"A": a, "output": lower}, shapes)
	if r := refrun(t, "kernel", path, "--op", "cholesky", "--precision", "tf32"); r.Code != cli.ExitUsage {
		t.Errorf("%d %s", r.Code, r.Stderr)
	}
	of := refrun(t, "kernel", path, "--op", "cholesky", "--attr", "upper=true", "--json").Decode(t)
	if of["fault_id"] != "factor.transposed:the factor" || of["diagnosis"] != "the factor is transposed" {
		t.Errorf("%v", of)
	}
}

// factorPairs are the sentences about factors.
func factorPairs() []clitest.Pair {
	say := func(change func(r *factor.Report, c *factor.Claim)) string {
		r := &factor.Report{Verdict: factor.Pass, Op: "qr", Store: "float32", Matrices: 3,
			Outputs: []factor.Claim{{Name: "claim", Elements: 64}}}
		change(r, &r.Outputs[0])
		return factorText(r)
	}
	exact := say(func(*factor.Report, *factor.Claim) {})
	right := say(func(_ *factor.Report, c *factor.Claim) { c.Largest = 0.25 })
	wrong := say(func(r *factor.Report, c *factor.Claim) {
		r.Verdict, r.Reason, r.Fault, r.Advice = factor.Fail, "reason", "f", "a"
		c.Violations, c.Proved, c.Worst = 5, 2, &factor.Worst{Index: []int{1}, Error: 0.5, Limit: 0.25}
	})
	first := say(func(_ *factor.Report, c *factor.Claim) {
		c.Violations, c.Worst = 5, &factor.Worst{Index: []int{1}, Error: 0.5}
	})
	some := say(func(r *factor.Report, _ *factor.Claim) { r.Unjudged = 2 })
	one := say(func(r *factor.Report, _ *factor.Claim) { r.Matrices = 1 })
	return []clitest.Pair{
		{Says: "claim: all 64 hold", Is: exact, IsNot: wrong},
		{Says: ", the largest error is 0.25 of what it may be\n", Is: right, IsNot: exact},
		{Says: "fault: f\n", Is: wrong, IsNot: right},
		{Says: "to do: a\n", Is: wrong, IsNot: right},
		{Says: "claim: 5 of 64 do not hold\n", Is: wrong, IsNot: right},
		{Says: "proved: 2 are beyond the bound of sums in any order\n", Is: wrong, IsNot: first},
		{Says: "most at [1]: off by 0.5, right kernels by 0.25 at most\n", Is: wrong, IsNot: first},
		{Says: "first at [1]\n", Is: first, IsNot: wrong},
		{Says: "not judged: 2 matrices without a right output\n", Is: some, IsNot: right},
		{Says: "1 matrix\n", Is: one, IsNot: right},
		{Says: "3 matrices\n", Is: right, IsNot: one},
	}
}
