package judge

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestOnePassLimit: variances that are off by what sums of squares lose are those of one pass; a hundred times as
// much is no such loss, whatever it looks like.
func TestOnePassLimit(t *testing.T) {
	const rows, n, mean = 16, 64, 30.0
	x, out := tensor.New(fp16.Float32, rows, n), tensor.New(fp16.Float32, rows, n)
	for k := range x.Data {
		x.Data[k] = mean + math.Copysign(1, float64(k%2)-.5) // deviation 1
	}
	s, q := float64(n*mean), float64(n*(mean*mean+1))
	fourth := n * (math.Pow(mean, 4) + 6*mean*mean + 1)
	usual := sumSigma(n, q, fourth)/n + 2*mean*sumSigma(n, s, q)/n
	for _, c := range []struct {
		times float64
		found bool
	}{{2, true}, {200, false}} {
		for k, v := range x.Data {
			off := math.Copysign(c.times*usual, float64(k/n%2)-.5)
			out.Data[k] = fp16.Float32.Round((v - mean) / math.Sqrt(1+off))
		}
		r, err := Check(question(t, "layer_norm", `{"normalized_shape":[64],"eps":0}`, out, x))
		if err != nil || r.Verdict != Fail || (r.FaultID == onePassID) != c.found {
			t.Errorf("variances off by %v times what sums lose: %+v, %v: want one pass %v", c.times, r, err, c.found)
		}
	}
}
