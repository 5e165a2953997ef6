package reduce

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

// TestTies: sums a hair from the middle of two numbers, which float64 cannot tell from
// the middle.
func TestTies(t *testing.T) {
	for _, line := range [][]float64{
		{1, 0x1p-24, 0x1p-60, 0x1p-149, -0x1p-60},
		{1, 0x1p-24, 0x1p-60, -0x1p-149, -0x1p-60},
		{-1, -0x1p-24, 0x1p-70, 0x1p-149, -0x1p-70},
		{1, 0x1p-11, 0x1p-80, 0x1p-140, -0x1p-80},
		{1, 0x1p-8, 0x1p-80, 0x1p-140, -0x1p-80, 0x1p-120},
		{0x1p100, 1, -0x1p100, 0x1p-24, 0x1p-149},
	} {
		x := tensor.Of(fp16.Float32, line, len(line))
		for _, f := range formats {
			sum, prefixes := tensor.New(f, 1), tensor.New(f, len(line))
			Sum(sum, x, 0)
			CumSum(prefixes, x, 0, false, false)
			s := new(big.Rat)
			for i, v := range line {
				s.Add(s, bigref.Rat(v))
				if want := bigref.Round(s, f); !same(prefixes.Data[i], want) {
					t.Errorf("%v in %v: prefix %d is %v, want %v", line, f, i, prefixes.Data[i], want)
				}
			}
			if want := bigref.Round(s, f); !same(sum.Data[0], want) {
				t.Errorf("%v in %v: sum %v, want %v", line, f, sum.Data[0], want)
			}
		}
	}
}

// TestSoftmaxTies: lines made so that the share of their first number is the middle of
// two numbers but for some 2^-70 of it, to either side. The sum of exponentials that it
// takes is approached from below by numbers whose exponentials fit into what is left.
func TestSoftmaxTies(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for trial := range 400 {
		f := []fp16.Format{fp16.Float16, fp16.BFloat16, fp16.Float32}[trial%3]
		y := f.Round(0.05 + 0.9*r.Float64())
		next := f.Round(y + f.Ulp(y)) // above it
		tie := (y + next) / 2         // exact in float64
		const prec = 300
		left := new(big.Float).SetPrec(prec).Quo(big.NewFloat(1).SetPrec(prec), new(big.Float).SetPrec(prec).SetFloat64(tie))
		left.Sub(left, big.NewFloat(1)) // the first number is 0
		line := []float64{0}
		for range 3 {
			v, _ := bigref.Log(left, 100).Float64()
			x := float64(float32(v))
			for {
				e := bigref.Exp(new(big.Float).SetPrec(prec).SetFloat64(x), prec)
				if e.Cmp(left) < 0 {
					left.Sub(left, e)
					break
				}
				x = float64(math.Nextafter32(float32(x), -1000))
			}
			line = append(line, x)
		}
		if trial%2 == 0 { // a bit too much instead of a bit too little
			line[3] = float64(math.Nextafter32(float32(line[3]), 0))
		}
		got := tensor.New(f, len(line))
		Softmax(got, tensor.Of(fp16.Float32, line, len(line)), 0)
		judge := bigref.Softmax(line)
		for i := range line {
			if want := judge(i, f); !same(got.Data[i], want) {
				t.Errorf("%v in %v: share %d is %v, want %v", line, f, i, got.Data[i], want)
			}
		}
	}
}

// TestMomentTies: variances, norms and products a hair from the middle of two numbers, or at
// it, which float64 cannot tell.
func TestMomentTies(t *testing.T) {
	variance := func(line []float64) *big.Rat { // over 2 of 4, of numbers whose mean is 0
		v := new(big.Rat)
		for _, x := range line {
			v.Add(v, new(big.Rat).Mul(bigref.Rat(x), bigref.Rat(x)))
		}
		return v.Quo(v, big.NewRat(2, 1))
	}
	for _, tiny := range []float64{0, 0x1p-40, 0x1p-74, 0x1p-149} {
		for _, k := range []float64{1, 3, 5} {
			for _, bits := range []int{24, 11, 8} { // 2^-bits: half of the last bit above 1
				x := 1 + math.Ldexp(k, -(bits+1)/2) // its square has the bit, or the next one
				of := []float64{x, -x, tiny, -tiny}
				for _, f := range formats {
					got := tensor.New(f, 1)
					Var(got, tensor.Of(fp16.Float32, of, 4), 2, 0)
					if want := bigref.Round(variance(of), f); !same(got.Data[0], want) {
						t.Errorf("%v in %v: variance %v, want %v", of, f, got.Data[0], want)
					}
				}
			}
		}
		// 5k is the middle of two float32 numbers, the lower one of which is even.
		const k = 3355445.0
		of := []float64{3 * k, 4 * k, tiny}
		want := 5*k - 1
		if tiny > 0 {
			want = 5*k + 1
		}
		got := tensor.New(fp16.Float32, 1)
		if Norm(got, tensor.Of(fp16.Float32, of, 3), 2, 0); got.Data[0] != want {
			t.Errorf("norm of %v: %v, want %v", of, got.Data[0], want)
		}
		of = []float64{3 * k, -3 * k, 4 * k, -4 * k, tiny, -tiny}
		if Std(got, tensor.Of(fp16.Float32, of, 6), 4, 0); got.Data[0] != want {
			t.Errorf("deviation of %v: %v, want %v", of, got.Data[0], want)
		}
		of = []float64{1, -0x1p-24, tiny}
		want = 1
		if tiny > 0 {
			want += 0x1p-23
		}
		if Norm(got, tensor.Of(fp16.Float32, of, 3), 1, 0); got.Data[0] != want {
			t.Errorf("sum of sizes of %v: %v, want %v", of, got.Data[0], want)
		}
	}
	// Whole numbers whose product is an odd number of 12 bits times 2^58, and 1 more or less.
	for _, of := range [][]float64{
		{16755, 1741, 1433813, 14396021, 0x1p-58}, {129773, 38011, 115301, 1087027, 0x1p-58},
		{1349969, 811, 83719, 6971669, -0x1p-58},
		{2696723, 8669, 117133, 233357, 0x1p-58}, {51865, 2225611, 3643, 1542881, 0x1p-58},
		{40209, 1523, 1023719, 9521731, 0x1p-58},
	} {
		p := big.NewRat(1, 1)
		for _, x := range of {
			p.Mul(p, bigref.Rat(x))
		}
		for _, f := range formats {
			got := tensor.New(f, 1)
			if Prod(got, tensor.Of(fp16.Float32, of, 5), 0); !same(got.Data[0], bigref.Round(p, f)) {
				t.Errorf("%v in %v: product %v, want %v", of, f, got.Data[0], bigref.Round(p, f))
			}
		}
	}
}

// TestFar: products that leave the range of float64 on the way, or in the end.
func TestFar(t *testing.T) {
	var line []float64
	for range 40 {
		line = append(line, 0x1p127, -0x1p-120, 3)
	}
	for cut := range len(line) {
		p := big.NewRat(1, 1)
		for _, x := range line[cut:] {
			p.Mul(p, bigref.Rat(x))
		}
		for _, f := range formats {
			got := tensor.New(f, 1)
			if Prod(got, tensor.Of(fp16.Float32, line[cut:], len(line)-cut), 0); !same(got.Data[0], bigref.Round(p, f)) {
				t.Errorf("product from %d on in %v: %v, want %v", cut, f, got.Data[0], bigref.Round(p, f))
			}
		}
		line[cut] = 1 / line[cut] // not 1/3
		if line[cut] = fp16.Float32.Round(line[cut]); cut%3 != 0 {
			line[cut] = -line[cut]
		}
	}
}
