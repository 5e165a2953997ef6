package exact

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestWords(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	decided, declined, zeros := 0, 0, 0
	for range 20000 {
		var terms []float64
		spread := 1 + r.IntN(120)
		for range 1 + r.IntN(6) {
			x := float64(float32(math.Ldexp(r.NormFloat64(), r.IntN(spread))))
			y := float64(float32(math.Ldexp(r.NormFloat64(), -r.IntN(spread))))
			terms = append(terms, x*y)
			if r.IntN(2) == 0 {
				terms = append(terms, -x*y)
			}
		}
		r.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		var sum Sum
		for _, p := range terms {
			sum.Add(p)
		}
		got, ok := Words(terms, 0)
		if !ok {
			declined++
			continue
		}
		decided++
		if want := sum.Odd(); math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%x sum to %x, want %x", terms, got, want)
		} else if want == 0 {
			zeros++
		}
	}
	if decided < 10000 || declined < 200 || zeros < 200 {
		t.Errorf("decided %d (%d zeros), declined %d: too few of one kind", decided, zeros, declined)
	}
	for _, v := range []float64{math.Inf(1), math.NaN()} {
		if got, ok := Words([]float64{1, v, 2}, 0); ok {
			t.Errorf("sum with %g decided as %g", v, got)
		}
	}
}
