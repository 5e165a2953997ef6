package noise

import (
	"fmt"
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestRowsApply: rows have the bits of Apply, for every type, format and stream, and
// the draws can be had again.
func TestRowsApply(t *testing.T) {
	for _, kind := range []Type{Gaussian, Laplace, Dropout, Multiplicative} {
		for _, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			for _, shape := range [][4]int{{1, 8, 3, 8}, {2, 11, 2, 5}, {3, 3, 4, 12}} {
				for _, stream := range []string{"counter", "torch", "none"} {
					n, c, h, w := shape[0], shape[1], shape[2], shape[3]
					draws := func() Draws {
						switch stream {
						case "counter":
							return counterAt(t, Counter{Seed: 4}, 7, 5, 5+n)
						case "torch":
							g, err := newTorchCPU("2.x", false)
							if err != nil {
								t.Fatal(err)
							}
							g.Seed(3)
							return g
						}
						return nil
					}
					b := Block{Type: kind, Scale: 0.3, NarrowScale: w == 5}
					src := tensor.New(f, n, c, h, w)
					if err := counterAt(t, Counter{Seed: 9}, 0, 0, n).Draw(Normal, 0, shape[:], src.Data); err != nil {
						t.Fatal(err)
					}
					f.RoundSlice(src.Data, src.Data)
					want := src.Clone()
					if stream != "none" {
						if err := b.Apply(want, src, Time{}, draws()); err != nil {
							t.Fatal(err)
						}
					}
					at := fmt.Sprintf("%v, %v, %v, %s", kind, f, shape, stream)
					r, s := NewRows(b, f, n, c, h, w), NewRowSpace(w)
					for range 2 {
						if err := r.Begin(Time{}, draws()); err != nil {
							t.Fatal(err)
						}
						checkRows(t, at, r, s, src, want)
					}
					if again := r.Again(); stream == "none" {
						if again != nil {
							t.Fatalf("%s: draws that were not made", at)
						}
					} else {
						got := tensor.Like(src)
						if err := b.Apply(got, src, Time{}, again); err != nil {
							t.Fatal(err)
						}
						for i, v := range got.Data {
							if math.Float64bits(v) != math.Float64bits(want.Data[i]) {
								t.Fatalf("%s, again: number %d is %x, want %x", at, i, v, want.Data[i])
							}
						}
					}
				}
			}
		}
	}
}

func checkRows(t *testing.T, at string, r *Rows, s *RowSpace, src, want *tensor.Tensor) {
	t.Helper()
	row, out := make([]float32, 8*src.W()), make([]float32, 8*src.W())
	for n := range src.N() {
		for b := range (src.C() + 7) / 8 {
			for y := range src.H() {
				clear(row)
				channels := min(8, src.C()-8*b)
				for c := range channels {
					for x, v := range src.Plane(n, 8*b+c)[y*src.W():][:src.W()] {
						row[8*x+c] = float32(v)
					}
				}
				r.Apply(out, row, n, b, y, s)
				for i, v := range out {
					w := 0.0
					if i%8 < channels {
						w = want.Plane(n, 8*b+i%8)[y*src.W()+i/8]
					}
					if math.Float32bits(v) != math.Float32bits(float32(w)) {
						t.Fatalf("%s: sample %d, channel %d, line %d, pixel %d: %x, want %x", at, n, 8*b+i%8, y, i/8, v, w)
					}
				}
			}
		}
	}
}

// TestSlice: a counter's draws for some realizations are their share of all.
func TestSlice(t *testing.T) {
	const each = 3 * 5 * 4
	all := make([]float64, 6*each)
	if err := counterAt(t, Counter{Seed: 2}, 3, 10, 16).Draw(Normal, 0, []int{6, 3, 5, 4}, all); err != nil {
		t.Fatal(err)
	}
	part, ok := counterAt(t, Counter{Seed: 2}, 3, 10, 16).(*counterDraws).Slice(2, 5)
	if !ok {
		t.Fatal("a counter has no slices")
	}
	got := make([]float64, 3*each)
	if err := part.Draw(Normal, 0, []int{3, 3, 5, 4}, got); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != all[2*each+i] {
			t.Fatalf("number %d is %v, want %v", i, v, all[2*each+i])
		}
	}
	if _, ok := counterAt(t, Counter{}, 0, 0, 2).(*counterDraws).Slice(1, 3); ok {
		t.Error("a slice of more than there is")
	}
}
