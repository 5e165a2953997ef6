package pointwise

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestThreads: the number of threads changes no bit of an operation on one tensor, on two, and on two halves of one.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(7, 8))
	x, b := tensor.New(fp16.Float32, 12, 8000), tensor.New(fp16.Float32, 8000)
	for _, of := range []*tensor.Tensor{x, b} {
		for i := range of.Data {
			of.Data[i] = fp16.Float32.Round(r.NormFloat64())
		}
	}
	exp, err := Parse("exp", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		name string
		size []int
		do   func(dst *tensor.Tensor)
	}{
		{"exp", x.Shape, func(dst *tensor.Tensor) { Unary(dst, x, exp) }},
		{"product", x.Shape, func(dst *tensor.Tensor) { Binary(dst, x, b, Mul) }},
		{"glu", []int{6, 8000}, func(dst *tensor.Tensor) { GLU(dst, x, 0) }},
	} {
		var first []float64
		for _, threads := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(threads)
			y := tensor.New(fp16.Float32, of.size...)
			of.do(y)
			if first == nil {
				first = y.Data
			}
			for i, v := range y.Data {
				if v != first[i] {
					t.Fatalf("%s with %d threads: number %d is %v, with one %v", of.name, threads, i, v, first[i])
				}
			}
		}
	}
}
