package reduce

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// scores returns the judge of the standardized numbers of a line.
func scores(line []float64, eps float64) func(i int, f fp16.Format) float64 {
	n := bigref.Exactly(float64(len(line)))
	mean, v := ballOf(line).Quo(n), bigref.Ball{}
	for _, x := range line {
		d := bigref.Exactly(x).Sub(mean)
		v = v.Add(d.Mul(d))
	}
	by := v.Quo(n).Sqrt().Add(bigref.Exactly(eps))
	return func(i int, f fp16.Format) float64 {
		return bigref.Exactly(line[i]).Sub(mean).Quo(by).Or(f, func() float64 { return scoreOf(line, i, eps, f) })
	}
}

// scoreOf is the same by fractions and more bits.
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
	o := hashed.New(t, *elements)
	trials(t, 11, func(what string, r *rand.Rand, x *tensor.Tensor, axes []int, along []bool) int {
		f, eps := formats[r.IntN(len(formats))], []float64{1e-9, 0.25, 1}[r.IntN(3)]
		y := tensor.New(f, x.Shape...)
		Standardize(y, x, eps, axes...)
		o.Add("standardize", y.Data...)
		if !o.Judge {
			return len(x.Data)
		}
		for i, l := range linesOf(x, along) {
			of, places := l.of, l.places
			judge := scores(of, eps)
			for j := range of {
				if want := judge(j, f); !same(y.Data[places[j]], want) {
					t.Fatalf("%s: number %d of line %d in %v is %v, want %v", what, j, i, f, y.Data[places[j]], want)
				}
			}
		}
		return len(x.Data)
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
