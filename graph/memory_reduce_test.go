package graph

import (
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestReductionAllocates: what reductions set aside is what they were said to, and not much less.
func TestReductionAllocates(t *testing.T) {
	for _, c := range []struct {
		op    Op
		shape []int
	}{
		{Reduction{Of: "sum", Axes: Ints{0, 1}}, []int{1 << 20, 1}},
		{Reduction{Of: "sum", Axes: Ints{-1}}, []int{4, 1 << 18}},
		{Reduction{Of: "amax", Axes: Ints{0}}, []int{1 << 19, 2}},
		{Reduction{Of: "prod", Axes: Ints{0, 2}}, []int{1 << 9, 3, 1 << 9}},
		{Var{Axes: Ints{0, 1}}, []int{1 << 10, 1 << 10}},
		{VectorNorm{Axes: Ints{1}, Order: 2}, []int{2, 1 << 19}},
	} {
		x := tensor.New(fp16.Float32, c.shape...)
		for i := range x.Data {
			x.Data[i] = 1
		}
		g := New(new(Kept))
		g.Outputs = []int{g.Add(c.op, "y", g.Input("x"))}
		p, err := g.Infer(Mode{Precision: fp16.Float32}, Type{Shape: x.Shape, Format: x.Format})
		if err != nil {
			t.Fatal(err)
		}
		said := p.Aside(0)
		runtime.GC() // pools too
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := p.Run(new(Run), x); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if took := int64(after.TotalAlloc - before.TotalAlloc); took > said+1<<20 || 4*took < said {
			t.Errorf("%s of %v takes %d bytes: said to be %d", c.op.Name(), c.shape, took, said)
		}
	}
}
