package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

func splitWords(s string) []string { return strings.Fields(s) }
func contains(s, part string) bool { return strings.Contains(s, part) }
func normal(r *rand.Rand) float32  { return float32(r.NormFloat64()) }

// tf32 rounds to 10 bits of fraction, ties away.
func tf32(v float32) float32 { return math.Float32frombits((math.Float32bits(v) + 0x1000) &^ 0x1fff) }

// Kernels in float32, written as kernels are, right and wrong. They share nothing with what judges them.

// add sums n terms in one of several orders.
func add(order string, n int, term func(i int) float32) (s float32) {
	switch order {
	case "lanes":
		var lane [8]float32
		for i := range n {
			lane[i%8] += term(i)
		}
		return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]))
	case "pairs":
		if n <= 4 {
			break
		}
		h := n / 2
		return add(order, h, term) + add(order, n-h, func(i int) float32 { return term(h + i) })
	case "backwards":
		for i := n - 1; i >= 0; i-- {
			s += term(i)
		}
		return s
	}
	for i := range n {
		s += term(i)
	}
	return s
}

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }

// softmax of a row.
func softmax(order, fault string, x []float32) []float32 {
	m := x[0]
	for _, v := range x {
		m = max(m, v)
	}
	n := len(x)
	if fault == "tail" {
		n -= 1 + (n-1)%16
	}
	e := make([]float32, len(x))
	for i, v := range x {
		if e[i] = exp32(v - m); fault == "exp2" { // right: as Triton does
			e[i] = float32(math.Exp2(float64(float32((v - m) * float32(math.Log2E)))))
		}
	}
	s := add(order, n, func(i int) float32 { return e[i] })
	if fault == "half" {
		s = float32(fp16.BFloat16.Round(float64(s)))
	}
	for i := range e {
		if e[i] /= s; fault == "scale" {
			e[i] *= 1.001
		}
	}
	return e
}

// layerNorm of a row.
func layerNorm(order, fault string, x, w, b []float32, eps float32) []float32 {
	n := len(x)
	mean := add(order, n, func(i int) float32 { return x[i] }) / float32(n)
	v := add(order, n, func(i int) float32 { return (x[i] - mean) * (x[i] - mean) }) / float32(n)
	switch fault {
	case "n-1":
		v *= float32(n) / float32(n-1)
	case "eps":
		eps = 0
	}
	r := 1 / float32(math.Sqrt(float64(v+eps)))
	if fault == "outside" {
		r = 1 / (float32(math.Sqrt(float64(v))) + eps)
	}
	y := make([]float32, n)
	for i := range y {
		if y[i] = float32((x[i]-mean)*r)*w[i] + b[i]; fault == "affine" { // right: as PyTorch does
			y[i] = float32(x[i]*float32(r*w[i])) + float32(b[i]-float32(mean*float32(r*w[i])))
		}
	}
	return y
}

// kernelCase makes inputs and an output of a kind.
func kernelCase(op, order, fault string, f fp16.Format, seed uint64) (Question, error) {
	r := rand.New(rand.NewPCG(seed, 7))
	rows, cols := 17+r.IntN(16), 40+r.IntN(200)
	shift, scale := normal(r), float32(.3+2*r.Float64())
	draw := func(shape ...int) *tensor.Tensor {
		t := tensor.New(f, shape...)
		for i := range t.Data {
			t.Data[i] = f.Round(float64(shift + scale*normal(r)))
		}
		return t
	}
	single := func(t *tensor.Tensor) []float32 {
		v := make([]float32, len(t.Data))
		for i := range v {
			v[i] = float32(t.Data[i])
		}
		return v
	}
	var q Question
	var names, attributes string
	x := draw(rows, cols)
	X := single(x)
	out := make([]float32, 0, rows*cols)
	shape := []int{rows, cols}
	q.Inputs = []*tensor.Tensor{x}
	switch op {
	case "softmax":
		names, attributes = "input", `{"dim":-1}`
		for i := range rows {
			out = append(out, softmax(order, fault, X[i*cols:(i+1)*cols])...)
		}
	case "layer_norm":
		names, attributes = "input weight bias", fmt.Sprintf(`{"normalized_shape":[%d],"eps":1e-3}`, cols)
		w, b := draw(cols), draw(cols)
		q.Inputs = append(q.Inputs, w, b)
		for i := range rows {
			out = append(out, layerNorm(order, fault, X[i*cols:(i+1)*cols], single(w), single(b), 1e-3)...)
		}
	case "matmul":
		names = "input other"
		n := 24
		other := draw(cols, n)
		q.Inputs, shape = append(q.Inputs, other), []int{rows, n}
		B := single(other)
		for i := range rows {
			for j := range n {
				k := cols
				if fault == "tail" {
					k -= 1 + (k-1)%16
				}
				s := add(order, k, func(l int) float32 {
					a, b := X[i*cols+l], B[l*n+j]
					if fault == "tf32" {
						a, b = tf32(a), tf32(b)
					}
					return a * b
				})
				if fault == "tile" && i < 8 && j >= 16 {
					s = 0
				}
				out = append(out, s)
			}
		}
	}
	q.Output = tensor.New(f, shape...)
	for i, v := range out {
		if q.Output.Data[i] = f.Round(float64(v)); fault == "cut" && f != fp16.Float32 {
			if y := q.Output.Data[i]; math.Abs(y) > math.Abs(float64(v)) {
				if y > 0 {
					q.Output.Data[i] = f.NextDown(y)
				} else {
					q.Output.Data[i] = f.NextUp(y)
				}
			}
		}
	}
	g, _, err := Kernel(op, []byte(attributes), strings.Fields(names))
	q.Graph = g
	return q, err
}

// TestRight: right kernels pass, in every order of sums, with what libraries do.
func TestRight(t *testing.T) {
	seed := uint64(0)
	for _, op := range []string{"softmax", "layer_norm", "matmul"} {
		for _, order := range []string{"one after the other", "lanes", "pairs", "backwards"} {
			for _, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
				for _, way := range []string{"", map[string]string{"softmax": "exp2", "layer_norm": "affine"}[op]} {
					seed++
					q, err := kernelCase(op, order, way, f, seed)
					if err != nil {
						t.Fatal(err)
					}
					if r, err := Check(q); err != nil || r.Verdict != Pass {
						t.Errorf("%s %s %s %v: %+v %v", op, order, way, f, r, err)
					}
				}
			}
		}
	}
}

// TestWrong: wrong kernels fail, and where one fault explains them, by its name.
func TestWrong(t *testing.T) {
	for i, c := range []struct{ op, fault, name string }{
		{"softmax", "tail", "the last part of a sum is left out"},
		{"softmax", "half", "the step sum is rounded to bfloat16"},
		{"softmax", "scale", ""},
		{"layer_norm", "n-1", "the variance is divided by n-1"},
		{"layer_norm", "eps", "eps is not added"},
		{"layer_norm", "outside", "eps is added to the root, not under it"},
		{"matmul", "tail", "the last part of a sum is left out"},
		{"matmul", "tf32", "the operands of products are rounded to TF32"},
		{"matmul", "tile", ""},
		{"matmul", "cut", "the output is cut off, not rounded"},
	} {
		for k, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			if !share.All() && k > 0 && (i+k)%2 > 0 { // in the other half type
				continue
			}
			if c.fault == "tf32" && f != fp16.Float32 || c.fault == "cut" && f == fp16.Float32 ||
				c.fault == "half" && f == fp16.Float16 {
				continue
			}
			q, err := kernelCase(c.op, "lanes", c.fault, f, uint64(1000+i))
			if err != nil {
				t.Fatal(err)
			}
			r, err := Check(q)
			if err != nil || r.Verdict != Fail || r.Fault != c.name && c.name != "" && f == fp16.Float32 {
				t.Errorf("%s %s %v: %+v %v: want FAIL, %q", c.op, c.fault, f, r, err, c.name)
			}
			if c.fault == "cut" && r.Fault != c.name {
				t.Errorf("%s %s %v: %q: want %q", c.op, c.fault, f, r.Fault, c.name)
			}
		}
	}
}
