package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// applied returns the outputs of an operation, or the error of inference or evaluation.
func applied(op Op, in ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	m, g := Mode{Precision: fp16.Float32}, New(new(Kept))
	var types []Type
	var values []int
	for _, x := range in {
		types, values = append(types, Type{x.Shape, x.Format}), append(values, g.Input("x"))
	}
	inf, err := op.Infer(m, types)
	if err != nil {
		return nil, err
	}
	g.Outputs = g.AddNode(op, "y", len(inf.Out), values...)
	p, err := g.Infer(m, types...)
	if err != nil {
		return nil, err
	}
	return p.Run(&Run{}, in...)
}

func counted(f fp16.Format, shape ...int) *tensor.Tensor {
	x := tensor.New(f, shape...)
	for i := range x.Data {
		x.Data[i] = float64(i)
	}
	return x
}

// TestIndexErrors: each error begins with the attribute or the input that is wrong, and
// says what would be right.
func TestIndexErrors(t *testing.T) {
	x, i := counted(fp16.Float32, 2, 3), counted(fp16.Int64, 2)
	table, bag := counted(fp16.Float32, 3, 2), tensor.Of(fp16.Int64, []float64{0, 1, 2, 2}, 4)
	offsets := func(of ...float64) *tensor.Tensor { return tensor.Of(fp16.Int64, of, len(of)) }
	for _, c := range []struct {
		name, attributes, want string
		in                     []*tensor.Tensor
	}{
		{"reshape", `{"shape":[4,-1]}`, "shape: [4 -1]: want sizes of 6 elements", []*tensor.Tensor{x}},
		{"reshape", `{"shape":[-1,-1]}`, "shape: [-1 -1]: want -1 only once", []*tensor.Tensor{x}},
		{"reshape", `{"shape":[6,1,0]}`, "shape: 0 at axis 2: want one that the input of shape [2 3] has",
			[]*tensor.Tensor{x}},
		{"reshape", `{"shape":[4611686018427387904,8]}`, "shape: [4611686018427387904 8]: want at most 2^40 elements",
			[]*tensor.Tensor{x}},
		{"flatten", `{"start_dim":1,"end_dim":0}`, "end_dim: 0: want no axis before start_dim, 1", []*tensor.Tensor{x}},
		{"unflatten", `{"dim":1,"sizes":[2,2]}`, "sizes: [2 2]: want sizes of 3 elements", []*tensor.Tensor{x}},
		{"squeeze", `{"dim":[0,-2]}`, "dim: -2: want each axis once", []*tensor.Tensor{x}},
		{"unsqueeze", `{"dim":4}`, "dim: 4: want an axis of rank 3, -3 to 2", []*tensor.Tensor{x}},
		{"permute", `{"dims":[0]}`, "dims: 1 axes: want all 2 of the input", []*tensor.Tensor{x}},
		{"expand", `{"size":[4,3]}`, "size: 4: want 2, the input's size, or -1 or 1", []*tensor.Tensor{x}},
		{"repeat", `{"repeats":[4611686018427387904,1]}`, "repeats: 4611686018427387904: " +
			"want 0 or more, and an output of at most 2^40 elements", []*tensor.Tensor{x}},
		{"slice", `{"dim":1,"start":0,"step":0}`, "step: 0: want another number", []*tensor.Tensor{x}},
		{"slice", `{"dim":[0,1],"start":[0]}`, "start: 1 numbers: want 2, one for each axis", []*tensor.Tensor{x}},
		{"select", `{"dim":1,"index":3}`, "index: 3: want a place along an axis of size 3", []*tensor.Tensor{x}},
		{"roll", `{"shifts":[1,2]}`, "shifts: 2 numbers: want 1, one for each of dims, or one", []*tensor.Tensor{x}},
		{"tril", ``, "input of shape [2]: want two axes or more", []*tensor.Tensor{i}},
		{"pad", `{"before":[3],"after":[0],"mode":"reflect"}`, "before: 3: want less than the size, 3, to reflect",
			[]*tensor.Tensor{x}},
		{"pad", `{"before":[-2],"after":[-2]}`, "before and after: -2 and -2: want to cut off at most the size, 3",
			[]*tensor.Tensor{x}},
		{"pad", `{"before":[-3],"after":[2],"mode":"circular"}`, "before and after: -3 and 2: want numbers to repeat",
			[]*tensor.Tensor{x}},
		{"pad", `{"before":[1],"after":[1],"mode":"edge"}`,
			`mode: "edge": want constant, reflect, replicate or circular`, []*tensor.Tensor{x}},
		{"cat", ``, "input 1: shape [2]: want that of input 0, [2 3], but for axis 0", []*tensor.Tensor{x, i}},
		{"stack", ``, "input 1: shape [2]: want that of input 0, [2 3]", []*tensor.Tensor{x, i}},
		{"split", `{"split_size":[1,1],"dim":1}`, "split_size: [1 1]: want sizes that add up to 3", []*tensor.Tensor{x}},
		{"chunk", ``, "chunks: 0: want 1 or more", []*tensor.Tensor{x}},
		{"pixel_shuffle", `{"upscale_factor":2}`, "input of shape [2 3]: want [..., C, H, W]", []*tensor.Tensor{x}},
		{"depth_to_space", `{"blocksize":2}`, "blocksize: 2: want one whose square divides the 2 channels",
			[]*tensor.Tensor{counted(fp16.Float32, 2, 3, 3)}},
		{"space_to_depth", `{"blocksize":2}`, "blocksize: 2: want a divisor of 3 and 3, rows and columns",
			[]*tensor.Tensor{counted(fp16.Float32, 2, 3, 3)}},
		{"gather", ``, "input 1: float32 numbers: want int64 ones, an index", []*tensor.Tensor{x, x}},
		{"gather", ``, "input 1: shape [2]: want an index no larger than [2 3] but along axis 0", []*tensor.Tensor{x, i}},
		{"index_select", ``, "y: index[2]: 2: want 0 to 1", []*tensor.Tensor{x, counted(fp16.Int64, 3)}},
		{"embedding", ``, "input 0: shape [2]: want a table [N,D]", []*tensor.Tensor{i, i}},
		{"index", ``, "indices of shapes [2] and [3]: want shapes that spread to one",
			[]*tensor.Tensor{x, i, counted(fp16.Int64, 3)}},
		{"gather_nd", `{"batch_dims":1}`, "batch_dims: 1: want 0 to 0", []*tensor.Tensor{x, i}},
		{"one_hot", `{"num_classes":0}`, "num_classes: 0: want 1 or more", []*tensor.Tensor{i}},
		{"one_hot", `{"num_classes":1}`, "y: index[1]: 1: want 0 to 0", []*tensor.Tensor{i}},
		{"scatter_reduce", `{"reduce":"prod"}`, `reduce: "prod": want one of [sum mean amax amin]`,
			[]*tensor.Tensor{i, i, i}},
		{"scatter_reduce", `{"reduce":"mean"}`, "reduce: mean of int64 numbers: want floating-point ones",
			[]*tensor.Tensor{i, i, i}},
		{"scatter_add", ``, "input 2: shape [1]: want a source no smaller than the index, [2]",
			[]*tensor.Tensor{i, i, counted(fp16.Int64, 1)}},
		{"scatter_add", ``, "a source of int64 numbers: want float32 ones, as the input has",
			[]*tensor.Tensor{counted(fp16.Float32, 2), i, i}},
		{"index_add", ``, "input 2: shape [2]: want [2 3], a part for each number of the index", []*tensor.Tensor{x, i, i}},
		{"index_put", ``, "input 2: shape [2 4]: want one that spreads to [2 3]",
			[]*tensor.Tensor{x, i, counted(fp16.Float32, 2, 4)}},
		{"scatter_nd", ``, "input 2: shape [2 3]: want [], a part for each place of the index", []*tensor.Tensor{x, i, x}},
		{"embedding_bag", ``, "input 2: want offsets [B] of int64, as the index has one axis", []*tensor.Tensor{table, bag}},
		{"embedding_bag", ``, "y: offsets[0]: 1: want 0 first, and then 0 to 4", []*tensor.Tensor{table, bag, offsets(1, 2)}},
		{"embedding_bag", ``, "y: offsets[2]: 1: want 0 first, and then 2 to 4",
			[]*tensor.Tensor{table, bag, offsets(0, 2, 1)}},
		{"embedding_bag", ``, "y: offsets[1]: 5: want 0 first, and then 0 to 4", []*tensor.Tensor{table, bag, offsets(0, 5)}},
		{"embedding_bag", `{"include_last_offset":true}`, "y: offsets[1]: 2: want 4, where the last bag ends",
			[]*tensor.Tensor{table, bag, offsets(0, 2)}},
		{"embedding_bag", `{"mode":"mean"}`, "input 3: want nothing, or for mode sum factors of shape [4] and of the " +
			"table's format", []*tensor.Tensor{table, bag, offsets(0), counted(fp16.Float32, 4)}},
		{"embedding_bag", `{"padding_idx":3}`, "padding_idx: 3: want a row of the 3",
			[]*tensor.Tensor{table, bag, offsets(0)}},
		{"argmax", `{"dim":1}`, "input of shape [2 0]: want numbers, of which one is the greatest",
			[]*tensor.Tensor{counted(fp16.Float32, 2, 0)}},
		{"topk", `{"k":4}`, "k: 4: want 0 to 3, the numbers along the axis", []*tensor.Tensor{x}},
		{"sort", ``, "2 inputs: want 1", []*tensor.Tensor{x, x}},
	} {
		op, err := Bind(c.name, []byte(c.attributes))
		if err != nil {
			t.Errorf("%s %s: %v", c.name, c.attributes, err)
			continue
		}
		if _, err := applied(op, c.in...); err == nil || err.Error() != c.want {
			t.Errorf("%s %s: %v: want %s", c.name, c.attributes, err, c.want)
		}
	}
}

// TestIndexMemory: indices that spread to more than anybody has are refused, or not needed.
func TestIndexMemory(t *testing.T) {
	long := func(shape ...int) *tensor.Tensor { return tensor.New(fp16.Int64, shape...) }
	down, across, one := long(1<<17, 1), long(1<<17), counted(fp16.Float32)
	if _, err := applied(Index{}, tensor.New(fp16.Float32, 1, 1, 0), down, across); err != nil {
		t.Error(err)
	}
	if _, err := applied(IndexPut{}, tensor.New(fp16.Float32, 1, 1, 0), down, across, one); err != nil {
		t.Error(err)
	}
	want := "output [131072 131072 128]: want at most 2^40 elements"
	if _, err := applied(IndexPut{}, tensor.New(fp16.Float32, 1, 1, 128), down, across, one); err == nil ||
		err.Error() != want {
		t.Errorf("%v: want %s", err, want)
	}
}

// TestSlice: along every axis the numbers that a loop from the start to before the end
// meets, both brought into the axis as ONNX says.
func TestSlice(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 1))
	x := counted(fp16.Float32, 5)
	for range 3000 {
		some := func() int {
			if r.IntN(8) == 0 {
				return []int{math.MaxInt, math.MinInt, math.MinInt + 3}[r.IntN(3)]
			}
			return r.IntN(17) - 8
		}
		start, end, step := some(), some(), some()
		if step == 0 {
			continue
		}
		i, stop := start, end
		for _, v := range []*int{&i, &stop} {
			if *v < 0 {
				*v += 5
			}
			*v = max(min(*v, 5), -1)
		}
		if step > 0 {
			i, stop = max(i, 0), max(stop, 0)
		} else {
			i, stop = max(min(i, 4), 0), min(stop, 4)
		}
		want := []float64{}
		for ; step > 0 && i < stop || step < 0 && i > stop; i += step {
			want = append(want, float64(i))
			if step > 10 || step < -10 {
				break
			}
		}
		out, err := applied(Slice{Axes: Ints{0}, Start: Ints{start}, End: Ints{end}, Step: Ints{step}}, x)
		if err != nil || !slices.Equal(out[0].Data, want) {
			t.Fatalf("%d:%d:%d: %v, %v: want %v", start, end, step, out, err, want)
		}
	}
	all, err := applied(Slice{Axes: Ints{0}, Step: Ints{-2}}, x)
	if err != nil || !slices.Equal(all[0].Data, []float64{4, 2, 0}) {
		t.Errorf("without ends: %v, %v", all, err)
	}
}

// TestRollTwice: shifts of one axis add up, of any size.
func TestRollTwice(t *testing.T) {
	// 2^63 - 1 is 2 modulo 5
	out, err := applied(Roll{Ints{math.MaxInt, math.MaxInt}, Ints{0, 0}}, counted(fp16.Float32, 5))
	if err != nil || !slices.Equal(out[0].Data, []float64{1, 2, 3, 4, 0}) {
		t.Errorf("%v, %v", out, err)
	}
}

// TestParts: what split cuts, cat joins.
func TestParts(t *testing.T) {
	x := counted(fp16.Float32, 2, 6, 3)
	for _, op := range []Op{Split{Ints{1, 0, 2, 3}, 1}, Split{Ints{4}, -2}, Split{Ints{6}, 1}, Chunk{4, 1}} {
		parts, err := applied(op, x)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := applied(Cat{1}, parts...)
		if err != nil || !slices.Equal(whole[0].Data, x.Data) {
			t.Errorf("%+v: %v, %v", op, whole, err)
		}
	}
	parts, err := applied(Unbind{2}, x)
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := applied(Stack{-1}, parts...); err != nil || !slices.Equal(whole[0].Data, x.Data) ||
		fmt.Sprint(whole[0].Shape) != "[2 6 3]" {
		t.Errorf("%v, %v", whole, err)
	}
}

// TestONNX: what PyTorch has not.
func TestONNX(t *testing.T) {
	x := counted(fp16.Float32, 2, 3)
	for _, c := range []struct {
		op   Op
		in   []*tensor.Tensor
		want string
	}{
		{Reshape{Shape: Ints{0, 1, -1}}, []*tensor.Tensor{x}, "[2 1 3] [0 1 2 3 4 5]"},
		{Expand{Ints{2, 1, 1}}, []*tensor.Tensor{counted(fp16.Float32, 2)}, "[2 1 2] [0 1 0 1]"},
		{Expand{Ints{1}}, []*tensor.Tensor{x}, "[2 3] [0 1 2 3 4 5]"},
		{Permute{}, []*tensor.Tensor{x}, "[3 2] [0 3 1 4 2 5]"},
		{IndexSelect{1, true}, []*tensor.Tensor{x, tensor.Of(fp16.Int64, []float64{-1})}, "[2] [2 5]"},
		{IndexSelect{0, true}, []*tensor.Tensor{x, tensor.Of(fp16.Int64, []float64{1, -2}, 1, 2)}, "[1 2 3] [3 4 5 0 1 2]"},
		{GatherND{1}, []*tensor.Tensor{x, tensor.Of(fp16.Int64, []float64{2, -3}, 2, 1)}, "[2] [2 3]"},
		{GatherND{}, []*tensor.Tensor{x, tensor.Of(fp16.Int64, []float64{1, 0, 0, -1}, 2, 2)}, "[2] [3 2]"},
		{ScatterND{"sum"}, []*tensor.Tensor{x, tensor.Of(fp16.Int64, []float64{1, 1}, 2, 1),
			tensor.Of(fp16.Float32, []float64{1, 2, 3, 10, 20, 30}, 2, 3)}, "[2 3] [0 1 2 14 26 38]"},
		{ScatterND{"none"}, []*tensor.Tensor{
			x, tensor.Of(fp16.Int64, []float64{-1, 0, 1, 0}, 2, 2), tensor.Of(fp16.Float32, []float64{8, 9}, 2),
		}, "[2 3] [0 1 2 9 4 5]"},
		{OneHot{3, 0}, []*tensor.Tensor{tensor.Of(fp16.Int64, []float64{2, 0}, 2)}, "[3 2] [0 1 0 0 1 0]"},
		// ONNX's own examples of DepthToSpace begin so
		{DepthToSpace{2, "DCR"}, []*tensor.Tensor{counted(fp16.Float32, 1, 8, 1, 1)}, "[1 2 2 2] [0 2 4 6 1 3 5 7]"},
		{DepthToSpace{2, "CRD"}, []*tensor.Tensor{counted(fp16.Float32, 1, 8, 1, 1)}, "[1 2 2 2] [0 1 2 3 4 5 6 7]"},
		{SpaceToDepth{2, "DCR"}, []*tensor.Tensor{counted(fp16.Float32, 1, 2, 2, 2)}, "[1 8 1 1] [0 4 1 5 2 6 3 7]"},
		{Repeat{Ints{2}}, []*tensor.Tensor{x}, "[2 6] [0 1 2 0 1 2 3 4 5 3 4 5]"},
	} {
		out, err := applied(c.op, c.in...)
		if err != nil || fmt.Sprint(out[0].Shape, out[0].Data) != c.want {
			t.Errorf("%s %+v: %v, %v: want %s", c.op.Name(), c.op, out, err, c.want)
		}
	}
}
