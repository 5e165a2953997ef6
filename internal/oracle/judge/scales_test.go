package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestClaimedSums: sums in float16, one term after another, of terms of one sign that grow, lose a share of all that
// they add. A kernel that claims float16 sums may lose it.
func TestClaimedSums(t *testing.T) {
	const rows, n = 12, 2000
	r := rand.New(rand.NewPCG(61, 1))
	x, y := tensor.New(fp16.Float16, rows, n), tensor.New(fp16.Float16, rows)
	for row := range rows {
		terms := x.Data[row*n:][:n]
		for i := range terms {
			terms[i] = fp16.Float16.Round(math.Abs(r.NormFloat64()))
		}
		slices.Sort(terms)
		for _, v := range terms {
			y.Data[row] = fp16.Float16.Round(y.Data[row] + v)
		}
	}
	q := question(t, "sum", `{"dim":[1]}`, y, x)
	q.Claimed = &Contract{Form: Form{Accumulate: "float16"}}
	if a, err := Check(q); err != nil || a.Verdict != Pass {
		t.Errorf("%+v, %v", a, err)
	}
}
