package graph

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
)

func init() {
	for _, op := range []string{"conv1d", "conv3d", "conv_transpose1d", "conv_transpose3d"} {
		ruleRow(op, op, false)
	}
}

// TestConvolutionsOfOneWeight: convolutions of one weight that differ in the bias, in groups
// or in direction do not take each other's kernel.
func TestConvolutionsOfOneWeight(t *testing.T) {
	x, w, b, other := rough(1, 1, 4, 5, 5), rough(2, 4, 4, 3, 3), rough(3, 4), rough(4, 4)
	mode := Mode{Precision: fp16.Float32}
	g := New(&Kept{})
	in, weight := g.Input("x"), g.Constant("w", w)
	biases := []*tensor.Tensor{b, other, nil, b, b}
	wide, half := rough(5, 1, 8, 5, 5), g.Input("wide")
	ops := []Op{Conv{}, Conv{}, Conv{}, ConvTranspose{}, Conv{Groups: 2}}
	for i, op := range ops {
		v := []int{in, weight}
		if i == 4 {
			v[0] = half
		}
		if biases[i] != nil {
			v = append(v, g.Constant("b", biases[i]))
		}
		g.Outputs = append(g.Outputs, g.Add(op, "y", v...))
	}
	p, err := g.Infer(mode, Type{x.Shape, x.Format}, Type{wide.Shape, wide.Format})
	if err != nil {
		t.Fatal(err)
	}
	y, err := p.Run(new(Run), x, wide)
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range ops {
		v := []*tensor.Tensor{x, w}
		if i == 4 {
			v[0] = wide
		}
		if biases[i] != nil {
			v = append(v, biases[i])
		}
		want, err := evaluated(t, mode, op, v...)
		if err != nil || !slices.Equal(y[i].Data, want.Data) {
			t.Errorf("output %d: %v, %v: want %v", i, y[i].Data[:5], err, want.Data[:5])
		}
	}
}

// TestConvolutionAttributes: attributes named as PyTorch names them make the operations that
// operators are built of.
func TestConvolutionAttributes(t *testing.T) {
	for attributes, want := range map[string]Op{
		`{}`:                         Conv{Params: conv.Square(1, 0, conv.Zeros), Groups: 1},
		`{"stride":2,"padding":1}`:   Conv{Params: conv.Square(2, 1, conv.Zeros), Groups: 1},
		`{"padding":[1,1,1,1]}`:      Conv{Params: conv.Square(1, 1, conv.Zeros), Groups: 1},
		`{"padding":"same"}`:         Conv{Params: conv.Square(1, 0, conv.Zeros), Groups: 1, Same: true},
		`{"padding_mode":"reflect"}`: Conv{Params: conv.Square(1, 0, conv.Reflect), Groups: 1},
		`{"padding":[1,2,3,4],"stride":[1,2],"dilation":[3,1],"groups":4}`: Conv{
			Params: conv.Params{Stride: [2]int{1, 2}, Dilation: [2]int{3, 0}, Pad: [4]int{1, 2, 3, 4}}, Groups: 4,
		},
	} {
		if op := bound(t, "conv2d", attributes); op != want {
			t.Errorf("%s: %v: want %v", attributes, op, want)
		}
	}
	if op := bound(t, "conv_transpose2d", `{"stride":2,"output_padding":1}`); op !=
		Op(ConvTranspose{Params: conv.Square(2, 0, conv.Zeros), Groups: 1, OutputPadding: [2]int{1, 1}}) {
		t.Errorf("%v", op)
	}
	for _, k := range []struct{ op, attributes, says string }{
		{"conv2d", `{"stride":0}`, "conv2d: stride: 0: want 1 to 2^30"},
		{"conv2d", `{"stride":[1,2,3]}`, "conv2d: stride: 3 numbers: want 1, or 2"},
		{"conv1d", `{"dilation":-1}`, "conv1d: dilation: -1: want"},
		{"conv3d", `{"padding":[1,2]}`, "conv3d: padding: 2 numbers: want 1, 3, one for each axis, or 6"},
		{"conv3d", `{"padding":[1,2,3,1,2,-3]}`, "conv3d: padding: -3: want 0 to 2^30"},
		{"conv2d", `{"padding":"full"}`, `conv2d: padding: "full": want numbers, same or valid`},
		{"conv2d", `{"padding_mode":"mirror"}`, "conv2d: padding_mode: \"mirror\": want zeros, circular"},
		{"conv2d", `{"groups":0}`, "conv2d: groups: 0: want 1"},
		{"conv2d", `{"output_padding":1}`, "conv2d: output_padding: [1]: want it of a transposed convolution"},
		{"conv_transpose1d", `{"padding":"same"}`, "conv_transpose1d: padding: same: want numbers"},
		{"conv_transpose2d", `{"padding_mode":"circular"}`, "conv_transpose2d: padding_mode: \"circular\": want zeros"},
		{"conv_transpose3d", `{"output_padding":[0,0,9223372036854775807]}`,
			"conv_transpose3d: output_padding: 9223372036854775807"},
	} {
		if _, err := Bind(k.op, []byte(k.attributes)); err == nil || !strings.HasPrefix(err.Error(), k.says) {
			t.Errorf("%s %s: %v: want %q", k.op, k.attributes, err, k.says)
		}
	}
	for _, k := range []struct {
		op, attributes string
		x, w           []int
		says           string
	}{
		{"conv1d", `{}`, []int{1, 2, 3, 4}, []int{1, 2, 3}, "input of shape [1 2 3 4]: want 3 dimensions"},
		{"conv3d", `{}`, []int{1, 2, 3, 4, 5}, []int{1, 2, 3, 3}, "weight of shape [1 2 3 3]: want 5 dimensions"},
		{"conv3d", `{}`, []int{1, 2, 3, 4, 5}, []int{1, 3, 1, 1, 1}, "input has 2 channels: want 3"},
		{"conv3d", `{}`, []int{1, 2, 3, 4, 5}, []int{1, 2, 4, 1, 1}, "depth: image is 1x3"},
		{"conv1d", `{"padding":"same","stride":2}`, []int{1, 2, 3}, []int{1, 2, 3},
			"padding: same: want a stride of 1, not 2"},
		{"conv2d", `{"dilation":1073741824}`, []int{1, 1, 4, 4}, []int{1, 1, 1 << 34, 1},
			"dilation: 1073741824: want less beside a size of 17179869184"},
		{"conv_transpose3d", `{"stride":1073741824}`, []int{1, 1, 1 << 34, 1, 1}, []int{1, 1, 1, 1, 1},
			"depth: stride: 1073741824: want less"},
		{"conv_transpose1d", `{"output_padding":1}`, []int{1, 1, 4}, []int{1, 1, 1},
			"output_padding: [0 1]: want less than the stride"},
	} {
		_, err := bound(t, k.op, k.attributes).Infer(Mode{Precision: fp16.Float32},
			[]Type{{k.x, fp16.Float32}, {k.w, fp16.Float32}})
		if err == nil || !strings.HasPrefix(err.Error(), k.says) {
			t.Errorf("%s %s: %v: want %q", k.op, k.attributes, err, k.says)
		}
	}
	if _, err := (Conv{Params: conv.Params{Stride: [2]int{-1, 1}}}).Infer(Mode{Precision: fp16.Float32},
		[]Type{{[]int{1, 1, 4, 4}, fp16.Float32}, {[]int{1, 1, 1, 1}, fp16.Float32}}); err == nil {
		t.Error("a negative stride is taken")
	}
}

// TestVolumes: a convolution of volumes is one sum, rounded once; a weight that meets only
// padding takes no part, infinite or not; and what is kept of constants gives the same in
// every mode.
func TestVolumes(t *testing.T) {
	mode := Mode{Precision: fp16.Float32}
	y, err := evaluated(t, mode, bound(t, "conv3d", "{}"), tensor.Of(fp16.Float32, []float64{1, 0x1p-24, 0x1p-24}, 1, 1,
		3, 1, 1), tensor.Of(fp16.Float32, []float64{1, 1, 1}, 1, 1, 3, 1, 1))
	if err != nil || y.Data[0] != 1+0x1p-23 {
		t.Errorf("%v, %v: want one rounding", y, err)
	}
	// In float64 the taps are added in order, from the last one if transposed: 2^-53 is lost
	// beside 1 but not beside itself.
	line := func(v ...float64) *tensor.Tensor { return tensor.Of(fp16.Float64, v, 1, 1, 3, 1, 1) }
	for _, k := range []struct {
		op   string
		w    *tensor.Tensor
		want float64
	}{{"conv3d", line(1, 0x1p-53, 0x1p-53), 1}, {"conv3d", line(0x1p-53, 0x1p-53, 1), 1 + 0x1p-52},
		{"conv_transpose3d", line(0x1p-53, 0x1p-53, 1), 1}, {"conv_transpose3d", line(1, 0x1p-53, 0x1p-53), 1 + 0x1p-52}} {
		y, err := evaluated(t, Mode{}, bound(t, k.op, "{}"), line(1, 1, 1), k.w)
		if err != nil || y.Data[len(y.Data)/2] != k.want {
			t.Errorf("%s %v: %v, %v: want %v", k.op, k.w.Data, y, err, k.want)
		}
	}
	inf := math.Inf(1)
	for _, k := range []struct {
		op, attributes string
		x, w, want     []float64
	}{
		{"conv3d", `{"padding":[1,0,0]}`, []float64{1, 2}, []float64{inf, 1, 1}, []float64{3, inf}},
		{"conv3d", `{"padding":[3,0,0]}`, []float64{1, 2}, []float64{inf, 1}, []float64{0.5, 0.5, 1.5, inf, inf, 0.5, 0.5}},
		{"conv_transpose3d", `{"stride":[3,1,1]}`, []float64{1, 2}, []float64{inf}, []float64{inf, 0.5, 0.5, inf}},
	} {
		in := []*tensor.Tensor{
			tensor.Of(fp16.Float32, k.x, 1, 1, len(k.x), 1, 1), tensor.Of(fp16.Float32, k.w, 1, 1, len(k.w), 1, 1),
		}
		if k.want[1] == 0.5 {
			in = append(in, tensor.Of(fp16.Float32, []float64{0.5}, 1))
		}
		if y, err := evaluated(t, mode, bound(t, k.op, k.attributes), in...); err != nil || !slices.Equal(y.Data, k.want) {
			t.Errorf("%s %s: %v, %v: want %v", k.op, k.attributes, y, err, k.want)
		}
	}
	for _, mode := range []Mode{
		{Precision: fp16.Float32},
		{Precision: fp16.TF32},
		{Precision: fp16.BFloat16, Autocast: CUDA2},
		{Precision: fp16.Float16, Autocast: CPU2},
	} {
		for op, attributes := range map[string]string{
			"conv3d": `{"padding":1,"groups":2}`, "conv_transpose3d": `{"stride":2,"groups":2,"output_padding":1}`,
			"conv1d": `{"padding":"same","groups":2}`, "conv_transpose1d": `{"stride":2,"groups":2}`,
		} {
			shape, k := []int{2, 4, 3, 4, 5}, []int{4, 2, 2, 3, 1}
			if strings.Contains(op, "1d") {
				shape, k = []int{2, 4, 9}, []int{4, 2, 3}
			}
			in := []*tensor.Tensor{rough(1, shape...), rough(2, k...), rough(3, 4)}
			want, err := evaluated(t, mode, bound(t, op, attributes), in...)
			if err != nil {
				t.Fatal(err)
			}
			if got := constants(t, mode, bound(t, op, attributes), in...); !slices.Equal(got.Data, want.Data) {
				t.Errorf("%v %s: %v: want %v", mode, op, got.Data[:5], want.Data[:5])
			}
		}
	}
}
