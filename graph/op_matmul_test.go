package graph

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func init() {
	for _, op := range []string{"matmul", "mm", "bmm", "linear", "addmm", "baddbmm", "einsum"} {
		ruleRow(op, op, false)
	}
	notInPyTorch["gemm"] = "ONNX's; that of addmm"
}

// bound is Bind for names and attributes that are right.
func bound(t *testing.T, name, attributes string) Op {
	t.Helper()
	op, err := Bind(name, []byte(attributes))
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// TestProductsTorch: products and convolutions are what PyTorch 2.9.1 returns for whole
// numbers, of which no sum is rounded, and what it refuses is refused
// (testdata/products.py).
func TestProductsTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/products.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][5]json.RawMessage
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	same, refused := map[string]int{}, map[string]int{}
	for _, r := range rows {
		var name string
		var shapes [][]int
		var shape []int
		if json.Unmarshal(r[0], &name) != nil || json.Unmarshal(r[2], &shapes) != nil || json.Unmarshal(r[3], &shape) != nil {
			t.Fatalf("%s", r)
		}
		op := bound(t, name, string(r[1]))
		var in []*tensor.Tensor
		for k, s := range shapes {
			x := tensor.New(fp16.Float64, s...)
			for i := range x.Data {
				x.Data[i] = float64((i+1)*(2*k+7)%11 - 5)
			}
			in = append(in, x)
		}
		got, err := evaluated(t, Mode{}, op, in...)
		var want []float64
		switch refusal := json.Unmarshal(r[4], &want) != nil; {
		case refusal && err != nil:
			refused[name]++
		case !refusal && err == nil && slices.Equal(got.Shape, shape) && slices.Equal(got.Data, want):
			same[name]++
		default:
			t.Errorf("%s %s of %v: %v, %v: PyTorch has %s, %s", name, r[1], shapes, got, err, r[3], r[4])
		}
	}
	t.Log(same, refused)
	if len(same) < 7 || same["matmul"] < 30 || refused["matmul"] < 100 || same["einsum"] < 20 {
		t.Errorf("%v results and %v refusals", same, refused)
	}
}

// TestGemm: alpha A B + beta C of matrices, transposed or not, with C spread or absent.
func TestGemm(t *testing.T) {
	of := func(shape []int, v ...float64) *tensor.Tensor { return tensor.Of(fp16.Float32, v, shape...) }
	a, b := of([]int{2, 3}, 1, 2, 3, 4, 5, 6), of([]int{3, 2}, 1, 0, 2, 1, 0, 1)
	at, bt := of([]int{3, 2}, 1, 4, 2, 5, 3, 6), of([]int{2, 3}, 1, 2, 0, 0, 1, 1)
	nan := math.NaN()
	for _, k := range []struct {
		attributes string
		in         []*tensor.Tensor
		want       []float64
	}{
		{`{}`, []*tensor.Tensor{a, b}, []float64{5, 5, 14, 11}},
		{`{"transA": true}`, []*tensor.Tensor{at, b, of([]int{2}, 10, 20)}, []float64{15, 25, 24, 31}},
		{`{"transB": true, "alpha": 0.5, "beta": 2}`, []*tensor.Tensor{a, bt, of([]int{2, 1}, 1, 2)},
			[]float64{4.5, 4.5, 11, 9.5}},
		{`{"transA": true, "transB": true, "beta": -1}`, []*tensor.Tensor{at, bt, of([]int{}, 5)}, []float64{0, 0, 9, 6}},
		{`{"beta": 0}`, []*tensor.Tensor{a, b, of([]int{1}, nan)}, []float64{5, 5, 14, 11}},
		{`{"alpha": 0}`, []*tensor.Tensor{a, b, of([]int{1, 2}, 7, 8)}, []float64{7, 8, 7, 8}},
	} {
		y, err := evaluated(t, Mode{Precision: fp16.Float32}, bound(t, "gemm", k.attributes), k.in...)
		if err != nil || !slices.Equal(y.Data, k.want) {
			t.Errorf("%s: %v, %v: want %v", k.attributes, y, err, k.want)
		}
	}
}

// constants evaluates an operation with inputs from the second on as constants, twice in
// one graph: with what it keeps, and with what it has kept.
func constants(t *testing.T, m Mode, op Op, in ...*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	g := New(&Kept{})
	values := []int{g.Input("x")}
	for _, c := range in[1:] {
		values = append(values, g.Constant("c", c))
	}
	g.Outputs = []int{g.Add(op, "y", values...)}
	p, err := g.Infer(m, Type{in[0].Shape, in[0].Format})
	if err != nil {
		t.Fatal(err)
	}
	var first *tensor.Tensor
	for range 2 {
		y, err := p.Run(new(Run), in[0])
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !slices.Equal(first.Data, y[0].Data) {
			t.Errorf("%s %v: what was kept gives %v, first it was %v", op.Name(), m, y[0].Data, first.Data)
		}
		first = y[0]
	}
	return first
}

// rough fills a tensor with float32 numbers of full length.
func rough(seed int, shape ...int) *tensor.Tensor {
	x := tensor.New(fp16.Float32, shape...)
	s := uint64(seed)
	for i := range x.Data {
		s = s*6364136223846793005 + 1442695040888963407
		x.Data[i] = float64(float32(int32(s>>32)) * 0x1p-30)
	}
	return x
}

// TestPackedConstants: a constant operand that is packed once gives what it gives as an
// input, in every mode, and one matrix, with several biases
// or transposed, is several operands.
func TestPackedConstants(t *testing.T) {
	x, w, b, m := rough(1, 3, 5), rough(2, 4, 5), rough(3, 4), rough(4, 5, 4)
	for _, mode := range []Mode{
		{Precision: fp16.Float64},
		{Precision: fp16.Float32},
		{Precision: fp16.TF32},
		{Precision: fp16.TF32, TF32: fp16.TowardZero},
		{Precision: fp16.BFloat16, Autocast: CPU2},
		{Precision: fp16.Float16, Autocast: CUDA2},
	} {
		for _, k := range []struct {
			op, attributes string
			in             []*tensor.Tensor
		}{
			{"linear", "{}", []*tensor.Tensor{x, w, b}},
			{"linear", "{}", []*tensor.Tensor{x, w}},
			{"matmul", "{}", []*tensor.Tensor{x, m}},
			{"gemm", `{"transB": true}`, []*tensor.Tensor{x, w, b}},
			{"gemm", `{"transB": true, "alpha": 3}`, []*tensor.Tensor{x, w, b}},
			{"gemm", `{"beta": 0.25}`, []*tensor.Tensor{x, m, b}},
			{"gemm", `{}`, []*tensor.Tensor{x, m, rough(5, 3, 1)}},
		} {
			in := slices.Clone(k.in)
			if mode.Precision == fp16.Float64 {
				for i, v := range in {
					in[i] = tensor.Of(fp16.Float64, v.Data, v.Shape...)
				}
			}
			op := bound(t, k.op, k.attributes)
			want, err := evaluated(t, mode, op, in...)
			if err != nil {
				t.Fatal(err)
			}
			if got := constants(t, mode, op, in...); !slices.Equal(got.Data, want.Data) || got.Format != want.Format {
				t.Errorf("%s %s %v: %v: want %v", k.op, k.attributes, mode, got, want)
			}
		}
	}
	g := New(&Kept{})
	in, weight := g.Input("x"), g.Constant("w", w)
	other := rough(6, 4)
	g.Outputs = []int{g.Add(Linear{}, "a", in, weight, g.Constant("b", b)),
		g.Add(Linear{}, "b", in, weight, g.Constant("o", other)), g.Add(Linear{}, "c", in, weight)}
	p, err := g.Infer(Mode{Precision: fp16.Float32}, Type{x.Shape, x.Format})
	if err != nil {
		t.Fatal(err)
	}
	y, err := p.Run(new(Run), x)
	if err != nil {
		t.Fatal(err)
	}
	for i, bias := range [][]*tensor.Tensor{{b}, {other}, nil} {
		want, _ := evaluated(t, Mode{Precision: fp16.Float32}, Linear{}, append([]*tensor.Tensor{x, w}, bias...)...)
		if !slices.Equal(y[i].Data, want.Data) {
			t.Errorf("output %d: %v: want %v", i, y[i].Data, want.Data)
		}
	}
	if p.Products() != 3*3*4*5 {
		t.Errorf("%d products", p.Products())
	}
	// One square matrix, transposed or not.
	square := rough(7, 5, 5)
	g = New(&Kept{})
	in, weight = g.Input("x"), g.Constant("w", square)
	g.Outputs = []int{g.Add(Linear{}, "a", in, weight), g.Add(MatMul{}, "b", in, weight)}
	if p, err = g.Infer(Mode{Precision: fp16.Float32}, Type{x.Shape, x.Format}); err != nil {
		t.Fatal(err)
	}
	if y, err = p.Run(new(Run), x); err != nil {
		t.Fatal(err)
	}
	if want, _ := evaluated(t, Mode{Precision: fp16.Float32}, MatMul{}, x, square); !slices.Equal(y[1].Data, want.Data) {
		t.Errorf("%v: want %v", y[1].Data, want.Data)
	}
}

// TestProductsRound: TF32 rounds what is multiplied, the results of a chain among it, and
// not what is added; a half type rounds all of it, and the sum once.
func TestProductsRound(t *testing.T) {
	one := func(v ...float64) *tensor.Tensor { return tensor.Of(fp16.Float32, v, 1, len(v)) }
	tf32, half := Mode{Precision: fp16.TF32}, Mode{Precision: fp16.Float16, Autocast: CUDA2}
	fine := 1 + 0x1p-20 // 1 in TF32 and float16
	for _, k := range []struct {
		m              Mode
		op, attributes string
		in             []*tensor.Tensor
		want           float64
	}{
		{tf32, "linear", "{}", []*tensor.Tensor{one(fine), one(3), tensor.Of(fp16.Float32, []float64{fine}, 1)}, 4 + 0x1p-20},
		{tf32, "addmm", "{}", []*tensor.Tensor{one(fine), one(3), one(fine)}, 4 + 0x1p-20},
		{tf32, "gemm", "{}", []*tensor.Tensor{one(3), one(fine), one(fine)}, 4 + 0x1p-20},
		{tf32, "einsum", `{"equation": "ij,jk,kl->il"}`,
			[]*tensor.Tensor{one(1 + 0x1p-9), one(1 + 0x1p-9), one(1)}, 1 + 0x1p-8},
		{tf32, "einsum", `{"equation": "ij,jk->ik"}`, []*tensor.Tensor{one(1 + 0x1p-9), one(1 + 0x1p-9)},
			1 + 0x1p-8 + 0x1p-18},
		// The product alone rounds to 2048, and so does it with another 1.
		{half, "linear", "{}", []*tensor.Tensor{one(1, 1), one(2048, 1), tensor.Of(fp16.Float32, []float64{1}, 1)}, 2050},
		{half, "addmm", "{}", []*tensor.Tensor{one(1), one(1, 1), tensor.Of(fp16.Float32, []float64{2048, 1}, 2, 1)}, 2050},
		{half, "linear", "{}", []*tensor.Tensor{one(1), one(2), tensor.Of(fp16.Float32, []float64{fine}, 1)}, 3},
	} {
		y, err := evaluated(t, k.m, bound(t, k.op, k.attributes), k.in...)
		if err != nil || y.Data[0] != k.want {
			t.Errorf("%v %s %s: %v, %v: want %v", k.m, k.op, k.attributes, y, err, k.want)
		}
	}
}

// TestProductErrors: what does not fit is an error that begins with the input or the
// attribute, and takes no memory.
func TestProductErrors(t *testing.T) {
	long := strings.Repeat("ab,", 1000)
	for _, k := range []struct {
		op, attributes string
		shapes         [][]int
		says           string
	}{
		{"matmul", `{}`, [][]int{{2, 3}}, "1 inputs: want 2"},
		{"matmul", `{}`, [][]int{{2, 3}, {4, 5}}, "shapes: [2 3] and [4 5]: want inner dimensions that agree"},
		{"matmul", `{}`, [][]int{{2, 2, 3}, {3, 3, 5}}, "shapes: [2 2 3] and [3 3 5]: want leading dimensions"},
		{"mm", `{}`, [][]int{{2, 3}, {1, 3, 5}}, "input 1: shape [1 3 5]: want 2 dimensions"},
		{"bmm", `{}`, [][]int{{1, 2, 3}, {2, 3, 5}}, "shapes: [1 2 3] and [2 3 5]: want as many matrices"},
		{"linear", `{}`, [][]int{{2, 3}, {5, 4}}, "input of shape [2 3]: want 4 numbers along the last"},
		{"linear", `{}`, [][]int{{}, {5, 4}}, "input of shape []: want 4 numbers"},
		{"linear", `{}`, [][]int{{2, 4}, {4}}, "weight of shape [4]: want [N,K]"},
		{"linear", `{}`, [][]int{{2, 4}, {5, 4}, {1}}, "bias of shape [1]: want [5]"},
		{"addmm", `{}`, [][]int{{4}, {2, 3}, {3, 5}}, "C: shape [4]: want one that can be broadcast to [2 5]"},
		{"gemm", `{}`, [][]int{{2, 3}, {3, 5}, {3, 5}}, "C: shape [3 5]: want one that can be broadcast to [2 5]"},
		{"gemm", `{"transA": true}`, [][]int{{2, 3}, {3, 5}}, "shapes: [2 3] and [3 5]"},
		{"gemm", `{}`, [][]int{{1, 2, 3}, {3, 5}}, "input 0: shape [1 2 3]: want 2 dimensions"},
		{"einsum", `{}`, nil, "0 inputs: want"},
		{"einsum", `{"equation": "` + long + `"}`, [][]int{{2, 3}}, `equation: "ab,ab`},
		{"einsum", `{"equation": "i,j,k,l,ij,kl->"}`, [][]int{
			{1 << 12}, {1 << 12}, {1 << 12}, {1 << 12}, {1 << 12, 1 << 12}, {1 << 12, 1 << 12},
		}, `equation: "i,j,k,l,ij,kl->": makes 2.81e+14`},
		{"einsum", `{"equation": "ij,kl->"}`, [][]int{{1 << 20, 1}, {1 << 20, 2}},
			`equation: "ij,kl->": makes 2.2e+12 numbers`},
	} {
		var in []Type
		for _, s := range k.shapes {
			in = append(in, Type{s, fp16.Float32})
		}
		_, err := bound(t, k.op, k.attributes).Infer(Mode{Precision: fp16.Float32}, in)
		if err == nil || !strings.HasPrefix(err.Error(), k.says) || len(err.Error()) > 300 {
			t.Errorf("%s %.60s of %v: %v: want %q", k.op, k.attributes, k.shapes, err, k.says)
		}
	}
	for _, op := range []string{"matmul", "mm", "linear", "einsum"} {
		in := []Type{{[]int{2, 2}, fp16.Float32}, {[]int{2, 2}, fp16.Int64}}
		if _, err := bound(t, op, "").Infer(Mode{Precision: fp16.Float32}, in); err == nil ||
			!strings.Contains(err.Error(), "int64 numbers") {
			t.Errorf("%s: %v", op, err)
		}
	}
	old := Mode{Precision: fp16.BFloat16, Autocast: CPU113}
	if _, err := bound(t, "addmm", "").Infer(old, []Type{
		{[]int{2}, fp16.Float32}, {[]int{2, 2}, fp16.Float32}, {[]int{2, 2}, fp16.Float32},
	}); err == nil || !strings.Contains(err.Error(), "not recorded") {
		t.Error(err)
	}
}
