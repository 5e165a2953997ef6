package judge

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestMaskedBlocks: where the keys of the first blocks are masked, the greatest score so far is the first that there
// is, so that no difference of infinities is a weight; of keys that are all masked there is none.
func TestMaskedBlocks(t *testing.T) {
	no := math.Inf(-1)
	x := tensor.Of(fp16.Float64, []float64{no, no, 1, 2, 0, 5, 3, no, no, no, no, no, no, no}, 2, 7)
	y, err := apply(runningMaximum{2}, x)
	want := []float64{2, 2, 2, 2, 5, 5, 5, no, no, no, no, no, no, no}
	if err != nil || !slices.Equal(y[0].Data, want) {
		t.Errorf("%v, %v: want %v", y, err, want)
	}
}
