package sample

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
)

// points returns all points of a sampler.
func points(t *testing.T, c Config) []float64 {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float64, c.Points*c.Dims)
	for i := range c.Points {
		s.At(i, x[i*c.Dims:(i+1)*c.Dims])
	}
	return x
}

// TestScipy compares with the SHA-256 of scipy 1.17.1's points, as little-endian float64:
// qmc.Sobol(dims, scramble=..., seed=... or rng=..., bits=...).random(n).
func TestScipy(t *testing.T) {
	for _, c := range []struct {
		Config
		want string
	}{
		{Config{Dims: 12, Points: 16384}, "ad2890dcc043c657522a9f9101db08c38c89ecbe36da98e99d6683636be4f387"},
		{Config{Dims: 12, Points: 16384, Scramble: true, Seed: 42, Legacy: true},
			"223d1a6e8fef59f5df6ff78266f66a95dc8788f3e23bda3e47986a760c073e3c"},
		{Config{Dims: 12, Points: 16384, Scramble: true, Seed: 42},
			"8cb6e8575e19697678caf10f90adca365442bc6591586ca48a9493ccfdfb6355"},
		{Config{Dims: 64, Points: 1024, Bits: 32}, "f84047f5f836fda303cf9fa92fc95e3564eb9fd90a6d584b6aff7292a6f21c61"},
		{Config{Dims: 64, Points: 1024, Bits: 32, Scramble: true, Seed: 7, Legacy: true},
			"ec2a3377d8f10879372b32ac0b2f5036e9859d9732a5a727aae3774b008b7829"},
		{Config{Dims: 64, Points: 1024, Bits: 32, Scramble: true, Seed: 7},
			"7ff280c90532277ca93aa26a7e15ada5da8579d44f5fb54f8fb74e4154667f9d"},
		{Config{Dims: 9, Points: 512, Bits: 64, Scramble: true, Seed: 1<<40 + 3},
			"32cf32f570de1998911646a997f645ee47a3400170cf976e6aaabb42dd3e5498"},
	} {
		c.Method = Sobol
		h := sha256.New()
		for _, v := range points(t, c.Config) {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
			h.Write(b[:])
		}
		if got := fmt.Sprintf("%x", h.Sum(nil)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.Config, got, c.want)
		}
	}
}

// TestHalton forms radical inverses as fractions.
func TestHalton(t *testing.T) {
	const n, dims = 1000, 20
	x := points(t, Config{Method: Halton, Dims: dims, Points: n})
	primes := []int64{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71}
	for i := range int64(n) {
		for d, p := range primes {
			sum, unit := new(big.Rat), big.NewRat(1, 1)
			for left := i; left > 0; left /= p {
				unit.Mul(unit, big.NewRat(1, p))
				sum.Add(sum, new(big.Rat).Mul(unit, big.NewRat(left%p, 1)))
			}
			if want, _ := sum.Float64(); x[int(i)*dims+d] != want {
				t.Fatalf("point %d, base %d: %v, want %v", i, p, x[int(i)*dims+d], want)
			}
		}
	}
	// Permuted digits: the first p points, and any p in a row, have each first digit once.
	for seed := range uint64(3) {
		x = points(t, Config{Method: Halton, Dims: dims, Points: n, Scramble: true, Seed: seed})
		for d, p := range primes {
			seen := map[int]bool{}
			for i := range int(p) {
				seen[int(x[i*dims+d]*float64(p))] = true
			}
			if len(seen) != int(p) {
				t.Errorf("seed %d, base %d: %d first digits", seed, p, len(seen))
			}
		}
		if x[0] == 0 {
			t.Error("the first point is the corner")
		}
	}
}

// TestLatin counts the points in each slice.
func TestLatin(t *testing.T) {
	const n, dims = 997, 7
	x := points(t, Config{Method: Latin, Dims: dims, Points: n, Seed: 3})
	for d := range dims {
		seen := map[int]bool{}
		for i := range n {
			seen[int(x[i*dims+d]*n)] = true
		}
		if len(seen) != n {
			t.Errorf("axis %d: %d slices of %d have a point", d, len(seen), n)
		}
	}
	if c, a, b := Correlation(x, dims); c > 0.15 {
		t.Errorf("axes %d and %d: correlation %v", a, b, c)
	}
}

// TestRandom compares moments with those of the uniform distribution, within five
// standard errors.
func TestRandom(t *testing.T) {
	const n = 40000
	x := points(t, Config{Method: Random, Dims: 5, Points: n, Seed: 9})
	for d := range 5 {
		sum, squares := 0.0, 0.0
		for i := range n {
			v := x[i*5+d]
			sum += v
			squares += v * v
		}
		if m := sum / n; math.Abs(m-0.5) > 5*math.Sqrt(1./12/n) {
			t.Errorf("axis %d: mean %v", d, m)
		}
		if m := squares / n; math.Abs(m-1./3) > 5*math.Sqrt(4./45/n) {
			t.Errorf("axis %d: second moment %v", d, m)
		}
	}
	if c, a, b := Correlation(x, 5); c > 5/math.Sqrt(n) {
		t.Errorf("axes %d and %d: correlation %v", a, b, c)
	}
}

// TestQuality compares with scipy.stats.qmc.discrepancy and numpy.corrcoef.
func TestQuality(t *testing.T) {
	x := points(t, Config{Method: Sobol, Dims: 4, Points: 64})
	if got, want := Discrepancy(x, 4), 0.0012377966129335505; math.Abs(got-want) > 1e-14 {
		t.Errorf("discrepancy %v, want %v", got, want)
	}
	x = points(t, Config{Method: Sobol, Dims: 12, Points: 256, Scramble: true, Seed: 42, Legacy: true})
	if got, want := Discrepancy(x, 12), 0.013991374652916111; math.Abs(got-want) > 1e-13 {
		t.Errorf("discrepancy %v, want %v", got, want)
	}
	if got, _, _ := Correlation(x, 12); math.Abs(got-0.09365840184168867) > 1e-13 {
		t.Errorf("correlation %v", got)
	}
}

// TestAny holds that a point does not depend on the order in which points are made, that
// all lie in [0,1), and that seeds differ.
func TestAny(t *testing.T) {
	for _, m := range []Method{Sobol, Halton, Latin, Random} {
		c := Config{Method: m, Dims: MostDims, Points: 200, Scramble: true, Seed: 5}
		all := points(t, c)
		s, _ := New(c)
		x := make([]float64, c.Dims)
		for i := c.Points - 1; i >= 0; i-- {
			s.At(i, x)
			for d, v := range x {
				if v != all[i*c.Dims+d] || !(v >= 0 && v < 1) {
					t.Fatalf("%s: point %d, axis %d: %v and %v", m, i, d, v, all[i*c.Dims+d])
				}
			}
		}
		c.Seed = 6
		if other := points(t, c); other[0] == all[0] && other[1] == all[1] {
			t.Errorf("%s: another seed has the same points", m)
		}
	}
}

// TestRefused holds the messages of what cannot be had.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		Config
		want string
	}{
		{Config{Method: "soboll", Dims: 1, Points: 1}, `"soboll": want sobol, halton, latin or random`},
		{Config{Method: Sobol, Dims: 0, Points: 1}, "0 dimensions: want 1 to 64"},
		{Config{Method: Sobol, Dims: 65, Points: 1}, "65 dimensions: want 1 to 64"},
		{Config{Method: Sobol, Dims: 1, Points: 1<<30 + 1}, "1073741825 points: want 1 to 1073741824"},
		{Config{Method: Sobol, Dims: 1, Points: 1, Bits: 65}, "65 bits: want 30 to 64"},
	} {
		if _, err := New(c.Config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.Config, err, c.want)
		}
	}
}
