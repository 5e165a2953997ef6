package judge

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestEqualRows: rows that are equal have one error many times. PyTorch 2.9's softmax of such rows on a CPU passes, and
// fails where it is off by what no right kernel is.
func TestEqualRows(t *testing.T) {
	const rows = 4097
	for k, c := range []struct{ x, y []float64 }{
		{[]float64{-0x1.48e512p-3, -0x1.e37af6p-7, -0x1.4399b4p-5}, []float64{0x1.37a666p-2, 0x1.6894fap-2, 0x1.5fc49cp-2}},
		{[]float64{-0x1.e9b24ap-5, 0x1.f776cap-3}, []float64{0x1.b25e08p-2, 0x1.26d0fep-1}},
		{[]float64{-0x1.7af5b8p-4, -0x1.20ef9cp-3, 0x1.5745a2p-7, 0x1.21efaep-5, -0x1.785b08p-5},
			[]float64{0x1.867374p-3, 0x1.73f156p-3, 0x1.b0cf3ep-3, 0x1.bbbaaep-3, 0x1.991144p-3}},
		{[]float64{0x1.7fb27ap-7, 0x1.0b1768p-4, -0x1.680ea2p-4, 0x1.25a81p-7, -0x1.11b0eep-4},
			[]float64{0x1.a382d8p-3, 0x1.ba90cp-3, 0x1.7bbc6p-3, 0x1.a25c24p-3, 0x1.83d3e8p-3}},
	} {
		x, y := tensor.New(fp16.Float32, rows, len(c.x)), tensor.New(fp16.Float32, rows, len(c.x))
		for i := range x.Data {
			x.Data[i], y.Data[i] = c.x[i%len(c.x)], c.y[i%len(c.x)]
		}
		if a := ask(t, "softmax", `{"dim": -1}`, x, y); a.Verdict != Pass {
			t.Errorf("row %d: %+v", k, a)
		}
		for i, v := range y.Data {
			y.Data[i] = fp16.Float32.Round(v * (1 + 1e-5))
		}
		if a := ask(t, "softmax", `{"dim": -1}`, x, y); a.Verdict != Fail {
			t.Errorf("row %d times 1.00001: %+v", k, a)
		}
	}
}
