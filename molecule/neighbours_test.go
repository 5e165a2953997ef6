package molecule

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactWithin decides by numbers of so many digits that nothing is rounded.
func exactWithin(a, b []float64, cutoff float64, inclusive bool) bool {
	sum := new(big.Float).SetPrec(8000)
	for c := range 3 {
		d := new(big.Float).SetPrec(4000).Sub(big.NewFloat(a[c]).SetPrec(4000), big.NewFloat(b[c]))
		sum.Add(sum, new(big.Float).SetPrec(8000).Mul(d, d))
	}
	r := new(big.Float).SetPrec(8000).SetFloat64(cutoff)
	order := sum.Cmp(r.Mul(r, r))
	return order < 0 || inclusive && order == 0
}

// Pairs at the cutoff, and a last place away from it, are decided exactly; lists are symmetric.
func TestNeighbours(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	ties := 0
	for range 4000 {
		a, b := make([]float64, 3), make([]float64, 3)
		for c := range 3 {
			a[c] = math.Ldexp(float64(r.IntN(64)), -3)
			b[c] = math.Ldexp(float64(r.IntN(64)), -3)
		}
		d := math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
		for _, cutoff := range []float64{d, math.Nextafter(d, 0), math.Nextafter(d, 100)} {
			for _, inclusive := range []bool{false, true} {
				got, want := within(a, b, cutoff, inclusive), exactWithin(a, b, cutoff, inclusive)
				if got != want || within(b, a, cutoff, inclusive) != want {
					t.Fatalf("%v and %v, cutoff %v, inclusive %v: %v, want %v", a, b, cutoff, inclusive, got, want)
				}
				if exactWithin(a, b, cutoff, true) != exactWithin(a, b, cutoff, false) {
					ties++
				}
			}
		}
	}
	if ties < 50 {
		t.Errorf("%d ties: want some", ties)
	}
	tiny, nan := math.SmallestNonzeroFloat64, math.NaN()
	for _, k := range []struct {
		a, b      []float64
		cutoff    float64
		inclusive bool
		want      bool
	}{
		{[]float64{tiny, 0, 0}, []float64{0, 0, 0}, tiny, false, false},
		{[]float64{tiny, 0, 0}, []float64{0, 0, 0}, tiny, true, true},
		{[]float64{tiny, 0, 0}, []float64{0, 0, 0}, 2 * tiny, false, true},
		{[]float64{0, 0, 0}, []float64{0, 0, 0}, 1, false, true},
		{[]float64{1e300, 0, 0}, []float64{-1e300, 0, 0}, 1.9e300, true, false},
		{[]float64{1e300, 0, 0}, []float64{-1e300, 0, 0}, 2.1e300, true, true},
		{[]float64{nan, 0, 0}, []float64{0, 0, 0}, 5, true, false},
		{[]float64{math.Inf(1), 0, 0}, []float64{0, 0, 0}, 5, true, false},
		{[]float64{0, 0, 0}, []float64{1, 0, 0}, math.Inf(1), false, true},
		{[]float64{0, 0, 0}, []float64{1, 0, 0}, nan, false, false},
	} {
		if got := within(k.a, k.b, k.cutoff, k.inclusive); got != k.want {
			t.Errorf("%v and %v, cutoff %v, inclusive %v: %v, want %v", k.a, k.b, k.cutoff, k.inclusive, got, k.want)
		}
	}
}

// A batch has the bits of its molecules alone, in every mode; and but in float64, where sums are in the
// order of pairs, atoms in another order have their own bits too.
func TestBatch(t *testing.T) {
	m := fixtureModel(t)
	a, b, c := benzene(t), methane(t), cloud(9, 3)
	for _, precision := range []string{"float64", "float32", "tf32", "float16", "bfloat16"} {
		all := evaluate(t, m, precision, m.Batch(a, b, c, a.mapped(same, shuffled(12))))
		at := 0
		for k, x := range []*Molecule{a, b, c} {
			alone := evaluate(t, m, precision, m.Batch(x))
			if alone.Energies[0] != all.Energies[k] {
				t.Errorf("%s: molecule %d: energy %v, in a batch %v", precision, k, alone.Energies[0], all.Energies[k])
			}
			for i, f := range alone.Forces {
				if math.Float64bits(f) != math.Float64bits(all.Forces[at+i]) {
					t.Fatalf("%s: molecule %d: component %d: force %v, in a batch %v", precision, k, i, f, all.Forces[at+i])
				}
			}
			at += len(alone.Forces)
		}
		if precision == "float64" {
			continue
		}
		for i, o := range shuffled(12) {
			for c := range 3 {
				if f, g := all.Forces[3*o+c], all.Forces[at+3*i+c]; f != g {
					t.Fatalf("%s: atom %d: force %v, in another order %v", precision, o, f, g)
				}
			}
		}
	}
}
