package noise

import (
	"math/big"
	"strings"
	"testing"
)

func torchMKL(t testing.TB, version string, seed uint64) *TorchCPU {
	t.Helper()
	s, err := newTorchCPU(version, true)
	if err != nil {
		t.Fatal(err)
	}
	s.Seed(seed)
	return s
}

// With p = 1/2: the mask that dropout of a 6x6 tensor has printed after
// manual_seed(123) with PyTorch's wheels, and 16 numbers after manual_seed(0) of
// another implementation of the same rule.
func TestTorchMKLBernoulli(t *testing.T) {
	for _, version := range []string{"1.13", "2.x"} {
		for seed, want := range map[uint64]string{
			0:   "1001100111100111",
			123: "111111" + "010000" + "001010" + "110001" + "100001" + "010000",
		} {
			s := torchMKL(t, version, seed)
			var got strings.Builder
			for _, v := range torchFill(t, len(want), func(d []float64) { s.Bernoulli(d, 0.5) }) {
				got.WriteByte('0' + byte(v))
			}
			if got.String() != want {
				t.Errorf("%v, seed %d: %s, want %s", s, seed, got.String(), want)
			}
		}
	}
}

// A fill takes one word, which counts modulo 2^31-1, and 0 as 1.
func TestTorchMKLSeed(t *testing.T) {
	s, x := torchMKL(t, "2.x", 7), torchStream(t, "2.x", 7)
	for _, n := range []int{1, 2, 1000, 0} {
		first := x.mt.random() % (1<<31 - 1)
		u := new(big.Int).SetUint64(uint64(first))
		for i, v := range torchFill(t, n, func(d []float64) { s.Bernoulli(d, 0.3) }) {
			f := new(big.Rat).SetFrac(u, big.NewInt(1<<31-1))
			if want := f.Cmp(big.NewRat(3, 10)) < 0; v == 1 != want || v != 0 && v != 1 {
				t.Fatalf("fill of %d: element %d is %v at u = %v", n, i, v, f.FloatString(12))
			}
			u.Mul(u, big.NewInt(1132489760)).Mod(u, big.NewInt(1<<31-1))
		}
	}
	torchDiff(t, "what follows", torchFill(t, 16, s.Normal), torchFill(t, 16, x.Normal))
	for _, c := range []struct {
		seed uint32
		want uint64
	}{{0, 1}, {1, 1}, {1<<31 - 1, 1}, {1<<31 - 2, 1<<31 - 2}, {1 << 31, 1}, {1<<31 + 1, 2}, {1<<32 - 2, 1},
		{1<<32 - 1, 1}} {
		if g := newMCG31(c.seed); g.x != c.want {
			t.Errorf("seed %d starts at %d, want %d", c.seed, g.x, c.want)
		}
	}
}

// Everything else is the stream without MKL, but for 2.x's exponential draws,
// which are refused.
func TestTorchMKLOthers(t *testing.T) {
	for _, version := range []string{"1.13", "2.x"} {
		s, x := torchMKL(t, version, 3), torchStream(t, version, 3)
		torchDiff(t, "normal", torchFill(t, 40, s.Normal), torchFill(t, 40, x.Normal))
		torchDiff(t, "complex", torchFill(t, 6, s.ComplexNormal), torchFill(t, 6, x.ComplexNormal))
		torchDiff(t, "uniform", torchFill(t, 40, func(d []float64) { s.Uniform(d, -1, 1) }),
			torchFill(t, 40, func(d []float64) { x.Uniform(d, -1, 1) }))
		if version == "1.13" {
			torchDiff(t, "exponential", torchFill(t, 40, s.Exponential), torchFill(t, 40, x.Exponential))
			if err := s.Draw(Exponential, 0, []int{1}, make([]float64, 1)); err != nil {
				t.Error(err)
			}
			continue
		}
		torchPanics(t, msgTorchMKL, func() { s.Exponential(make([]float64, 1)) })
		err := s.Draw(Exponential, 0, []int{1}, make([]float64, 1))
		const want = "noise: torch-cpu:2.x:mkl: exponential draws of MKL are not supported: " +
			"want a tape, or a build without MKL"
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
