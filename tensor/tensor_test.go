package tensor_test

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// counted returns a tensor whose numbers are their own places.
func counted(n, c, h, w int) *tensor.Tensor {
	t := tensor.New(fp16.Float32, n, c, h, w)
	for i := range t.Data {
		t.Data[i] = float64(i)
	}
	return t
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if r := recover(); r != want {
			t.Errorf("panic %v, want %q", r, want)
		}
	}()
	f()
}

func TestNew(t *testing.T) {
	x := tensor.New(fp16.TF32, 2, 3, 4, 5)
	if x.N() != 2 || x.C() != 3 || x.H() != 4 || x.W() != 5 || x.Format != fp16.TF32 || len(x.Data) != 120 {
		t.Errorf("New: %v of %d numbers", x.Dims(), len(x.Data))
	}
	for i, v := range x.Data {
		if v != 0 {
			t.Fatalf("New: number %d is %g", i, v)
		}
	}
	if e := tensor.New(fp16.Float32, 0, 3, 4, 5); len(e.Data) != 0 {
		t.Error("an empty tensor has data")
	}
	for _, s := range [][4]int{{-1, 1, 1, 1}, {1, -1, 1, 1}, {1, 1, -1, 1}, {1, 1, 1, -1}, {-1, -1, 1, 1}} {
		mustPanic(t, "tensor: negative dimension", func() { tensor.New(fp16.Float32, s[0], s[1], s[2], s[3]) })
	}
}

func TestOf(t *testing.T) {
	data := make([]float64, 24)
	x := tensor.Of(fp16.Float16, data, 1, 2, 3, 4)
	data[5] = 7
	if x.Data[5] != 7 || x.Format != fp16.Float16 || x.Dims() != "[1,2,3,4]" {
		t.Errorf("Of does not wrap its slice: %+v", x)
	}
	const want = "tensor: data length does not match the shape"
	mustPanic(t, want, func() { tensor.Of(fp16.Float16, data[1:], 1, 2, 3, 4) })
	mustPanic(t, want, func() { tensor.Of(fp16.Float16, data, 1, -2, -3, 4) })
	mustPanic(t, want, func() { tensor.Of(fp16.Float16, nil, 1, 1, 1, 1) })
}

func TestLikeAndClone(t *testing.T) {
	x := counted(2, 3, 4, 5)
	l := tensor.Like(x)
	if !l.SameShape(x) || l.Format != x.Format || l.Data[119] != 0 || &l.Data[0] == &x.Data[0] {
		t.Error("Like")
	}
	c := x.Clone()
	if !c.SameShape(x) || c.Format != x.Format {
		t.Error("Clone changes the shape or format")
	}
	for i, v := range c.Data {
		if v != x.Data[i] {
			t.Fatalf("Clone: number %d is %g", i, v)
		}
	}
	c.Data[3], c.Shape[2], c.Shape[3] = -1, 5, 4
	if x.Data[3] != 3 || x.H() != 4 {
		t.Error("Clone shares with its original")
	}
	if c.SameShape(x) {
		t.Error("SameShape does not see H and W exchanged")
	}
}

// TestPlane holds every number to its place ((n*C+c)*H+h)*W+w.
func TestPlane(t *testing.T) {
	x := counted(2, 3, 4, 5)
	i := 0
	for n := range 2 {
		for c := range 3 {
			p := x.Plane(n, c)
			if len(p) != 20 || cap(p) != 20 {
				t.Fatalf("plane %d,%d: length %d, capacity %d", n, c, len(p), cap(p))
			}
			for _, v := range p {
				if v != float64(i) {
					t.Fatalf("plane %d,%d holds %g, want %d", n, c, v, i)
				}
				i++
			}
		}
	}
	x.Plane(1, 2)[0] = -1
	if x.Data[100] != -1 {
		t.Error("a plane does not share the data")
	}
}

func TestSamples(t *testing.T) {
	x := counted(4, 2, 3, 1)
	s := x.Samples(1, 3)
	if s.Dims() != "[2,2,3,1]" || s.Format != x.Format || len(s.Data) != 12 || cap(s.Data) != 12 || s.Data[0] != 6 {
		t.Errorf("Samples(1,3): %v from %g", s.Dims(), s.Data[0])
	}
	s.Data[11] = -1
	if x.Data[17] != -1 {
		t.Error("Samples do not share the data")
	}
	if x.N() != 4 || len(x.Data) != 24 {
		t.Error("Samples changed the tensor")
	}
	if e := x.Samples(4, 4); e.N() != 0 || len(e.Data) != 0 {
		t.Error("no samples are not empty")
	}
}

func TestSameShape(t *testing.T) {
	x := tensor.New(fp16.Float32, 2, 3, 4, 5)
	if !x.SameShape(tensor.New(fp16.Float16, 2, 3, 4, 5)) {
		t.Error("the format is no part of the shape")
	}
	for _, s := range [][4]int{{1, 3, 4, 5}, {2, 1, 4, 5}, {2, 3, 1, 5}, {2, 3, 4, 1}, {3, 2, 4, 5}} {
		if x.SameShape(tensor.New(fp16.Float32, s[0], s[1], s[2], s[3])) {
			t.Errorf("%v has the shape %v", x.Dims(), s)
		}
	}
}

// TestAnyRank: shapes of no, one and five dimensions; a tensor keeps its own shape.
func TestAnyRank(t *testing.T) {
	if x := tensor.New(fp16.Float32); len(x.Data) != 1 || x.Dims() != "[]" {
		t.Errorf("a scalar is %s of %d numbers", x.Dims(), len(x.Data))
	}
	shape := []int{2, 3, 1, 4, 5}
	x := tensor.New(fp16.Float32, shape...)
	shape[0] = 7
	if len(x.Data) != 120 || x.Dims() != "[2,3,1,4,5]" {
		t.Errorf("%s of %d numbers", x.Dims(), len(x.Data))
	}
	if s := x.Samples(1, 2); s.Dims() != "[1,3,1,4,5]" || &s.Data[0] != &x.Data[60] {
		t.Errorf("Samples(1, 2) of five dimensions is %s", s.Dims())
	}
	if x.SameShape(tensor.New(fp16.Float32, 2, 3, 4, 5)) {
		t.Error("SameShape of other ranks")
	}
	c := x.Clone()
	c.Shape[1] = 9
	if x.Shape[1] != 3 {
		t.Error("Clone shares the shape")
	}
	var part tensor.Tensor
	part.SetSamples(x, 0, 1)
	if n := testing.AllocsPerRun(100, func() { part.SetSamples(x, 1, 2) }); n != 0 {
		t.Errorf("SetSamples allocates %v times", n)
	}
}

// TestIndex: elements lie in row-major order.
func TestIndex(t *testing.T) {
	x, i := counted(2, 3, 4, 5), 0
	for n := range 2 {
		for c := range 3 {
			for h := range 4 {
				for w := range 5 {
					if at := tensor.Index(i, x.Shape); !slices.Equal(at, []int{n, c, h, w}) {
						t.Fatalf("element %d lies at %v: want %v", i, at, []int{n, c, h, w})
					}
					i++
				}
			}
		}
	}
	if at := tensor.Index(0, nil); len(at) != 0 {
		t.Errorf("a scalar lies at %v", at)
	}
}
