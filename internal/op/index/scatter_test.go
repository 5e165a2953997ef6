package index

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par/partest"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("index.elements", 30000,
	"numbers of each operation that takes some together that are held to the judge")

// makers make numbers that are hard to add in one way or another. They are the same on every
// port, in float64 too: of package rand's normal numbers and of fused sums the last bits are not.
var makers = []struct {
	name string
	make func(r *rand.Rand) float64
}{
	{"bell", func(r *rand.Rand) float64 { return r.Float64() + r.Float64() + r.Float64() + r.Float64() - 2 }},
	{"ties", func(r *rand.Rand) float64 { return []float64{1, 0x1p-24, 0x1p-24, -0x1p-24, 3, 0x1p-60}[r.IntN(6)] }},
	{"half ties", func(r *rand.Rand) float64 { return []float64{1, 0x1p-11, 0x1p-9, -0x1p-11, 0x1p-24}[r.IntN(5)] }},
	{"cancelling", func(r *rand.Rand) float64 {
		return (float64(r.IntN(2))*2 - 1) * (1 + float64(r.IntN(8))*0x1p-23)
	}},
	{"wide", func(r *rand.Rand) float64 { return math.Ldexp(r.Float64()-0.5, r.IntN(240)-120) }},
	{"tiny", func(r *rand.Rand) float64 { return math.Ldexp(float64(r.IntN(65)-32), -149) }},
	{"huge", func(r *rand.Rand) float64 { return math.Ldexp(r.Float64()-0.4, 127) }},
	{"zeros", func(r *rand.Rand) float64 { return math.Copysign(0, float64(r.IntN(2))-0.5) }},
	{"specials", func(r *rand.Rand) float64 {
		return []float64{
			1, 2, -3, 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
		}[min(r.IntN(40), 7-r.IntN(5))]
	}},
}

func fill(r *rand.Rand, x *tensor.Tensor, make func(*rand.Rand) float64) {
	for i := range x.Data {
		x.Data[i] = x.Format.Round(make(r))
	}
}

// together is the judge: what becomes of numbers that come to one place, by rational
// arithmetic; the old one comes first if there is one.
func together(old *float64, come []float64, how Reduction, include bool, f fp16.Format) float64 {
	if len(come) == 0 {
		if old == nil {
			return 0
		}
		return f.Round(*old)
	}
	all := slices.Clone(come)
	if include && how != Last {
		all = append([]float64{*old}, come...)
	}
	nan, finite := false, true
	plain := 0.0
	for _, v := range all {
		nan = nan || v != v
		finite = finite && v-v == 0
		plain += v
	}
	switch {
	case how == Last:
		return f.Round(all[len(all)-1])
	case how == Max || how == Min:
		if nan {
			return fp16.NaN
		}
		slices.SortFunc(all, func(a, b float64) int {
			if a == b { // zeros
				return map[bool]int{true: 1}[math.Signbit(b)] - map[bool]int{true: 1}[math.Signbit(a)]
			}
			return map[bool]int{true: 1, false: -1}[a > b]
		})
		if how == Max {
			return f.Round(all[len(all)-1])
		}
		return f.Round(all[0])
	}
	n := float64(len(all))
	if f == fp16.Float64 || !finite {
		if how == Mean {
			plain /= n
		}
		if plain != plain {
			return fp16.NaN
		}
		return f.Round(plain)
	}
	ball := bigref.Ball{}
	for _, v := range all {
		ball = ball.Add(bigref.Exactly(v))
	}
	if how == Mean {
		ball = ball.Quo(bigref.Exactly(n))
	}
	return ball.Or(f, func() float64 {
		sum := new(big.Rat)
		for _, v := range all {
			sum.Add(sum, bigref.Rat(v))
		}
		if how == Mean {
			sum.Quo(sum, new(big.Rat).SetFloat64(n))
		}
		return bigref.Round(sum, f)
	})
}

// arrivals are the numbers that come to each place of a tensor.
type arrivals [][]float64

func check(
	t *testing.T, o *hashed.Outputs, what string, dst, old *tensor.Tensor, come arrivals, how Reduction, include bool,
) {
	t.Helper()
	if o.Add(map[Reduction]string{Last: "last", Sum: "sum", Mean: "mean", Max: "max", Min: "min"}[how],
		dst.Data...); !o.Judge {
		return
	}
	for i, got := range dst.Data {
		var was *float64
		if old != nil {
			was = &old.Data[i]
		}
		if want := together(was, come[i], how, include, dst.Format); math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s: number %d of %v in %v, of %v: %v, want %v", what, i, dst.Shape, dst.Format, come[i], got, want)
		}
	}
}

// hard calls body with shapes, formats and makers until so many numbers were made.
func hard(seed uint64, least int, body func(what string, r *rand.Rand, shape []int, f, out fp16.Format,
	make func(*rand.Rand) float64, how Reduction, include bool) int) {
	r := rand.New(rand.NewPCG(seed, 3))
	var made [5]int // by reduction
	for done, trial := 0, 0; done < *elements; trial++ {
		m := makers[trial%len(makers)]
		f, include := someFormat(r), r.IntN(3) > 0
		how := Reduction(0) // that which has made the fewest
		for h := range made {
			if made[h] < made[how] {
				how = Reduction(h)
			}
		}
		out := f
		if r.IntN(3) == 0 && f != fp16.Float64 {
			out = formats[r.IntN(3)]
		}
		what := fmt.Sprintf("trial %d: %s, reduction %d, %v", trial, m.name, how, include)
		n := 1 + body(what, r, someShape(r, least), f, out, m.make, how, include)
		made[how] += n
		done += n
	}
}

func TestScatter(t *testing.T) {
	o := hashed.New(t, *elements)
	hard(1, 1, func(what string, r *rand.Rand, shape []int, f, out fp16.Format, make func(*rand.Rand) float64,
		how Reduction, include bool) int {
		axis := r.IntN(len(shape))
		shape[axis] = 1 + r.IntN(3)
		ishape, sshape := slices.Clone(shape), slices.Clone(shape)
		for a := range shape {
			ishape[a] = r.IntN(shape[a] + 1)
			if a == axis {
				ishape[a] = r.IntN(9)
			}
			sshape[a] = ishape[a] + r.IntN(2)
		}
		i := indices(r, shape[axis], ishape...)
		old, src := tensor.New(f, shape...), tensor.New(f, sshape...)
		fill(r, old, make)
		fill(r, src, make)
		come := arrivals(slices.Repeat([][]float64{nil}, len(old.Data)))
		each(t, i, func(at []int) float64 {
			v := i.Data[place(ishape, at)]
			x := src.Data[place(sshape, at)]
			at[axis] = front(v, shape[axis])
			p := place(shape, at)
			come[p] = append(come[p], x)
			return v
		})
		dst := tensor.New(out, shape...)
		if err := Scatter(dst, old, axis, i, src, how, include); err != nil {
			t.Fatal(err)
		}
		check(t, o, what, dst, old, come, how, include)
		if out == f { // in place
			before := old.Clone()
			if err := Scatter(old, old, axis, i, src, how, include); err != nil {
				t.Fatal(err)
			}
			check(t, o, what+" in place", old, before, come, how, include)
		}
		return len(dst.Data)
	})
}

func TestIndexAdd(t *testing.T) {
	o := hashed.New(t, *elements)
	hard(2, 1, func(what string, r *rand.Rand, shape []int, f, out fp16.Format, make func(*rand.Rand) float64,
		how Reduction, include bool) int {
		axis := r.IntN(len(shape))
		shape[axis] = 1 + r.IntN(3)
		if r.IntN(30) == 0 {
			shape[len(shape)-1] = 1100 // more columns than are taken at a time
		}
		sshape := slices.Clone(shape)
		sshape[axis] = r.IntN(8)
		i := indices(r, shape[axis], sshape[axis])
		old, src, dst := tensor.New(f, shape...), tensor.New(f, sshape...), tensor.New(out, shape...)
		fill(r, old, make)
		fill(r, src, make)
		come := arrivals(slices.Repeat([][]float64{nil}, len(old.Data)))
		each(t, src, func(at []int) float64 {
			v := src.Data[place(sshape, at)]
			at[axis] = front(i.Data[at[axis]], shape[axis])
			p := place(shape, at)
			come[p] = append(come[p], v)
			return v
		})
		if err := IndexAdd(dst, old, axis, i, src, how, include); err != nil {
			t.Fatal(err)
		}
		check(t, o, what, dst, old, come, how, include)
		return len(dst.Data)
	})
}

func TestScatterND(t *testing.T) {
	o := hashed.New(t, *elements)
	hard(3, 1, func(what string, r *rand.Rand, shape []int, f, out fp16.Format, make func(*rand.Rand) float64,
		how Reduction, _ bool) int {
		depth := 1 + r.IntN(len(shape))
		for a := range depth {
			shape[a] = 1 + r.IntN(2)
		}
		n := r.IntN(12)
		i := someTuples(r, shape, 0, depth, n)
		old, src := tensor.New(f, shape...), tensor.New(f, append([]int{n}, shape[depth:]...)...)
		fill(r, old, make)
		fill(r, src, make)
		come := arrivals(slices.Repeat([][]float64{nil}, len(old.Data)))
		each(t, src, func(at []int) float64 {
			v := src.Data[place(src.Shape, at)]
			var to []int
			for j := range depth {
				to = append(to, front(i.Data[at[0]*depth+j], shape[j]))
			}
			p := place(shape, append(to, at[1:]...))
			come[p] = append(come[p], v)
			return v
		})
		dst := tensor.New(out, shape...)
		if err := ScatterND(dst, old, i, src, how); err != nil {
			t.Fatal(err)
		}
		check(t, o, what, dst, old, come, how, true)
		return len(dst.Data)
	})
}

// TestEmbeddingBag: with factors, whose products are exact, and with a row left out.
func TestEmbeddingBag(t *testing.T) {
	o := hashed.New(t, *elements)
	hard(4, 2, func(what string, r *rand.Rand, shape []int, f, out fp16.Format, make func(*rand.Rand) float64,
		_ Reduction, _ bool) int {
		how := []Reduction{Sum, Mean, Max}[r.IntN(3)]
		rows, width, n := 1+r.IntN(4), r.IntN(5), r.IntN(20)
		table, i := tensor.New(f, rows, width), indices(r, rows, n)
		fill(r, table, make)
		first := []int{0}
		for b := 0; b < n; b += r.IntN(7) {
			first = append(first, b)
		}
		first = append(first, n)
		skip := r.IntN(2*rows) - rows
		var weight []float64
		if how == Sum && r.IntN(2) == 0 {
			w := tensor.New(f, n)
			fill(r, w, make)
			weight = w.Data
		}
		dst := tensor.New(out, len(first)-1, width)
		if err := EmbeddingBag(dst, table, i, first, weight, how, skip); err != nil {
			t.Fatal(err)
		}
		if o.Add(map[Reduction]string{Sum: "sum", Mean: "mean", Max: "max"}[how], dst.Data...); !o.Judge {
			return len(dst.Data)
		}
		for b := range len(first) - 1 {
			for j := range width {
				var come []float64
				for k := first[b]; k < first[b+1]; k++ {
					row := front(i.Data[k], rows)
					if row == skip {
						continue
					}
					v := table.Data[row*width+j]
					if weight != nil {
						v = float64(v * weight[k])
					}
					come = append(come, v)
				}
				got := dst.Data[b*width+j]
				if want := together(nil, come, how, false, out); math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("%s: bag %d, column %d of %v in %v: %v, want %v", what, b, j, come, out, got, want)
				}
			}
		}
		return len(dst.Data)
	})
}

// TestThreads: 10^5 edges of a graph give the same bits for any number of threads, also
// if it changes.
func TestThreads(t *testing.T) {
	const edges, nodes, width = 100000, 3000, 8
	r := rand.New(rand.NewPCG(5, 5))
	i, old, src := indices(r, nodes, edges), tensor.New(fp16.Float32, nodes, width), tensor.New(fp16.Float32, edges, width)
	fill(r, old, makers[0].make)
	fill(r, src, makers[3].make)
	var want *tensor.Tensor
	defer partest.Changing()()
	for range 20 {
		dst := tensor.Like(old)
		if err := IndexAdd(dst, old, 0, i, src, Sum, true); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = dst
		}
		if !slices.Equal(dst.Data, want.Data) {
			t.Error("another number of threads, other sums")
		}
	}
	column := make([]float64, nodes*width)
	copy(column, old.Data)
	for k, v := range i.Data { // off by less than a part in 10^12 here, but of float64's own
		for j := range width {
			column[front(v, nodes)*width+j] += src.Data[k*width+j]
		}
	}
	for k, v := range column {
		if math.Abs(want.Data[k]-v) > 0x1p-24*math.Abs(v)+1e-12 {
			t.Fatalf("number %d is %v, want %v", k, want.Data[k], v)
		}
	}
}

// TestWholeSums: sums of whole numbers are exact, or an error.
func TestWholeSums(t *testing.T) {
	i := tensor.Of(fp16.Int64, []float64{1, 1}, 2)
	x := tensor.Of(fp16.Int64, []float64{5, 1 << 52}, 2)
	if err := IndexAdd(x, x, 0, i, tensor.Of(fp16.Int64, []float64{1 << 52, -1}, 2), Sum, true); err != nil ||
		x.Data[0] != 5 || x.Data[1] != 1<<53-1 {
		t.Errorf("%v, %v", x.Data, err)
	}
	if err := IndexAdd(x, x, 0, i, tensor.Of(fp16.Int64, []float64{1 << 52, -1}, 2), Sum, true); err == nil ||
		err.Error() != "sum: 13510798882111486: want whole numbers of at most 2^53 in size" {
		t.Error(err)
	}
}

// TestMisuse: what a caller may get wrong panics by the package's name.
func TestMisuse(t *testing.T) {
	x := numbered(fp16.Float32, 2, 3)
	wide := numbered(fp16.Float64, 2, 3)
	i := tensor.New(fp16.Int64, 2)
	for what, f := range map[string]func(){
		"a sum of float64":     func() { IndexAdd(tensor.Like(x), wide, 0, i, x, Sum, true) },
		"a source of float64":  func() { IndexAdd(tensor.Like(x), x, 0, i, wide, Mean, true) },
		"another destination":  func() { IndexAdd(tensor.New(fp16.Float32, 3, 2), x, 0, i, x, Last, true) },
		"an axis too many":     func() { Gather(tensor.Like(x), x, 2, tensor.New(fp16.Int64, 2, 3)) },
		"an index of rank one": func() { Gather(i, x, 0, i) },
		"a padding of nothing": func() { Pad(x, tensor.New(fp16.Float32, 0, 3), []int{1, 0}, Reflect, 0) },
		"an order twice":       func() { Permute(x, x, 0, 0) },
		"a slice beyond":       func() { Slice(x, x, []int{1, 0}, []int{1, 1}) },
		"a bag of the last":    func() { EmbeddingBag(x, x, i, []int{0, 1, 2}, nil, Last, -1) },
		"a smaller Cat":        func() { Cat(x, 0, x, x) },
	} {
		func() {
			defer func() {
				if got, ok := recover().(string); !ok || len(got) < 7 || got[:7] != "index: " {
					t.Errorf("%s: %v", what, got)
				}
			}()
			f()
		}()
	}
}
