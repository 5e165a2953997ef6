package reduce

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/bigref"
	"github.com/refrun/refrun/tensor"
)

// scoreOf is the judge of standardized numbers.
func scoreOf(line []float64, i int, eps float64, f fp16.Format) float64 {
	n := big.NewRat(int64(len(line)), 1)
	mean := exactSum(line)
	mean.Quo(mean, n)
	v := new(big.Rat)
	for _, x := range line {
		d := new(big.Rat).Sub(bigref.Rat(x), mean)
		v.Add(v, d.Mul(d, d))
	}
	v.Quo(v, n)
	d := new(big.Rat).Sub(bigref.Rat(line[i]), mean)
	if d.Sign() == 0 {
		return 0
	}
	if sigma, ok := exactRoot(v); ok {
		return bigref.Round(d.Quo(d, sigma.Add(sigma, bigref.Rat(eps))), f)
	}
	return bigref.Nearest(f, func(prec uint) *big.Float {
		wide := func() *big.Float { return new(big.Float).SetPrec(prec + 80) }
		sigma := wide().Sqrt(wide().SetRat(v))
		return wide().Quo(wide().SetRat(d), sigma.Add(sigma, wide().SetFloat64(eps)))
	})
}

// TestStandardize: every number is the judge's.
func TestStandardize(t *testing.T) {
	trials(t, 11, func(what string, r *rand.Rand, x *tensor.Tensor, axes []int, along []bool) int {
		f, eps := formats[r.IntN(len(formats))], []float64{1e-9, 0.25, 1}[r.IntN(3)]
		y := tensor.New(f, x.Shape...)
		Standardize(y, x, eps, axes...)
		n := 0
		for i := 0; ; i++ {
			of, places := line(x, i, along)
			if of == nil {
				break
			}
			for j := 0; j < len(of); j += 1 + len(of)/8 { // each takes the judge a look at all
				n++
				if want := scoreOf(of, j, eps, f); !same(y.Data[places[j]], want) {
					t.Fatalf("%s: number %d of line %d in %v is %v, want %v", what, j, i, f, y.Data[places[j]], want)
				}
			}
		}
		return 5 * n
	})
}

// TestHardStandardize: numbers next to the mean, and scores that are the middle of two numbers.
func TestHardStandardize(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	lines := [][]float64{
		{0x1p100, 0x1p101, 0x1p-20}, {0x1p100, 0x1p101, 0}, {1, -1}, {2049, -2049}, {257, -257}, {3, 3, 3}, {0, 0}, {5},
		{4097, -4097, 0x1p-80, -0x1p-80}, {0x1p-149, -0x1p-149}, {257, -257, 255, -255},
	}
	for n := 3; n < 30; n++ {
		var near []float64 // each other: the mean takes two words
		for range n {
			near = append(near, 1+float64(r.IntN(8))*0x1p-23)
		}
		lines = append(lines, near)
	}
	for _, of := range lines {
		for _, eps := range []float64{1e-9, 2047, 255, 0x1p-30} {
			for _, f := range formats {
				y := tensor.New(f, len(of))
				Standardize(y, tensor.Of(fp16.Float32, of, len(of)), eps, 0)
				for i := range of {
					if want := scoreOf(of, i, eps, f); !same(y.Data[i], want) {
						t.Errorf("%v, eps %v in %v: number %d is %v, want %v", of, eps, f, i, y.Data[i], want)
					}
				}
			}
		}
	}
	for _, f := range append(formats, fp16.Float64) {
		for _, of := range [][]float64{{1, math.Inf(1)}, {math.NaN(), 2}} {
			y := tensor.New(f, 2)
			Standardize(y, tensor.Of(fp16.Float32, of, 2), 1e-9, 0)
			if !same(y.Data[0], fp16.NaN) || !same(y.Data[1], fp16.NaN) {
				t.Errorf("%v in %v: %v", of, f, y.Data)
			}
		}
	}
}
