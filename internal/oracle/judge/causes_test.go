package judge

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// TestRecordedCauses: the cause of recorded outputs is named, and of noise none is; what is right under another
// description passes.
func TestRecordedCauses(t *testing.T) {
	for _, c := range []struct{ file, op, attributes, without, want string }{
		{"matmul_times_one_sixth", "matmul", "", "", "the output is times 1/6"},
		{"noise", "matmul", "", "", ""},
		{"sum_is_mean", "sum", `{"dim":-1}`, "", "a mean in place of a sum"},
		{"instance_norm_one_pass_mean_1000", "instance_norm", "", "", "the variance is mean(x^2) - mean(x)^2"},
		{"instance_norm_one_pass_mean_50000", "instance_norm", "", "", "the variance is mean(x^2) - mean(x)^2"},
		{"attention_bottom_right_bf16", "scaled_dot_product_attention", "", "", Pass},
		{"attention_bottom_right_bf16", "scaled_dot_product_attention", `{"is_causal":true}`, "attn_mask",
			"the mask is aligned to the other corner"},
		{"group_norm_padding_counted_bf16", "group_norm", `{"num_groups":8}`, "",
			"padding is counted in the statistics, up to 896 numbers"},
	} {
		f, err := safetensors.Open(filepath.Join("testdata", "causes", c.file+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		names := slices.DeleteFunc(slices.Clone(f.Names()), func(n string) bool { return n == "output" || n == c.without })
		g, order, err := Kernel(c.op, []byte(c.attributes), names)
		if err != nil {
			t.Fatal(err)
		}
		q := Question{Graph: g, Output: readTensor(t, f, "output")}
		for _, n := range order {
			q.Inputs = append(q.Inputs, readTensor(t, f, n))
		}
		if r, err := Check(q); err != nil || (c.want == Pass) != (r.Verdict == Pass) ||
			c.want != Pass && r.Fault != c.want || slices.Contains(r.Blind, r.FaultID) {
			t.Errorf("%s %s: %+v, %v: want %q", c.file, c.attributes, r, err, c.want)
		}
	}
}

// wrongKernel is a kernel in float64 with a fault, whose results are rounded once.
type wrongKernel struct {
	op, attributes string
	inputs         []*tensor.Tensor
	shape          []int // of the output
	f              func(i int) float64
	want           []string // rows of Faults, any of which it is
}

// wrongKernels are kernels of many operations with each fault that a name is for.
func wrongKernels(r *rand.Rand, f fp16.Format) (all []wrongKernel) {
	rows, n, cols := 12+r.IntN(20), 40+r.IntN(60), 17+r.IntN(20)
	x, y := drawn(r, f, rows, n), drawn(r, f, n, cols)
	add := func(op, attributes string, in []*tensor.Tensor, shape []int, g func(i int) float64, want ...string) {
		all = append(all, wrongKernel{op, attributes, in, shape, g, want})
	}
	dot := func(i int) (s float64) {
		for k := range n {
			s += x.Data[i/cols*n+k] * y.Data[k*cols+i%cols]
		}
		return s
	}
	product := []*tensor.Tensor{x, y}
	for _, c := range []float64{1. / 6, 1.5, -1, 0.3} {
		add("matmul", "", product, []int{rows, cols}, func(i int) float64 { return c * dot(i) }, timesConstant)
		add("exp", "", product[:1], x.Shape, func(i int) float64 { return c * math.Exp(x.Data[i]) }, timesConstant)
	}
	noise := drawn(r, f, rows, n)
	add("matmul", "", product, []int{rows, cols}, func(i int) float64 { return 7 * noise.Data[i] }, "")
	add("tanh", "", product[:1], x.Shape, func(i int) float64 { return noise.Data[i] }, "")
	add("matmul", "", product, []int{rows, cols}, func(i int) float64 { return math.NaN() }, allNaN)
	add("matmul", "", product, []int{rows, cols}, func(i int) float64 { return 0 }, allZero)
	add("exp", "", product[:1], x.Shape, func(i int) float64 { return 2 }, oneNumber)
	add("exp", "", product[:1], x.Shape, func(i int) float64 { return x.Data[i] }, inputReturned)
	add("matmul", "", product, []int{rows, cols},
		func(i int) float64 { return dot((i/cols+rows-1)%rows*cols + i%cols) }, resultsMoved)
	add("exp", "", product[:1], x.Shape, func(i int) float64 { return math.Exp(x.Data[i/n*n+n-1-i%n]) }, resultsMoved)
	row := func(i int) []float64 { return x.Data[i*n : (i+1)*n] }
	add("sum", `{"dim":-1}`, product[:1], []int{rows},
		func(i int) float64 { return sumOf(row(i)) / float64(n) }, meanForSum)
	add("mean", `{"dim":-1}`, product[:1], []int{rows}, func(i int) float64 { return sumOf(row(i)) }, sumForMean)
	add("std", `{"dim":-1}`, product[:1], []int{rows},
		func(i int) float64 { _, v := moments(row(i)); return v * float64(n) / float64(n-1) }, rootForgotten)
	add("var", `{"dim":-1}`, product[:1], []int{rows}, func(i int) float64 { _, v := moments(row(i)); return v },
		"kernel.variance-n")
	// norms: x is far enough from 0 that padding shows
	far := drawn(r, f, rows, n)
	for i, v := range far.Data {
		far.Data[i] = f.Round(.02*v + .06)
	}
	norm := func(d func(m, v float64) (float64, float64), want ...string) {
		add("layer_norm", fmt.Sprintf(`{"normalized_shape":[%d],"eps":1e-5}`, n), []*tensor.Tensor{far}, far.Shape,
			func(i int) float64 {
				m, s := d(moments(far.Data[i/n*n : (i/n+1)*n]))
				return (far.Data[i] - m) * s
			}, want...)
	}
	norm(func(m, v float64) (float64, float64) { return m, 1 / (v + 1e-5) }, rootForgotten)
	norm(func(m, v float64) (float64, float64) { return m, 1 / math.Sqrt(v+1e-3) }, otherEps)
	norm(func(m, v float64) (float64, float64) { return m, 1 / math.Sqrt(v+1e-4) }, otherEps)
	norm(func(m, v float64) (float64, float64) { return m, 1 / math.Sqrt(v) }, "kernel.eps-ignored")
	norm(func(m, v float64) (float64, float64) { return 0, 1 / math.Sqrt(v+1e-5) }, "kernel.mean-not-subtracted")
	count := float64((n + 31) / 32 * 32)
	if share := float64(n) / count; share < 1 {
		norm(func(m, v float64) (float64, float64) {
			square := share * (v + m*m)
			return m * share, 1 / math.Sqrt(square-m*m*share*share+1e-5)
		}, paddingCounted)
	}
	if f == fp16.Float32 {
		norm(func(m, v float64) (float64, float64) {
			bits := math.Float64bits(1 / math.Sqrt(v+1e-5))
			return m, math.Float64frombits(bits &^ (1<<40 - 1)) // 12 bits
		}, fewBits, roundedStep+"rstd")
	}
	far.Shape = []int{rows, n}
	return append(all, wrongAttention(r, f)...)
}

// wrongAttention are attentions with masks that are not what was asked for, and a pool with wide windows.
func wrongAttention(r *rand.Rand, f fp16.Format) (all []wrongKernel) {
	l, s, e, window := 18+r.IntN(10), 40+r.IntN(20), 16, 5
	q, k, v := drawn(r, f, 2, l, e), drawn(r, f, 2, s, e), drawn(r, f, 2, s, e)
	attention := func(seen func(i, j int) bool) func(i int) float64 {
		return func(at int) float64 {
			h, i, c := at/(l*e), at/e%l, at%e
			var sum, y float64
			for j := range s {
				if seen(i, j) {
					w := 0.0
					for m := range e {
						w += q.Data[(h*l+i)*e+m] * k.Data[(h*s+j)*e+m]
					}
					w = math.Exp(w / 4)
					sum, y = sum+w, y+w*v.Data[(h*s+j)*e+c]
				}
			}
			return y / sum
		}
	}
	mask := tensor.New(fp16.Int64, l, s)
	for i := range l {
		for j := max(0, i-window+1); j <= i; j++ {
			mask.Data[i*s+j] = 1
		}
	}
	in, op := []*tensor.Tensor{q, k, v}, "scaled_dot_product_attention"
	add := func(attributes string, in []*tensor.Tensor, seen func(i, j int) bool, want string) {
		all = append(all, wrongKernel{op, attributes, in, q.Shape, attention(seen), []string{want}})
	}
	add(`{"is_causal":true}`, in, func(i, j int) bool { return j <= i+s-l }, otherCorner)
	add(`{"is_causal":true}`, in, func(i, j int) bool { return true }, "kernel.mask-missing")
	add("", append(slices.Clone(in), mask), func(i, j int) bool { return j <= i && j >= i-window }, wideWindow)
	image := drawn(r, f, 2, 3, 12, 14)
	all = append(all, wrongKernel{"max_pool2d", `{"kernel_size":2}`, []*tensor.Tensor{image}, []int{2, 3, 6, 7},
		func(at int) float64 {
			c, y, x, most := at/42, at%42/7, at%7, math.Inf(-1)
			for i := 2 * y; i < min(12, 2*y+3); i++ {
				for j := 2 * x; j < min(14, 2*x+3); j++ {
					most = max(most, image.Data[(c*12+i)*14+j])
				}
			}
			return most
		}, []string{wideWindow}})
	return all
}

func sumOf(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

func moments(x []float64) (mean, variance float64) {
	n := float64(len(x))
	mean = sumOf(x) / n
	for _, v := range x {
		variance += (v - mean) * (v - mean) / n
	}
	return mean, variance
}

var causes = flag.Int("judge.causes", 1, "times that each wrong kernel is made, of other sizes and numbers")

// TestCauses: a cause that is named is the one that there is, and never one that the same report says would not show.
func TestCauses(t *testing.T) {
	named, all := 0, 0
	for seed := range uint64(*causes) {
		for n, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			for i, k := range wrongKernels(rand.New(rand.NewPCG(seed, 46)), f) {
				if !share.All() && i%3 != n { // each in one of the formats
					continue
				}
				out := tensor.New(f, k.shape...)
				for i := range out.Data {
					out.Data[i] = f.Round(k.f(i))
				}
				names := []string{"query", "key", "value", "attn_mask"}
				if len(k.inputs) < 3 {
					names = []string{"input", "other"}
				}
				g, _, err := Kernel(k.op, []byte(k.attributes), names[:len(k.inputs)])
				if err != nil {
					t.Fatal(err)
				}
				r, err := Check(Question{Graph: g, Inputs: k.inputs, Output: out})
				if err != nil {
					t.Fatal(err)
				}
				if r.FaultID != "" && !slices.Contains(k.want, r.FaultID) || slices.Contains(r.Blind, r.FaultID) {
					t.Errorf("seed %d, %s %s to %v: %s %q (%s): want %q",
						seed, k.op, k.attributes, f, r.Verdict, r.Fault, r.FaultID, k.want)
				}
				if all++; r.FaultID != "" || k.want[0] == "" {
					named++
				} else {
					t.Logf("seed %d, %s %s to %v: %s, no name: want %q", seed, k.op, k.attributes, f, r.Verdict, k.want)
				}
			}
		}
	}
	if 10*named < 9*all {
		t.Errorf("%d of %d causes are named: want nine of ten", named, all)
	}
}
