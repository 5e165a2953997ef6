package fault

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// TestAccumulate: a sum of more parts than it has terms is no fault; one of as
// many parts is the sum of its rounded products, and one of a single block the
// rounded sum.
func TestAccumulate(t *testing.T) {
	mode, err := graph.ParseMode("float16", "")
	if err != nil {
		t.Fatal(err)
	}
	// The terms of the two pixels are 0.5, 0.25 and 0.125, 0.125; sums are rounded
	// to quarters, ties to even.
	n := &operator.Node{Geometry: conv.Square(1, 0, conv.Zeros), Op: operator.OpConv,
		Weight: &operator.Param{Shape: []int{1, 2, 1, 1}, Data: []float64{0.5, 0.25}}}
	v := &trial.View{Machine: &emulate.Machine{Nodes: []operator.Node{*n}}, Device: &emulate.Device{Mode: mode}}
	x := tensor.Of(fp16.Float64, []float64{1, 0.25, 1, 0.5}, 1, 2, 1, 2)
	quarters := func(u float64) float64 { return math.RoundToEven(4*u) / 4 }
	if by := parted(n, 8, 1, false); by != nil {
		t.Errorf("8 parts of 2 terms: %+v, want nothing", by)
	}
	for _, c := range []struct {
		block int
		split bool
		want  [2]float64
	}{
		{2, true, [2]float64{0.75, 0}},  // 0.125 is rounded to 0, twice
		{1, false, [2]float64{0.75, 0}}, // so it is here
		{2, false, [2]float64{0.75, 0.25}},
		{8, false, [2]float64{0.75, 0.25}}, // a block that is not full
	} {
		by := blocks(n, c.block)
		if c.split {
			by = parted(n, c.block, 1, false)
		}
		y := accumulate(v, 0, x, n, by, quarters)
		if y == nil || y.Data[0] != c.want[0] || y.Data[1] != c.want[1] {
			t.Errorf("block %d, split %v: %v, want %v", c.block, c.split, y, c.want)
		}
	}
}

// TestParted: parts are equal, or of whole tiles; what has the same parts, or no second
// order, is not tried twice.
func TestParted(t *testing.T) {
	node := func(channels, side int) *operator.Node {
		return &operator.Node{Op: operator.OpConv, Weight: &operator.Param{Shape: []int{1, channels, side, side}}}
	}
	for _, c := range []struct {
		channels, side, parts, tile int
		last                        bool
		want                        []int // the ends of parts, nil for nothing
	}{
		{8, 3, 2, 1, false, []int{36, 72}},
		{8, 3, 2, 1, true, []int{36, 72}},
		{8, 3, 2, 16, true, []int{48, 72}},
		{8, 3, 4, 16, false, nil},  // 5 tiles are 3 pairs of two
		{16, 4, 8, 32, false, nil}, // the parts of tiles are equal
		{16, 1, 2, 1, true, nil},
		{1, 3, 8, 1, false, []int{1, 2, 3, 4, 5, 6, 7, 9}},
	} {
		var ends []int
		if by := parted(node(c.channels, c.side), c.parts, c.tile, c.last); by != nil {
			for i, end := range by.ends {
				if end {
					ends = append(ends, i+1)
				}
			}
		}
		if !slices.Equal(ends, c.want) {
			t.Errorf("%d parts of tiles of %d: ends %v, want %v", c.parts, c.tile, ends, c.want)
		}
	}
	// Channels innermost: 1 and 4 are added first, then 2 and 8.
	mode, err := graph.ParseMode("float16", "")
	if err != nil {
		t.Fatal(err)
	}
	n := node(2, 1)
	n.Weight.Shape, n.Weight.Data = []int{1, 2, 2, 2}, []float64{1, 2, 0, 0, 4, 8, 0, 0}
	n.Geometry = conv.Square(1, 0, conv.Zeros)
	v := &trial.View{Machine: &emulate.Machine{Nodes: []operator.Node{*n}}, Device: &emulate.Device{Mode: mode}}
	var sums []float64
	accumulate(v, 0, tensor.Of(fp16.Float64, []float64{1, 1, 1, 1, 1, 1, 1, 1}, 1, 2, 2, 2), n, parted(n, 4, 1, true),
		func(u float64) float64 {
			sums = append(sums, u)
			return u
		})
	if !slices.Equal(sums, []float64{5, 10, 0, 0}) {
		t.Errorf("partial sums %v", sums)
	}
}

// TestEight: numbers of the types of 8 bits are those of the OCP's table, ties go to even.
func TestEight(t *testing.T) {
	for _, c := range []struct{ x, e4m3, e5m2 float64 }{
		{1.0625, 1, 1}, {1.1875, 1.25, 1.25}, {-17, -16, -16}, {460, 448, 448}, {-1e6, -448, -57344},
		{0x1p-9, 0x1p-9, 0x1p-9}, {0x1.8p-10, 0x1p-9, 0x1.8p-10}, {0x1p-10, 0, 0x1p-10}, {0x1p-16, 0, 0x1p-16},
		{0x1p-17, 0, 0}, {0, 0, 0},
	} {
		if a, b := eights[0].round(c.x), eights[1].round(c.x); a != c.e4m3 || b != c.e5m2 {
			t.Errorf("%v: %v and %v, want %v and %v", c.x, a, b, c.e4m3, c.e5m2)
		}
	}
	if y, s := eights[0].of(tensor.Of(fp16.Float64, []float64{-896, 2.125, 0}, 1, 1, 1, 3), true); s != 2 ||
		!slices.Equal(y.Data, []float64{-448, 1, 0}) {
		t.Errorf("scaled by %v: %v", s, y.Data)
	}
}
