package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestInfiniteLogSumExp: of rows with an infinite number, or of nothing but -infinity, libraries return an infinite
// number; NaN, which a kernel has that subtracts the maximum whatever it is, is wrong.
func TestInfiniteLogSumExp(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 17))
	x, y := drawn(r, fp16.Float32, 20, 30), tensor.New(fp16.Float32, 20)
	x.Data[30+2] = math.Inf(1)
	for i := range 30 {
		x.Data[60+i] = math.Inf(-1)
	}
	for row := range y.Data {
		sum := 0.0
		for _, v := range x.Data[row*30:][:30] {
			sum += math.Exp(v)
		}
		y.Data[row] = fp16.Float32.Round(math.Log(sum))
	}
	for _, at := range []int{-1, 1, 2} {
		out := tensor.Of(fp16.Float32, append([]float64(nil), y.Data...), 20)
		if at >= 0 {
			out.Data[at] = math.NaN()
		}
		a, err := Check(question(t, "logsumexp", `{"dim":[1]}`, out, x))
		if err != nil || (a.Verdict == Pass) != (at < 0) {
			t.Errorf("NaN at %d: %+v, %v", at, a, err)
		}
	}
}

// TestWithoutKeys: the lse of a query all of whose keys are masked is -Inf, Inf or 0 in kernels of attention; a
// logsumexp is -Inf.
func TestWithoutKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 17))
	x, y := drawn(r, fp16.Float32, 20, 30), tensor.New(fp16.Float32, 20)
	for i := range 30 {
		x.Data[60+i] = math.Inf(-1)
	}
	for row := range y.Data {
		sum := 0.0
		for _, v := range x.Data[row*30:][:30] {
			sum += math.Exp(v)
		}
		y.Data[row] = fp16.Float32.Round(math.Log(sum))
	}
	for _, attends := range []bool{true, false} {
		for v, right := range map[float64]bool{math.Inf(-1): true, math.Inf(1): attends, 0: attends, 1: false} {
			y.Data[2] = v
			q := question(t, "logsumexp", `{"dim":[1]}`, y, x)
			q.Attends = attends
			if a, err := Check(q); err != nil || (a.Verdict == Pass) != right {
				t.Errorf("%v, of an attention: %v: %+v, %v", v, attends, a, err)
			}
		}
	}
}
