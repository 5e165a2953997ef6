package layers

import (
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

// TestTail: one sum whose errors are all there is, and as large as those of a
// right one may be, makes no slice of rounded numbers wrong; two times as many
// errors as roundings have do.
func TestTail(t *testing.T) {
	one := slice{n: 500, most: 600, z2: 500 + 400, tail: 36 * 8 * 8 / (1.8 * 1.8)}
	if over := one.excess(8, 8); over > 1 {
		t.Errorf("one element: %v times the limit", over)
	}
	if one.tail = 2; !(one.excess(8, 8) > 1) {
		t.Error("errors of rounded numbers: not above the limit")
	}
}
