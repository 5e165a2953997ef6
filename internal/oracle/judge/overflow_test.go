package judge_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// TestOverflow: a softmax that does not subtract the maximum has its name where it overflows, too: then a few results
// are NaN, Inf/Inf, and all others right.
func TestOverflow(t *testing.T) {
	for _, of := range []struct {
		store, in fp16.Format
		scale     float64
	}{
		{fp16.Float32, fp16.Float32, 60}, {fp16.Float32, fp16.Float32, 200}, {fp16.BFloat16, fp16.Float32, 60},
		{fp16.Float16, fp16.Float16, 30}, {fp16.BFloat16, fp16.BFloat16, 60},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		x, y := tensor.New(of.store, 8, 64), tensor.New(of.store, 8, 64)
		for i := range x.Data {
			x.Data[i] = of.store.Round(r.NormFloat64() * of.scale)
		}
		nan := 0
		for row := range 8 {
			sum, e := 0.0, make([]float64, 64)
			for i := range e {
				e[i] = of.in.Round(math.Exp(x.Data[row*64+i]))
				sum += e[i]
			}
			for i, v := range e {
				q := of.store.Round(v / of.in.Round(sum))
				if y.Data[row*64+i] = q; q != q {
					nan++
				}
			}
		}
		g, _, err := judge.Kernel("softmax", []byte(`{"dim": -1}`), []string{"input"})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := judge.Check(judge.Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil {
			t.Fatal(err)
		}
		if nan == 0 || rep.Verdict != judge.Fail || rep.FaultID != "kernel.maximum-not-subtracted" {
			t.Errorf("%v in %v, scale %v: %d NaN, %s %q", of.store, of.in, of.scale, nan, rep.Verdict, rep.FaultID)
		}
	}
}
