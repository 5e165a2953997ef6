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
