package graph

import (
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func init() {
	for _, name := range []string{"cast", "quantize_linear", "dequantize_linear", "dynamic_quantize_linear"} {
		notInPyTorch[name] = "what it returns is said by its attributes and its scale"
	}
}

// TestCast: a cast is to the type that it says, in every mode.
func TestCast(t *testing.T) {
	x := tensor.Of(fp16.Float32, []float64{1.0009765625, -2.75, 0, 65520}, 4)
	for dtype, want := range map[string]*tensor.Tensor{
		"float16":  tensor.Of(fp16.Float16, []float64{1.0009765625, -2.75, 0, fp16.Float16.Round(65520)}, 4),
		"bfloat16": tensor.Of(fp16.BFloat16, []float64{1, -2.75, 0, 65536}, 4),
		"float32":  x,
		"float64":  tensor.Of(fp16.Float64, x.Data, 4),
		"int64":    tensor.Of(fp16.Int64, []float64{1, -2, 0, 65520}, 4),
		"bool":     tensor.Of(fp16.Int64, []float64{1, 1, 0, 1}, 4),
	} {
		for _, m := range []Mode{
			{Precision: fp16.Float32}, {Precision: fp16.BFloat16, Autocast: CPU2}, {Precision: fp16.TF32},
		} {
			y, err := ofEach(t, m, "cast", `{"dtype": "`+dtype+`"}`, x)
			if err != nil || y.Format != want.Format || !slices.Equal(y.Data, want.Data) {
				t.Errorf("%v, %s: %v, %v, want %v", m, dtype, y, err, want)
			}
		}
	}
	wide := tensor.Of(fp16.Float64, x.Data, 4)
	y, err := ofEach(t, Mode{Precision: fp16.Float64}, "cast", `{"dtype": "float16"}`, wide)
	if err != nil || y.Format != fp16.Float64 || !slices.Equal(y.Data, x.Data) {
		t.Errorf("in float64 mode: %v, %v", y, err)
	}
	if _, err := ofEach(t, Mode{Precision: fp16.Float32}, "cast", `{"dtype": "uint8"}`, x); err == nil ||
		!strings.Contains(err.Error(), "element 1: -2.75: want a number of uint8") {
		t.Error(err)
	}
}

// TestQuantization: scales belong to all, to places of an axis, or to blocks of it.
func TestQuantization(t *testing.T) {
	m := Mode{Precision: fp16.Float32}
	x := tensor.Of(fp16.Float32, []float64{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4)
	of := func(f fp16.Format, shape []int, data ...float64) *tensor.Tensor { return tensor.Of(f, data, shape...) }
	for _, c := range []struct {
		attributes string
		in         []*tensor.Tensor
		want       []float64
	}{
		{"", []*tensor.Tensor{of(fp16.Float32, nil, 2)}, []float64{0, 1, 2, 2, 2, 3, 4, 4}},
		{"", []*tensor.Tensor{of(fp16.Float32, []int{1}, 2), of(fp16.Int64, []int{1}, 10)},
			[]float64{10, 11, 12, 12, 12, 13, 14, 14}},
		{`{"axis": 0}`, []*tensor.Tensor{of(fp16.Float32, []int{2}, 1, 0.5)}, []float64{1, 2, 3, 4, 10, 12, 14, 16}},
		{`{"axis": -1, "dtype": "int4"}`, []*tensor.Tensor{
			of(fp16.Float32, []int{4}, 1, -1, 0.125, 4), of(fp16.Int64, []int{4}, 0, 1, 0, 0),
		}, []float64{1, -1, 7, 1, 5, -5, 7, 2}},
		{`{"axis": 1, "block_size": 3}`, []*tensor.Tensor{of(fp16.Float32, []int{2, 2}, 1, 2, 0.5, 4)},
			[]float64{1, 2, 3, 2, 10, 12, 14, 2}},
		{`{"axis": 0, "block_size": 2}`, []*tensor.Tensor{of(fp16.Float32, []int{1, 4}, 1, 2, 0.5, 4)},
			[]float64{1, 1, 6, 1, 5, 3, 14, 2}},
	} {
		y, err := ofEach(t, m, "quantize_linear", c.attributes, append([]*tensor.Tensor{x}, c.in...)...)
		if err != nil || !slices.Equal(y.Data, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.attributes, y, err, c.want)
			continue
		}
		attributes := strings.ReplaceAll(c.attributes, `, "dtype": "int4"`, "")
		z, err := ofEach(t, m, "dequantize_linear", attributes, append([]*tensor.Tensor{y}, c.in...)...)
		if err != nil || z.Format != fp16.Float32 {
			t.Fatal(err)
		}
		zero := func(int) float64 { return 0 }
		scale := c.in[0].Data[0]
		if len(c.in) == 2 && len(c.in[1].Data) == 1 {
			zero = func(int) float64 { return c.in[1].Data[0] }
		}
		for i, v := range z.Data {
			if want := (y.Data[i] - zero(i)) * scale; len(c.in[0].Data) == 1 && v != want {
				t.Errorf("%s: element %d comes back as %v, want %v", c.attributes, i, v, want)
			}
		}
	}
	blocks := tensor.Of(fp16.Int64, []float64{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4)
	z, err := ofEach(t, m, "dequantize_linear", `{"block_size": 3}`, blocks,
		of(fp16.Float32, []int{2, 2}, 1, 2, 0.5, 4), of(fp16.Int64, []int{2, 2}, 0, 1, 2, 3))
	if want := []float64{1, 2, 3, 6, 1.5, 2, 2.5, 20}; err != nil || !slices.Equal(z.Data, want) {
		t.Errorf("blocks: %v, %v, want %v", z, err, want)
	}
	of32, of64 := Type{[]int{2, 4}, fp16.Float32}, Type{[]int{2, 4}, fp16.Int64}
	for _, c := range []struct {
		op, attributes, want string
		in                   []Type
	}{
		{"cast", `{"dtype": "tf32"}`, `dtype: "tf32": want one of bool,`, []Type{of32}},
		{"cast", "", "2 inputs: want 1", []Type{of32, of32}},
		{"quantize_linear", "", "input 0: int64 numbers", []Type{of64, {nil, fp16.Float32}}},
		{"quantize_linear", "", "input 1: int64 numbers", []Type{of32, {nil, fp16.Int64}}},
		{"quantize_linear", "", "input 2: float32 numbers", []Type{of32, {nil, fp16.Float32}, {nil, fp16.Float32}}},
		{"quantize_linear", `{"dtype": "float16"}`, `dtype: "float16"`, []Type{of32, {nil, fp16.Float32}}},
		{"quantize_linear", `{"axis": 2}`, "axis: 2: want an axis", []Type{of32, {[]int{4}, fp16.Float32}}},
		{"quantize_linear", `{"axis": 0}`, "scale of shape [4]: want one number, or 2",
			[]Type{of32, {[]int{4}, fp16.Float32}}},
		{"quantize_linear", `{"block_size": -1}`, "block_size: -1:", []Type{of32, {[]int{2, 4}, fp16.Float32}}},
		{"quantize_linear", `{"block_size": 4611686018427387904}`, "block_size: 4611686018427387904:",
			[]Type{of32, {[]int{2, 2}, fp16.Float32}}},
		{"dynamic_quantize_linear", "", "input 0: int64 numbers: want floating-point ones", []Type{of64}},
		{"dynamic_quantize_linear", "", "2 inputs: want 1", []Type{of32, of32}},
		{"dequantize_linear", "", "input 0: float32 numbers", []Type{of32, {nil, fp16.Float32}}},
		{"dequantize_linear", "", "input 2 of shape [2]: want the scale's, [4]",
			[]Type{of64, {[]int{4}, fp16.Float32}, {[]int{2}, fp16.Int64}}},
	} {
		op, err := Bind(c.op, []byte(c.attributes))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := op.Infer(m, c.in); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.op, c.attributes, err, c.want)
		}
	}
}
