package norm_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// sixteen is docs/NUMERICS.md's sum of what f gives at so many places.
func sixteen(n int, f func(i int, s float64) float64) float64 {
	var s [16]float64
	for i := range n {
		s[i%16] = f(i, s[i%16])
	}
	var two [8]float64
	for j := range two {
		two[j] = s[j] + s[j+8]
	}
	return ((two[0] + two[4]) + (two[2] + two[6])) + ((two[1] + two[5]) + (two[3] + two[7]))
}

// TestFastLayer: every instruction set has the bits of docs/NUMERICS.md, section 13, or, where that
// says so, of the exact norm.
func TestFastLayer(t *testing.T) {
	defer asm.Use(asm.ISA())
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{1, 3, 15, 16, 17, 64, 197, 768} {
			for trial := range 7 {
				x := tensor.New(fp16.Float32, 2, n)
				for i := range x.Data {
					x.Data[i] = fp16.Float32.Round(r.NormFloat64()*[]float64{1, 1e-3, 1e30}[trial%3] + float64(trial%2))
				}
				gamma, beta := make([]float64, n), make([]float64, n)
				for i := range n {
					gamma[i], beta[i] = fp16.Float32.Round(r.NormFloat64()), fp16.Float32.Round(r.NormFloat64())
				}
				eps := 1e-5
				switch k := r.IntN(n); trial {
				case 3:
					x.Data[k] = fp16.NaN
				case 4:
					x.Data[k] = math.Inf(1)
				case 5:
					gamma, beta = nil, nil
				case 6:
					eps = 0
					for i := range n {
						x.Data[i] = 3
					}
				}
				want := tensor.New(fp16.Float32, 2, n)
				norm.Layer(want, x, n, gamma, beta, eps)
				for row := range 2 {
					x, y := x.Data[row*n:][:n], want.Data[row*n:][:n]
					m := sixteen(n, func(i int, s float64) float64 { return s + x[i] }) / float64(n)
					q := sixteen(n, func(i int, s float64) float64 { return math.FMA(x[i]-m, x[i]-m, s) })
					v := q/float64(n) + eps
					if !(v > 0 && v <= math.MaxFloat64) {
						continue
					}
					for i := range n {
						g, b := 1.0, 0.0
						if gamma != nil {
							g, b = gamma[i], beta[i]
						}
						s := 1 / math.Sqrt(v)
						y[i] = fp16.Float32.Round(math.FMA(float64((x[i]-m)*s), g, b))
					}
				}
				got := tensor.New(fp16.Float32, 2, n)
				norm.NewFastLayer(n, gamma, beta, eps).ForwardFast(got, x)
				for i, v := range got.Data {
					if math.Float64bits(v) != math.Float64bits(want.Data[i]) {
						t.Fatalf("%s, rows of %d, trial %d: number %d is %v, want %v", isa, n, trial, i, v, want.Data[i])
					}
				}
			}
		}
	}
}
