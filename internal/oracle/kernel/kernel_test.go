package kernel_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/kernel"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

func normal(r *rand.Rand, f fp16.Format, shape ...int) *tensor.Tensor {
	t := tensor.New(f, shape...)
	for i := range t.Data {
		t.Data[i] = f.Round(r.NormFloat64())
	}
	return t
}

func unit(t *testing.T, name string, in tensorcore.Input, sums fp16.Format) *tensorcore.Unit {
	m, err := tensorcore.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	u, err := m.Unit(in, sums)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// matmul is a product that a device made in so many parts, stored in a format.
func matmul(t *testing.T, name string, parts int, store fp16.Format) kernel.Question {
	r := rand.New(rand.NewPCG(81, 82))
	q := kernel.Question{Op: "matmul", A: normal(r, fp16.Float16, 24, 160), B: normal(r, fp16.Float16, 160, 20),
		C: normal(r, fp16.Float32, 24, 20), Output: tensor.New(fp16.Float32, 24, 20),
		Operands: tensorcore.FP16, Store: store}
	unit(t, name, tensorcore.FP16, fp16.Float32).MatMul(q.Output, q.A, q.B, q.C, parts)
	q.Output.Format = store
	store.RoundSlice(q.Output.Data, q.Output.Data)
	return q
}

func check(t *testing.T, q kernel.Question) *kernel.Report {
	r, err := kernel.Check(q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMatMul: what a device made passes as that and fails as another, and who made it is said.
func TestMatMul(t *testing.T) {
	for _, c := range []struct {
		made         string
		parts        int
		store        fp16.Format
		claim        string
		split        int
		verdict, fit string
	}{
		{"a100", 1, fp16.Float32, "a100", 1, kernel.Pass, "a100"},
		{"a100", 1, fp16.Float32, "h100", 1, kernel.Fail, "a100"},
		{"a100", 4, fp16.Float32, "a100", 1, kernel.Fail, "a100"},
		{"a100", 4, fp16.Float32, "a100", 4, kernel.Pass, "a100"},
		{"h100", 5, fp16.Float32, "h100", 5, kernel.Pass, "h100"},
		{"v100", 1, fp16.Float32, "", 0, kernel.Pass, "v100"},
		{"mi300", 3, fp16.Float32, "", 0, kernel.Pass, "mi300"},
		{"h100", 1, fp16.Float16, "h100", 1, kernel.Pass, "h100"},
		{"h100", 1, fp16.BFloat16, "h100", 1, kernel.Pass, "h100"},
	} {
		q := matmul(t, c.made, c.parts, c.store)
		q.Device, q.SplitK = c.claim, c.split
		r := check(t, q)
		if r.Verdict != c.verdict || (r.Verdict == kernel.Pass) != (r.NotEqual == 0) ||
			(r.Worst == nil) != (r.NotEqual == 0) {
			t.Errorf("%+v: %s, %d not equal, %v", c, r.Verdict, r.NotEqual, r.Worst)
		}
		if !slices.ContainsFunc(r.Fits, func(f kernel.Fit) bool {
			return f.Device == c.fit && f.SplitK == c.parts && f.NotEqual == 0 && !f.WithoutC
		}) || r.Fits[0].NotEqual > 0 {
			t.Errorf("%+v: fits %+v", c, r.Fits[:3])
		}
		if c.claim == "" && c.store == fp16.Float32 && (r.Device != c.made || r.SplitK != c.parts) {
			t.Errorf("%+v: said to be %s in %d parts", c, r.Device, r.SplitK)
		}
	}
}

// TestParts: parts of given numbers of K are found, as libraries make them that add accumulators of few bits to float32
// numbers, or divide K in whole tiles.
func TestParts(t *testing.T) {
	const m, k, n = 24, 4096, 24
	for _, c := range []struct{ part, parts int }{{128, 32}, {1408, 3}, {96, 43}} {
		r := rand.New(rand.NewPCG(83, 84))
		q := kernel.Question{Op: "matmul", A: normal(r, fp16.Float16, m, k), B: normal(r, fp16.Float16, k, n),
			Output: tensor.New(fp16.Float32, m, n), Operands: tensorcore.FP16, Store: fp16.Float32}
		u := unit(t, "h200", tensorcore.FP16, fp16.Float32)
		u.MatMulPart(q.Output, q.A, q.B, nil, c.part)
		want := tensor.New(fp16.Float32, m, n)
		for at := 0; at < k; at += c.part { // parts by hand
			for i := range m {
				for j := range n {
					var x, y []float64
					for l := at; l < min(k, at+c.part); l++ {
						x, y = append(x, q.A.Data[i*k+l]), append(y, q.B.Data[l*n+j])
					}
					want.Data[i*n+j] = float64(float32(want.Data[i*n+j] + u.Dot(x, y, 0)))
				}
			}
		}
		if !slices.Equal(want.Data, q.Output.Data) {
			t.Fatalf("parts of %d: other sums", c.part)
		}
		if c.part != 96 { // which is no tile
			if r := check(t, q); r.Verdict != kernel.Pass || r.PartK != c.part || r.SplitK != c.parts {
				t.Errorf("parts of %d: %s %s part_k=%d split_k=%d", c.part, r.Verdict, r.Device, r.PartK, r.SplitK)
			}
		}
		q.Device, q.PartK = "h200", c.part
		if r := check(t, q); r.Verdict != kernel.Pass || r.PartK != c.part {
			t.Errorf("claimed parts of %d: %s, %d not equal", c.part, r.Verdict, r.NotEqual)
		}
		q.PartK = 64
		if r := check(t, q); r.Verdict != kernel.Fail {
			t.Errorf("parts of %d claimed to be 64: %s", c.part, r.Verdict)
		}
	}
}

// TestFaults: outputs that are wrong fail, and what is left out is said where it can be.
func TestFaults(t *testing.T) {
	right := matmul(t, "a100", 1, fp16.Float32)
	for name, spoil := range map[string]func(q *kernel.Question, u *tensorcore.Unit){
		"one bit": func(q *kernel.Question, u *tensorcore.Unit) { q.Output.Data[37] += 0x1p-20 },
		"the last 16 of K": func(q *kernel.Question, u *tensorcore.Unit) {
			a := tensor.New(fp16.Float16, 24, 160)
			copy(a.Data, q.A.Data)
			for i := range 24 {
				clear(a.Data[i*160+144 : (i+1)*160])
			}
			u.MatMul(q.Output, a, q.B, q.C, 1)
		},
		"zeros":     func(q *kernel.Question, u *tensorcore.Unit) { clear(q.Output.Data) },
		"NaN":       func(q *kernel.Question, u *tensorcore.Unit) { q.Output.Data[0] = fp16.NaN },
		"without c": func(q *kernel.Question, u *tensorcore.Unit) { u.MatMul(q.Output, q.A, q.B, nil, 1) },
		"transposed": func(q *kernel.Question, u *tensorcore.Unit) {
			slices.Reverse(q.Output.Data)
		},
	} {
		q := right
		q.Device, q.Output = "a100",
			&tensor.Tensor{Format: fp16.Float32, Shape: right.Output.Shape, Data: slices.Clone(right.Output.Data)}
		spoil(&q, unit(t, "a100", tensorcore.FP16, fp16.Float32))
		r := check(t, q)
		if r.Verdict != kernel.Fail || r.Worst == nil {
			t.Errorf("%s: %s", name, r.Verdict)
		}
		if f := r.Fits[0]; (f.NotEqual == 0 && f.WithoutC) != (name == "without c") {
			t.Errorf("%s: fits %+v", name, f)
		}
	}
	q := right
	q.Device, q.Output = "a100", tensor.New(fp16.Float32, 24, 20)
	copy(q.Output.Data, right.Output.Data)
	q.Output.Data[2*20+3] += 8
	if w := check(t, q).Worst; w == nil || !slices.Equal(w.Index, []int{2, 3}) || w.Got != w.Want+8 {
		t.Errorf("the worst is %+v", w)
	}
}

// TestNoPower: where what is right is one number, a kernel that computes nothing is right too.
func TestNoPower(t *testing.T) {
	q := matmul(t, "a100", 1, fp16.Float32)
	q.A, q.C, q.Output = tensor.New(fp16.Float16, 24, 160), nil, tensor.New(fp16.Float32, 24, 20)
	if r := check(t, q); r.Verdict != kernel.NoPower {
		t.Error(r.Verdict)
	}
	q.Output.Data[5] = 1
	if r := check(t, q); r.Verdict != kernel.Fail {
		t.Error(r.Verdict)
	}
	empty := kernel.Question{Op: "dot", A: tensor.New(fp16.Float16, 0, 4), B: tensor.New(fp16.Float16, 0, 4),
		Output: tensor.New(fp16.Float32, 0), Store: fp16.Float32}
	if r := check(t, empty); r.Verdict != kernel.NoPower {
		t.Error(r.Verdict)
	}
}

func TestErrors(t *testing.T) {
	for want, spoil := range map[string]func(q *kernel.Question){
		"a: missing":                       func(q *kernel.Question) { q.A = nil },
		"output: missing":                  func(q *kernel.Question) { q.Output = nil },
		`op "softmax": want dot or matmul`: func(q *kernel.Question) { q.Op = "softmax" },
		"a: shape [3840]: want two axes": func(q *kernel.Question) {
			q.A = tensor.New(fp16.Float16, 3840)
		},
		"b: shape [20 160]: want 160 rows, as a has columns": func(q *kernel.Question) {
			q.B = tensor.New(fp16.Float16, 20, 160)
		},
		"b: shape [160]: want two axes": func(q *kernel.Question) {
			q.B = tensor.New(fp16.Float16, 160)
		},
		"output: shape [20 24]: want [24 20]": func(q *kernel.Question) {
			q.Output = tensor.New(fp16.Float32, 20, 24)
		},
		"c: shape [20]: want [24 20]":                       func(q *kernel.Question) { q.C = tensor.New(fp16.Float32, 20) },
		"split_k: 161: want 1, or for a matmul up to its K": func(q *kernel.Question) { q.SplitK = 161 },
		"a: element 3: 1.0001: want numbers of fp16":        func(q *kernel.Question) { q.A.Data[3] = 1.0001 },
		"output: element 4: 1e-50: want numbers of float32": func(q *kernel.Question) { q.Output.Data[4] = 1e-50 },
		"accumulate: v100: operands bf16: want fp16": func(q *kernel.Question) {
			clear(q.A.Data)
			clear(q.B.Data)
			q.Operands, q.Device = tensorcore.BF16, "v100"
		},
	} {
		q := matmul(t, "a100", 1, fp16.Float32)
		spoil(&q)
		if _, err := kernel.Check(q); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	q := matmul(t, "a100", 1, fp16.Float32)
	q.Device = "h101"
	if _, err := kernel.Check(q); err == nil ||
		!strings.HasPrefix(err.Error(), `accumulate: tensor core "h101": want one of v100, `) {
		t.Error(err)
	}
}

// TestSmall: shapes with nothing in them, and with one, are no trouble.
func TestSmall(t *testing.T) {
	for m := range 3 {
		for k := range 3 {
			for n := range 3 {
				q := kernel.Question{Op: "matmul", A: tensor.New(fp16.Float16, m, k), B: tensor.New(fp16.Float16, k, n),
					Output: tensor.New(fp16.Float32, m, n), Store: fp16.Float32}
				for i := range q.A.Data {
					q.A.Data[i] = 1
				}
				if r := check(t, q); r.Verdict != kernel.NoPower || r.Elements != m*n {
					t.Errorf("%d, %d, %d: %s of %d", m, k, n, r.Verdict, r.Elements)
				}
			}
		}
	}
}
