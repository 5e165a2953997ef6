package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestFastLines: in fast arithmetic a convolution of lines with many outputs is products of windows, each a chain of
// fused multiply-adds as docs/NUMERICS.md writes it down, in a plan and by definition, on every instruction set.
func TestFastLines(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(7, 8))
	for trial := range 60 {
		isas := asm.ISAs()
		if err := asm.Use(isas[trial%len(isas)]); err != nil {
			t.Fatal(err)
		}
		n, ic, oc, k := 1+r.IntN(3), 1+r.IntN(9), 12+r.IntN(40), 2+r.IntN(60)
		stride, dilation, pad := 1+r.IntN(5), 1+r.IntN(2), r.IntN(k)
		long := dilation*(k-1) + 1 + r.IntN(90)
		x, w := tensor.New(fp16.Float32, n, ic, long), tensor.New(fp16.Float32, oc, ic, k)
		bias := tensor.New(fp16.Float32, oc)
		for _, d := range [][]float64{x.Data, w.Data, bias.Data} {
			for i := range d {
				d[i] = float64(float32(r.NormFloat64()))
			}
		}
		if trial%5 == 0 {
			x.Data[r.IntN(len(x.Data))] = []float64{math.Inf(1), math.NaN()}[trial/5%2]
		}
		name, attributes := "conv1d", fmt.Sprintf(`{"stride": %d, "dilation": %d, "padding": %d}`, stride, dilation, pad)
		if trial%2 == 0 {
			x.Shape, w.Shape = []int{n, ic, 1, long}, []int{oc, ic, 1, k}
			name = "conv2d"
			attributes = fmt.Sprintf(`{"stride": [1, %d], "dilation": [1, %d], "padding": [0, %d]}`, stride, dilation, pad)
		}
		op, err := graph.Bind(name, []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		g := graph.New(nil)
		in := []int{g.Add(graph.Act{Func: act.ReLU}, "r", g.Input("x")), g.Constant("w", w)}
		if trial%3 > 0 {
			in = append(in, g.Constant("b", bias))
		} else {
			clear(bias.Data)
		}
		g.Outputs = []int{g.Add(op, "y", in...)}
		mode, of := graph.Mode{Precision: fp16.Float32, Fast: true}, graph.Type{Shape: x.Shape, Format: x.Format}
		program, err := g.Infer(mode, of)
		if err != nil {
			t.Fatal(err)
		}
		byDefinition, err := program.Run(&graph.Run{}, x)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.New(g, mode, of)
		if err != nil {
			t.Fatal(err)
		}
		y := tensor.New(fp16.Float32, p.Type(0).Shape...)
		if err := p.Run(nil, noise.Time{}, []*tensor.Tensor{y}, []*tensor.Tensor{x}); err != nil {
			t.Fatal(err)
		}
		out := y.Shape[len(y.Shape)-1]
		for i, got := range y.Data {
			sample, o, at := i/out/oc, i/out%oc, i%out*stride-pad
			inner := (ic*k + 7) / 8 * 8
			u, v := make([]float32, inner), make([]float32, inner)
			for j := range ic * k {
				u[j] = float32(w.Data[o*ic*k+j])
				if from := at + j%k*dilation; from >= 0 && from < long {
					v[j] = float32(positive(x.Data[(sample*ic+j/k)*long+from]))
				}
			}
			want := float64(single.Dot(u, v, 128) + float32(bias.Data[o]))
			if want != want {
				want = fp16.NaN
			}
			other := byDefinition[0].Data[i]
			if math.Float64bits(got) != math.Float64bits(want) || math.Float64bits(other) != math.Float64bits(want) {
				t.Fatalf("trial %d, %s: number %d of %v is %v, by definition %v, want %v",
					trial, attributes, i, y.Shape, got, other, want)
			}
		}
	}
}

// positive is ReLU.
func positive(v float64) float64 {
	if v < 0 {
		return 0
	}
	return v
}
