package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// TestFewPixels: convolutions of few pixels, which are products of matrices, have the bits of the same sample among
// many, which is convolved, on images and lines, in every mode and instruction set, with any geometry and numbers that
// are not finite.
func TestFewPixels(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	r := rand.New(rand.NewPCG(81, 82))
	few := 0
	for trial := range 240 {
		isas := asm.ISAs()
		if err := asm.Use(isas[trial%len(isas)]); err != nil {
			t.Fatal(err)
		}
		ic, oc, k := 1+r.IntN(30), 10+r.IntN(40), 1+r.IntN(4)
		stride, dilation, pad := 1+r.IntN(2), 1+r.IntN(2), r.IntN(2)
		long := dilation*(k-1) + 1 + r.IntN(3)
		name, x, w := "conv1d", []int{1, ic, long}, []int{oc, ic, k}
		attributes := fmt.Sprintf(`{"stride": %d, "dilation": %d, "padding": %d}`, stride, dilation, pad)
		if trial%2 == 0 {
			name, x, w = "conv2d", append(x, long), append(w, k)
			attributes = fmt.Sprintf(`{"stride": [%d, %[1]d], "dilation": [%d, %[2]d], "padding": [%d, %[3]d]}`,
				stride, dilation, pad)
		}
		random := func(shape []int) *tensor.Tensor {
			out := tensor.New(fp16.Float32, shape...)
			for i := range out.Data {
				out.Data[i] = float64(float32(r.NormFloat64()))
			}
			return out
		}
		image, weight, bias := random(x), random(w), random([]int{oc})
		bias.Data[0] = math.Copysign(0, -1)
		if trial%6 == 0 {
			weight.Data[r.IntN(len(weight.Data))] = []float64{math.Inf(1), math.NaN(), 0}[trial/6%3]
		}
		if trial%5 == 0 {
			image.Data[r.IntN(len(image.Data))] = []float64{math.Inf(-1), math.NaN(), 1e38}[trial/5%3]
		}
		m := [][2]string{
			{"float32", ""}, {"tf32", ""}, {"float16", "cuda"}, {"bfloat16", "cpu"}, {"float32", ""}, {"float64", ""},
		}[trial%6]
		mode, err := ParseMode(m[0], m[1])
		if err != nil {
			t.Fatal(err)
		}
		op, err := Bind(name, []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		g := New(nil)
		in := []int{g.Input("x"), g.Constant("w", weight)}
		if trial%4 > 0 {
			in = append(in, g.Constant("b", bias))
		}
		g.Outputs = []int{g.Add(op, "y", in...)}
		run := func(image *tensor.Tensor) *tensor.Tensor {
			if mode.Precision == fp16.Float64 {
				image = tensor.Of(fp16.Float64, image.Data, image.Shape...)
			}
			p, err := g.Infer(mode, Type{image.Shape, image.Format})
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Run(&Run{}, image)
			if err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		many := tensor.New(fp16.Float32, append([]int{9}, x[1:]...)...)
		for i := range many.Data {
			many.Data[i] = image.Data[i%len(image.Data)]
		}
		got, want := run(image), run(many)
		if len(got.Data) <= fewPixels*oc && oc >= manyOutputs {
			few++
		}
		for i, v := range got.Data {
			if math.Float64bits(v) != math.Float64bits(want.Data[i]) {
				t.Fatalf("trial %d, %s %s of %v by %v in %v: number %d is %v, want %v",
					trial, name, attributes, x, w, mode, i, v, want.Data[i])
			}
		}
	}
	if few < 100 {
		t.Errorf("only %d convolutions of few pixels", few)
	}
}
