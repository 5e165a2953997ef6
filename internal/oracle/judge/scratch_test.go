package judge

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// TestReleased: nobody reads what was released: reports are the same if it is overwritten.
func TestReleased(t *testing.T) {
	n := 0
	all := readRecorded(t)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if !share.All() && i%2 == 0 {
			continue
		}
		for _, right := range []bool{true, false} {
			if !right && i%4 != 1 { // a quarter of them fail too, which TestBrief asks as well
				continue
			}
			q, want := all[name].question, (*Report)(nil)
			if right {
				want = all[name].answer(t, name)
			} else {
				q, want = all[name].wrong(t, name)
			}
			spoil = func(data []float64) {
				for i := range data {
					data[i] = -7e77
				}
			}
			got, err := Check(q)
			spoil = nil
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, right %v: %+v, %v: want %+v", name, right, got, err, want)
			}
			n++
		}
	}
	if n < 15 || share.All() && n < 30 {
		t.Errorf("%d questions", n)
	}
}

// TestFresh: numbers that are taken again are zeros, of the size that is asked for, and another's are not taken.
func TestFresh(t *testing.T) {
	for _, n := range []int{1, 1023, 1024, 1025, 1151, 1152, 1153, 2047, 2048, 70000, 1 << 17} {
		for range 3 {
			a, b := fresh(fp16.Float64, 1, n), fresh(fp16.Float32, n)
			if len(a.Data) != n || len(b.Data) != n || shared(a, b) || b.Format != fp16.Float32 || len(a.Shape) != 2 {
				t.Fatalf("%d numbers: %v and %v", n, a, b)
			}
			for i := range n {
				if a.Data[i] != 0 || b.Data[i] != 0 {
					t.Fatalf("%d numbers: %v and %v at %d: want zeros", n, a.Data[i], b.Data[i], i)
				}
				a.Data[i], b.Data[i] = 1, 2
			}
			release(a, nil, b, &tensor.Tensor{Shape: a.Shape, Data: a.Data}) // once
		}
		if c, at := sizeOf(max(n, leastSpare)); c < n || c > n+n/8 && n >= leastSpare {
			t.Errorf("%d numbers have place for %d (%d)", n, c, at)
		}
	}
}
