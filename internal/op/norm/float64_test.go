package norm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestGroup64: groups that are added up side by side, and those that are left over, have the bits of one
// that is alone.
func TestGroup64(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []int{1, 2, 3, 4, 5, 7, 8, 9} {
		for _, groups := range []int{1, c} {
			for _, odd := range []float64{0, math.NaN(), math.Inf(1)} {
				x := tensor.New(fp16.Float64, 3, c, 3, 5)
				for i := range x.Data {
					x.Data[i] = math.Ldexp(r.NormFloat64(), r.IntN(30))
				}
				if odd != 0 {
					x.Data[r.IntN(len(x.Data))] = odd
				}
				m := len(x.Data) / 3 / groups
				got, want := tensor.Like(x), tensor.Like(x)
				group64(got, x, groups, nil, nil, 1e-5)
				for g := range 3 * groups {
					part := x.Data[g*m : (g+1)*m]
					mean, variance := moments64(part)
					plane64(want.Data[g*m:(g+1)*m], part, mean, inverse64(variance+1e-5), 1, 0)
				}
				for i, v := range want.Data {
					if math.Float64bits(got.Data[i]) != math.Float64bits(v) {
						t.Fatalf("%d channels, %d groups, %v: number %d is %v, want %v", c, groups, odd, i, got.Data[i], v)
					}
				}
			}
		}
	}
}
