package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
)

// TestSpreads: transposed convolutions whose windows lie side by side, which are products of matrices, have the bits of
// the convolution of pixels with zeros between them, with numbers that are not finite too.
func TestSpreads(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	r := rand.New(rand.NewPCG(83, 82))
	spread := 0
	for trial := range 200 {
		isas := asm.ISAs()
		if err := asm.Use(isas[trial%len(isas)]); err != nil {
			t.Fatal(err)
		}
		n, ic, oc, kh, kw := 1+r.IntN(2), 1+r.IntN(30), 1+r.IntN(20), 1+r.IntN(3), 1+r.IntN(3)
		random := func(shape ...int) *tensor.Tensor {
			out := tensor.New(fp16.Float32, shape...)
			for i := range out.Data {
				out.Data[i] = float64(fp16.BFloat16.Round(r.NormFloat64()))
			}
			return out
		}
		x, w, bias := random(n, ic, 1+r.IntN(9), 1+r.IntN(9)), random(ic, oc, kh, kw), random(oc)
		if trial%4 == 0 {
			x.Data[r.IntN(len(x.Data))] = []float64{math.Inf(-1), math.NaN(), 0x1p126, math.Copysign(0, -1)}[trial/4%4]
		}
		if trial%6 == 0 {
			w.Data[r.IntN(len(w.Data))] = []float64{math.Inf(1), math.NaN(), 0}[trial/6%3]
		}
		m := [][2]string{{"float32", ""}, {"float32:fast", ""}, {"tf32", ""}, {"bfloat16", "cpu"}, {"float64", ""}}[trial%5]
		mode, err := ParseMode(m[0], m[1])
		if err != nil {
			t.Fatal(err)
		}
		op, err := Bind("conv_transpose2d", []byte(fmt.Sprintf(`{"stride": [%d, %d]}`, kh, kw)))
		if err != nil {
			t.Fatal(err)
		}
		g := New(nil)
		in := []int{g.Input("x"), g.Constant("w", w)}
		b := []float64(nil)
		if trial%3 > 0 {
			in, b = append(in, g.Constant("b", bias)), bias.Data
		}
		g.Outputs = []int{g.Add(op, "y", in...)}
		if mode.Precision == fp16.Float64 {
			x.Format = fp16.Float64
		}
		program, err := g.Infer(mode, Type{x.Shape, x.Format})
		if err != nil {
			t.Fatal(err)
		}
		all, err := program.Run(&Run{}, x)
		if err != nil {
			t.Fatal(err)
		}
		y := all[0]
		rounded := func(x *tensor.Tensor, k int) *tensor.Tensor {
			x = mode.cast(x, program.Operand(0, k))
			return &tensor.Tensor{Shape: x.Shape, Format: program.Operand(0, k), Data: x.Data}
		}
		if len(in) == 3 && mode.Precision == fp16.BFloat16 {
			b = rounded(bias, 2).Data
		}
		want := tensor.New(y.Format, y.Shape...)
		k := conv.NewTransposedKernel(rounded(w, 1), b)
		conv.Transposed(want, rounded(x, 0), k, conv.Params{Stride: [2]int{kh, kw}})
		for i, v := range want.Data {
			if math.Float64bits(y.Data[i]) != math.Float64bits(v) {
				t.Fatalf("%v: %v by %v: number %d is %v, want %v", mode, x.Shape, w.Shape, i, y.Data[i], v)
			}
		}
		spread++
	}
	if spread == 0 {
		t.Error("no convolution was compared")
	}
}
