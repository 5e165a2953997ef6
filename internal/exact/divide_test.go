package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestDivide: quotients of 53 by up to 53 bits, exact ones and those a hair from a number
// of few bits among them, are the rational number rounded to odd.
func TestDivide(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	inexact := 0
	for i := range 20000 {
		d := float64(1 + r.Uint64N(1<<(1+i%53)))
		s := float64(r.Int64N(1<<53)) * float64(2*r.IntN(2)-1)
		if i%2 == 0 { // beside a multiple
			s = float64(math.RoundToEven(s/d/0x1p20) * d)
			s = math.Nextafter(s, float64(r.IntN(3)-1)*math.Inf(1))
			if s != s {
				continue
			}
		}
		s = math.Ldexp(s, r.IntN(200)-250)
		q := new(big.Rat).Quo(new(big.Rat).SetFloat64(s), new(big.Rat).SetFloat64(d))
		want := Ratio(q)
		if got := Divide(s, d); got != want {
			t.Fatalf("%x over %x: %x: want %x", s, d, got, want)
		}
		if _, exactly := q.Float64(); !exactly {
			inexact++
		}
	}
	if inexact < 5000 || inexact > 19000 {
		t.Errorf("%d quotients are inexact", inexact)
	}
}
