package fault

import (
	"math"
	"testing"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
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
	v := &trial.View{Machine: &emulate.Machine{Nodes: []operator.Node{*n}}, Device: &emulate.Device{Mode: mode}}
	x := tensor.Of(fp16.Float64, []float64{1, 0.25, 1, 0.5}, 1, 2, 1, 2)
	quarters := func(u float64) float64 { return math.RoundToEven(4*u) / 4 }
	if y := accumulate(v, 0, x, n, 8, true, quarters); y != nil {
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
		y := accumulate(v, 0, x, n, c.block, c.split, quarters)
		if y == nil || y.Data[0] != c.want[0] || y.Data[1] != c.want[1] {
			t.Errorf("block %d, split %v: %v, want %v", c.block, c.split, y, c.want)
		}
	}
}
