package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestLoss: a cross entropy's sum, its mean over targets that are not ignored, and smoothed labels pass as they are
// computed in float32; a mean of all rows, and labels that are not smoothed, fail by their names.
func TestLoss(t *testing.T) {
	const rows, classes = 45, 30
	r := rand.New(rand.NewPCG(17, 18))
	x, target := tensor.New(fp16.Float32, rows, classes), tensor.New(fp16.Int64, rows)
	for i := range x.Data {
		x.Data[i] = float64(float32(2 * r.NormFloat64()))
	}
	for i := range target.Data {
		if target.Data[i] = float64(r.IntN(classes)); i%9 == 4 {
			target.Data[i] = -100
		}
	}
	losses := func(smoothing float32) (of []float64, sum float32, counted int) {
		for i, c := range target.Data {
			row := x.Data[i*classes : (i+1)*classes]
			var exps, all float32
			for _, v := range row {
				exps += float32(math.Exp(v))
				all += float32(v)
			}
			loss := float32(0)
			if log := float32(math.Log(float64(exps))); c >= 0 {
				loss = (1-smoothing)*(log-float32(row[int(c)])) + smoothing*(log-all/classes)
				counted++
			}
			of, sum = append(of, float64(loss)), sum+loss
		}
		return of, sum, counted
	}
	judged := func(reduction string, smoothing float64, y ...float64) *Report {
		g, _, err := Kernel("cross_entropy", fmt.Appendf(nil, `{"reduction":%q,"label_smoothing":%v}`,
			reduction, smoothing), []string{"input", "target"})
		if err != nil {
			t.Fatal(err)
		}
		var shape []int
		if len(y) > 1 {
			shape = []int{len(y)}
		}
		out := tensor.Of(fp16.Float32, y, shape...)
		rep, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, target}, Output: out})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	for _, smoothing := range []float64{0, .1} {
		each, sum, n := losses(float32(smoothing))
		for _, c := range []struct {
			reduction string
			y         []float64
		}{{"none", each}, {"sum", []float64{float64(sum)}}, {"mean", []float64{float64(sum / float32(n))}}} {
			if rep := judged(c.reduction, smoothing, c.y...); rep.Verdict != Pass {
				t.Errorf("%s, smoothing %v: %+v", c.reduction, smoothing, rep)
			}
		}
		if rep := judged("mean", smoothing, float64(sum/rows)); rep.Verdict != Fail ||
			rep.Fault != "the mean counts ignored targets too" {
			t.Errorf("smoothing %v, mean of all rows: %+v", smoothing, rep)
		}
	}
	each, _, _ := losses(0)
	if rep := judged("none", .1, each...); rep.Verdict != Fail || rep.Fault != "labels are not smoothed" {
		t.Errorf("not smoothed: %+v", rep)
	}
	for attributes, want := range map[string]string{
		`{"label_smoothing":2}`: "label_smoothing: 2: want a number from 0 to 1",
		`{"reduction":"max"}`:   "want none, sum or mean",
	} {
		if _, _, err := Kernel("cross_entropy", []byte(attributes), []string{"input", "target"}); err == nil ||
			!contains(err.Error(), want) {
			t.Errorf("%s: %v", attributes, err)
		}
	}
}
