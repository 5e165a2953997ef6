package noisestat

import (
	"math/rand/v2"
	"testing"
)

// TestColoured: a field in which neighbours have to do with each other is no noise, along rows, columns and diagonals;
// a rough one is, at any size, and where pixels say nothing.
func TestColoured(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n, h, w, k = 2, 12, 16, 3
	for _, c := range []struct {
		name   string
		dy, dx int
		share  float64
		want   bool
	}{
		{"rough", 0, 0, 0, false},
		{"rows", 0, 1, 0.7, true},
		{"columns", 1, 0, 0.7, true},
		{"diagonals", 1, 1, -0.7, true},
		{"far", 5, 5, 0.7, false},
	} {
		f := &Field{n: n, h: h, w: w, K: k, Z: make([]float64, n*h*w*k), ok: make([]bool, n*h*w)}
		for at := range f.ok {
			f.ok[at] = r.IntN(8) > 0
			y, x := at/w%h, at%w
			for i := range k {
				if !f.ok[at] {
					continue
				}
				f.Z[at*k+i] = 30 * r.NormFloat64()
				if from := at - c.dy*w - c.dx; y >= c.dy && x >= c.dx && c.share != 0 {
					f.Z[at*k+i] += c.share * f.Z[from*k+i]
				}
			}
		}
		if got := f.Coloured(); got != c.want {
			t.Errorf("%s: coloured %v, want %v", c.name, got, c.want)
		}
	}
	if (&Field{}).Coloured() {
		t.Error("no pixel: coloured")
	}
}
