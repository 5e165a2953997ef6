package judge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// TestScatteredSums: numbers added to others where an index says pass in any order, onto zeros and ones too, in float32
// and, if they are half numbers, with each sum rounded; and what is lost, overwritten or summed more coarsely fails.
func TestScatteredSums(t *testing.T) {
	const rows, n, cols = 12, 300, 10
	ops := map[string]graph.Op{"index_add": graph.IndexAdd{}, "scatter_add": graph.ScatterAdd{},
		"index_put": graph.IndexPut{Accumulate: true}, "scatter_nd": graph.ScatterND{Reduce: "sum"}}
	bases := map[string]func(r *rand.Rand) float64{
		"zeros": func(*rand.Rand) float64 { return 0 }, "ones": func(*rand.Rand) float64 { return 1 },
		"numbers": func(r *rand.Rand) float64 { return 50 * r.NormFloat64() },
	}
	seed := uint64(0)
	for op, of := range ops {
		for base, number := range bases {
			for k, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
				if seed++; !share.All() && (len(op)+len(base)+k)%3 > 0 { // in another format
					continue
				}
				r := rand.New(rand.NewPCG(seed, 3))
				x, source, index := tensor.New(f, rows, cols), drawn(r, f, n, cols), tensor.New(fp16.Int64, n)
				switch op {
				case "scatter_add":
					index = tensor.New(fp16.Int64, n, cols)
				case "scatter_nd":
					index = tensor.New(fp16.Int64, n, 1)
				}
				for i := range x.Data {
					x.Data[i] = f.Round(number(r))
				}
				for i := range index.Data {
					index.Data[i] = float64(r.IntN(rows))
				}
				g := graph.New(nil)
				g.Outputs = []int{g.Add(of, "output", g.Input("base"), g.Input("index"), g.Input("source"))}
				for _, c := range []struct {
					how string
					sum fp16.Format // of each sum
				}{
					{"right", fp16.Float32},
					{"right", f},
					{"one lost", fp16.Float32},
					{"some lost", fp16.Float32},
					{"overwritten", fp16.Float32},
					{"coarse", fp16.BFloat16},
				} {
					if f != fp16.Float32 && (c.how == "coarse" || c.how == "one lost") { // which roundings hide
						continue
					}
					out := tensor.New(f, rows, cols)
					copy(out.Data, x.Data)
					for _, i := range r.Perm(n * cols) {
						at := index.Data[i/cols]
						if op == "scatter_add" {
							at = index.Data[i]
						}
						v := &out.Data[int(at)*cols+i%cols]
						switch {
						case c.how == "one lost" && i == cols*n/2, c.how == "some lost" && i/cols%4 == 3:
						case c.how == "overwritten":
							*v = source.Data[i]
						default:
							*v = c.sum.Round(*v + source.Data[i])
						}
					}
					f.RoundSlice(out.Data, out.Data)
					a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, index, source}, Output: out})
					if err != nil || (a.Verdict == Pass) != (c.how == "right") {
						t.Errorf("%s to %s of %v, %s, sums in %v: %+v, %v", op, base, f, c.how, c.sum, a, err)
					}
				}
			}
		}
	}
}

// TestScatteredTile: sums of half numbers, each rounded, of which a tile is rounded to bfloat16 besides, fail: a kernel
// that adds one after the other has no other errors than these roundings.
func TestScatteredTile(t *testing.T) {
	const rows, n, cols = 24, 400, 16
	f := fp16.Float16
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 9))
		x, source, index := tensor.New(f, rows, cols), drawn(r, f, n, cols), tensor.New(fp16.Int64, n)
		for i := range index.Data {
			index.Data[i] = float64(r.IntN(rows))
		}
		g := graph.New(nil)
		g.Outputs = []int{g.Add(graph.IndexAdd{}, "output", g.Input("base"), g.Input("index"), g.Input("source"))}
		right := tensor.New(f, rows, cols)
		for _, i := range r.Perm(n * cols) {
			v := &right.Data[int(index.Data[i/cols])*cols+i%cols]
			*v = f.Round(*v + source.Data[i])
		}
		for _, tile := range []bool{false, true} {
			out := tensor.New(f, rows, cols)
			copy(out.Data, right.Data)
			if tile {
				fp16.BFloat16.RoundSlice(out.Data[:8*cols], out.Data[:8*cols])
			}
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, index, source}, Output: out})
			if err != nil || (a.Verdict == Pass) == tile {
				t.Errorf("seed %d, a tile in bfloat16 %v: %+v, %v", seed, tile, a, err)
			}
		}
	}
}

// TestSumsFromBase: float32 sums that begin at a base which is larger than all that is added have the errors of its
// places: simulated kernels have as many as those that add one number after the other, in the mean square within a
// fifth, whatever base and end.
func TestSumsFromBase(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(71, 72))
	for _, base := range []float64{0, 1, 0.99, -1.5, 300} {
		for _, mean := range []float64{0, 0.01} {
			const cells, n = 3000, 60
			x, source, index := tensor.New(fp16.Float32, cells), tensor.New(fp16.Float32, cells*n),
				tensor.New(fp16.Int64, cells*n)
			squares := 0.0
			for i := range x.Data {
				x.Data[i] = fp16.Float32.Round(base)
			}
			sum, exact := slices.Clone(x.Data), slices.Clone(x.Data)
			for k := range source.Data {
				v := fp16.Float32.Round(mean + 0.01*r.NormFloat64())
				at := k % cells
				source.Data[k], index.Data[k] = v, float64(at)
				sum[at], exact[at] = fp16.Float32.Round(sum[at]+v), exact[at]+v
			}
			for i := range sum {
				squares += (sum[i] - exact[i]) * (sum[i] - exact[i])
			}
			in := []ball{{v: x}, {v: index}, {v: source}}
			balls, err := added(graph.IndexAdd{}, in, tensor.Of(fp16.Float64, exact, cells),
				accumulator{u: u, narrow: fp16.Float32})
			if err != nil {
				t.Fatal(err)
			}
			expected := 0.0
			for _, s := range balls[0].sigma.Data {
				expected += s * s
			}
			if ratio := squares / expected; ratio < 0.8 || ratio > 1.2 {
				t.Errorf("onto %v, of mean %v: mean square %.3g times the expected one", base, mean, ratio)
			}
		}
	}
}

// TestScaledSums: sums of which each addition is rounded to float16 are each off by a thousandth, and all together by
// far less: a factor of 1.002 is not one of their roundings.
func TestScaledSums(t *testing.T) {
	const rows, n, cols = 16, 2000, 22
	r := rand.New(rand.NewPCG(46, 40))
	x, source, index := tensor.New(fp16.Float16, rows, cols), drawn(r, fp16.Float16, n, cols), tensor.New(fp16.Int64, n)
	for i := range index.Data {
		index.Data[i] = float64(r.IntN(rows))
	}
	g := graph.New(nil)
	g.Outputs = []int{g.Add(graph.IndexAdd{}, "output", g.Input("base"), g.Input("index"), g.Input("source"))}
	for _, c := range []struct {
		sum    fp16.Format
		factor float64
		want   string
	}{{fp16.Float16, 1, Pass}, {fp16.Float32, 1, Pass}, {fp16.Float32, 1.002, Fail}} {
		out := tensor.New(fp16.Float16, rows, cols)
		for i, at := range index.Data {
			for k := range cols {
				y := &out.Data[int(at)*cols+k]
				*y = c.sum.Round(*y + source.Data[i*cols+k])
			}
		}
		for i, y := range out.Data {
			out.Data[i] = fp16.Float16.Round(c.factor * y)
		}
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, index, source}, Output: out})
		if err != nil || a.Verdict != c.want {
			t.Errorf("sums in %v times %v: %+v, %v: want %s", c.sum, c.factor, a, err, c.want)
		}
	}
}

// TestFewSums: five numbers that are added one after the other, each sum rounded to bfloat16, are off by half a place
// of their sum four times at most.
func TestFewSums(t *testing.T) {
	const rows, n, cols = 4, 20, 20
	f := fp16.BFloat16
	r := rand.New(rand.NewPCG(46, 110))
	x, source, index := tensor.New(f, rows, cols), drawn(r, f, n, cols), tensor.New(fp16.Int64, n)
	out := tensor.New(f, rows, cols)
	for i := range index.Data {
		index.Data[i] = float64(i % rows)
	}
	for i := range n {
		source.Data[i*cols] = f.Round(1.4 + r.Float64()/32)
		for k := range cols {
			y := &out.Data[i%rows*cols+k]
			*y = f.Round(*y + source.Data[i*cols+k])
		}
	}
	g := graph.New(nil)
	g.Outputs = []int{g.Add(graph.IndexAdd{}, "output", g.Input("base"), g.Input("index"), g.Input("source"))}
	for _, off := range []float64{0, 5 * 0x1p-5} { // of places beside 7
		out.Data[0] += off
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, index, source}, Output: out})
		if err != nil || (a.Verdict == Pass) != (off == 0) {
			t.Errorf("off by %v: %+v, %v", off, a, err)
		}
	}
}
