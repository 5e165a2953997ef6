package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// question is one of an operation.
func question(t *testing.T, op, attributes string, out *tensor.Tensor, in ...*tensor.Tensor) Question {
	t.Helper()
	g, _, err := Kernel(op, []byte(attributes), []string{"input", "other"}[:len(in)])
	if err != nil {
		t.Fatal(err)
	}
	return Question{Graph: g, Inputs: in, Output: out}
}

// TestAccumulate: a product whose sums are kept in half fails by its name, and passes if that is claimed. A running sum
// passes, as PyTorch's are on GPUs, in a gradient too. Neither excuses another fault.
func TestAccumulate(t *testing.T) {
	const rows, n, columns = 24, 120, 20
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		r := rand.New(rand.NewPCG(1, uint64(f)))
		x, w := drawn(r, f, rows, n), drawn(r, f, n, columns)
		running, product := tensor.New(f, rows, n), tensor.New(f, rows, columns)
		for i := range rows {
			s := 0.0
			for k := range n {
				s = f.Round(s + x.Data[i*n+k])
				running.Data[i*n+k] = s
			}
			for j := range columns {
				s := 0.0
				for k := range n {
					s = f.Round(s + x.Data[i*n+k]*w.Data[k*columns+j])
				}
				product.Data[i*columns+j] = s
			}
		}
		for _, q := range []Question{
			question(t, "cumsum", `{"dim": -1}`, running, x), question(t, "matmul", "", product, x, w),
		} {
			op := q.Graph.Nodes[0].Op.Name()
			a, err := Check(q)
			named := "sums are kept in " + f.String()
			if op == "matmul" && (err != nil || a.Verdict != Fail || !strings.HasPrefix(a.Fault, named)) {
				t.Errorf("%s, %v: %+v, %v: want sums in %v named", op, f, a, err, f)
			}
			if op == "cumsum" && (err != nil || a.Verdict != Pass || a.Contract.Atomic != f.String()) {
				t.Errorf("%s, %v: %+v, %v: want each addition rounded", op, f, a, err)
			}
			wide := q
			wide.WideSums = true // which says nothing of running sums
			if a, err = Check(wide); err != nil || (a.Verdict == Pass) != (op == "cumsum") {
				t.Errorf("%s, %v, of wide sums: %+v, %v", op, f, a, err)
			}
			q.Claimed = &Contract{Form: Form{Accumulate: f.String()}}
			if a, err = Check(q); err != nil || a.Verdict != Pass {
				t.Errorf("%s, %v, claimed: %+v, %v", op, f, a, err)
			}
			for i := range q.Output.Data[:columns] {
				q.Output.Data[i] = 0 // a row, or its beginning
			}
			if a, err = Check(q); err != nil || a.Verdict != Fail {
				t.Errorf("%s, %v, a row of zeros: %+v, %v", op, f, a, err)
			}
		}
	}
}

// TestWindows: a mean over windows that overlap is a sum of as many numbers as a window has.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	x := drawn(r, fp16.Float32, 2, 3, 9, 11)
	out := tensor.New(fp16.Float32, 2, 3, 7, 9)
	for i := range out.Data {
		col, row, image := i%9, i/9%7, i/63
		var s float32
		for k := range 9 {
			s += float32(x.Data[image*99+(row+k/3)*11+col+k%3])
		}
		out.Data[i] = float64(s / 9)
	}
	if a, err := Check(question(t, "avg_pool2d", `{"kernel_size": 3, "stride": 1}`, out, x)); err != nil ||
		a.Verdict != Pass {
		t.Errorf("%+v, %v", a, err)
	}
	for _, c := range []struct {
		in, out []int
		want    float64
	}{{[]int{2, 8, 8, 8}, []int{2, 3, 3, 3}, 64}, {[]int{9}, []int{3}, 3}, {[]int{5}, []int{7}, 2}} {
		if got := windows(c.in, c.out); got != c.want {
			t.Errorf("windows of %v to %v: %v, want %v", c.in, c.out, got, c.want)
		}
	}
}

// TestOrdered: the greatest numbers and their places are exact, and others fail.
func TestOrdered(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	x := drawn(r, fp16.BFloat16, 12, 30)
	places, most := tensor.New(fp16.Int64, 12), tensor.New(fp16.BFloat16, 12, 1)
	for i := range 12 {
		row := x.Data[i*30 : (i+1)*30]
		most.Data[i] = slices.Max(row)
		places.Data[i] = float64(slices.Index(row, most.Data[i]))
	}
	for _, c := range []struct {
		op, attributes string
		out            *tensor.Tensor
	}{{"argmax", `{"dim": -1}`, places}, {"amax", `{"dim": -1, "keepdim": true}`, most}} {
		q := question(t, c.op, c.attributes, c.out, x)
		if a, err := Check(q); err != nil || a.Verdict != Pass || a.Store != c.out.Format.String() {
			t.Errorf("%s: %+v, %v", c.op, a, err)
		}
		c.out.Data[5]++
		if a, err := Check(q); err != nil || a.Verdict != Fail {
			t.Errorf("%s, one off: %+v, %v", c.op, a, err)
		}
		c.out.Data[5]--
	}
	g := graph.New(nil)
	out := g.AddNode(graph.TopK{K: 1, Axis: -1, Largest: true, Sorted: true}, "topk", 2,
		g.AddNode(unary("exp"), "exp", 1, g.Input("input"))...)
	g.Outputs = out[:1]
	for i, v := range most.Data {
		most.Data[i] = fp16.BFloat16.Round(math.Exp(v))
	}
	q := Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: most}
	if a, err := Check(q); err != nil || a.Verdict != Pass {
		t.Errorf("topk of exp: %+v, %v", a, err)
	}
	most.Data[3] *= .5
	if a, err := Check(q); err != nil || a.Verdict != Fail {
		t.Errorf("topk of exp, one half as large: %+v, %v", a, err)
	}
}

// TestNarrowConvolution: sums of a convolution that are kept in half, all at once or after some terms, fail by their
// name, with the bias added to what is stored.
func TestNarrowConvolution(t *testing.T) {
	const channels, out, size, kernel = 20, 6, 9, 3
	const within = size - kernel + 1
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		for _, each := range []int{1, 4} {
			r := rand.New(rand.NewPCG(3, uint64(f)))
			x, w, bias := drawn(r, f, 2, channels, size, size), drawn(r, f, out, channels, kernel, kernel), drawn(r, f, out)
			y := tensor.New(f, 2, out, within, within)
			for i := range y.Data {
				col, row, o, image := i%within, i/within%within, i/within/within%out, i/within/within/out
				s, n := 0.0, 0
				for c := range channels {
					for k := range kernel * kernel {
						at := ((image*channels+c)*size+row+k/kernel)*size + col + k%kernel
						if s += float64(x.Data[at] * w.Data[(o*channels+c)*kernel*kernel+k]); n%each == each-1 {
							s = f.Round(s)
						}
						n++
					}
				}
				y.Data[i] = f.Round(s + bias.Data[o])
			}
			g, _, err := Kernel("conv2d", nil, []string{"input", "weight", "bias"})
			if err != nil {
				t.Fatal(err)
			}
			want := "sums are kept in " + f.String()
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, w, bias}, Output: y})
			if err != nil || a.Verdict != Fail || !strings.HasPrefix(a.Fault, want) {
				t.Errorf("%v, %d terms at once: %+v, %v: want %q", f, each, a, err, want)
			}
		}
	}
}
