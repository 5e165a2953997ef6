package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestAffine: against fractions, zeros and both ends of the range included.
func TestAffine(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for range 3000 {
		var s Sum
		want := new(big.Rat)
		for range r.IntN(4) {
			p := float64(float32(r.NormFloat64())) * float64(float32(r.NormFloat64()))
			s.Add(p)
			want.Add(want, rat(p))
		}
		alpha, beta, c := math.Ldexp(r.NormFloat64(), r.IntN(900)-450), float64(r.IntN(3)-1),
			math.Ldexp(r.NormFloat64(), r.IntN(200)-100)
		want.Mul(want, rat(alpha))
		want.Add(want, new(big.Rat).Mul(rat(beta), rat(c)))
		got := Affine(alpha, &s, beta, c)
		if want.Sign() == 0 && math.Float64bits(got) != 0 || want.Sign() != 0 && !isOdd(got, want) {
			t.Fatalf("%v S + %v %v is %v, want %v", alpha, beta, c, got, want.FloatString(30))
		}
	}
	var s Sum
	s.Add(1)
	if got := Affine(-0x1p1000, &s, -0x1p1000, 0x1p100); !math.IsInf(got, -1) {
		t.Errorf("beyond the range: %v", got)
	}
}
