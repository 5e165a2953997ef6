package graph

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

func init() {
	for _, op := range []string{"gather", "index_select", "embedding", "embedding_bag", "index", "scatter", "scatter_add",
		"scatter_reduce", "index_add", "index_reduce", "index_put", "topk", "sort"} {
		ruleRow(op, op, false)
	}
	notInPyTorch["gather_nd"] = "ONNX's; that of index"
	notInPyTorch["scatter_nd"] = "ONNX's; that of scatter"
	notInPyTorch["one_hot"] = "of whole numbers"
	notInPyTorch["argmax"] = "places are whole numbers: TestScatterAutocast"
	notInPyTorch["argmin"] = "places are whole numbers: TestScatterAutocast"
}

// TestScatterAutocast: sources of another format than the input's, and places.
func TestScatterAutocast(t *testing.T) {
	rules := recordedRules(t)
	for _, m := range recorded[1:] {
		for _, f := range []fp16.Format{m.Precision, fp16.Float32} {
			image := Type{[]int{2, 4, 8, 8}, f}
			index := Type{image.Shape, fp16.Int64}
			table, rows, wide := Type{[]int{64, 8}, f}, Type{[]int{2, 8}, f}, Type{[]int{2, 8}, fp16.Float32}
			two := Type{[]int{2}, fp16.Int64}
			one := 1
			for _, k := range []struct {
				row string
				op  Op
				in  []Type
				out int
			}{
				{"scatter, float32", Scatter{Axis: 1}, []Type{image, index, {image.Shape, fp16.Float32}}, 0},
				{"scatter_add, float32", ScatterAdd{Axis: 1}, []Type{image, index, {image.Shape, fp16.Float32}}, 0},
				{"scatter_reduce, float32", ScatterReduce{1, "amax", true, false},
					[]Type{image, index, {image.Shape, fp16.Float32}}, 0},
				{"index_add, float32", IndexAdd{}, []Type{table, two, wide}, 0},
				{"index_put, float32", IndexPut{}, []Type{table, two, wide}, 0},
				{"index_put, accumulate, float32", IndexPut{true}, []Type{table, two, wide}, 0},
				{"index_reduce", IndexReduce{0, "amax", true, false}, []Type{table, two, rows}, 0},
				{"topk, places", TopK{K: 2}, []Type{image}, 1},
				{"sort, places", Sort{}, []Type{image}, 1},
				{"argmax", ArgMax{Axis: &one}, []Type{image}, 0},
				{"argmin", ArgMax{Axis: &one, Least: true}, []Type{image}, 0},
			} {
				want := rules[m.Precision.String()][k.row][f.String()]
				inf, err := k.op.Infer(m, k.in)
				if strings.HasPrefix(want, "error: ") {
					if err == nil || !strings.HasPrefix(err.Error(), "a source of float32 numbers: want ") {
						t.Errorf("%v: %s of %v: %v, PyTorch stops with %q", m, k.row, f, err, want)
					}
				} else if err != nil || inf.Out[k.out].Format.String() != want {
					t.Errorf("%v: %s of %v: %v, %v: want %q", m, k.row, f, inf, err, want)
				}
			}
		}
	}
	// On CUDA two of them promote.
	cuda := Mode{Precision: fp16.Float16, Autocast: CUDA2}
	half, full, index := Type{[]int{4}, fp16.Float16}, Type{[]int{4}, fp16.Float32}, Type{[]int{4}, fp16.Int64}
	for _, op := range []Op{ScatterAdd{}, IndexPut{}} {
		if inf, err := op.Infer(cuda, []Type{half, index, full}); err != nil || inf.Out[0].Format != fp16.Float32 {
			t.Errorf("%s: %v, %v", op.Name(), inf, err)
		}
	}
}
