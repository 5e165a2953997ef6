package oracle

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestSameValues: where all numbers of a channel are the same exact one, that lies a
// little off the middle of two roundings, a device may round all of them the other way;
// where they are different ones, it does not.
func TestSameValues(t *testing.T) {
	const sd = 0x1p-20
	for _, same := range []bool{true, false} {
		got := tensor.New(fp16.Float16, 1, 2, 32, 32)
		a := &answer{mid: make([]float64, len(got.Data)), lo: make([]float64, len(got.Data)), hi: make([]float64, len(got.Data)), sd: make([]float64, len(got.Data)), wide: usualSlack}
		for k := range got.Data {
			mid := 1 + 0x1p-11 - 4*sd // rounds to 1, 4 deviations from the middle: a chance of e^-(8/9) at most
			if !same {
				mid -= float64(k) * 0x1p-40
			}
			if k >= 1024 { // the other channel is far from it
				mid = 1 + float64(k)*0x1p-40
			}
			a.mid[k], a.lo[k], a.hi[k], a.sd[k] = mid, mid-8*sd, mid+8*sd, sd
			got.Data[k] = 1
			if k < 1024 {
				got.Data[k] = 1 + 0x1p-10
			}
		}
		if s := judge(a, got, fp16.Float16); s.right() != same {
			t.Errorf("same numbers: %v, judged right: %v (%s, %v over its limit)", same, s.right(), s.gate, s.excess)
		}
	}
}

// TestHeldAlike: an amplitude of pixels that round alike is as uncertain as that of the
// clusters that are left.
func TestHeldAlike(t *testing.T) {
	f := &filter{s: &fullStep{}}
	f.divide(1, 3, 16, 16)
	x := tensor.New(fp16.Float64, 1, 3, 16, 16)
	q := make([]float64, len(x.Data))
	f.got, f.size = make([]float64, len(q)), make([]float64, len(q))
	for i := range q {
		q[i], f.size[i] = 1, 1
		f.got[i] = 1 + .5*float64(i%7-3)
	}
	v := &view{x: x}
	one := f.held(v, x, q)
	f.alike = 4
	four := f.held(v, x, q)
	if one.c != four.c || math.Abs(four.sigma/one.sigma-2) > 1e-12 || math.Abs(four.t/one.t-.5) > 1e-12 {
		t.Errorf("amplitude %v, sigma %v, t %v; with four alike %v, %v, %v: want sigma twice as large", one.c, one.sigma, one.t, four.c, four.sigma, four.t)
	}
}
