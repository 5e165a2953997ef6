package layers

import (
	"fmt"
	"math"
	"math/rand/v2"
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
		a := &answer{mid: make([]float64, len(got.Data)), lo: make([]float64, len(got.Data)),
			hi: make([]float64, len(got.Data)), sd: make([]float64, len(got.Data)), wide: usualSlack}
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

// TestSlicesOf: each slice has the sums and the largest figures of its elements, and of no others.
func TestSlicesOf(t *testing.T) {
	x := tensor.New(fp16.Float64, 2, 3, 17, 19)
	f, rng := newFigures(len(x.Data)), rand.New(rand.NewPCG(1, 2))
	f.alike = make([]float64, len(x.Data))
	for _, v := range [][]float64{f.flips, f.chance, f.z2, f.most, f.inner, f.jump, f.tail, f.alike} {
		for k := range v {
			v[k] = rng.Float64()
		}
	}
	want, order := map[string]*slice{}, []string{}
	for k := range x.Data {
		i, c, y, w := k/(3*17*19), k/(17*19)%3, k/19%17, k%19
		names := []string{fmt.Sprint("sample ", i), fmt.Sprint("channel ", c), fmt.Sprint("row ", y),
			fmt.Sprint("column ", w), fmt.Sprint("h mod 8 = ", y%8), fmt.Sprint("w mod 8 = ", w%8), "interior",
			fmt.Sprintf("tile (%d,%d) of 8x8", y/8, w/8), fmt.Sprintf("sample %d, channel %d", i, c)}
		if y == 0 || y == 16 || w == 0 || w == 18 {
			names[6] = "border"
		}
		for _, name := range names {
			if want[name] == nil {
				want[name], order = &slice{name: name}, append(order, name)
			}
			want[name].add(f, k)
		}
	}
	all := slicesOf(x, f)
	if len(all) != len(order) {
		t.Errorf("%d slices, want %d", len(all), len(order))
	}
	for _, s := range all {
		w := want[s.name]
		if w == nil {
			t.Errorf("slice %q: want none", s.name)
			continue
		}
		if s.n != w.n || s.jump != w.jump || s.tail != w.tail {
			t.Errorf("%s: %d elements, largest %v and %v, want %d, %v and %v", s.name, s.n, s.jump, s.tail, w.n, w.jump, w.tail)
		}
		got, sums := []float64{s.flips, s.chance, s.z2, s.most, s.inner, s.chances, s.inners},
			[]float64{w.flips, w.chance, w.z2, w.most, w.inner, w.chances, w.inners}
		for k := range got {
			if math.Abs(got[k]-sums[k]) > 1e-9*sums[k] {
				t.Errorf("%s: sum %d is %v, want %v", s.name, k, got[k], sums[k])
			}
		}
	}
}
