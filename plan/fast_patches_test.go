package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestFastWindows: convolutions by windows of any geometry have the same bits in fast arithmetic in a plan and by
// definition, on every instruction set, also where paddings are wider than images; most go tap by tap, on images.
func TestFastWindows(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(70, 8))
	onImages := 0
	for trial := range 80 {
		n, ic, oc := 1+r.IntN(2), 1+r.IntN(9), 12+r.IntN(30)
		x := tensor.New(fp16.Float32, n, ic, 1+r.IntN(14), 1+r.IntN(24))
		w := tensor.New(fp16.Float32, oc, ic, 1+r.IntN(4), 1+r.IntN(6))
		for _, d := range [][]float64{x.Data, w.Data} {
			for i := range d {
				d[i] = float64(float32(r.NormFloat64()))
			}
		}
		if trial%5 == 0 {
			x.Data[r.IntN(len(x.Data))] = []float64{math.Inf(1), math.NaN()}[trial/5%2]
		}
		op, err := graph.Bind("conv2d", []byte(fmt.Sprintf(`{"stride": [%d, %d], "dilation": [%d, %d], "padding": [%d, %d]}`,
			1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(2), 1+r.IntN(2), r.IntN(4), r.IntN(20)*(trial%2))))
		if err != nil {
			t.Fatal(err)
		}
		g := graph.New(nil)
		g.Outputs = []int{g.Add(op, "y", g.Add(graph.Act{Func: act.ReLU}, "r", g.Input("x")), g.Constant("w", w))}
		mode, of := graph.Mode{Precision: fp16.Float32, Fast: true}, graph.Type{Shape: x.Shape, Format: x.Format}
		program, err := g.Infer(mode, of)
		if err != nil {
			continue // the window does not fit
		}
		var want []float64
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
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
			if want == nil {
				want = byDefinition[0].Data
			}
			for _, got := range [][]float64{y.Data, byDefinition[0].Data} {
				same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
				if !slices.EqualFunc(got, want, same) {
					t.Fatalf("%s: %v of %v by %v: other bits", isa, op, x.Shape, w.Shape)
				}
			}
			if strings.HasPrefix(p.Nodes()[1].Kernel, "fast direct convolution") {
				onImages++
			}
		}
	}
	if onImages < 15*len(asm.ISAs()) {
		t.Errorf("%d convolutions tap by tap: want more", onImages)
	}
}
