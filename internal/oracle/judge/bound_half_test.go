package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// half is what a device makes that keeps the sum of each result in a half type, term by term, in an order of its own.
type half struct {
	f     fp16.Format
	terms map[int][]float64
}

func (h half) add(at int, term float64) { h.terms[at] = append(h.terms[at], term) }

func (h half) output(r *rand.Rand, way string, n float64, shape ...int) *tensor.Tensor {
	y := tensor.New(h.f, shape...)
	for i := range y.Data {
		terms := h.terms[i]
		switch way {
		case "backwards":
			slices.Reverse(terms)
		case "shuffled":
			r.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		}
		s := 0.0
		for _, v := range terms {
			s = h.f.Round(s + v)
		}
		y.Data[i] = h.f.Round(s / n)
	}
	return y
}

// TestKeptInHalf: sums that a kernel keeps in a half type, as it says, stand still where their terms have one sign, in
// whatever order it adds. Where they have not, other results fail.
func TestKeptInHalf(t *testing.T) {
	const rows, n, columns = 5, 600, 4
	f := fp16.BFloat16
	for i, way := range []string{"as in memory", "backwards", "shuffled"} {
		for k, sign := range []string{"one sign", "both signs"} {
			if !share.All() && (i+k)%2 == 1 {
				continue
			}
			r := rand.New(rand.NewPCG(7, uint64(f)))
			number := func(shape ...int) *tensor.Tensor {
				x := drawn(r, f, shape...)
				for i, v := range x.Data {
					if sign == "one sign" {
						x.Data[i] = math.Abs(v)
					}
				}
				return x
			}
			x, w := number(rows, n), number(n, columns)
			sum, product := half{f, map[int][]float64{}}, half{f, map[int][]float64{}}
			for i := range rows {
				for k := range n {
					sum.add(i, x.Data[i*n+k])
					for j := range columns {
						product.add(i*columns+j, x.Data[i*n+k]*w.Data[k*columns+j])
					}
				}
			}
			image := number(2, 3, 15, 16)
			pooled := half{f, map[int][]float64{}}
			for i, v := range image.Data {
				pooled.add(i/240, v)
			}
			// 12 channels in 2 groups of 6 and of 2 kernels of 9 x 9
			many, kernels := number(2, 12, 11, 10), number(4, 6, 9, 9)
			conv := half{f, map[int][]float64{}}
			for i := range 2 * 4 * 3 * 2 {
				col, row, o, item := i%2, i/2%3, i/6%4, i/24
				for k := range 6 * 81 {
					from := ((item*12+o/2*6+k/81)*11+row+k/9%9)*10 + col + k%9
					conv.add(i, many.Data[from]*kernels.Data[o*486+k])
				}
			}
			// 400 channels to 3, each place apart
			deep, taps := number(1, 400, 2, 3), number(400, 3, 2, 2)
			apart := half{f, map[int][]float64{}}
			for i := range 3 * 4 * 6 {
				col, row, o := i%6, i/6%4, i/24
				for c := range 400 {
					apart.add(i, deep.Data[(c*2+row/2)*3+col/2]*taps.Data[(c*3+o)*4+row%2*2+col%2])
				}
			}
			for _, q := range []Question{
				question(t, "sum", `{"dim": [-1]}`, sum.output(r, way, 1, rows), x),
				question(t, "mean", `{"dim": [1], "keepdim": true}`, sum.output(r, way, n, rows, 1), x),
				question(t, "adaptive_avg_pool2d", `{"output_size": 1}`, pooled.output(r, way, 240, 2, 3, 1, 1), image),
				question(t, "avg_pool2d", `{"kernel_size": [15, 16]}`, pooled.output(r, way, 240, 2, 3, 1, 1), image),
				question(t, "matmul", "", product.output(r, way, 1, rows, columns), x, w),
				question(t, "einsum", `{"equation": "ik,kj->ij"}`, product.output(r, way, 1, rows, columns), x, w),
				convolution(t, "conv2d", `{"groups": 2}`, conv.output(r, way, 1, 2, 4, 3, 2), many, kernels),
				convolution(t, "conv_transpose2d", `{"stride": 2}`, apart.output(r, way, 1, 1, 3, 4, 6), deep, taps),
			} {
				what := fmt.Sprintf("%s, %v, %s, of %s", q.Graph.Nodes[0].Op.Name(), f, way, sign)
				q.Claimed = &Contract{Form: Form{Accumulate: f.String()}}
				if a, err := Check(q); err != nil || a.Verdict == Fail || a.Verdict == NoPower && sign == "both signs" {
					t.Errorf("%s: %+v, %v", what, a, err)
				}
				if sign == "one sign" {
					continue
				}
				for i := range q.Output.Data {
					q.Output.Data[i] = f.Round(1.5 * q.Output.Data[i])
				}
				if a, err := Check(q); err != nil || a.Verdict != Fail {
					t.Errorf("%s, times 1.5: %+v, %v", what, a, err)
				}
			}
		}
	}
}

// convolution is the question of one.
func convolution(t *testing.T, op, attributes string, out, x, w *tensor.Tensor) Question {
	t.Helper()
	g, _, err := Kernel(op, []byte(attributes), []string{"input", "weight"})
	if err != nil {
		t.Fatal(err)
	}
	return Question{Graph: g, Inputs: []*tensor.Tensor{x, w}, Output: out}
}

// TestRunningHalf: additions to one place and running sums that are rounded each, in the order of memory, which is that
// of size: nothing has to be claimed.
func TestRunningHalf(t *testing.T) {
	const n, places, f = 36000, 24, fp16.Float16
	r := rand.New(rand.NewPCG(8, 1))
	x, zeros, y, running := tensor.New(f, n), tensor.New(f, places), tensor.New(f, places), tensor.New(f, n)
	at, s := tensor.New(fp16.Int64, n), 0.0
	for i := range x.Data {
		x.Data[i] = f.Round(r.Float64())
	}
	slices.Sort(x.Data)
	for i, v := range x.Data {
		to := r.IntN(places)
		at.Data[i] = float64(to)
		y.Data[to] = f.Round(y.Data[to] + v)
		s = f.Round(s + v)
		running.Data[i] = s
	}
	g, _, err := Kernel("index_add", []byte(`{"dim": 0}`), []string{"input", "index", "source"})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []Question{{Graph: g, Inputs: []*tensor.Tensor{zeros, at, x}, Output: y},
		question(t, "cumsum", `{"dim": 0}`, running, x)} {
		if a, err := Check(q); err != nil || a.Verdict != Pass {
			t.Errorf("%s: %+v, %v", q.Graph.Nodes[0].Op.Name(), a, err)
		}
	}
}
