package reduce

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestThreads: the number of threads changes no bit, of lines along the last axis, along the first one, and along both
// ends.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(7, 8))
	x := tensor.New(fp16.Float32, 9, 40, 700)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(r.NormFloat64())
	}
	for _, of := range []struct {
		name string
		axes []int
		size []int
		do   func(dst, src *tensor.Tensor, axes ...int)
	}{
		{"sum", []int{2}, []int{9, 40}, Sum}, {"sum", []int{0}, []int{40, 700}, Sum}, {"sum", []int{0, 2}, []int{40}, Sum},
		{"sum of squares", []int{2}, []int{9, 40}, SumSquares}, {"sum of squares", []int{0}, []int{40, 700}, SumSquares},
		{"mean", []int{1}, []int{9, 700}, Mean}, {"greatest", []int{1}, []int{9, 700}, Max},
		{"softmax", []int{2}, []int{9, 40, 700}, Softmax}, {"softmax", []int{1}, []int{9, 40, 700}, Softmax},
		{"fast softmax", nil, []int{9, 40, 700}, func(dst, src *tensor.Tensor, _ ...int) { ForwardFastSoftmax(dst, src) }},
		{"prefixes", []int{2}, []int{9, 40, 700}, func(dst, src *tensor.Tensor, axes ...int) {
			CumSum(dst, src, axes[0], false, false)
		}},
	} {
		var first []float64
		for _, threads := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(threads)
			y := tensor.New(fp16.Float32, of.size...)
			of.do(y, x, of.axes...)
			if first == nil {
				first = y.Data
			}
			for i, v := range y.Data {
				if v != first[i] {
					t.Fatalf("%s along %v with %d threads: number %d is %v, with one %v", of.name, of.axes, threads, i, v, first[i])
				}
			}
		}
	}
}
