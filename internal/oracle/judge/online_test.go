package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// blockwise is an attention in float32 of heads [l,e], [s,e], [s,e] with rounded operands, which takes some keys at a
// time and divides last.
type blockwise struct {
	block   int
	way     fp16.Rounding
	scale   float64 // of the right one
	forgets bool    // does not scale what came before
	lost    int     // last keys
}

func (k blockwise) run(q, key, value *tensor.Tensor) *tensor.Tensor {
	l, s, e := q.Shape[1], key.Shape[1], q.Shape[2]
	cut := func(v float64) float32 { return float32(fp16.RoundTF32(v, k.way)) }
	out := tensor.New(fp16.Float32, 1, l, e)
	scale := float32(k.scale / math.Sqrt(float64(e)))
	for row := range l {
		most, sum, y := math.Inf(-1), float32(0), make([]float32, e)
		for first := 0; first < s-k.lost; first += k.block {
			last, was := min(first+k.block, s-k.lost), most
			scores := make([]float32, last-first)
			for i := range scores {
				for j := range e {
					scores[i] += float32(cut(q.Data[row*e+j]) * cut(key.Data[(first+i)*e+j]))
				}
				scores[i] = float32(scores[i] * scale)
				most = max(most, float64(scores[i]))
			}
			down := float32(math.Exp(was - most))
			if k.forgets && was > math.Inf(-1) {
				down = 1
			}
			sum = float32(sum * down)
			for j := range y {
				y[j] = float32(y[j] * down)
			}
			for i, v := range scores {
				p := float32(math.Exp(float64(v - float32(most))))
				sum += p
				for j := range y {
					y[j] += float32(cut(float64(p)) * cut(value.Data[(first+i)*e+j]))
				}
			}
		}
		for j, v := range y {
			out.Data[row*e+j] = float64(v / sum)
		}
	}
	return out
}

// TestOnlineTF32: attentions that take blocks of keys and round probabilities to TF32 before they are divided pass a
// claim of TF32, in each of the ways of devices, and wrong ones fail.
func TestOnlineTF32(t *testing.T) {
	g, _, err := Kernel("scaled_dot_product_attention", nil, []string{"query", "key", "value"})
	if err != nil {
		t.Fatal(err)
	}
	right, wrong := 0, 0
	for _, keys := range []int{23, 40} {
		for _, positive := range []bool{false, true} {
			r := rand.New(rand.NewPCG(uint64(keys), 12))
			var in []*tensor.Tensor
			for _, n := range []int{5, keys, keys} {
				x := drawn(r, fp16.Float32, 1, n, 16)
				for i := range x.Data {
					if positive {
						x.Data[i] = math.Abs(x.Data[i])
					}
				}
				in = append(in, x)
			}
			ask := func(k blockwise, want string) {
				t.Helper()
				q := Question{Graph: g, Claimed: &Contract{Form: Form{Operands: "tf32"}}, Inputs: in,
					Output: k.run(in[0], in[1], in[2])}
				a, err := Check(q)
				if err != nil || a.Verdict != want {
					t.Errorf("%d keys, positive %v, %+v: %+v %v", keys, positive, k, a, err)
				}
			}
			for i, block := range []int{keys, 16, 32} {
				for k, way := range []fp16.Rounding{fp16.NearestEven, fp16.NearestAway, fp16.TowardZero} {
					if !share.All() && (i+k+keys)%3 > 0 { // with other keys, or in blocks of another size
						continue
					}
					ask(blockwise{block: block, way: way, scale: 1}, Pass)
					right++
				}
			}
			for _, k := range []blockwise{
				{block: 16, scale: 1, forgets: true}, {block: 16, scale: 1, lost: 1}, {block: 16, scale: 1.01},
			} {
				if keys < 32 { // which takes long enough
					ask(k, Fail)
					wrong++
				}
			}
		}
	}
	t.Logf("%d right, %d wrong", right, wrong)
}
