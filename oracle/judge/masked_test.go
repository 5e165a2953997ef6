package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestMaskedBlocks: an attention by blocks of keys is right where the keys of its first blocks are masked, under the
// claim of such blocks.
func TestMaskedBlocks(t *testing.T) {
	const queries, keys, width = 12, 48, 8
	r := rand.New(rand.NewPCG(3, 4))
	q, k, v := drawn(r, fp16.Float32, 1, queries, width), drawn(r, fp16.Float32, 1, keys, width),
		drawn(r, fp16.Float32, 1, keys, width)
	mask, out := tensor.New(fp16.Int64, queries, keys), tensor.New(fp16.Float32, 1, queries, width)
	for i := range queries {
		var sum float64
		y := make([]float64, width)
		for j := range keys {
			if j < 4*i { // of the last rows the first two blocks of 16
				continue
			}
			mask.Data[i*keys+j] = 1
			var s float64
			for d := range width {
				s += q.Data[i*width+d] * k.Data[j*width+d]
			}
			e := math.Exp(s / math.Sqrt(width))
			sum += e
			for d := range width {
				y[d] += e * v.Data[j*width+d]
			}
		}
		for d := range width {
			out.Data[i*width+d] = fp16.Float32.Round(y[d] / sum)
		}
	}
	g, _, err := Kernel("scaled_dot_product_attention", []byte(`{}`), []string{"query", "key", "value", "attn_mask"})
	if err != nil {
		t.Fatal(err)
	}
	ask := Question{Graph: g, Inputs: []*tensor.Tensor{q, k, v, mask}, Output: out,
		Claimed: &Contract{Form: Form{Online: true, BlockKeys: 16}}}
	if a, err := Check(ask); err != nil || a.Verdict != Pass {
		t.Errorf("%+v, %v", a, err)
	}
}
