package norm

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
)

var Elements = flag.Int("norm.elements", 20_000, "how many numbers of each norm the judge sees")

// numbers returns n random float32 numbers of that size.
func numbers(r *rand.Rand, n int, scale float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float32(scale * r.NormFloat64()))
	}
	return x
}

// sameNumber reports whether two numbers have the same bits, all NaNs being one.
func sameNumber(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

// TestMinMax compares with rational arithmetic, rounded once.
func TestMinMax(t *testing.T) {
	hashed.OnEach(t, *Elements, func(o *hashed.Outputs) { minmax(t, o) })
}

// state returns the numbers of a state: ordinary ones, integers, which have ties and exact
// quotients, of all sizes, and with a large mean.
func state(r *rand.Rand, i int, f fp16.Format) []float64 {
	x := numbers(r, 2+r.IntN(30), math.Ldexp(1, r.IntN(20)-10))
	for j := range x {
		switch i % 5 {
		case 0:
			x[j] = math.Trunc(4 * x[j])
		case 1:
			x[j] = math.Ldexp(x[j], r.IntN(60)-40)
		case 2:
			x[j] = 1000 + float64(x[j]*0x1p-8)
		}
		if x[j] = f.Round(x[j]); x[j]-x[j] != 0 {
			x[j] = 1
		}
	}
	return x
}

func minmax(t *testing.T, o *hashed.Outputs) {
	r := rand.New(rand.NewPCG(3, 4))
	for i, seen := 0, 0; seen < *Elements; i++ {
		for _, f := range []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
			x := state(r, i, f)
			seen += len(x)
			lo, hi := x[0], x[0]
			for _, v := range x {
				lo, hi = min(lo, v), max(hi, v)
			}
			got := append([]float64(nil), x...)
			MinMax(got, f)
			o.Add("minmax", got...)
			for j, v := range x {
				if !o.Judge {
					break
				}
				want := v
				if hi-lo > 1e-8 {
					least := bigref.Exactly(lo)
					want = bigref.Exactly(v).Sub(least).Quo(bigref.Exactly(hi).Sub(least)).Or(f, func() float64 {
						n := new(big.Rat).Sub(bigref.Rat(v), bigref.Rat(lo))
						d := new(big.Rat).Sub(bigref.Rat(hi), bigref.Rat(lo))
						return bigref.Round(n.Quo(n, d), f)
					})
				}
				if !sameNumber(got[j], want) {
					t.Fatalf("%v: element %v of [%v,%v] is %v, want %v", f, v, lo, hi, got[j], want)
				}
			}
		}
	}
}

// TestSettleQuotient: settled quotients are rounded to odd, of numbers of all sizes,
// where they are exact, and where the numbers beside a float64 decide.
func TestSettleQuotient(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	exactly := 0
	for i := range 20000 {
		x := numbers(r, 3, 1)
		for j := range x {
			switch i % 4 {
			case 0:
				x[j] = math.Trunc(8 * x[j])
			case 1:
				x[j] = math.Ldexp(math.Trunc(4*x[j]), 40*r.IntN(3)-149)
			case 2:
				x[j] = float64(float32(math.Ldexp(x[j], r.IntN(60)-30)))
			}
		}
		slices.Sort(x)
		lo, v, hi := x[0], x[1], x[2]
		if i == 0 {
			lo, v, hi = -0x1p-149, 1, 2 // 1/2 and a little more
		}
		if !(hi > lo) {
			continue
		}
		q := new(big.Rat).Sub(bigref.Rat(v), bigref.Rat(lo))
		q.Quo(q, new(big.Rat).Sub(bigref.Rat(hi), bigref.Rat(lo)))
		want, _ := new(big.Float).SetPrec(53).SetMode(big.ToZero).SetRat(q).Float64()
		if bigref.Rat(want).Cmp(q) != 0 {
			want = math.Float64frombits(math.Float64bits(want) | 1)
		} else {
			exactly++
		}
		if got := settleQuotient(v, lo, hi); !sameNumber(got, want) {
			t.Fatalf("%x in [%x,%x]: %x, want %x", v, lo, hi, got, want)
		}
	}
	if exactly < 1000 {
		t.Errorf("only %d exact quotients", exactly)
	}
}

// TestZScore compares with a thousand bits; the scores of random numbers are
// irrational, so that is never a tie.
func TestZScore(t *testing.T) {
	hashed.OnEach(t, *Elements, func(o *hashed.Outputs) { zscore(t, o) })
}

func zscore(t *testing.T, o *hashed.Outputs) {
	r := rand.New(rand.NewPCG(5, 6))
	for i, seen := 0, 0; seen < *Elements; i++ {
		f := []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}[i%4]
		x := state(r, i, f)
		seen += len(x)
		got := append([]float64(nil), x...)
		ZScore(got, f)
		o.Add("zscore", got...)
		if !o.Judge {
			continue
		}
		mean, square := bigref.Ball{}, bigref.Ball{}
		for _, v := range x {
			mean = mean.Add(bigref.Exactly(v))
		}
		mean = mean.Quo(bigref.Exactly(float64(len(x))))
		for _, v := range x {
			d := bigref.Exactly(v).Sub(mean)
			square = square.Add(d.Mul(d))
		}
		by := square.Quo(bigref.Exactly(float64(len(x) - 1))).Sqrt().Add(bigref.Exactly(tiny))
		for j, v := range x {
			want := bigref.Exactly(v).Sub(mean).Quo(by).Or(f, func() float64 { return bigref.Round(scoreRat(x, v), f) })
			if !sameNumber(got[j], want) {
				t.Fatalf("%v: %v of %v: got %v, want %v", f, v, x, got[j], want)
			}
		}
	}
}

// TestStatesBound holds the float64 evaluations of states' norms to their
// bounds, in exact arithmetic, on data with large means and cancellation.
func TestStatesBound(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	worst := 0.0
	for i := range 2000 {
		x := numbers(r, 2+r.IntN(20), 1)
		for j := range x {
			x[j] = float64(float32(math.Ldexp(x[j], r.IntN(80)-40)))
			if i%2 == 0 {
				x[j] = float64(float32(1e4 + 1e-3*x[j]))
			}
		}
		lo, hi := x[0], x[0]
		for _, v := range x {
			lo, hi = min(lo, v), max(hi, v)
		}
		check := func(what string, v, y, bound float64, exactly *big.Rat) {
			d := new(big.Rat).Sub(bigref.Rat(y), exactly)
			e, _ := d.Abs(d).Float64()
			if e > bound {
				t.Fatalf("%s of %v in %v: error %v, bound %v", what, v, x, e, bound)
			}
			if bound > 0 {
				worst = max(worst, e/bound)
			}
		}
		if hi > lo {
			for _, v := range x {
				y, bound := quotient(v, lo, hi-lo)
				n := new(big.Rat).Sub(bigref.Rat(v), bigref.Rat(lo))
				check("quotient", v, y, bound, n.Quo(n, new(big.Rat).Sub(bigref.Rat(hi), bigref.Rat(lo))))
			}
		}
		var m exact.Moments
		m.Add(x)
		z := m.ZScore(tiny)
		for _, v := range x {
			y, bound := score(&z, v)
			check("score", v, y, bound, scoreRat(x, v))
		}
	}
	if worst < 0.1 {
		t.Errorf("largest error is %.2g of its bound: the data do not test it", worst)
	}
	t.Logf("largest error %.2f of its bound", worst)
}

// scoreRat returns (v-mean)/(std+1e-8) to 1000 bits.
func scoreRat(x []float64, v float64) *big.Rat {
	F := func(v float64) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(v) }
	n, mean, sq := F(float64(len(x))), F(0), F(0)
	for _, v := range x {
		mean.Add(mean, F(v))
	}
	mean.Quo(mean, n)
	for _, v := range x {
		d := F(0).Sub(F(v), mean)
		sq.Add(sq, d.Mul(d, d))
	}
	s := sq.Quo(sq, F(float64(len(x)-1)))
	s.Sqrt(s).Add(s, F(tiny))
	d := F(0).Sub(F(v), mean)
	q, _ := d.Quo(d, s).Rat(nil)
	return q
}

// TestStatesSettle has a quotient so near a midpoint that float64 rounds it to
// the wrong side: only the exact evaluation gives the answer.
func TestStatesSettle(t *testing.T) {
	x := []float64{-0x1p-149, 5 * 0x1p-90, 0x1p60}
	MinMax(x, fp16.Float32)
	if x[1] != 0x1.8p-148 {
		t.Errorf("min-max gives %b, want 0x1.8p-148", x[1])
	}
	// Ten numbers with mean 0 and std (2/3) 2^84 exactly: V^2+a^2+b^2+c^2+d^2 =
	// 2^49. The score of V would be (3V/2) 2^-24, halfway between float32
	// numbers and rounded up to the even one, but for the 1e-8 in the divisor,
	// which is 2^-111 of it and puts it below.
	const V = 9690369
	x = nil
	for _, v := range []float64{V, 13386201, 16673903, 3434221, 208350} {
		x = append(x, v*0x1p60, -v*0x1p60)
	}
	ZScore(x, fp16.Float32)
	if want := (3*V - 1) / 2 * 0x1p-24; x[0] != want || x[1] != -want {
		t.Errorf("scores %b and %b, want %b and its negative", x[0], x[1], want)
	}
}

// TestStatesAllocate: normalising allocates nothing, not even for quotients that are
// ties.
func TestStatesAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for data, fill := range map[string]func() float64{
		"normal":   r.NormFloat64,
		"integers": func() float64 { return float64(r.IntN(17) - 8) },
		"constant": func() float64 { return 0.3 },
		"offset":   func() float64 { return 1e4 + 1e-3*r.NormFloat64() },
		"wide":     func() float64 { return math.Ldexp(r.NormFloat64(), r.IntN(60)-30) },
		"ties":     func() float64 { return float64(r.IntN(1<<25+1))/(1<<24) - 1 }, // over 2: half of 2^-24
	} {
		x := make([]float64, 4096)
		for i := range x {
			x[i] = fp16.Float32.Round(fill())
		}
		if data == "ties" {
			x[0], x[1] = -1, 1
		}
		y := make([]float64, len(x))
		for what, of := range map[string]func([]float64, fp16.Format){"min-max": MinMax, "z-score": ZScore} {
			if a := testing.AllocsPerRun(3, func() {
				copy(y, x)
				of(y, fp16.Float32)
			}); a != 0 {
				t.Errorf("%s of %s: %v allocations", what, data, a)
			}
		}
		var m exact.Moments
		m.Add(x)
		z := m.ZScore(tiny)
		if a := testing.AllocsPerRun(5, func() { // whole allocations a run: one of a collection beside it does not count
			for _, v := range x {
				z.Settle(v)
			}
		}); a != 0 {
			t.Errorf("settled scores of %s: %v allocations", data, a)
		}
	}
}
