package judge

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestNoSuchPlace: a target that is no class and an index that is no place are errors, and not those
// nearest.
func TestNoSuchPlace(t *testing.T) {
	x := tensor.FromFloat32([]float32{0, 1, 2, 3, 4, 5}, 2, 3)
	for _, c := range []struct {
		op, attributes string
		names          []string
		whole          []float64
		want           string
	}{
		{"cross_entropy", `{}`, []string{"input", "target"}, []float64{1, 3},
			"target[1]: 3: want 0 to 2, or ignore_index -100"},
		{"cross_entropy", `{"reduction":"mean","ignore_index":7}`, []string{"input", "target"}, []float64{-100, 1},
			"target[0]: -100: want 0 to 2, or ignore_index 7"},
		{"embedding", `{}`, []string{"weight", "input"}, []float64{0, -1}, "index[1]: -1: want 0 to 1"},
		{"index_select", `{"dim":1}`, []string{"input", "index"}, []float64{0, -1}, "index[1]: -1: want 0 to 2"},
		{"index_select", `{"dim":1}`, []string{"input", "index"}, []float64{3, 0}, "index[0]: 3: want 0 to 2"},
	} {
		g, order, err := Kernel(c.op, []byte(c.attributes), c.names)
		if err != nil {
			t.Fatal(err)
		}
		q := Question{Graph: g, Output: tensor.FromFloat32([]float32{1, 2}, 2)}
		if c.op != "cross_entropy" {
			q.Output = tensor.FromFloat32([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
		}
		if strings.Contains(c.attributes, "mean") {
			q.Output = tensor.FromFloat32([]float32{1})
		}
		if c.op == "index_select" {
			q.Output = tensor.FromFloat32([]float32{1, 2, 3, 4}, 2, 2)
		}
		for _, name := range order {
			if name == "target" || name == "index" || name == "input" && c.op == "embedding" {
				q.Inputs = append(q.Inputs, tensor.Of(fp16.Int64, c.whole, 2))
			} else {
				q.Inputs = append(q.Inputs, x)
			}
		}
		if r, err := Check(q); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s of %v: %+v, %v: want %q", c.op, c.attributes, c.whole, r, err, c.want)
		}
	}
}
