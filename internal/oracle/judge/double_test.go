package judge

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// TestDouble: what PyTorch and ONNX Runtime returned in float64 (interop/kernels/libraries.py --record) passes as that.
// What was computed in float32, by plain operations rounded one by one, fails with that name, and so does what is off
// by a part in 10^12.
func TestDouble(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "double", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]struct {
		File, Op string
		Attrs    json.RawMessage
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	if len(index) < 12 {
		t.Errorf("%d recordings", len(index))
	}
	for name, c := range index {
		f, err := safetensors.Open(filepath.Join("testdata", "double", c.File))
		if err != nil {
			t.Fatal(err)
		}
		g, order, err := Kernel(c.Op, c.Attrs,
			slices.DeleteFunc(slices.Clone(f.Names()), func(n string) bool { return n == "output" || n == "single" }))
		if err != nil {
			t.Fatal(name, err)
		}
		q := Question{Graph: g, Output: readTensor(t, f, "output")}
		for _, n := range order {
			q.Inputs = append(q.Inputs, readTensor(t, f, n))
		}
		q.Double = IsDouble(q.Inputs, q.Output)
		r, err := Check(q)
		if err != nil || r.Verdict != Pass || !r.Contract.Double {
			t.Errorf("%s: %+v %v: want PASS in float64 steps", name, r, err)
		}
		q.Output = q.Output.Clone()
		for i := range q.Output.Data {
			q.Output.Data[i] *= 1 + 1e-12
		}
		if r, err = Check(q); err != nil || r.Verdict != Fail || r.FaultID == singleSteps {
			t.Errorf("%s times 1 + 1e-12: %s %s %v: want FAIL", name, r.Verdict, r.Fault, err)
		}
		q.Output = readTensor(t, f, "single")
		if r, err = Check(q); err != nil || r.Verdict != Fail || r.FaultID != singleSteps {
			t.Errorf("%s in float32: %s %s %v: want FAIL with its name", name, r.Verdict, r.Fault, err)
		}
		if r, err = Check(q.asSingle()); err != nil || r.Verdict != Pass {
			t.Errorf("%s in float32, of numbers in it: %s %v: want PASS", name, r.Verdict, err)
		}
	}
}

// TestDoubleRange: numbers that float32 does not have are judged as any.
func TestDoubleRange(t *testing.T) {
	g, order, err := Kernel("matmul", nil, []string{"input", "other"})
	if err != nil || len(order) != 2 {
		t.Fatal(order, err)
	}
	for _, scale := range []float64{1e-40, 1e60, 1e100} {
		x, y, z := tensor.New(fp16.Float64, 9, 11), tensor.New(fp16.Float64, 11, 7), tensor.New(fp16.Float64, 9, 7)
		for i := range x.Data {
			x.Data[i] = scale * math.Sin(float64(i+1))
		}
		for i := range y.Data {
			y.Data[i] = math.Cos(float64(i + 1))
		}
		for i := range z.Data {
			for k := range 11 {
				z.Data[i] += float64(x.Data[i/7*11+k] * y.Data[k*7+i%7])
			}
		}
		q := Question{Graph: g, Inputs: []*tensor.Tensor{x, y}, Double: true, Output: z}
		if r, err := Check(q); err != nil || r.Verdict != Pass {
			t.Errorf("%v: %+v, %v: want PASS", scale, r, err)
		}
		z.Data[17] *= 1 + 1e-10
		if r, err := Check(q); err != nil || r.Verdict != Fail {
			t.Errorf("%v, one number off: %+v, %v: want FAIL", scale, r, err)
		}
	}
}

// TestDoubleCasts: what a float64 graph casts to float32 is rounded, and computed in that until it meets float64.
func TestDoubleCasts(t *testing.T) {
	x := tensor.New(fp16.Float64, 40, 30)
	for i := range x.Data {
		x.Data[i] = 3 * math.Sin(float64(i+1))
	}
	single := fp16.Float32.Round
	for name, c := range map[string]struct {
		op    graph.Op // in float32
		right func(x float64) float64
		wrong func(x float64) float64
	}{
		"cast": {nil, single, func(x float64) float64 { return x }},
		"exp": {unary("exp"), func(x float64) float64 { return single(math.Exp(single(x))) },
			func(x float64) float64 { return math.Exp(x) * (1 + 1e-5) }},
	} {
		g := graph.New(new(graph.Kept))
		in := g.Input("x")
		v := g.Add(graph.Cast{Dtype: "float32"}, "single", in)
		if c.op != nil {
			v = g.Add(c.op, "f", v)
		}
		g.Outputs = []int{g.Add(plus, "sum", in, g.Add(graph.Cast{Dtype: "float64"}, "double", v))}
		for _, made := range []func(x float64) float64{c.right, c.wrong} {
			q := Question{Graph: g, Inputs: []*tensor.Tensor{x}, Double: true, Output: x.Clone()}
			for i, v := range x.Data {
				q.Output.Data[i] += made(v)
			}
			want := Pass
			if q.Output.Data[1] == x.Data[1]+c.wrong(x.Data[1]) {
				want = Fail
			}
			if r, err := Check(q); err != nil || r.Verdict != want {
				t.Errorf("%s: %+v, %v: want %s", name, r, err, want)
			}
		}
	}
}

// TestDoubleOperands: of float32 numbers alone, chosen by a mask or an index or given as such, exp is one of float32.
func TestDoubleOperands(t *testing.T) {
	x, given, mask := tensor.New(fp16.Float64, 900), tensor.New(fp16.Float32, 900), tensor.New(fp16.Int64, 900)
	index := tensor.New(fp16.Int64, 900)
	for i := range x.Data {
		x.Data[i] = 3 * math.Sin(float64(i+1))
		given.Data[i] = float64(float32(math.Cos(float64(i + 1))))
		mask.Data[i], index.Data[i] = float64(i%3&1), float64((7*i+5)%900)
	}
	for name, c := range map[string]struct {
		more *tensor.Tensor
		op   graph.Op // of x in float32 and more, nil of more alone
		of   func(i int) float64
	}{
		"input": {given, nil, func(i int) float64 { return given.Data[i] }},
		"index": {index, graph.IndexSelect{}, func(i int) float64 { return float64(float32(x.Data[(7*i+5)%900])) }},
		"mask": {mask, graph.Binary{Of: pointwise.Mul},
			func(i int) float64 { return mask.Data[i] * float64(float32(x.Data[i])) }},
	} {
		for by, want := range map[float64]string{1: Pass, 1 + 1e-5: Fail} {
			g := graph.New(new(graph.Kept))
			in, v := g.Input("x"), g.Input("more")
			if c.op != nil {
				v = g.Add(c.op, "chosen", g.Add(graph.Cast{Dtype: "float32"}, "single", in), v)
			}
			g.Outputs = []int{g.Add(plus, "sum", in, g.Add(unary("exp"), "f", v))}
			q := Question{Graph: g, Inputs: []*tensor.Tensor{x, c.more}, Double: true, Output: x.Clone()}
			for i := range x.Data {
				q.Output.Data[i] += by * float64(float32(math.Exp(c.of(i))))
			}
			if r, err := Check(q); err != nil || r.Verdict != want {
				t.Errorf("%s times %v: %+v, %v: want %s", name, by, r, err, want)
			}
		}
	}
}

// TestDoubleTails: numbers whose squares are no float64 numbers, as a softmax has them, leave no NaN in a report.
func TestDoubleTails(t *testing.T) {
	g, _, err := Kernel("softmax", json.RawMessage(`{"dim": -1}`), []string{"input"})
	if err != nil {
		t.Fatal(err)
	}
	x, y := tensor.New(fp16.Float64, 20, 40), tensor.New(fp16.Float64, 20, 40)
	for row := range 20 {
		sum := 0.0
		for k := range 40 {
			i := 40*row + k
			x.Data[i] = math.Exp(float64(i)/40 - 9)
			y.Data[i] = math.Exp(x.Data[i] - math.Exp(float64(40*row+39)/40-9))
			sum += y.Data[i]
		}
		for k := range 40 {
			y.Data[40*row+k] /= sum
		}
	}
	r, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Double: true, Output: y})
	if err != nil || r.Verdict != Pass {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestDoubleNumber: one number in float64, such as a loss, is judged.
func TestDoubleNumber(t *testing.T) {
	g, _, err := Kernel("mean", nil, []string{"input"})
	if err != nil {
		t.Fatal(err)
	}
	x, sum := tensor.New(fp16.Float64, 700), 0.0
	for i := range x.Data {
		x.Data[i] = 1 / float64(i+3)
		sum += x.Data[i]
	}
	for by, want := range map[float64]string{1: Pass, 1 + 1e-9: Fail} {
		q := Question{Graph: g, Inputs: []*tensor.Tensor{x}, Double: true,
			Output: tensor.Of(fp16.Float64, []float64{sum / 700 * by})}
		if r, err := Check(q); err != nil || r.Verdict != want {
			t.Errorf("times %v: %+v, %v: want %s", by, r, err, want)
		}
	}
}

// TestIsDouble: float64 tensors say that a kernel computes in it, unless all that they hold are float32's numbers, they
// are a number beside tensors of another type, or the output has another type.
func TestIsDouble(t *testing.T) {
	of := func(f fp16.Format, v ...float64) *tensor.Tensor { return tensor.Of(f, v, len(v)) }
	double, held, single := of(fp16.Float64, .1, .5), of(fp16.Float64, .25, .5), of(fp16.Float32, .25, .5)
	index, number := of(fp16.Int64, 1, 2), of(fp16.Float64, .1)
	for _, c := range []struct {
		in   []*tensor.Tensor
		out  *tensor.Tensor
		want bool
	}{
		{[]*tensor.Tensor{double, single}, double, true},
		{[]*tensor.Tensor{double, single}, single, false},
		{[]*tensor.Tensor{double, index}, held, true},
		{[]*tensor.Tensor{held}, double, true},
		{[]*tensor.Tensor{held}, held, false},
		{[]*tensor.Tensor{single}, double, false},
		{[]*tensor.Tensor{single, number}, single, false},
		{[]*tensor.Tensor{number}, number, true},
		{[]*tensor.Tensor{index}, double, false},
	} {
		if got := IsDouble(c.in, c.out); got != c.want {
			t.Errorf("%v %v: %v", c.in, c.out, got)
		}
	}
}
