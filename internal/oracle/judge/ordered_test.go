package judge_test

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// TestOrderedTerms: images of large means that cancel, added up one number after the other, are no failure: the partial
// sums are large.
func TestOrderedTerms(t *testing.T) {
	const images, pixels, channels = 4, 64, 8
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(9, seed))
		x, y := tensor.New(fp16.Float32, images, channels, pixels), tensor.New(fp16.Float32, channels)
		for c := range channels {
			mean := 3 * r.NormFloat64()
			for i := range images * pixels {
				v := r.NormFloat64() + mean*float64(1-2*(i/pixels%2))
				v = fp16.Float32.Round(v)
				x.Data[i/pixels*channels*pixels+c*pixels+i%pixels] = v
				y.Data[c] = fp16.Float32.Round(y.Data[c] + v)
			}
		}
		g, _, err := judge.Kernel("sum", []byte(`{"dim": [0, 2]}`), []string{"input"})
		if err != nil {
			t.Fatal(err)
		}
		q := judge.Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y}
		if rep, err := judge.Check(q); err != nil || rep.Verdict == judge.Fail {
			t.Fatal(seed, err, rep)
		}
		for c := range channels {
			y.Data[c] += 1e-2
		}
		if rep, err := judge.Check(q); err != nil || rep.Verdict != judge.Fail {
			t.Errorf("%d: a hundredth more: %v %v", seed, err, rep.Verdict)
		}
	}
}
