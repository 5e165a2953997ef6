package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// TestScaledFirst: attention kernels scale the query, the key, or both by a root, before their product, or the query
// for an exp of base 2, and round what they have scaled. They pass in half types and with TF32 operands; with another
// scale they fail.
func TestScaledFirst(t *testing.T) {
	t.Parallel()
	const rows, keys, n = 18, 40, 24 // whose scale is no power of 2
	r := rand.New(rand.NewPCG(81, 82))
	for trial := range 24 {
		if !share.All() && (trial/3+trial/6)%2 == 1 {
			continue
		}
		f := []fp16.Format{fp16.BFloat16, fp16.Float16, fp16.TF32}[trial%3]
		given := f
		if f == fp16.TF32 {
			given = fp16.Float32
		}
		random := func(shape ...int) *tensor.Tensor {
			x := tensor.New(given, shape...)
			for i := range x.Data {
				x.Data[i] = given.Round(r.NormFloat64())
			}
			return x
		}
		q, k, v := random(rows, n), random(keys, n), random(keys, n)
		online, scale := trial/3%2 == 0, 1/math.Sqrt(n)
		ofQuery := []float64{scale, 1, scale * math.Log2E, math.Sqrt(scale)}[trial/6]
		ofKey := []float64{1, scale, 1, math.Sqrt(scale)}[trial/6]
		kernel := func(wrong float64) *tensor.Tensor {
			y := tensor.New(given, rows, n)
			for i := range rows {
				scores, most := make([]float64, keys), math.Inf(-1)
				for j := range keys {
					for c := range n {
						scores[j] += f.Round(q.Data[i*n+c]*ofQuery*wrong) * f.Round(k.Data[j*n+c]*ofKey)
					}
					scores[j] *= scale / (ofQuery * ofKey)
					most = max(most, scores[j])
				}
				total := 0.0
				for j := range scores {
					scores[j] = math.Exp(scores[j] - most)
					total += scores[j]
				}
				for c := range n {
					sum := 0.0
					for j, p := range scores {
						if online {
							sum += f.Round(p) * f.Round(v.Data[j*n+c]) / total
						} else {
							sum += f.Round(p/total) * f.Round(v.Data[j*n+c])
						}
					}
					y.Data[i*n+c] = given.Round(sum)
				}
			}
			return y
		}
		g, _, err := Kernel("scaled_dot_product_attention", []byte("{}"), []string{"query", "key", "value"})
		if err != nil {
			t.Fatal(err)
		}
		for wrong, want := range map[float64]string{1: Pass, 1.05: Fail} {
			ask := Question{Graph: g, Inputs: []*tensor.Tensor{q, k, v}, Output: kernel(wrong)}
			if f == fp16.TF32 {
				ask.Claimed = &Contract{Form: Form{Operands: "tf32"}}
			}
			a, err := Check(ask)
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict != want {
				t.Errorf("trial %d, %v, query by %.3g and key by %.3g, times %v: %s, %s, %v",
					trial, f, ofQuery, ofKey, wrong, a.Verdict, a.Reason, a.Contract)
			}
		}
	}
}
