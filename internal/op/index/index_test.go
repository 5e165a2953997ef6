package index

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var formats = []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16, fp16.Float64}

// Small tensors are several pieces of work too.
func init() { piece = 16 }

// someShape returns a shape of rank least to 5, now and then with no elements.
func someShape(r *rand.Rand, least int) []int {
	shape := make([]int, least+r.IntN(6-least))
	for a := range shape {
		if shape[a] = 1 + r.IntN(5); r.IntN(20) == 0 {
			shape[a] = 0
		}
	}
	return shape
}

// numbered returns a tensor of numbers that are all different, with a NaN, an infinity
// and a negative zero among them.
func numbered(f fp16.Format, shape ...int) *tensor.Tensor {
	x := tensor.New(f, shape...)
	for i := range x.Data {
		switch i {
		case 3:
			x.Data[i] = fp16.NaN
		case 5:
			x.Data[i] = math.Inf(-1)
		case 7:
			x.Data[i] = math.Copysign(0, -1)
		default:
			x.Data[i] = f.Round(1 + float64(i)/64)
		}
	}
	return x
}

// place is where the number of those indices lies, in row-major order.
func place(shape, at []int) int {
	p := 0
	for a, i := range at {
		if i < 0 || i >= shape[a] {
			panic("the judge is outside")
		}
		p = p*shape[a] + i
	}
	return p
}

// outputs are those of a test, and their number.
type outputs struct {
	*hashed.Outputs
	n int
}

func (o *outputs) add(x ...*tensor.Tensor) {
	for _, x := range x {
		o.Add("all", x.Data...)
		o.n += len(x.Data)
	}
}

// holds adds dst to the outputs, and compares each number of it with what the judge says for
// its indices, rounded.
func holds(t *testing.T, o *outputs, dst *tensor.Tensor, judge func(at []int) float64) {
	t.Helper()
	if o.add(dst); o.Judge {
		each(t, dst, judge)
	}
}

// each compares each number of dst with what the judge says for its indices, rounded.
func each(t *testing.T, dst *tensor.Tensor, judge func(at []int) float64) {
	t.Helper()
	at := make([]int, len(dst.Shape))
	for i, got := range dst.Data {
		for a, rest := len(at)-1, i; a >= 0; a-- {
			at[a], rest = rest%dst.Shape[a], rest/dst.Shape[a]
		}
		want := dst.Format.Round(judge(slices.Clone(at)))
		if math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%v of %v: %v, want %v", at, dst.Shape, got, want)
		}
	}
}
