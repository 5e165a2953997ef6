package judge

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestOrder: of a convolution in float32, with a stride, a border and groups, the order of its sums is told, and of a
// matmul and a linear.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	draw := func(shape ...int) *tensor.Tensor {
		x := tensor.New(fp16.Float32, shape...)
		for i := range x.Data {
			x.Data[i] = float64(float32(r.NormFloat64()))
		}
		return x
	}
	x, w, b := draw(2, 8, 9, 11), draw(6, 4, 3, 3), draw(6)
	y := tensor.New(fp16.Float32, 2, 6, 5, 6)
	for i := range y.Data {
		col, row, out, item := i%6, i/6%5, i/30%6, i/180
		s := float32(b.Data[out])
		for kh := range 3 {
			for kw := range 3 {
				for c := range 4 {
					h, v := 2*row+kh-1, 2*col+kw-1
					if h < 0 || h >= 9 || v < 0 || v >= 11 {
						continue
					}
					s += float32(float32(x.Data[((item*8+out/3*4+c)*9+h)*11+v]) * float32(w.Data[((out*4+c)*3+kh)*3+kw]))
				}
			}
		}
		y.Data[i] = float64(s)
	}
	ask := func(op, attributes, want string, names []string, in []*tensor.Tensor, out *tensor.Tensor) {
		g, _, err := Kernel(op, []byte(attributes), names)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Check(Question{Graph: g, Inputs: in, Output: out})
		if err != nil || a.Verdict != Pass || a.Order == nil || a.Order.Name != want || a.Order.Equal != a.Order.Of ||
			a.Order.Of < 50 || a.Order.NextEqual > a.Order.Of/2 {
			t.Errorf("%s: %+v %+v %v", op, a, a.Order, err)
		}
	}
	ask("conv2d", `{"stride":[2,2],"padding":[1,1],"groups":2}`, "k ascending of (kh, kw, c)",
		[]string{"input", "weight", "bias"}, []*tensor.Tensor{x, w, b}, y)
	p, q := draw(3, 9, 100), draw(3, 100, 7)
	m := tensor.New(fp16.Float32, 3, 9, 7)
	for i := range m.Data {
		var s, part float32
		for k := range 100 {
			if k%32 == 0 {
				s, part = s+part, 0
			}
			part += float32(float32(p.Data[i/7*100+k]) * float32(q.Data[i/63*700+k*7+i%7]))
		}
		m.Data[i] = float64(s + part)
	}
	ask("matmul", ``, "k in tiles of 32", []string{"input", "other"}, []*tensor.Tensor{p, q}, m)
	v, u := draw(12, 90), draw(5, 90)
	l := tensor.New(fp16.Float32, 12, 5)
	for i := range l.Data {
		var s float32
		for k := range 90 {
			s += float32(float32(v.Data[i/5*90+k]) * float32(u.Data[i%5*90+k]))
		}
		l.Data[i] = float64(s)
	}
	ask("linear", ``, "k ascending", []string{"input", "weight"}, []*tensor.Tensor{v, u}, l)
}

// TestRunningSlack: of running sums of normal numbers, whose errors are in proportion to the sums so far, more lines
// than one in a thousand have runningSlack times the mean square error, and fewer than one in two hundred.
func TestRunningSlack(t *testing.T) {
	const lines, n = 20000, 200
	r := rand.New(rand.NewPCG(1, 2))
	squares, all := make([]float64, lines), 0.0
	for i := range squares {
		s, e := 0.0, 0.0
		for range n {
			s += r.NormFloat64()
			e += float64(s * r.NormFloat64())
			squares[i] += float64(e * e)
		}
		all += squares[i] / lines
	}
	beyond := 0
	for _, x := range squares {
		if x > runningSlack*all {
			beyond++
		}
	}
	if beyond < lines/1000 || beyond > lines/200 {
		t.Errorf("%d of %d lines", beyond, lines)
	}
}
