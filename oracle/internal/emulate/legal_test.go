package emulate

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// TestCoincident: how often two of the numbers are the same, counted or estimated.
func TestCoincident(t *testing.T) {
	long := make([]float64, 1<<14)
	for i := range long {
		long[i] = float64(i / 16 % 4) // a quarter each
	}
	for _, c := range []struct {
		x         []float64
		want, tol float64
	}{
		{[]float64{1, 2, 1, 3, 1}, 0.3, 1e-15},
		{[]float64{0, 0, 0, 5}, 0.5, 0},
		{[]float64{1, 2, 3}, 0, 0},
		{[]float64{7}, 0, 0},
		{nil, 0, 0},
		{long, 0.25, 0.02},
	} {
		if got := coincident(c.x, 0, func(x float64) float64 { return x }); math.Abs(got-c.want) > c.tol {
			t.Errorf("%d numbers: %v, want %v", len(c.x), got, c.want)
		}
	}
}

// TestLegalOfEqualTerms: a variance of terms that are nearly all the same may be as far
// off as if each were rounded the same way.
func TestLegalOfEqualTerms(t *testing.T) {
	deviation := func(plane func(i int) float64) float64 {
		x := tensor.New(fp16.Float64, 1, 1, 32, 32)
		for i := range x.Data {
			x.Data[i] = plane(i)
		}
		m := &Machine{Nodes: []operator.Node{{Op: operator.OpNorm, Norm: "instance", Groups: 1}}}
		var sum float64
		for k := range 200 {
			l := &Legal{Machine: m, U: 0x1p-24, Lambda: 1, Member: uint64(k)}
			y := tensor.Like(x)
			y.Data[0] = 1
			l.norm(0, &m.Nodes[0], y, x)
			sum += float64((y.Data[0] - 1) * (y.Data[0] - 1))
		}
		return math.Sqrt(sum / 200)
	}
	varied := deviation(func(i int) float64 { return math.Sin(float64(i)) })
	// Beside one large term, all others are the same to the last place of the sum.
	if beside := deviation(func(i int) float64 {
		if i == 300 {
			return 300
		}
		return math.Sin(float64(i)) / 1000
	}); !(beside > 10*varied) {
		t.Errorf("small terms beside a large one: %.3g, terms that differ: %.3g", beside, varied)
	}
	spike := deviation(func(i int) float64 { return float64(max(0, 1-i)) })
	if spike < 10*varied {
		t.Errorf("a spike among zeros: deviation %v, others %v: want it well beyond", spike, varied)
	}
}

// TestLegalWhole: a variance of many numbers, added up one after another, is as the root of their number farther off
// than one of blocks; of one block it is the same.
func TestLegalWhole(t *testing.T) {
	scale := func(side int, whole bool) float64 { // the deviation of what a norm multiplies by
		x := tensor.New(fp16.Float64, 1, 1, side, side)
		for i := range x.Data {
			x.Data[i] = math.Sin(float64(i))
		}
		m := &Machine{Nodes: []operator.Node{{Op: operator.OpNorm, Norm: "instance", Groups: 1}}}
		var sum float64
		for k := range 400 {
			l := &Legal{Machine: m, U: 0x1p-24, Lambda: 1, Member: uint64(k), Whole: whole}
			y := tensor.Like(x)
			y.Data[0] = 1e6 // beside which the mean is nothing
			l.norm(0, &m.Nodes[0], y, x)
			sum += float64((y.Data[0]/1e6 - 1) * (y.Data[0]/1e6 - 1))
		}
		return math.Sqrt(sum / 400)
	}
	for side, want := range map[int]float64{16: 1, 128: 4} { // 256 numbers, and 16 blocks
		got := scale(side, true) / scale(side, false)
		if math.Abs(got-want) > 0.3*want {
			t.Errorf("%d numbers: %.3g times the deviation of blocks, want about %v", side*side, got, want)
		}
	}
}
