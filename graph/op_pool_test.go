package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func init() {
	for axes := 1; axes <= 3; axes++ {
		for _, name := range []string{"max_pool%dd", "adaptive_avg_pool%dd", "adaptive_max_pool%dd"} {
			ruleRow(fmt.Sprintf(name, axes), fmt.Sprintf(name, axes), false)
		}
	}
	ruleRow("avg_pool1d", "avg_pool1d", false)
	ruleRow("avg_pool3d", "avg_pool3d", false)
	notInPyTorch["lp_pool"] = "ONNX's; that of avg_pool2d"
}

// TestInterpolateAutocast: the rule goes by the mode.
func TestInterpolateAutocast(t *testing.T) {
	rules := recordedRules(t)
	shapes := [][]int{{2, 4, 6}, {2, 4, 6, 6}, {2, 4, 6, 6, 6}}
	for _, m := range recorded[1:] {
		for _, k := range []struct {
			row, mode string
			axes      int
		}{{"linear", "linear", 1}, {"trilinear", "trilinear", 3}, {"bicubic", "bicubic", 2},
			{"nearest-exact", "nearest-exact", 2},
			{"area", "area", 2}, {"nearest, 1 axes", "nearest", 1}, {"nearest, 3 axes", "nearest", 3}} {
			for _, f := range []fp16.Format{m.Precision, fp16.Float32} {
				inf, err := Interpolate{Scale: Floats{2}, Mode: k.mode}.Infer(m, []Type{{shapes[k.axes-1], f}})
				want := rules[m.Precision.String()]["interpolate "+k.row][f.String()]
				if err != nil || inf.Out[0].Format.String() != want {
					t.Errorf("%v: %s of %v: %v, %v: want %s", m, k.row, f, inf, err, want)
				}
			}
		}
	}
	// PyTorch's autocast on CUDA lists upsample_*, which area is not.
	cuda := Mode{Precision: fp16.Float16, Autocast: CUDA2}
	for mode, want := range map[string]fp16.Format{"bilinear": fp16.Float32, "area": fp16.Float16} {
		op := Interpolate{Scale: Floats{2}, Mode: mode}
		if inf, err := op.Infer(cuda, []Type{{shapes[1], fp16.Float16}}); err != nil || inf.Out[0].Format != want {
			t.Errorf("%s on CUDA: %v, %v: want %v", mode, inf, err, want)
		}
	}
}

// TestPoolErrors: what does not fit is an error that begins with the attribute, also for
// numbers beyond all bounds.
func TestPoolErrors(t *testing.T) {
	plane := []int{1, 2, 5, 4}
	for _, k := range []struct {
		op, attributes string
		shape          []int
		says           string
	}{
		{"max_pool2d", `{}`, plane, "kernel_size: missing: want 1 number or 2"},
		{"max_pool2d", `{"kernel_size": 0}`, plane, "kernel_size: 0: want 1 to 2^30"},
		{"max_pool2d", `{"kernel_size": -9223372036854775808}`, plane, "kernel_size: -9223372036854775808: want"},
		{"max_pool2d", `{"kernel_size": [2, 2, 2]}`, plane, "kernel_size: 3 numbers: want 1, or 2"},
		{"max_pool2d", `{"kernel_size": 5}`, plane, "kernel_size: 5: want a window of at most 4"},
		{"max_pool2d", `{"kernel_size": 2, "stride": -1}`, plane, "stride: -1: want 1"},
		{"max_pool2d", `{"kernel_size": 2, "stride": [1, 2, 3]}`, plane, "stride: 3 numbers"},
		{"max_pool2d", `{"kernel_size": 2, "dilation": 9223372036854775807}`, plane, "dilation: 9223372036854775807: want 1"},
		{"max_pool2d", `{"kernel_size": 2, "dilation": [1, 2, 3]}`, plane, "dilation: 3 numbers"},
		{"max_pool2d", `{"kernel_size": 2, "padding": [1, 0, 2, 0]}`, plane, "padding: 2: want less than the window, 2"},
		{"max_pool2d", `{"kernel_size": 2, "padding": [1, 0, 2]}`, plane,
			"padding: 3 numbers: want 1, 2, one for each axis, or 4"},
		{"max_pool2d", `{"kernel_size": 1}`, []int{1, 2, 0, 4}, "input is 0 long"},
		{"max_pool2d", `{"kernel_size": 1}`, []int{5, 4}, "input of shape [5 4]: want 4 dimensions, or 3 without samples"},
		{"avg_pool3d", `{"kernel_size": 1}`, []int{1, 1, 5, 4, 2, 2}, "input of shape"},
		{"avg_pool2d", `{"kernel_size": 2, "divisor_override": 0}`, plane, "divisor_override: 0: want 1 to 2^53"},
		{"avg_pool2d", `{"kernel_size": 2, "divisor_override": 9007199254740993}`, plane, "divisor_override: "},
		{"adaptive_avg_pool2d", `{}`, plane, "output_size: missing"},
		{"adaptive_avg_pool2d", `{"output_size": -1}`, plane, "output_size: -1: want 0 to 2^40"},
		{"adaptive_avg_pool2d", `{"output_size": [1, 2, 3]}`, plane, "output_size: 3 numbers"},
		{"adaptive_max_pool2d", `{"output_size": 9223372036854775807}`, plane, "output_size: 9223372036854775807"},
		{"adaptive_max_pool2d", `{"output_size": 1}`, []int{1, 2, 0, 4},
			"input of shape [1 2 0 4]: want one that is not empty"},
		{"lp_pool", `{"kernel_size": 2, "p": 65}`, plane, "p: 65: want 1 to 64"},
		{"lp_pool", `{"kernel_size": 2}`, []int{5, 4}, "input of shape [5 4]: want [N,C,L]"},
		{"lp_pool", `{"kernel_size": 2}`, []int{1, 1, 1, 1, 5, 4}, "input of shape"},
		{"lp_pool", `{}`, plane, "kernel_size: missing"},
		{"interpolate", `{}`, plane, "size, scale_factor: both or none"},
		{"interpolate", `{"size": 3, "scale_factor": 2}`, plane, "size, scale_factor: both or none"},
		{"interpolate", `{"size": -3}`, plane, "size: -3: want 1 to 2^40"},
		{"interpolate", `{"size": [1, 2, 3]}`, plane, "size: 3 numbers"},
		{"interpolate", `{"size": 3, "recompute_scale_factor": true}`, plane, "recompute_scale_factor: true"},
		{"interpolate", `{"scale_factor": 0.1}`, plane, "scale_factor: 0.1: makes an axis of 0 from one of 5"},
		{"interpolate", `{"scale_factor": -2}`, plane, "scale_factor: -2: want 2^-40 to 2^40"},
		{"interpolate", `{"scale_factor": 1e300}`, plane, "scale_factor: 1e+300: want"},
		{"interpolate", `{"scale_factor": [1, 2, 3]}`, plane, "scale_factor: 3 numbers"},
		{"interpolate", `{"scale_factor": 2, "mode": "lanczos"}`, plane, `mode: "lanczos": want nearest`},
		{"interpolate", `{"scale_factor": 2, "mode": "trilinear"}`, plane,
			"mode: trilinear: want an input of 5 dimensions, not of 4"},
		{"interpolate", `{"scale_factor": 2, "align_corners": true}`, plane,
			"align_corners: true: want a linear or cubic mode"},
		{"interpolate", `{"scale_factor": 2, "mode": "linear", ` +
			`"align_corners": true, "coordinate_transformation_mode": "asymmetric"}`, plane,
			"coordinate_transformation_mode: \"asymmetric\": want none"},
		{"interpolate", `{"scale_factor": 2, "coordinate_transformation_mode": "tf_crop_and_resize"}`, plane,
			"roi: 0 numbers: want 4"},
		{"interpolate", `{"scale_factor": 2, "coordinate_transformation_mode": "corners"}`, plane,
			"coordinate_transformation_mode: \"corners\": want one of"},
		{"interpolate", `{"scale_factor": 2, "antialias": true}`, plane,
			"antialias, exclude_outside: true: want a linear or cubic mode, not nearest"},
		{"interpolate", `{"scale_factor": 2, "keep_aspect_ratio_policy": "not_larger"}`, plane,
			"keep_aspect_ratio_policy: \"not_larger\": want a size"},
		{"interpolate", `{"size": 2, "keep_aspect_ratio_policy": "fit"}`, plane,
			"keep_aspect_ratio_policy: \"fit\": want stretch"},
		{"interpolate", `{"size": 2, "roi": [0, 1]}`, plane, "roi: 2 numbers: want 4 with tf_crop_and_resize, none without"},
		{"interpolate", `{"scale_factor": 2, "nearest_mode": "up"}`, plane, "nearest_mode: \"up\": want one of"},
		{"interpolate", `{"scale_factor": 2, "mode": "linear", "nearest_mode": "floor"}`, plane,
			"nearest_mode: \"floor\": want mode nearest"},
		{"interpolate", `{"scale_factor": 2, "mode": "area", "nearest_mode": "floor"}`, plane,
			"mode: area: want another one"},
		{"interpolate", `{"scale_factor": 2, "mode": "cubic", "cubic_coeff_a": 16.5}`, plane,
			"cubic_coeff_a: 16.5: want 0, or 2^-149 to 16"},
		{"interpolate", `{"scale_factor": 2}`, []int{1, 2}, "input of shape [1 2]: want [N,C,L]"},
		{"interpolate", `{"scale_factor": 2}`, []int{1, 2, 0}, "input of shape [1 2 0]: want one that is not empty"},
	} {
		op, err := Bind(k.op, []byte(k.attributes))
		if err != nil {
			t.Fatal(err)
		}
		_, err = op.Infer(Mode{Precision: fp16.Float32}, []Type{{k.shape, fp16.Float32}})
		if err == nil || !strings.HasPrefix(err.Error(), k.says) {
			t.Errorf("%s %s of %v: %v: want %q", k.op, k.attributes, k.shape, err, k.says)
		}
	}
	for _, name := range []string{"max_pool2d", "avg_pool2d", "adaptive_max_pool2d", "lp_pool", "interpolate"} {
		op, _ := Bind(name, nil)
		if _, err := op.Infer(Mode{Precision: fp16.Float32}, []Type{{plane, fp16.Int64}}); err == nil ||
			!strings.Contains(err.Error(), "int64 numbers") {
			t.Errorf("%s of int64: %v", name, err)
		}
		if _, err := op.Infer(Mode{Precision: fp16.Float32}, nil); err == nil ||
			!strings.Contains(err.Error(), "0 inputs: want 1") {
			t.Errorf("%s of nothing: %v", name, err)
		}
	}
	var v Floats
	if json.Unmarshal([]byte(`"x"`), &v) == nil {
		t.Error("a string is no number")
	}
}

// TestPoolONNX: ONNX's attributes, by positions worked out by hand.
func TestPoolONNX(t *testing.T) {
	for _, k := range []struct {
		attributes string
		x          []float64
		want       []float64
	}{
		{`{"mode": "linear", "size": 2, "coordinate_transformation_mode": "align_corners"}`, []float64{1, 2, 3, 4},
			[]float64{1, 4}},
		{`{"mode": "linear", "size": 1, "coordinate_transformation_mode": "half_pixel"}`, []float64{1, 2, 3, 4},
			[]float64{2.5}},
		{`{"mode": "linear", "size": 1, "coordinate_transformation_mode": "pytorch_half_pixel"}`,
			[]float64{1, 2, 3, 4}, []float64{1}},
		{`{"mode": "linear", "scale_factor": 0.75, "coordinate_transformation_mode": "asymmetric"}`,
			[]float64{1, 4, 7, 10}, []float64{1, 5, 9}},
		{`{"mode": "linear", "scale_factor": 0.625, "coordinate_transformation_mode": "half_pixel_symmetric"}`,
			[]float64{0, 10, 20, 30}, []float64{7, 23}},
		{`{"mode": "nearest", "size": 8, "coordinate_transformation_mode": "half_pixel"}`, []float64{1, 2},
			[]float64{1, 1, 1, 1, 2, 2, 2, 2}},
		{`{"mode": "nearest", "size": 5, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}`,
			[]float64{1, 2, 3}, []float64{1, 2, 3, 3, 3}},
		{`{"mode": "nearest", "size": 6, "coordinate_transformation_mode": "asymmetric", ` +
			`"nearest_mode": "round_prefer_ceil"}`, []float64{1, 2, 3}, []float64{1, 2, 2, 3, 3, 3}},
		{`{"mode": "nearest", "size": 6, "coordinate_transformation_mode": "asymmetric", ` +
			`"nearest_mode": "round_prefer_floor"}`, []float64{1, 2, 3}, []float64{1, 1, 2, 2, 3, 3}},
		{`{"mode": "nearest", "size": 6, "nearest_mode": "floor"}`, []float64{1, 2, 3}, []float64{1, 1, 2, 2, 3, 3}},
		{`{"mode": "cubic", "size": 3, "cubic_coeff_a": -0.5, "coordinate_transformation_mode": "align_corners"}`,
			[]float64{1, 4, 9, 16}, []float64{1, 6.25, 16}},
	} {
		y := evaluate(t, "interpolate", k.attributes, tensor.Of(fp16.Float32, k.x, 1, 1, len(k.x)))[0]
		if !slices.EqualFunc(y.Data, k.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
			t.Errorf("%s of %v: %v: want %v", k.attributes, k.x, y.Data, k.want)
		}
	}
	y := evaluate(t, "lp_pool", `{"kernel_size": 2, "stride": 1, "padding": [0, 1]}`,
		tensor.Of(fp16.Float32, []float64{3, -4, 5}, 1, 1, 3))[0]
	if want := []float64{5, float64(float32(math.Sqrt(41))), 5}; !slices.Equal(y.Data, want) {
		t.Errorf("%v: want %v", y.Data, want)
	}
	// Padding of both ends, as ONNX's pads.
	y = evaluate(t, "max_pool1d", `{"kernel_size": 2, "stride": 1, "padding": [0, 1]}`,
		tensor.Of(fp16.Float32, []float64{1, 3, 2}, 1, 1, 3))[0]
	if !slices.Equal(y.Data, []float64{3, 3, 2}) {
		t.Errorf("%v", y.Data)
	}
}

// TestPoolEmpty: no samples make no windows, however many there would be.
func TestPoolEmpty(t *testing.T) {
	for op, attributes := range map[string]string{
		"adaptive_avg_pool1d": `{"output_size": 1099511627776}`,
		"adaptive_max_pool1d": `{"output_size": 1099511627776, "return_indices": true}`,
		"interpolate":         `{"scale_factor": 1e12}`,
		"max_pool1d":          `{"kernel_size": 1000000000, "stride": 1, "padding": 999999999}`,
		"avg_pool1d":          `{"kernel_size": 1000000000, "stride": 1, "padding": 999999999}`,
	} {
		y := evaluate(t, op, attributes, tensor.New(fp16.Float32, 0, 1, 1))[0]
		if len(y.Data) != 0 || y.Shape[2] < 1e9 {
			t.Errorf("%s: %v", op, y.Shape)
		}
	}
	y := evaluate(t, "adaptive_avg_pool2d", `{"output_size": [1099511627776, 0]}`, tensor.New(fp16.Float32, 1, 1, 1, 1))[0]
	if len(y.Data) != 0 {
		t.Error(y.Shape)
	}
}
