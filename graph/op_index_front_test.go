package graph

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestFromEnd: an index below zero is refused where ATen refuses it, and counts from the end in
// brackets and where ONNX's operations are meant.
func TestFromEnd(t *testing.T) {
	x := tensor.FromFloat32([]float32{1, 2, 3}, 3)
	table := tensor.FromFloat32([]float32{1, 2, 3}, 3, 1)
	index := tensor.Of(fp16.Int64, []float64{1, -1}, 2)
	source := tensor.FromFloat32([]float32{10, 20}, 2)
	for _, c := range []struct {
		op   Op
		in   []*tensor.Tensor
		last float64 // of the output; 0 for an error
	}{
		{Gather{}, []*tensor.Tensor{x, index}, 0},
		{Gather{FromEnd: true}, []*tensor.Tensor{x, index}, 3},
		{IndexSelect{}, []*tensor.Tensor{x, index}, 0},
		{IndexSelect{FromEnd: true}, []*tensor.Tensor{x, index}, 3},
		{Embedding{PaddingIdx: -1}, []*tensor.Tensor{table, index}, 0},
		{EmbeddingBag{Mode: "sum"}, []*tensor.Tensor{table, tensor.Of(fp16.Int64, []float64{1, -1}, 1, 2)}, 0},
		{OneHot{Classes: 3, Axis: -1}, []*tensor.Tensor{index}, 0},
		{Index{}, []*tensor.Tensor{x, index}, 3},
		{Scatter{}, []*tensor.Tensor{x, index, source}, 0},
		{Scatter{FromEnd: true}, []*tensor.Tensor{x, index, source}, 20},
		{ScatterAdd{}, []*tensor.Tensor{x, index, source}, 0},
		{ScatterAdd{FromEnd: true}, []*tensor.Tensor{x, index, source}, 23},
		{ScatterReduce{Reduce: "amax"}, []*tensor.Tensor{x, index, source}, 0},
		{ScatterReduce{Reduce: "amax", FromEnd: true}, []*tensor.Tensor{x, index, source}, 20},
		{IndexAdd{}, []*tensor.Tensor{x, index, source}, 0},
		{IndexAdd{FromEnd: true}, []*tensor.Tensor{x, index, source}, 23},
		{IndexReduce{Reduce: "amax"}, []*tensor.Tensor{x, index, source}, 0},
		{IndexPut{Accumulate: true}, []*tensor.Tensor{x, index, source}, 23},
	} {
		out, err := applied(c.op, c.in...)
		switch {
		case c.last == 0:
			if err == nil || !strings.Contains(err.Error(), ": -1: want 0 to 2") {
				t.Errorf("%s %+v: %v, %v: want the number and the places that there are", c.op.Name(), c.op, out, err)
			}
		case err != nil || out[0].Data[len(out[0].Data)-1] != c.last:
			t.Errorf("%s %+v: %v, %v: want %v last", c.op.Name(), c.op, out, err, c.last)
		}
	}
}
