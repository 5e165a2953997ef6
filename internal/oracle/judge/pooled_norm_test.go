package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestLpPool: the norm of each window passes, with its terms and their sum stored in a half type too; the sum without
// its root fails, and so do a mean in its place and a norm of another order.
func TestLpPool(t *testing.T) {
	const channels, length, window = 4, 60, 3
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
		for _, p := range []int{1, 2, 3} {
			x := drawn(rand.New(rand.NewPCG(uint64(p), 2)), f, 1, channels, length)
			g := graph.New(nil)
			g.Outputs = []int{g.Add(graph.LpPool{P: p, Kernel: graph.Ints{window}, Stride: graph.Ints{1}}, "y", g.Input("x"))}
			root := 1 / float64(p)
			for _, c := range []struct {
				name           string
				order, root, n float64
				stores         fp16.Format
				want           string
			}{
				{"right", float64(p), root, 1, fp16.Float64, Pass}, {"stored", float64(p), root, 1, f, Pass},
				{"a mean", float64(p), root, window, fp16.Float64, Fail},
				{"another order", float64(p) + 1, 1 / (float64(p) + 1), 1, fp16.Float64, Fail},
				{"a square", float64(p), 2 * root, 1, fp16.Float64, Fail},
			} {
				y := tensor.New(f, 1, channels, length-window+1)
				for i := range y.Data {
					at, sum := i/(length-window+1)*length+i%(length-window+1), 0.0
					for _, v := range x.Data[at : at+window] {
						sum += c.stores.Round(math.Pow(math.Abs(v), c.order))
					}
					y.Data[i] = f.Round(math.Pow(c.stores.Round(sum)/c.n, c.root))
				}
				a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
				if err != nil {
					t.Fatal(err)
				}
				if a.Verdict != c.want {
					t.Errorf("%s of order %d, %v: %s, %s", c.name, p, f, a.Verdict, a.Reason)
				}
			}
		}
	}
}

// TestMeanVariance: the norm of ONNX passes in two passes and in one, of numbers that are all the same too; without its
// mean, with a deviation of n - 1, and with eps below the root it fails.
func TestMeanVariance(t *testing.T) {
	const rows, n = 30, 40
	single := func(x float64) float64 { return float64(float32(x)) }
	x := drawn(rand.New(rand.NewPCG(5, 6)), fp16.Float32, rows, n)
	for i := range x.Data {
		if x.Data[i] = single(x.Data[i] + 3); i < n {
			x.Data[i] = 1.5
		} else if i < 2*n {
			x.Data[i] = single(1e-8 * float64(i%7))
		}
	}
	g := graph.New(nil)
	g.Outputs = []int{g.Add(graph.MeanVariance{Axes: graph.Ints{1}}, "y", g.Input("x"))}
	for name, c := range map[string]struct {
		of   func(v, mean, variance, square float64) float64
		want string
	}{
		"right": {func(v, mean, variance, _ float64) float64 { return (v - mean) / (math.Sqrt(variance) + 1e-9) }, Pass},
		"in one pass": {func(v, mean, variance, square float64) float64 {
			if mean > 1 && variance > 0 {
				variance = max(single(single(square)-single(single(mean)*single(mean))), 0)
			}
			return (v - mean) / (math.Sqrt(variance) + 1e-9)
		}, Pass},
		"without the mean": {func(v, _, variance, _ float64) float64 { return v / (math.Sqrt(variance) + 1e-9) }, Fail},
		"of n - 1": {func(v, mean, variance, _ float64) float64 {
			return (v - mean) / (math.Sqrt(variance*n/(n-1)) + 1e-9)
		}, Fail},
		"eps below the root": {func(v, mean, variance, _ float64) float64 {
			return (v - mean) / math.Sqrt(variance+1e-9)
		}, Fail},
	} {
		y := tensor.New(fp16.Float32, rows, n)
		for row := range rows {
			mean, square := 0.0, 0.0
			for _, v := range x.Data[n*row:][:n] {
				mean += v / n
				square += v * v / n
			}
			variance := 0.0
			for _, v := range x.Data[n*row:][:n] {
				variance += (v - mean) * (v - mean) / n
			}
			for i, v := range x.Data[n*row:][:n] {
				y.Data[n*row+i] = single(c.of(v, mean, variance, square))
			}
		}
		a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != c.want {
			t.Errorf("%s: %s, %s, %v", name, a.Verdict, a.Reason, a.Contract)
		}
	}
}
