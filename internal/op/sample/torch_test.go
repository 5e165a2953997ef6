package sample

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestPyTorch: the definition is PyTorch's, as it evaluates float64 numbers (testdata/make.py).
func TestPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/pytorch.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Mode         string
			Padding      string `json:"padding_mode"`
			AlignCorners bool   `json:"align_corners"`
			Sizes, Out   []int
			X, Grid, Y   []float64
		}
	}
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) < 40 {
		t.Fatal(len(file.Cases), err)
	}
	for i, c := range file.Cases {
		p := Params{
			Mode: Modes[c.Mode], Padding: Paddings[c.Padding], Corners: c.AlignCorners,
		}
		x := tensor.Of(fp16.Float64, c.X, append([]int{1, 2}, c.Sizes...)...)
		grid := tensor.Of(fp16.Float64, c.Grid, append(append([]int{1}, c.Out...), len(c.Sizes))...)
		y := tensor.New(fp16.Float64, append([]int{1, 2}, c.Out...)...)
		Grid(y, x, grid, p)
		for k, v := range y.Data {
			if !(math.Abs(v-c.Y[k]) <= 1e-13) || p.Mode == Nearest && v != c.Y[k] {
				t.Errorf("case %d, %+v: number %d is %v, PyTorch %v", i, p, k, v, c.Y[k])
			}
		}
	}
}
