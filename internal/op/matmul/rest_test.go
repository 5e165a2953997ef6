package matmul

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestRest: where the terms behind the last four are the large ones, which cancel, what they hide of the others is not
// lost: the bound of the sum counts them.
func TestRest(t *testing.T) {
	a := tensor.Of(fp16.Float32, []float64{0x1p-27, 0, 0x1p-35, 0, 1, 1}, 1, 6)
	b := tensor.Of(fp16.Float32, []float64{0x1p-27, 0, 1, 0, 1, -1}, 6, 1)
	y := tensor.New(fp16.Float32, 1, 1)
	Forward(y, a, b, Params{})
	if want := 0x1p-35 + 0x1p-54; y.Data[0] != want {
		t.Errorf("%v, want %v", y.Data[0], want)
	}
}
