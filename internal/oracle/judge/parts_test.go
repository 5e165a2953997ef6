package judge

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// TestParts: a product of half numbers whose terms are divided passes as what it is, in place and out of place. With a
// part in 300 of its mean added by column it fails.
func TestParts(t *testing.T) {
	const rows, n, columns = 24, 300, 19
	all := 0
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		for _, op := range []string{"matmul", "linear", "addmm"} {
			for _, parts := range []int{2, 3, 5} {
				for _, apart := range []bool{false, true} {
					if all++; !share.All() && all%5 != 1 { // each format, operation and number of parts, together and apart
						continue
					}
					r := rand.New(rand.NewPCG(uint64(parts), uint64(len(op))))
					x, w, bias := drawn(r, f, rows, n), drawn(r, f, n, columns), drawn(r, f, columns)
					given := map[string][]*tensor.Tensor{
						"matmul": {x, w}, "addmm": {bias, x, w}, "linear": {x, transposed(w), bias},
					}[op]
					for _, off := range []float64{0, 1. / 300} {
						out := tensor.New(f, rows, columns)
						for i := range out.Data {
							y := 0.
							if op != "matmul" {
								y = bias.Data[i%columns]
							}
							v := divided(x.Data[i/columns*n:][:n], w.Data[i%columns:], columns, y, parts, apart, f)
							out.Data[i] = f.Round(v + 14*off*(float64(i%columns)/9-1))
						}
						names := map[string][]string{"addmm": {"input", "mat1", "mat2"}, "linear": {"input", "weight", "bias"},
							"matmul": {"input", "other"}}[op]
						g, _, err := Kernel(op, nil, names)
						if err != nil {
							t.Fatal(err)
						}
						a, err := Check(Question{Graph: g, Inputs: given, Output: out})
						if err != nil || (a.Verdict == Pass) != (off == 0) {
							t.Errorf("%s %v in %d, apart %v, off by %v: %+v, %v", op, f, parts, apart, off, a, err)
						}
						if off == 0 && !strings.Contains(a.Contract.Parts, "parts") {
							t.Errorf("%s %v in %d, apart %v: %v", op, f, parts, apart, a.Contract)
						}
					}
				}
			}
		}
	}
}

// divided is a sum of products in so many parts of a multiple of eight terms, after a bias.
func divided(x, w []float64, stride int, y float64, parts int, apart bool, f fp16.Format) float64 {
	each := (len(x)/parts + 8) / 8 * 8
	bias, total := y, 0.
	for from := 0; from < len(x); from += each {
		s := 0.
		for k := from; k < min(from+each, len(x)); k++ {
			s += x[k] * w[k*stride]
		}
		y = f.Round(fp16.Float32.Round(y + s))
		total += f.Round(s)
	}
	if apart {
		return f.Round(total + bias)
	}
	return y
}

func transposed(w *tensor.Tensor) *tensor.Tensor {
	rows, columns := w.Shape[0], w.Shape[1]
	out := tensor.New(w.Format, columns, rows)
	for i := range rows {
		for j := range columns {
			out.Data[j*rows+i] = w.Data[i*columns+j]
		}
	}
	return out
}
