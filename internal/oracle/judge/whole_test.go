package judge

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Whole makes a question large from so many numbers on, until the test ends.
func Whole(t *testing.T, numbers int) {
	largeFrom = numbers
	t.Cleanup(func() { largeFrom = mostWhole })
}

// TestLarge: a product of 2048 x 2048 x 2048 is judged whole, one of 4096 x 4096 x 4096 by a sample.
func TestLarge(t *testing.T) {
	for n, large := range map[int]bool{2048: false, 4096: true} {
		g, _, err := Kernel("matmul", nil, []string{"input", "other"})
		if err != nil {
			t.Fatal(err)
		}
		of := graph.Type{Shape: []int{n, n}, Format: fp16.BFloat16}
		q := &Question{Graph: g, Inputs: make([]*tensor.Tensor, 2), Output: &tensor.Tensor{Shape: of.Shape}}
		if got := n*q.perRow([]graph.Type{of, of, of}) >= largeFrom; got != large {
			t.Errorf("%d: large %v", n, got)
		}
	}
}
