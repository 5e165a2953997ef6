package judge

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestWholeProducts: products of whole numbers are held to every bit, also where float32 does not hold their sums,
// alone and before a scale; and sizes that float64 does not hold are an error.
func TestWholeProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 81))
	const rows, n, columns = 9, 3000, 7
	a, b := tensor.New(fp16.Int64, rows, n), tensor.New(fp16.Int64, n, columns)
	for _, x := range []*tensor.Tensor{a, b} {
		for i := range x.Data {
			x.Data[i] = float64(100 + r.IntN(28)) // sums of 3e7, where numbers of float32 are 2 apart
		}
	}
	right := tensor.New(fp16.Int64, rows, columns)
	for i := range right.Data {
		for k := range n {
			right.Data[i] += a.Data[i/columns*n+k] * b.Data[k*columns+i%columns]
		}
	}
	g := graph.New(nil)
	product := g.Add(graph.MatMul{}, "output", g.Input("input"), g.Input("other"))
	g.Outputs = []int{product}
	hold := func(g *graph.Graph, in []*tensor.Tensor, right *tensor.Tensor, wrong func(i int) float64) {
		t.Helper()
		for at := -1; at < len(right.Data); at += 20 {
			y := tensor.New(right.Format, right.Shape...)
			copy(y.Data, right.Data)
			if at >= 0 {
				y.Data[at] = wrong(at)
			}
			got, err := Check(Question{Graph: g, Inputs: in, Output: y})
			if err != nil || (got.Verdict == Pass) != (at < 0) {
				t.Errorf("%d is wrong: %+v, %v", at, got, err)
			}
		}
	}
	in := []*tensor.Tensor{a, b}
	hold(g, in, right, func(i int) float64 { return right.Data[i] + 1 })
	scaled := graph.New(nil)
	product = scaled.Add(graph.MatMul{}, "product", scaled.Input("input"), scaled.Input("other"))
	product = scaled.Add(graph.Cast{Dtype: "float32"}, "wide", product)
	scaled.Outputs = []int{scaled.Add(mul, "output", product, scaled.Input("scale"))}
	scale, y := tensor.New(fp16.Float32, rows, 1), tensor.New(fp16.Float32, rows, columns)
	for i := range scale.Data {
		scale.Data[i] = fp16.Float32.Round(r.Float64())
	}
	for i, v := range right.Data {
		y.Data[i] = fp16.Float32.Round(fp16.Float32.Round(v) * scale.Data[i/columns])
	}
	hold(scaled, append(in, scale), y, func(i int) float64 { return fp16.Float32.Round(1.00001 * y.Data[i]) })
	a.Data[0] = math.Ldexp(1, 50)
	if _, err := Check(Question{Graph: g, Inputs: in, Output: right}); err == nil ||
		!strings.Contains(err.Error(), "want whole numbers of at most 2^53 in size") {
		t.Errorf("%v: want an error", err)
	}
}

// TestWholeSums: sums of whole numbers along an axis are held to every bit.
func TestWholeSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 83))
	x, right := tensor.New(fp16.Int64, 30, 40), tensor.New(fp16.Int64, 30)
	for i := range x.Data {
		x.Data[i] = float64(r.IntN(2))
		right.Data[i/40] += x.Data[i]
	}
	g := graph.New(nil)
	g.Outputs = []int{g.Add(graph.Reduction{Of: "sum", Axes: []int{-1}}, "output", g.Input("input"))}
	for _, off := range []float64{0, 1} {
		y := tensor.Of(fp16.Int64, append([]float64{right.Data[0] + off}, right.Data[1:]...), 30)
		got, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil || (got.Verdict == Pass) != (off == 0) {
			t.Errorf("off by %v: %+v, %v", off, got, err)
		}
	}
}

// TestScatteredMeans: means at places that an index names pass with sums in any order, the old number included or not,
// and sums over another count, or in their place, fail.
func TestScatteredMeans(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 82))
	const places, n, columns = 11, 150, 6
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
		for _, include := range []bool{true, false} {
			x, source := drawn(r, f, places, columns), drawn(r, f, n, columns)
			index, each := tensor.New(fp16.Int64, n), tensor.New(fp16.Int64, n, columns)
			for i := range index.Data {
				index.Data[i] = float64(r.IntN(places - 1)) // nothing comes to the last one
				for k := range columns {
					each.Data[i*columns+k] = index.Data[i]
				}
			}
			for off := range 3 { // of the count, and a sum
				y, count := tensor.New(f, places, columns), make([]float64, places)
				if include {
					copy(y.Data, x.Data)
					for i := range count {
						count[i] = 1
					}
				}
				for _, i := range r.Perm(n) {
					at := int(index.Data[i])
					count[at]++
					for k := range columns {
						v := &y.Data[at*columns+k]
						*v = fp16.Float32.Round(*v + source.Data[i*columns+k])
					}
				}
				for i := range y.Data {
					switch c := count[i/columns]; {
					case i/columns == places-1:
						y.Data[i] = x.Data[i]
					case off == 2:
					default:
						y.Data[i] /= c + float64(off)
					}
				}
				f.RoundSlice(y.Data, y.Data)
				for op, in := range map[graph.Op][]*tensor.Tensor{
					graph.ScatterReduce{Reduce: "mean", Include: include}: {x, each, source},
					graph.IndexReduce{Reduce: "mean", Include: include}:   {x, index, source},
				} {
					g := graph.New(nil)
					g.Outputs = []int{g.Add(op, "output", g.Input("x"), g.Input("index"), g.Input("source"))}
					got, err := Check(Question{Graph: g, Inputs: in, Output: y})
					if err != nil || (got.Verdict == Pass) != (off == 0) {
						t.Errorf("%T of %v, include %v, fault %d: %+v, %v", op, f, include, off, got, err)
					}
				}
			}
		}
	}
}
