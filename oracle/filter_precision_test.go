package oracle

import (
	"math"
	"testing"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// TestAccumulate: a sum of more parts than it has terms is no fault; one of as
// many parts is the sum of its rounded products, and one of a single block the
// rounded sum.
func TestAccumulate(t *testing.T) {
	mode, err := operator.ParseMode("float16", "")
	if err != nil {
		t.Fatal(err)
	}
	// The terms of the two pixels are 0.5, 0.25 and 0.125, 0.125; sums are rounded
	// to quarters, ties to even.
	n := &operator.Node{Geometry: conv.Square(1, 0, conv.Zeros), Op: operator.OpConv, Weight: &operator.Param{Shape: []int{1, 2, 1, 1}, Data: []float64{0.5, 0.25}}}
	v := &view{m: &emulate.Machine{Nodes: []operator.Node{*n}}, d: &emulate.Device{Mode: mode}}
	x := tensor.Of(fp16.Float64, []float64{1, 0.25, 1, 0.5}, 1, 2, 1, 2)
	quarters := func(u float64) float64 { return math.RoundToEven(4*u) / 4 }
	if y := v.accumulate(0, x, n, 8, true, quarters); y != nil {
		t.Errorf("8 parts of 2 terms: %v, want nothing", y.Data)
	}
	for _, c := range []struct {
		block int
		split bool
		want  [2]float64
	}{
		{2, true, [2]float64{0.75, 0}},  // 0.125 is rounded to 0, twice
		{1, false, [2]float64{0.75, 0}}, // so it is here
		{2, false, [2]float64{0.75, 0.25}},
		{8, false, [2]float64{0.75, 0.25}}, // a block that is not full
	} {
		y := v.accumulate(0, x, n, c.block, c.split, quarters)
		if y == nil || y.Data[0] != c.want[0] || y.Data[1] != c.want[1] {
			t.Errorf("block %d, split %v: %v, want %v", c.block, c.split, y, c.want)
		}
	}
}

// TestPooledFrom: the amplitude of the steps since one, as their information weighs.
func TestPooledFrom(t *testing.T) {
	p := pooled{steps: []stepMatch{{1, 0, 4, 1}, {2, 4, 4, 1}, {3, 12, 12, 3}}}
	if m := p.from(2); m.c != 1 || m.qq != 16 || m.sigma != 2./16 {
		t.Errorf("from step 2: c %v, <q,q> %v, sigma %v: want 1, 16, 1/8", m.c, m.qq, m.sigma)
	}
	if m := p.from(1); m.c != 0.8 {
		t.Errorf("from step 1: c %v, want 16/20", m.c)
	}
	if m := p.from(4); m.qq != 0 {
		t.Errorf("from step 4: <q,q> %v, want none", m.qq)
	}
}
