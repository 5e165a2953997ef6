package graph

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// evaluate evaluates one operation on one input.
func evaluate(t *testing.T, name, attributes string, x *tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	op, err := Bind(name, []byte(attributes))
	if err != nil {
		t.Fatal(err)
	}
	inferred, err := op.Infer(Mode{Precision: x.Format}, []Type{{x.Shape, x.Format}})
	if err != nil {
		t.Fatalf("%s %s: %v", name, attributes, err)
	}
	g := new(Graph)
	g.Outputs = g.AddNode(op, "y", len(inferred.Out), g.Input("x"))
	p, err := g.Infer(Mode{Precision: x.Format}, Type{x.Shape, x.Format})
	if err != nil {
		t.Fatal(err)
	}
	y, err := p.Run(new(Run), x)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// TestPoolTorch: no definition is misread: pooling and resizing are what PyTorch 2.9.1
// returns (testdata/pool.py), maxima, indices and what is moved to the last bit, averages
// and weighted sums in float64 within 2^-46 of the largest number of the input: some 64
// terms with a few roundings each, and weights that PyTorch computes from a rounded scale.
func TestPoolTorch(t *testing.T) {
	file, err := safetensors.Open("testdata/pool.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) *tensor.Tensor {
		v, err := file.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		x, err := v.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		return tensor.Of(fp16.Float64, x, v.Shape...)
	}
	seen := 0
	for _, name := range file.Names() {
		op, rest, ok := strings.Cut(name, " ")
		if !ok {
			continue
		}
		words := strings.Fields(rest)
		from, k := words[len(words)-2], words[len(words)-1]
		attributes := strings.TrimSuffix(rest, " "+from+" "+k)
		x, want := read(from), read(name)
		got := evaluate(t, op, attributes, x)[strings.Index("01", k)]
		if !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%s: shape %v, PyTorch has %v", name, got.Shape, want.Shape)
			continue
		}
		allowed := 0.0
		if !strings.Contains(op, "max") && !strings.Contains(attributes, "nearest") {
			for _, v := range x.Data {
				if math.Abs(v) < math.Inf(1) {
					allowed = max(allowed, 0x1p-46*math.Abs(v))
				}
			}
		}
		for i, v := range got.Data {
			w := want.Data[i]
			if from == "pair" && i == 41 { // whose position PyTorch rounds to below 1
				if v != 2 || w != 1 {
					t.Errorf("%s: number %d is %v, PyTorch has %v", name, i, v, w)
				}
				continue
			}
			if v != w && !(v != v && w != w) && !(math.Abs(v-w) <= allowed) ||
				allowed == 0 && math.Signbit(v) != math.Signbit(w) && v == v {
				t.Errorf("%s: number %d is %v, PyTorch has %v", name, i, v, w)
			}
		}
		seen++
	}
	if seen < 120 {
		t.Errorf("only %d recordings", seen)
	}
}

// TestPoolShapes: shapes are PyTorch's for many attributes, and what it refuses is
// refused. But padding may be more than half a window, avg_pool3d's kernel more than the
// input without padding, and no mode makes nothing, which PyTorch's area does.
func TestPoolShapes(t *testing.T) {
	data, err := os.ReadFile("testdata/pool_shapes.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][4]json.RawMessage
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	same, refused := 0, 0
	for _, r := range rows {
		var name, refusal string
		var shape, want []int
		if json.Unmarshal(r[0], &name) != nil || json.Unmarshal(r[2], &shape) != nil {
			t.Fatalf("%s", r)
		}
		if json.Unmarshal(r[3], &want) != nil && json.Unmarshal(r[3], &refusal) != nil {
			t.Fatalf("%s", r)
		}
		op, err := Bind(name, r[1])
		if err != nil {
			t.Fatal(err)
		}
		inf, err := op.Infer(Mode{Precision: fp16.Float32}, []Type{{shape, fp16.Float32}})
		switch {
		case refusal == "" && err == nil && slices.Equal(inf.Out[0].Shape, want):
			same++
		case refusal != "" &&
			(err != nil || strings.Contains(refusal, "half of") || strings.Contains(refusal, "smaller than kernel")),
			name == "interpolate" && err != nil && slices.Contains(want, 0):
			refused++
		default:
			t.Errorf("%s %s of %v: %v, %v: PyTorch has %s", name, r[1], shape, inf.Out, err, r[3])
		}
	}
	if same < 200 || refused < 30 {
		t.Errorf("%d shapes and %d refusals", same, refused)
	}
}
