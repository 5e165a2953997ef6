package judge

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// drawn returns normal numbers of a format.
func drawn(r *rand.Rand, f fp16.Format, shape ...int) *tensor.Tensor {
	t := tensor.New(f, shape...)
	for i := range t.Data {
		t.Data[i] = f.Round(r.NormFloat64())
	}
	return t
}

// sumsOf are float32 sums of products, one after the other, of a row and the rows of b [columns, k].
func sumsOf(row, b []float64, sums []float32) {
	k := len(row)
	for j := range sums {
		var s float32
		for l, v := range b[j*k : (j+1)*k] {
			s += float32(float32(v) * float32(row[l]))
		}
		sums[j] = s
	}
}

// matmul1024 is a right kernel's product of 1024 by 1024 numbers.
func matmul1024() Question {
	const n = 1024
	r := rand.New(rand.NewPCG(1, 2))
	a, b := drawn(r, fp16.BFloat16, n, n), drawn(r, fp16.BFloat16, n, n)
	out, columns := tensor.New(fp16.BFloat16, n, n), make([]float64, n*n)
	for i, v := range b.Data {
		columns[i%n*n+i/n] = v
	}
	par.For(n, func(i int) {
		sums := make([]float32, n)
		sumsOf(a.Data[i*n:(i+1)*n], columns, sums)
		for j, v := range sums {
			out.Data[i*n+j] = fp16.BFloat16.Round(float64(v))
		}
	})
	g, _, err := Kernel("matmul", nil, []string{"input", "other"})
	if err != nil {
		panic(err)
	}
	return Question{Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: out}
}

// attention1024 is a right kernel's attention of 2 by 8 heads of 1024 queries and keys of 64 numbers: the
// probabilities are not divided before they are multiplied.
func attention1024() Question {
	const heads, n, e = 16, 1024, 64
	r := rand.New(rand.NewPCG(3, 4))
	var in []*tensor.Tensor
	for range 3 {
		in = append(in, drawn(r, fp16.BFloat16, 2, 8, n, e))
	}
	out := tensor.New(fp16.BFloat16, 2, 8, n, e)
	par.For(heads*n, func(row int) {
		q, head := in[0].Data[row*e:(row+1)*e], row/n*n*e
		p, sum, most := make([]float32, n), float32(0), float32(math.Inf(-1))
		sumsOf(q, in[1].Data[head:head+n*e], p)
		for j := range p {
			p[j] *= 0.125
			most = max(most, p[j])
		}
		y := make([]float32, e)
		for j := range p {
			w := float32(math.Exp(float64(p[j] - most)))
			sum += w
			for l, v := range in[2].Data[head+j*e : head+(j+1)*e] {
				y[l] += float32(w * float32(v))
			}
		}
		for l, v := range y {
			out.Data[row*e+l] = fp16.BFloat16.Round(float64(v / sum))
		}
	})
	g, _, err := Kernel("scaled_dot_product_attention", nil, []string{"query", "key", "value"})
	if err != nil {
		panic(err)
	}
	return Question{Graph: g, Inputs: in, Output: out}
}

// BenchmarkCheckKernel judges large right kernels. The metric memory is the most that is taken beside the
// tensors, over the tensors.
func BenchmarkCheckKernel(b *testing.B) {
	for _, of := range []struct {
		name string
		make func() Question
	}{
		{"op=matmul/n=1024/format=bfloat16", matmul1024},
		{"op=attention/shape=2x8x1024x64/format=bfloat16", attention1024},
	} {
		b.Run(of.name, func(b *testing.B) {
			q := of.make()
			tensors := 8 * len(q.Output.Data)
			for _, t := range q.Inputs {
				tensors += 8 * len(t.Data)
			}
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				if r, err := Check(q); err != nil || r.Verdict != Pass {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(tensors)/1e6, "MB-tensors")
		})
	}
}
