package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestPowersMultipliedOut: a whole power of half numbers passes as one function and as products that are each stored,
// one factor after another and by squaring; with a factor too many or too few, and with one product cut off, it fails.
func TestPowersMultipliedOut(t *testing.T) {
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		round := func(v float64) float64 { return f.Round(v) }
		chain := func(x float64, n int) float64 {
			y := x
			for range n - 1 {
				y = round(float64(y * x))
			}
			return y
		}
		squared := func(x float64, n int) float64 { // from the lowest bit on
			y, first := 1.0, true
			for ; n > 0; n /= 2 {
				switch {
				case n%2 == 0:
				case first:
					y, first = x, false
				default:
					y = round(float64(y * x))
				}
				x = round(float64(x * x))
			}
			return y
		}
		for _, n := range []int{2, 3, 4, 5, 6, 7, 8, -2, -3} {
			for seed := range uint64(1) {
				x := drawn(rand.New(rand.NewPCG(seed, 21)), f, 12, 30)
				for i, v := range x.Data {
					x.Data[i] = f.Round(math.Copysign(.5+.4*math.Abs(v), v))
				}
				ask := func(power func(x float64, n int) float64, n, of int) *Report {
					exponent := float64(n)
					g := graph.New(nil)
					g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Pow, Other: &exponent}, "power", g.Input("x"))}
					y := tensor.New(f, x.Shape...)
					for i, v := range x.Data {
						if y.Data[i] = round(power(v, max(of, -of))); of < 0 {
							y.Data[i] = round(1 / y.Data[i])
						}
					}
					a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
					if err != nil {
						t.Fatal(err)
					}
					return a
				}
				cut := func(x float64, n int) float64 {
					y := chain(x, n)
					if n > 2 && math.Abs(y) > math.Abs(math.Pow(x, float64(n))) {
						return f.NextDown(math.Abs(y)) * math.Copysign(1, y)
					}
					return y * (1 + 4*f.Ulp(1))
				}
				one := func(x float64, n int) float64 { return math.Pow(x, float64(n)) }
				for name, power := range map[string]func(x float64, n int) float64{"one": one, "chain": chain, "squared": squared} {
					if n < 0 && name == "one" {
						continue // rounded before the reciprocal, as products of two are
					}
					if a := ask(power, n, n); a.Verdict != Pass {
						t.Errorf("x^%d in %v, %s, seed %d: %+v", n, f, name, seed, a)
					}
				}
				for name, a := range map[string]*Report{"one more": ask(chain, n, n+n/max(n, -n)), "cut": ask(cut, n, n)} {
					if a.Verdict != Fail {
						t.Errorf("x^%d in %v, %s, seed %d: %+v", n, f, name, seed, a)
					}
				}
			}
		}
	}
}

// TestAttentionOfOneSign: PyTorch's attention of half numbers from 0 to 1, of which one contract gives next to what
// another does, passes for few keys and for many; with the last key left out it fails.
func TestAttentionOfOneSign(t *testing.T) {
	for n, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		for i, keys := range []int{8, 32, 40, 64} {
			if !share.All() && (n+i)%2 == 1 {
				continue
			}
			for seed := range uint64(1) {
				r := rand.New(rand.NewPCG(seed, uint64(keys)))
				in := make([]*tensor.Tensor, 3)
				for k := range in {
					in[k] = tensor.New(f, 4, keys, 16)
					for i := range in[k].Data {
						in[k].Data[i] = f.Round(r.Float64())
					}
				}
				for _, dropped := range []int{0, 1} {
					y := tensor.New(f, 4, keys, 16)
					for i := range len(y.Data) / 16 {
						head := i / keys * keys * 16
						torchRow(in[0].Data[i*16:(i+1)*16], in[1].Data[head:head+(keys-dropped)*16], in[2].Data[head:],
							y.Data[i*16:(i+1)*16], f)
					}
					g, _, err := Kernel("scaled_dot_product_attention", nil, []string{"query", "key", "value"})
					if err != nil {
						t.Fatal(err)
					}
					a, err := Check(Question{Graph: g, Inputs: in, Output: y})
					if want := []string{Pass, Fail}[dropped]; err != nil || a.Verdict != want {
						t.Errorf("%v, %d keys, %d of them left out, seed %d: %+v %v", f, keys, dropped, seed, a, err)
					}
				}
			}
		}
	}
}

// torchRow is one query of PyTorch's attention of half numbers on a CPU: float32 sums, exp by its cubic polynomial,
// stored, and the sum of what is not stored.
func torchRow(q, k, v, y []float64, f fp16.Format) {
	scores, most := tensor.New(fp16.Float64, len(k)/16), float32(math.Inf(-1))
	for j := range scores.Data {
		var s float32
		for i := range 16 {
			s += float32(float32(q[i]) * float32(k[j*16+i]))
		}
		scores.Data[j] = float64(s * .25)
		most = max(most, s*.25)
	}
	for j, s := range scores.Data {
		scores.Data[j] = float64(float32(s) - most)
	}
	e, err := one(coarseExp{}, scores)
	if err != nil {
		panic(err)
	}
	var sum float32
	for _, p := range e.Data {
		sum += float32(p)
	}
	for i := range 16 {
		var s float32
		for j, p := range e.Data {
			s += float32(float32(f.Round(p)) * float32(v[j*16+i]))
		}
		y[i] = f.Round(float64(s / sum))
	}
}
