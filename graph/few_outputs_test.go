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

// TestFewOutputs: convolutions of few outputs, of which a product's row has several pixels, have the bits
// of those whose weights are no constants, which are convolved: in every mode and instruction set, with any
// stride, with lines that end within a row, and with numbers that are not finite.
func TestFewOutputs(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	r := rand.New(rand.NewPCG(83, 84))
	together := 0
	for trial := range 300 {
		isas := asm.ISAs()
		if err := asm.Use(isas[trial%len(isas)]); err != nil {
			t.Fatal(err)
		}
		ic, oc, kh, kw := 1+r.IntN(3), 1+r.IntN(11), 1+r.IntN(3), 1+r.IntN(40)
		stride, dilation, pad := 1+r.IntN(4), 1, r.IntN(kw)
		if trial%10 == 0 {
			dilation = 2
		}
		x, w := []int{1 + r.IntN(2), ic, kh + r.IntN(3), dilation*(kw-1) + 1 + r.IntN(200)}, []int{oc, ic, kh, kw}
		attributes := fmt.Sprintf(`{"stride": [%d, %d], "dilation": [1, %d], "padding": [%d, %d]}`,
			1+r.IntN(2), stride, dilation, r.IntN(2), pad)
		random := func(shape []int) *tensor.Tensor {
			out := tensor.New(fp16.Float32, shape...)
			for i := range out.Data {
				out.Data[i] = float64(float32(r.NormFloat64()))
			}
			return out
		}
		image, weight, bias := random(x), random(w), random([]int{oc})
		bias.Data[0] = math.Copysign(0, -1)
		if trial%7 == 0 {
			weight.Data[r.IntN(len(weight.Data))] = []float64{math.Inf(1), math.NaN(), 0}[trial/7%3]
		}
		if trial%5 == 0 {
			image.Data[r.IntN(len(image.Data))] = []float64{math.Inf(-1), math.NaN(), 1e38}[trial/5%3]
		}
		m := [][2]string{
			{"float32", ""}, {"tf32", ""}, {"float16", "cuda"}, {"bfloat16", "cpu"}, {"float32:fast", ""}, {"float64", ""},
		}[trial%6]
		mode, err := ParseMode(m[0], m[1])
		if err != nil {
			t.Fatal(err)
		}
		op, err := Bind("conv2d", []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		run := func(constant bool) *tensor.Tensor {
			g, given := New(nil), []*tensor.Tensor{image}
			in := []int{g.Input("x")}
			for i, v := range []*tensor.Tensor{weight, bias}[:1+trial%4/2] {
				if constant {
					in = append(in, g.Constant(fmt.Sprint(i), v))
				} else {
					in, given = append(in, g.Input(fmt.Sprint(i))), append(given, v)
				}
			}
			g.Outputs = []int{g.Add(op, "y", in...)}
			var types []Type
			for i, v := range given {
				if mode.Precision == fp16.Float64 {
					given[i] = tensor.Of(fp16.Float64, v.Data, v.Shape...)
				}
				types = append(types, Type{v.Shape, given[i].Format})
			}
			p, err := g.Infer(mode, types...)
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Run(&Run{}, given...)
			if err != nil {
				t.Fatal(err)
			}
			for k := range g.Kept.of {
				if key, ok := k.key.(packedKey); ok && key.patches > 1 {
					together++
				}
			}
			return out[0]
		}
		got, want := run(true), run(false)
		for i, v := range got.Data {
			if math.Float64bits(v) != math.Float64bits(want.Data[i]) {
				t.Fatalf("trial %d, conv2d %s of %v by %v in %v: number %d of %v is %v, want %v",
					trial, attributes, x, w, mode, i, got.Shape, v, want.Data[i])
			}
		}
	}
	if together < 60 {
		t.Errorf("only %d convolutions with several pixels of a row", together)
	}
}
