package judge_test

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// TestEmulations: products of operands in parts pass as what they are. With one part they fail, and bf16x3 has its name
// where nothing is claimed.
func TestEmulations(t *testing.T) {
	const m, k, n = 16, 64, 24
	r := rand.New(rand.NewPCG(5, 6))
	a, b := tensor.New(fp16.Float32, m, k), tensor.New(fp16.Float32, k, n)
	for _, x := range []*tensor.Tensor{a, b} {
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(r.NormFloat64())
		}
	}
	part := func(f fp16.Format, x float64, k int) float64 {
		for range k {
			x -= f.Round(x)
		}
		return f.Round(x)
	}
	made := func(f fp16.Format, parts, most int) *tensor.Tensor {
		y := tensor.New(fp16.Float32, m, n)
		for i := range len(a.Data) / k * n {
			for p := parts - 1; p >= 0; p-- { // the small ones first
				for q := parts - 1; q >= 0; q-- {
					for j := range k {
						if p+q <= most {
							term := float64(part(f, a.Data[i/n*k+j], p) * part(f, b.Data[j*n+i%n], q))
							y.Data[i] = fp16.Float32.Round(y.Data[i] + term)
						}
					}
				}
			}
		}
		return y
	}
	check := func(y *tensor.Tensor, as string) *judge.Report {
		g, _, err := judge.Kernel("matmul", nil, []string{"input", "other"})
		if err != nil {
			t.Fatal(err)
		}
		q := judge.Question{Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: y}
		if as != "" {
			q.Claimed = &judge.Contract{Form: judge.Form{Operands: as}}
		}
		rep, err := judge.Check(q)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	for _, of := range []struct {
		name        string
		f           fp16.Format
		parts, most int
	}{
		{"3xtf32", fp16.TF32, 2, 1}, {"bf16x3", fp16.BFloat16, 2, 1},
		{"bf16x6", fp16.BFloat16, 3, 2}, {"bf16x9", fp16.BFloat16, 3, 4},
	} {
		rep := check(made(of.f, of.parts, of.most), of.name)
		if rep.Verdict != judge.Pass || rep.Contract.Operands != of.name {
			t.Errorf("%s: %s, %v", of.name, rep.Verdict, rep.Contract)
		}
		if rep := check(made(of.f, 1, 0), of.name); rep.Verdict != judge.Fail {
			t.Errorf("%s of one part: %s", of.name, rep.Verdict)
		}
	}
	if rep := check(made(fp16.BFloat16, 2, 1), ""); rep.Verdict != judge.Fail || rep.FaultID != "kernel.operands-split" {
		t.Errorf("bf16x3 without a claim: %s %q", rep.Verdict, rep.Fault)
	}
	if rep := check(made(fp16.BFloat16, 3, 4), ""); rep.Verdict != judge.Pass {
		t.Errorf("bf16x9 without a claim: %s", rep.Verdict)
	}
	a.Data, a.Shape = a.Data[:k], []int{k} // a vector has one axis
	line := made(fp16.BFloat16, 3, 2)
	line.Data, line.Shape = line.Data[:n], []int{n}
	if rep := check(line, "bf16x6"); rep.Verdict != judge.Pass {
		t.Errorf("bf16x6 of a vector: %s", rep.Verdict)
	}
}
