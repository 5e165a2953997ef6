package index

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// indices returns an index of an axis of size n, with numbers from either end.
func indices(r *rand.Rand, n int, shape ...int) *tensor.Tensor {
	x := tensor.New(fp16.Int64, shape...)
	for i := range x.Data {
		x.Data[i] = float64(r.IntN(2*n) - n)
	}
	return x
}

// front returns an index counted from the front.
func front(v float64, n int) int {
	if v < 0 {
		return int(v) + n
	}
	return int(v)
}

func TestTake(t *testing.T) {
	trials(t, 20, 1, func(o *outputs, r *rand.Rand, shape []int) {
		axis := r.IntN(len(shape))
		n := max(shape[axis], 1)
		shape[axis] = n
		i := indices(r, n, someShape(r, 0)[:]...)
		out := append(append(append([]int(nil), shape[:axis]...), i.Shape...), shape[axis+1:]...)
		if len(out) > 6 {
			return
		}
		src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), out...)
		if err := Take(dst, src, axis, i); err != nil {
			t.Fatal(err)
		}
		k := len(i.Shape)
		holds(t, o, dst, func(at []int) float64 {
			v := i.Data[place(i.Shape, at[axis:axis+k])]
			from := append(append(append([]int(nil), at[:axis]...), front(v, n)), at[axis+k:]...)
			return src.Data[place(shape, from)]
		})
	})
}

func TestGather(t *testing.T) {
	trials(t, 21, 1, func(o *outputs, r *rand.Rand, shape []int) {
		axis := r.IntN(len(shape))
		n := max(shape[axis], 1)
		shape[axis] = n
		out := append([]int(nil), shape...)
		for a := range out {
			out[a] = r.IntN(out[a] + 1)
		}
		out[axis] = r.IntN(6)
		i := indices(r, n, out...)
		src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), out...)
		if err := Gather(dst, src, axis, i); err != nil {
			t.Fatal(err)
		}
		holds(t, o, dst, func(at []int) float64 {
			at[axis] = front(i.Data[place(out, at)], n)
			return src.Data[place(shape, at)]
		})
	})
}

// someTuples returns an index of places along depth axes of a shape after batch ones.
func someTuples(r *rand.Rand, shape []int, batch, depth int, more ...int) *tensor.Tensor {
	x := tensor.New(fp16.Int64, append(append(append([]int(nil), shape[:batch]...), more...), depth)...)
	for i := range x.Data {
		n := shape[batch+i%depth]
		x.Data[i] = float64(r.IntN(2*n) - n)
	}
	return x
}

func TestGatherND(t *testing.T) {
	trials(t, 22, 1, func(o *outputs, r *rand.Rand, shape []int) {
		batch := r.IntN(len(shape))
		depth := 1 + r.IntN(len(shape)-batch)
		for a := batch; a < batch+depth; a++ {
			shape[a] = max(shape[a], 1)
		}
		i := someTuples(r, shape, batch, depth, someShape(r, 3)[:r.IntN(3)]...)
		k := len(i.Shape) - 1
		out := append(append([]int(nil), i.Shape[:k]...), shape[batch+depth:]...)
		src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), out...)
		if err := GatherND(dst, src, i, batch); err != nil {
			t.Fatal(err)
		}
		holds(t, o, dst, func(at []int) float64 {
			from := append([]int(nil), at[:batch]...)
			for j := range depth {
				from = append(from, front(i.Data[place(i.Shape, append(append([]int(nil), at[:k]...), j))], shape[batch+j]))
			}
			return src.Data[place(shape, append(from, at[k:]...))]
		})
	})
}

func TestOneHot(t *testing.T) {
	trials(t, 23, 1, func(o *outputs, r *rand.Rand, shape []int) {
		axis := r.IntN(len(shape))
		n := max(shape[axis], 1)
		shape[axis] = n
		i := indices(r, n, append(append([]int(nil), shape[:axis]...), shape[axis+1:]...)...)
		dst := numbered(fp16.Float32, shape...)
		if err := OneHot(dst, i, axis); err != nil {
			t.Fatal(err)
		}
		holds(t, o, dst, func(at []int) float64 {
			if front(i.Data[place(i.Shape, append(append([]int(nil), at[:axis]...), at[axis+1:]...))], n) == at[axis] {
				return 1
			}
			return 0
		})
	})
}

// TestOutside: an index that is outside is named, with its place and the range, by every
// operation that has one.
func TestOutside(t *testing.T) {
	x := numbered(fp16.Float32, 3, 4)
	for _, k := range []struct {
		v    float64
		want string
	}{
		{3, "index[1 0]: 3: want -3 to 2"}, {-4, "index[1 0]: -4: want -3 to 2"}, {0.5, "index[1 0]: 0.5: want -3 to 2"},
		{math.NaN(), "index[1 0]: NaN: want -3 to 2"}, {1e300, "index[1 0]: 1e+300: want -3 to 2"},
		{math.Inf(-1), "index[1 0]: -Inf: want -3 to 2"},
	} {
		i := tensor.Of(fp16.Int64, []float64{0, k.v}, 2, 1)
		got := map[string]error{
			"take":       Take(tensor.New(fp16.Float32, 2, 1, 4), x, 0, i),
			"gather":     Gather(tensor.New(fp16.Float32, 2, 1), x, 0, i),
			"gather_nd":  GatherND(tensor.New(fp16.Float32, 2, 4), x, i, 0),
			"one-hot":    OneHot(tensor.New(fp16.Float32, 2, 1, 3), i, 2),
			"scatter":    Scatter(tensor.Like(x), x, 0, i, x, Sum, true),
			"scatter_nd": ScatterND(tensor.Like(x), x, i, tensor.New(fp16.Float32, 2, 4), Sum),
			"index_add":  IndexAdd(tensor.Like(x), x, 0, i, tensor.New(fp16.Float32, 2, 4), Sum, true),
			"bag":        EmbeddingBag(tensor.New(fp16.Float32, 1, 4), x, i, []int{0, 2}, nil, Sum, -1),
		}
		for op, err := range got {
			if err == nil || err.Error() != k.want {
				t.Errorf("%s of %v: %v, want %s", op, k.v, err, k.want)
			}
		}
	}
	none := tensor.New(fp16.Float32, 0, 4)
	if err := Take(tensor.New(fp16.Float32, 1, 4), none, 0, tensor.New(fp16.Int64, 1)); err == nil ||
		err.Error() != "index[0]: 0: want an axis with numbers, it has size 0" {
		t.Error(err)
	}
}
