package initial

import (
	"math"
	"slices"
	"testing"
)

// TestCode: blocks of one sign, of which as many are turned over as was asked for, and
// before that equal ones beside each other.
func TestCode(t *testing.T) {
	const n, block = 64, 4
	clean := fill(t, `{"type":"error_correcting_code","block_size":4,"error_rate":0}`, 3, 1, n)
	noisy := fill(t, `{"type":"error_correcting_code","block_size":4,"error_rate":0.25}`, 3, 1, n)
	word := func(x []float64) (bits []float64) {
		for i, v := range x {
			if math.Abs(v) != 1 || v != x[i/n/block*block*n+i%n/block*block] {
				t.Fatalf("%v at %d", v, i)
			}
			if i%n%block == 0 && i/n%block == 0 {
				bits = append(bits, v)
			}
		}
		return bits
	}
	a, b := word(clean), word(noisy)
	wrong := 0
	for i := range a {
		if i%2 == 1 && a[i] != a[i-1] {
			t.Fatalf("bit %d is not repeated", i)
		}
		if a[i] != b[i] {
			wrong++
		}
	}
	if wrong < 40 || wrong > 90 { // of 256, 64 in the mean
		t.Errorf("%d of %d bits turned over", wrong, len(a))
	}
	a = word(fill(t, `{"type":"error_correcting_code","block_size":4,"error_rate":0,"code":"parity"}`, 3, 1, n))
	for i := 0; i < len(a); i += 4 {
		if a[i]*a[i+1]*a[i+2] != a[i+3] {
			t.Fatalf("no parity at bit %d", i)
		}
	}
}

// TestEntropy: the variance in column x is 1/2 + e^(2h).
func TestEntropy(t *testing.T) {
	const n, seeds = 32, 200
	sums := make([]float64, n)
	for seed := range uint64(seeds) {
		for i, v := range fill(t, `{"type":"shannon_entropy","min_entropy":-1,"max_entropy":1}`, seed, 1, n) {
			sums[i%n] += v * v / n / seeds
		}
	}
	for x, v := range sums {
		if want := .5 + math.Exp(2*(-1+2*float64(x)/n)); math.Abs(v/want-1) > .25 {
			t.Errorf("column %d: variance %v, want %v", x, v, want)
		}
	}
}

// TestLevels: genes have their range, compartments two levels, clusters grow with their
// particles and hang together at the middle.
func TestLevels(t *testing.T) {
	const n = 48
	x := fill(t, `{"type":"gene_expression","min_expression":2,"max_expression":5}`, 1, 3, n)
	for c := range 3 {
		part := x[c*n*n : (c+1)*n*n]
		if slices.Min(part) != 2 || slices.Max(part) != 5 {
			t.Errorf("gene %d: %v to %v", c, slices.Min(part), slices.Max(part))
		}
	}
	levels := map[float64]bool{}
	for _, v := range fill(t, `{"type":"chromatin_domain","pattern":"AB"}`, 1, 1, n) {
		levels[v] = true
	}
	if len(levels) != 2 {
		t.Errorf("%d levels", len(levels))
	}
	x = fill(t, `{"type":"chromatin_domain"}`, 1, 1, n)
	for i, v := range x {
		if v != x[i%n*n+i/n] {
			t.Fatalf("no contact map: %v and %v", v, x[i%n*n+i/n])
		}
	}
	sum := func(text string) (s float64) {
		x := fill(t, text, 5, 1, n)
		if x[n/2*n+n/2] == 0 || slices.Max(x) != 1 {
			t.Error("no cluster at the middle")
		}
		for _, v := range x {
			if v > 0 {
				s++
			}
		}
		return s
	}
	few, many := sum(`{"type":"dla_cluster","num_particles":10}`), sum(`{"type":"dla_cluster","num_particles":60}`)
	if few < 30 || many < 1.7*few {
		t.Errorf("%v and %v pixels", few, many)
	}
	// Mixed: both kinds, of which only the field has a mean square near 1 everywhere.
	fields := 0
	for seed := range uint64(60) {
		a := fill(t, `{"type":"mixed"}`, seed, 1, 16)
		if b := fill(t, `{"type":"structured"}`, seed, 1, 16); !slices.Equal(a, b) {
			fields++
		}
	}
	if fields == 0 {
		t.Error("never a field")
	}
	x = fill(t, `{"type":"regulatory_network","topology":"random"}`, 1, 2, n)
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	if most != 1 {
		t.Errorf("largest value %v", most)
	}
}

// TestCells: blobs narrow enough to be seen apart keep their distance.
func TestCells(t *testing.T) {
	const n = 64
	x := fill(t, `{"type":"cell_population","num_cells":20,"radius":4,"kernel_width":0.6}`, 2, 1, n)
	var peaks [][2]int
	for y := 1; y < n-1; y++ {
		for c := 1; c < n-1; c++ {
			v := x[y*n+c]
			if v > 1e-3 && v > x[y*n+c-1] && v > x[y*n+c+1] && v > x[(y-1)*n+c] && v > x[(y+1)*n+c] {
				peaks = append(peaks, [2]int{c, y})
			}
		}
	}
	if len(peaks) < 12 || len(peaks) > 20 {
		t.Errorf("%d cells", len(peaks))
	}
	for i, p := range peaks {
		for _, q := range peaks[:i] {
			if math.Hypot(float64(p[0]-q[0]), float64(p[1]-q[1])) < 8-1.5 {
				t.Errorf("cells at %v and %v", p, q)
			}
		}
	}
}
