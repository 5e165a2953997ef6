package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func init() {
	ruleRow("scaled_dot_product_attention", "scaled_dot_product_attention", false)
	ruleRow("scaled_dot_product_attention, float32 mask", "scaled_dot_product_attention", false)
}

// TestAttentionOfTorch: shapes, and what is refused, are PyTorch's, and so are float64 numbers
// but for roundings: PyTorch's and ours of sums of 8 and 6 products of numbers of some units
// and of exponentials, some hundred of 2^-53 in all.
func TestAttentionOfTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/attention.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Shapes     [][]int
			Attributes json.RawMessage
			Truth      bool
			Inputs     [][]float64
			Shape      []int
			Out        []float64
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	made, refused := 0, 0
	for _, c := range file.Cases {
		op, err := Bind("scaled_dot_product_attention", c.Attributes)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32} {
			g, types := &Graph{}, []Type(nil)
			var in []*tensor.Tensor
			for k, s := range c.Shapes {
				of := Type{s, f}
				if k == 3 && c.Truth {
					of.Format = fp16.Int64
				}
				types = append(types, of)
				if len(c.Inputs) > 0 {
					in = append(in, &tensor.Tensor{Shape: s, Format: of.Format, Data: c.Inputs[k]})
				}
				g.Input(fmt.Sprint("in", k))
			}
			g.Outputs = []int{g.Add(op, "out", g.Inputs...)}
			program, err := g.Infer(Mode{Precision: f}, types...)
			if c.Shape == nil {
				if refused++; err == nil {
					t.Errorf("%v %s: accepted", c.Shapes, c.Attributes)
				}
				continue
			}
			if err != nil {
				t.Errorf("%v %s: %v", c.Shapes, c.Attributes, err)
				continue
			}
			out, err := program.Run(&Run{}, in...)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out[0].Shape, c.Shape) {
				t.Fatalf("%v %s: shape %v, want %v", c.Shapes, c.Attributes, out[0].Shape, c.Shape)
			}
			within := 1e-13
			if f == fp16.Float32 {
				within = 0x1p-23 // values are less than 4: half an ulp is 2^-23
			}
			for i, v := range out[0].Data {
				if !(math.Abs(v-c.Out[i]) <= within) {
					t.Fatalf("%v %s: element %d: %v, PyTorch %v", c.Shapes, c.Attributes, i, v, c.Out[i])
				}
			}
			made++
		}
	}
	t.Logf("%d results, %d refused", made, refused)
}

func TestAttentionRefuses(t *testing.T) {
	of := func(shape ...int) Type { return Type{shape, fp16.Float32} }
	q, k, v := of(2, 5, 8), of(2, 6, 8), of(2, 6, 7)
	for _, c := range []struct {
		attributes, want string
		in               []Type
	}{
		{`{}`, "2 inputs: want 3 to 4", []Type{q, k}},
		{`{"dropout_p": 0.5}`, "dropout_p: 0.5: want 0", []Type{q, k, v}},
		{`{"scale": 1e300}`, "scale: 1e+300: want", []Type{q, k, v}},
		{`{"is_causal": true}`, "is_causal: true: want no mask", []Type{q, k, v, of(5, 6)}},
		{`{}`, "query of shape [8]: want 2", []Type{of(8), k, v}},
		{`{"enable_gqa": true}`, "query of shape [5 8]: want 3", []Type{of(5, 8), k, v}},
		{`{"enable_gqa": true}`, "enable_gqa: 3 heads", []Type{of(3, 5, 8), k, v}},
		{`{"enable_gqa": true}`, "enable_gqa: 0 heads of the query and 0 of key",
			[]Type{of(0, 5, 8), of(0, 6, 8), of(0, 6, 7)}},
		{`{}`, "query of shape [5 0]: want numbers", []Type{of(5, 0), of(6, 0), of(6, 7)}},
		{`{}`, "key of shape [2 6 9]: want 8", []Type{q, of(2, 6, 9), v}},
		{`{}`, "value of shape [2 5 7]: want 6 rows", []Type{q, k, of(2, 5, 7)}},
		{`{}`, "mask of shape [6]: want one of two", []Type{q, k, v, of(6)}},
		{`{}`, "mask of shape [4 6]: want one of two", []Type{q, k, v, of(4, 6)}},
		{`{}`, "input 1: int64", []Type{q, {k.Shape, fp16.Int64}, v}},
	} {
		op, err := Bind("scaled_dot_product_attention", []byte(c.attributes))
		if err == nil {
			_, err = op.Infer(Mode{Precision: fp16.Float32}, c.in)
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.attributes, err, c.want)
		}
	}
}
