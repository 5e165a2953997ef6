package graph

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

func init() {
	for _, op := range []string{"fft_fft", "fft_ifft", "fft_rfft", "fft_irfft"} {
		ruleRow(op, op, false)
	}
	notInPyTorch["complex_mul"] = "mul of complex numbers, which autocast does not name: it promotes; " +
		"PyTorch has none of bfloat16 parts"
}

// evaluated returns the output of one operation on those inputs.
func evaluated(t *testing.T, m Mode, op Op, in ...*tensor.Tensor) (*tensor.Tensor, error) {
	t.Helper()
	g := New(&Kept{})
	var values []int
	var types []Type
	for _, x := range in {
		values = append(values, g.Input("x"))
		types = append(types, Type{x.Shape, x.Format})
	}
	g.Outputs = []int{g.Add(op, "y", values...)}
	p, err := g.Infer(m, types...)
	if err != nil {
		return nil, err
	}
	out, err := p.Run(&Run{}, in...)
	if err != nil {
		t.Fatal(err)
	}
	return out[0], nil
}

// TestFFTTorch: shapes, conventions and numbers are those of PyTorch in float64, within
// the errors of both, and what PyTorch refuses is refused.
func TestFFTTorch(t *testing.T) {
	file, err := safetensors.Open("../internal/op/spectral/testdata/torch.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) *tensor.Tensor {
		v, err := file.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		x, err := v.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		return tensor.Of(fp16.Float64, x, v.Shape...)
	}
	type call struct {
		Op, Input  string
		Attributes json.RawMessage
	}
	parse := func(name string) (c call, op Op) {
		if err := json.Unmarshal([]byte(name), &c); err != nil {
			t.Fatal(err)
		}
		op, err := Bind(c.Op, c.Attributes)
		if err != nil {
			t.Fatal(err)
		}
		return c, op
	}
	calls := 0
	for _, name := range file.Names() {
		if !strings.HasPrefix(name, "{") {
			continue
		}
		calls++
		c, op := parse(name)
		x, want := read(c.Input), read(name)
		y, err := evaluated(t, Mode{Precision: fp16.Float64}, op, x)
		if err != nil || !slices.Equal(y.Shape, want.Shape) {
			t.Fatalf("%s: %v, %v: want shape %v", name, y, err, want.Shape)
		}
		size := 0.0
		for _, v := range x.Data {
			size += 2 * math.Abs(v)
		}
		narrow := tensor.Of(fp16.Float32, x.Data, x.Shape...)
		z, err := evaluated(t, Mode{Precision: fp16.Float32}, op, narrow)
		if err != nil || z.Format != fp16.Float32 {
			t.Fatalf("%s: %v", name, err)
		}
		for i, v := range want.Data {
			if math.Abs(y.Data[i]-v) > 0x1p-47*size {
				t.Fatalf("%s: number %d is %v, PyTorch's is %v", name, i, y.Data[i], v)
			}
			if math.Abs(z.Data[i]-v) > 0.5*fp16.Float32.Ulp(v)+0x1p-47*size {
				t.Fatalf("%s: number %d in float32 is %v, PyTorch's in float64 is %v", name, i, z.Data[i], v)
			}
		}
	}
	var refused []string
	if err := json.Unmarshal([]byte(file.Metadata["refused"]), &refused); err != nil {
		t.Fatal(err)
	}
	for _, name := range refused {
		c, op := parse(name)
		if _, err := evaluated(t, Mode{Precision: fp16.Float64}, op, read(c.Input)); err == nil {
			t.Errorf("%s: no error, PyTorch refuses it", name)
		}
	}
	if calls < 70 || len(refused) < 20 {
		t.Errorf("%d results and %d refusals: the file is not read", calls, len(refused))
	}
}

// TestFFTErrors: what is wrong is said, and nothing panics.
func TestFFTErrors(t *testing.T) {
	cuda16, cudaB := Mode{Precision: fp16.Float16, Autocast: CUDA2}, Mode{Precision: fp16.BFloat16, Autocast: CUDA2}
	cpu := Mode{Precision: fp16.BFloat16, Autocast: CPU2}
	f32 := Mode{Precision: fp16.Float32}
	pairs := func(f fp16.Format, shape ...int) []Type { return []Type{{append(shape, 2), f}} }
	for _, c := range []struct {
		op, attributes string
		m              Mode
		in             []Type
		want           string // "" for none
	}{
		{"fft_fft", "{}", f32, nil, "0 inputs: want 1"},
		{"fft_fft", "{}", f32, []Type{{[]int{4, 3}, fp16.Float32}},
			"input 0: shape [4 3]: want complex numbers, a last axis of 2, or of 1 for real ones"},
		{"fft_irfft", "{}", f32, []Type{{[]int{4, 1}, fp16.Float32}},
			"input 0: shape [4 1]: want complex numbers, a last axis of 2"},
		{"fft_irfft", "{}", f32, []Type{{nil, fp16.Float32}}, "input 0: shape []: want complex numbers, a last axis of 2"},
		{"fft_rfft", "{}", f32, []Type{{nil, fp16.Float32}}, "dim: -1: want an axis of rank 0"},
		{"fft_fft", "{}", f32, []Type{{[]int{2}, fp16.Float32}}, "dim: -1: want an axis of rank 0"},
		{"fft_rfft", `{"dim": [0, -2]}`, f32, []Type{{[]int{4, 3}, fp16.Float32}}, "dim: -2: want each axis once"},
		{"fft_rfft", `{"dim": -9223372036854775808}`, f32, []Type{{[]int{4, 3}, fp16.Float32}},
			"dim: -9223372036854775808: want an axis of rank 2"},
		{"fft_rfft", `{"n": -2}`, f32, []Type{{[]int{4}, fp16.Float32}}, "n: -2: want 1 to 2^40, or -1"},
		{"fft_rfft", `{"n": 9223372036854775807}`, f32, []Type{{[]int{4}, fp16.Float32}},
			"n: 9223372036854775807: want 1 to 2^40"},
		{"fft_rfft", `{"n": [3, 4]}`, f32, []Type{{[]int{4}, fp16.Float32}}, "n: 2 numbers: want 1"},
		{"fft_fft", `{"dim": [0, 1], "n": 1048577}`, f32, pairs(fp16.Float32, 4, 4), "want at most 2^40 elements"},
		{"fft_rfft", "{}", f32, []Type{{[]int{3, 0}, fp16.Float32}}, "dim: 1: want an axis of 1 number or more"},
		{"fft_irfft", "{}", f32, pairs(fp16.Float32, 1), "dim: 0: 1 number: want 2 or more, or the output's size n"},
		{"fft_irfft", `{"n": 1}`, f32, pairs(fp16.Float32, 1), ""},
		{"fft_irfft", `{"n": -1}`, f32, pairs(fp16.Float32, 1), "dim: 0: 1 number"},
		{"fft_fft", `{"norm": "unitary"}`, f32, pairs(fp16.Float32, 4), `norm: "unitary": want backward, forward or ortho`},
		{"fft_rfft", "{}", cudaB, []Type{{[]int{8}, fp16.BFloat16}},
			"input 0: bfloat16, transformed to a length of 8: PyTorch on CUDA stops with an error"},
		{"fft_rfft", "{}", cuda16, []Type{{[]int{6}, fp16.Float16}}, "input 0: float16, transformed to a length of 6"},
		{"fft_irfft", "{}", cuda16, pairs(fp16.Float16, 6), "input 0: float16, transformed to a length of 10"},
		{"fft_rfft", "{}", cuda16, []Type{{[]int{8}, fp16.Float16}}, ""},
		{"fft_irfft", "{}", cuda16, pairs(fp16.Float16, 5), ""},
		{"fft_rfft", "{}", cudaB, []Type{{[]int{6}, fp16.Float32}}, ""},
		{"fft_rfft", "{}", cpu, []Type{{[]int{6}, fp16.BFloat16}}, ""},
		{"fft_rfft", "{}", Mode{Precision: fp16.Float16, Autocast: CUDA113}, []Type{{[]int{8}, fp16.Float16}},
			"was not recorded"},
		{"complex_mul", "{}", f32, pairs(fp16.Float32, 4), "1 inputs: want 2"},
		{"complex_mul", "{}", f32, append(pairs(fp16.Float32, 4), Type{[]int{4}, fp16.Float32}),
			"input 1: shape [4]: want complex numbers"},
		{"complex_mul", "{}", f32, append(pairs(fp16.Float32, 4), pairs(fp16.Float32, 3)...),
			"inputs of shapes [4 2] and [3 2]: want axes of one size, or of 1"},
	} {
		op, err := Bind(c.op, []byte(c.attributes))
		if err != nil {
			t.Fatal(err)
		}
		_, err = op.Infer(c.m, c.in)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s of %v in %v: %v, want %q", c.op, c.attributes, c.in, c.m, err, c.want)
		}
	}
}

// TestFFTFormats: halves stay on CUDA and become float32 on the CPU; whole numbers become
// float32, or float64; products promote and spread.
func TestFFTFormats(t *testing.T) {
	x := tensor.Of(fp16.Int64, []float64{1, 2, 3, 4}, 4)
	for _, c := range []struct {
		m    Mode
		f    fp16.Format
		want fp16.Format
	}{
		{Mode{Precision: fp16.Float16, Autocast: CUDA2}, fp16.Float16, fp16.Float16},
		{Mode{Precision: fp16.Float16, Autocast: CPU2}, fp16.Float16, fp16.Float32},
		{Mode{Precision: fp16.BFloat16, Autocast: CPU2}, fp16.BFloat16, fp16.Float32},
		{Mode{Precision: fp16.Float32}, fp16.Int64, fp16.Float32},
		{Mode{Precision: fp16.Float64}, fp16.Int64, fp16.Float64},
	} {
		x.Format = c.f
		op, _ := Bind("fft_rfft", nil)
		y, err := evaluated(t, c.m, op, x)
		if err != nil || y.Format != c.want || !slices.Equal(y.Data, []float64{10, 0, -2, 2, -2, 0}) {
			t.Errorf("%v of %v: %v, %v", c.m, c.f, y, err)
		}
	}
	a := tensor.Of(fp16.Float16, []float64{1, 2, 3, 4}, 2, 1, 2)
	b := tensor.Of(fp16.Float32, []float64{1, 1, 0, 1, 2, 0}, 3, 2)
	y, err := evaluated(t, Mode{Precision: fp16.Float32}, ComplexMul{}, a, b)
	if err != nil || y.Format != fp16.Float32 || !slices.Equal(y.Shape, []int{2, 3, 2}) ||
		!slices.Equal(y.Data, []float64{-1, 3, -2, 1, 2, 4, -1, 7, -4, 3, 6, 8}) {
		t.Errorf("%v, %v", y, err)
	}
}

// TestFFTInPlace: an output that takes the place of its input is the same.
func TestFFTInPlace(t *testing.T) {
	fft, _ := Bind("fft_fft", []byte(`{"dim": [0, 1]}`))
	ifft, _ := Bind("fft_ifft", []byte(`{"dim": [0, 1]}`))
	x := tensor.New(fp16.Float32, 3, 4, 2)
	for i := range x.Data {
		x.Data[i] = float64(i * i % 7)
	}
	once, err := evaluated(t, Mode{Precision: fp16.Float32}, fft, x)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := evaluated(t, Mode{Precision: fp16.Float32}, ifft, once)
	g := New(&Kept{})
	g.Outputs = []int{g.Add(ifft, "z", g.Add(fft, "y", g.Input("x")))}
	p, err := g.Infer(Mode{Precision: fp16.Float32}, Type{x.Shape, x.Format})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(&Run{}, x)
	if err != nil || !slices.Equal(out[0].Data, want.Data) {
		t.Errorf("%v, %v: want %v", out, err, want)
	}
}
