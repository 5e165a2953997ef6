package judge

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// naiveNorm is a layer norm of rows as a kernel of one thread each has it: sums one after the other. The last
// tail numbers are not in the variance.
func naiveNorm(x *tensor.Tensor, tail int) *tensor.Tensor {
	rows, n := x.Shape[0], x.Shape[1]
	out := tensor.New(fp16.Float32, rows, n)
	for i := range rows {
		row := x.Data[i*n : (i+1)*n]
		var m, v float32
		for _, y := range row {
			m += float32(y)
		}
		m /= float32(n)
		for _, y := range row[:n-tail] {
			d := float32(y) - m
			v += float32(d * d)
		}
		v = float32(1 / math.Sqrt(float64(v/float32(n)+1e-5)))
		for j, y := range row {
			out.Data[i*n+j] = float64((float32(y) - m) * v)
		}
	}
	return out
}

var rowSeeds = flag.Int("judge.rows", 4, "inputs of few rows")

// TestRowsOfOneError: all numbers of a row are off by its mean's error: so many rows are fewer errors than they
// have numbers, and what a naive kernel returns far from 0 passes. One that loses a number does not.
func TestRowsOfOneError(t *testing.T) {
	for _, c := range []struct{ rows, n, seeds int }{{30, 240, *rowSeeds}, {8, 1024, (*rowSeeds + 1) / 2}, {300, 240, 1}} {
		for k := range c.seeds {
			seed := (k + 9) % 12 // of 9 a row is the farthest off: it shows whether that is usual
			r := rand.New(rand.NewPCG(uint64(seed), 77))
			x := drawn(r, fp16.Float32, c.rows, c.n)
			for i, v := range x.Data {
				x.Data[i] = fp16.Float32.Round(v + 3)
			}
			for tail, want := range []string{Pass, Fail} {
				a, err := Check(question(t, "layer_norm", fmt.Sprintf(`{"normalized_shape": [%d]}`, c.n), naiveNorm(x, tail), x))
				if err != nil || a.Verdict != want {
					t.Fatalf("%d rows of %d, seed %d, %d numbers left out: %+v, %v: want %s", c.rows, c.n, seed, tail, a, err, want)
				}
			}
		}
	}
}
