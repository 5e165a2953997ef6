package quantize

import (
	"slices"
	"testing"
)

// TestGrid: the blocks of tensors of any number of axes, along each of them, against a count by coordinates.
func TestGrid(t *testing.T) {
	shapes := [][]int{{}, {7}, {0, 4}, {3, 10}, {2, 3, 8}, {2, 5, 4, 3}}
	for _, shape := range shapes {
		for _, block := range []string{"tensor", "row", "channel", "2", "3", "2x3", "128x128"} {
			for axis := -1; axis < max(len(shape), 1); axis++ {
				s, err := Parse("fp8_e4m3", Options{Block: block, Axis: &axis})
				if err != nil {
					t.Fatal(err)
				}
				g, err := s.Grid(shape)
				if err != nil {
					if len(shape) > 1 {
						t.Errorf("%v %s along %d: %v", shape, block, axis, err)
					}
					continue
				}
				seen := map[int32]bool{}
				for i := range size(shape) {
					at, rest := make([]int, len(shape)), i
					for a := len(shape) - 1; a >= 0; a-- {
						at[a], rest = rest%shape[a], rest/shape[a]
					}
					want := 0
					for a := range at {
						want = want*g.Shape[a] + at[a]/g.Sizes[a]
					}
					if seen[g.Of[i]] = true; int(g.Of[i]) != want {
						t.Fatalf("%v %s along %d: number %d is in block %d, want %d", shape, block, axis, i, g.Of[i], want)
					}
				}
				if len(seen) != g.Scales() && size(shape) > 0 {
					t.Errorf("%v %s along %d: %d blocks have numbers, of %d", shape, block, axis, len(seen), g.Scales())
				}
			}
		}
	}
}

// TestOptions: what there is not is an error that lists what there is, and what is not said has a default.
func TestOptions(t *testing.T) {
	for name, want := range map[string]Rule{
		"mxfp4": Floor, "nvfp4": AMax, "fp8_e5m2": AMax, "int8": AMax, "uint4": MinMax, "float8_e3m4": "",
	} {
		if s, err := Parse(name, Options{}); err != nil || s.Rule != want || s.Axis != -1 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"fp9", Options{}}, {"nvfp4", Options{Rule: "floor"}}, {"float8_e3m4", Options{Rule: "amax"}},
		{"mxfp4", Options{Block: "32"}}, {"mxfp4", Options{Order: "big"}},
		{"mxfp4", Options{Rounding: "up"}}, {"mxfp4", Options{Cast: "torch"}}, {"float8_e3m4", Options{Cast: "numpy"}},
		{"mxfp4", Options{Eps: 1}},
	} {
		if _, err := Parse(c.name, c.o); err == nil {
			t.Errorf("%s %+v is a quantizer", c.name, c.o)
		}
	}
	if !slices.Contains(Names(), "nvfp4") || len(Names()) != 24 {
		t.Errorf("%v", Names())
	}
}
