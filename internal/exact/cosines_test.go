package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/internal/judges/bigref"
)

// TestCircle: every cosine of the table lies within its bound of bigref's.
func TestCircle(t *testing.T) {
	const prec = 200
	for _, n := range []int{4, 8, 12, 20, 24, 40, 64, 100, 404, 1024} {
		for m, c := range Circle(n) {
			a := new(big.Float).SetPrec(prec).Mul(bigref.Pi(prec), big.NewFloat(float64(2*m)))
			want := bigref.Cos(a.Quo(a, big.NewFloat(float64(n))), prec)
			if 4*m == n || 4*m == 3*n {
				want = new(big.Float)
				if c.Hi != 0 || c.Lo != 0 || math.Signbit(c.Hi) {
					t.Errorf("cos of %d/%d turns is %v", m, n, c)
				}
			}
			d, _ := new(big.Float).SetPrec(prec).Sub(want, big.NewFloat(c.Hi)).Float64()
			if math.Abs(d) > 0x1p-54*(1+0x1p-40) {
				t.Errorf("cos of %d/%d turns is off by %v", m, n, d)
			}
			if e := math.Abs(d - c.Lo); e > 0x1p-106 {
				t.Errorf("cos of %d/%d turns in two words is off by %v", m, n, e)
			}
		}
	}
}

// cosines is a sum that grows term by term.
type cosines struct {
	*Cosines
	c []Sum
}

func newCosines(turn int) *cosines {
	s := NewCosines(turn)
	return &cosines{s, make([]Sum, s.N())}
}

func (s *cosines) add(m int, x float64) { s.c[m].Add(x) }

func (s *cosines) odd(count int, root bool) float64 {
	s.Set(s.c)
	return s.Odd(count, root)
}

// addInt adds v cos(2 pi m/N), word by word.
func (s *cosines) addInt(m int, v *big.Int) {
	rest := new(big.Int).Set(v)
	for rest.Sign() != 0 {
		f, _ := new(big.Float).SetInt(rest).Float64()
		s.add(m, f)
		w, _ := new(big.Float).SetFloat64(f).Int(nil)
		rest.Sub(rest, w)
	}
}

// TestCosinesRational: sums that vanish, such as those of all p-th roots of unity, added
// at random to a rational number or to multiples of roots, change nothing.
func TestCosinesRational(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 800 {
		turn := 1 + r.IntN(120)
		s := newCosines(turn)
		n := s.N()
		of := primes(n)
		for range 1 + r.IntN(20) {
			p, at, x := of[r.IntN(len(of))], r.IntN(n), float64(r.IntN(2001)-1000)/64
			for k := range p {
				s.add((at+k*(n/p))%n, x)
			}
		}
		want := 0.0
		if trial%3 > 0 {
			want = float64(r.IntN(1<<20)-1<<19) / 1024
			s.add(0, want)
		}
		if got := s.odd(1, false); got != want || math.Signbit(got) != (want < 0) {
			t.Fatalf("trial %d, %d parts: %v, want %v", trial, n, got, want)
		}
		if got := s.odd(4, true); got != want/2 {
			t.Fatalf("trial %d, %d parts: half is %v, want %v", trial, n, got, want/2)
		}
		s.add(1, 0x1p-140) // irrational, unless n is 8 or less
		if got := s.odd(1, false); n > 8 && (got == want || math.Abs(got-want) > math.Abs(want)*0x1p-52+0x1p-139) {
			t.Fatalf("trial %d, %d parts: %v beside %v", trial, n, got, want)
		}
	}
}

// TestCosinesRoots: 2 cos(pi/4) = sqrt(2), and so on, divided by roots.
func TestCosinesRoots(t *testing.T) {
	for _, c := range []struct {
		turn  int
		terms map[int]float64
		count int
		want  float64
	}{
		{8, map[int]float64{1: 3}, 2, 1.5}, {8, map[int]float64{1: -3}, 8, -0.75}, {8, map[int]float64{0: 3}, 4, 1.5},
		{12, map[int]float64{2: 3}, 2, math.NaN()}, {24, map[int]float64{2: 3}, 3, 1.5},
		{24, map[int]float64{2: 3}, 12, 0.75},
		{5, map[int]float64{8: 1, 16: -1, 24: -1, 32: 1}, 5, 1}, {5, map[int]float64{8: 1, 16: -1, 24: -1, 32: 1}, 20, 0.5},
		{24, map[int]float64{1: 2, 7: -2}, 6, 1}, {24, map[int]float64{1: 2}, 6, math.NaN()},
		{24, map[int]float64{1: 2, 5: 2}, 6, 1},
	} {
		s := newCosines(c.turn)
		for m, x := range c.terms {
			s.add(m, x)
		}
		got := s.odd(c.count, true)
		if c.want != c.want { // irrational: the last bit is odd
			if math.Float64bits(got)&1 == 0 {
				t.Errorf("%v of %d parts over the root of %d is %v", c.terms, s.N(), c.count, got)
			}
		} else if got != c.want {
			t.Errorf("%v of %d parts over the root of %d is %v, want %v", c.terms, s.N(), c.count, got, c.want)
		}
	}
	defer func() {
		if r := recover(); r != "exact: count with a prime factor that the angles have not" {
			t.Errorf("panic %v", r)
		}
	}()
	NewCosines(8).rational(5, true)
}

// TestCosinesNearZero: p - q sqrt(2) = 1/(p + q sqrt(2)) for solutions of p^2 - 2 q^2 = 1,
// as small as no table of one precision finds it.
func TestCosinesNearZero(t *testing.T) {
	p, q := big.NewInt(3), big.NewInt(2)
	for p.BitLen() < 300 {
		s := newCosines(8)
		s.addInt(0, p)
		s.addInt(1, new(big.Int).Lsh(new(big.Int).Neg(q), 1))
		root := new(big.Float).SetPrec(2000).SetInt64(2)
		root.Sqrt(root).Mul(root, new(big.Float).SetInt(q)).Add(root, new(big.Float).SetInt(p))
		root.Quo(big.NewFloat(1), root)
		want, _ := root.SetMode(big.ToZero).SetPrec(53).Float64()
		if math.Float64bits(want)&1 == 0 {
			want = math.Nextafter(want, 1)
		}
		if got := s.odd(1, false); got != want {
			t.Errorf("with %d bits: %v, want %v", p.BitLen(), got, want)
		}
		p, q = new(big.Int).Add(new(big.Int).Mul(p, big.NewInt(3)), new(big.Int).Mul(q, big.NewInt(4))),
			new(big.Int).Add(new(big.Int).Mul(p, big.NewInt(2)), new(big.Int).Mul(q, big.NewInt(3)))
	}
}

// TestCosinesSetInt: coefficients that are whole numbers make the same sum.
func TestCosinesSetInt(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		s := newCosines(1 + r.IntN(60))
		c := make([]int64, s.N())
		for m := range c {
			c[m] = r.Int64N(1<<40) - 1<<39
			s.add(m, math.Ldexp(float64(c[m]), -70))
		}
		want := s.odd(3, false)
		if s.SetInt(c, -70); s.Odd(3, false) != want {
			t.Fatalf("%d parts: %v, want %v", s.N(), s.Odd(3, false), want)
		}
	}
}
