package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestSlips: a sum that is one place off is right where the exact sum is next to the middle of two half numbers, and
// wrong where it is not, however wide the interval of so many terms is.
func TestSlips(t *testing.T) {
	const rows, terms = 4, 3000
	r := rand.New(rand.NewPCG(31, 32))
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		slipped := 0
		for range 40 {
			x, y := tensor.New(f, rows, terms), tensor.New(f, rows)
			farthest, worst := 0.0, 0
			for row := range rows {
				s, exact := float32(0), 0.0
				for i := range terms {
					v := f.Round(r.NormFloat64())
					x.Data[row*terms+i] = v
					s, exact = s+float32(v), exact+v
				}
				y.Data[row] = f.Round(float64(s))
				place := f.Ulp(f.Round(exact))
				if far := place/2 - math.Abs(exact-f.Round(exact)); far > farthest { // from both middles
					farthest, worst = far, row
				}
			}
			if a := ask(t, "sum", `{"dim": [1]}`, x, y); a.Verdict != Pass {
				t.Errorf("%v right: %+v", f, a)
			}
			if y.Data[worst] = f.NextUp(y.Data[worst]); farthest > 0x1p-7 {
				slipped++
				if a := ask(t, "sum", `{"dim": [1]}`, x, y); a.Verdict != Fail {
					t.Errorf("%v one place off: %+v", f, a)
				}
			}
		}
		if slipped < 20 {
			t.Errorf("%v: %d slips: want more", f, slipped)
		}
	}
}
