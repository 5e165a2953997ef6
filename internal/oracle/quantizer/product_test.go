package quantizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// product makes operands of codes and scales for blocks of so many rows and columns of each, without an output.
func product(rng *rand.Rand, n fp16.Narrow, m, k, columns int, blocksA, blocksB [2]int) Product {
	numbers := func(r, c int) *tensor.Tensor {
		t := tensor.New(fp16.Float32, r, c)
		for i := range t.Data {
			t.Data[i] = n.Decode(n.Encode(rng.NormFloat64(), fp16.Saturated))
		}
		return t
	}
	scales := func(shape [2]int) *tensor.Tensor {
		t := tensor.New(fp16.Float32, shape[:]...)
		for i := range t.Data {
			t.Data[i] = fp16.Float32.Round(0.1 + rng.Float64())
		}
		return t
	}
	return Product{
		A: numbers(m, k), B: numbers(k, columns), ScaleA: scales(blocksA), ScaleB: scales(blocksB), OfA: n, OfB: n,
	}
}

// multiplied is the output of a kernel that scales operands or the product, sums being float32's, from the first to the
// last.
func (p Product) multiplied(on string, to fp16.Format) *tensor.Tensor {
	m, k, n := p.A.Shape[0], p.A.Shape[1], p.B.Shape[1]
	sa, sb := spread(p.ScaleA, p.A.Shape), spread(p.ScaleB, p.B.Shape)
	at := func(s *tensor.Tensor, i, j int) float32 {
		return float32(s.Data[i%s.Shape[0]*s.Shape[1]+j%s.Shape[1]])
	}
	y := tensor.New(to, m, n)
	for i := range m {
		for j := range n {
			sum := float32(0)
			for l := range k {
				a, b := float32(p.A.Data[i*k+l]), float32(p.B.Data[l*n+j])
				if on == onOperands {
					a, b = float32(a*at(sa, i, l)), float32(b*at(sb, l, j))
				}
				sum += float32(a * b)
			}
			if on == onProduct {
				sum *= float32(at(sa, i, 0) * at(sb, 0, j))
			}
			if p.Bias != nil {
				sum += float32(p.Bias.Data[j])
			}
			y.Data[i*n+j] = to.Round(float64(sum))
		}
	}
	return y
}

// TestProducts: products of quantized operands pass in both forms, to all formats; each mistake fails under its name.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	rights, wrongs := 0, 0
	for _, c := range []struct {
		n                fp16.Narrow
		blocksA, blocksB [2]int
		forms            []string
	}{
		{fp16.E4M3, [2]int{1, 1}, [2]int{1, 1}, []string{onOperands, onProduct}},
		{fp16.E5M2, [2]int{12, 1}, [2]int{1, 20}, []string{onOperands, onProduct}},
		{fp16.E4M3FNUZ, [2]int{12, 3}, [2]int{3, 2}, []string{onOperands}},
		{fp16.E2M1, [2]int{12, 3}, [2]int{3, 20}, []string{onOperands}},
	} {
		p := product(rng, c.n, 12, 48, 20, c.blocksA, c.blocksB)
		for _, form := range c.forms {
			for _, to := range []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.Float16} {
				for _, biased := range []bool{false, true} {
					q := p
					if biased {
						q.Bias = product(rng, fp16.E4M3, 1, 20, 1, [2]int{1, 1}, [2]int{1, 1}).A
						q.Bias.Shape = []int{20}
					}
					q.Output = q.multiplied(form, to)
					if r, _, err := CheckProduct(q); err != nil || r.Verdict != judge.Pass {
						t.Errorf("%v, %s to %v: %+v, %v", c.n, form, to, r, err)
					}
					rights++
				}
			}
		}
		p.Output = p.multiplied(c.forms[0], fp16.BFloat16)
		if err := p.fit(); err != nil {
			t.Fatal(err)
		}
		for _, f := range p.mistakes() {
			wrong := p
			wrong.Output = f.p.multiplied(c.forms[0], fp16.BFloat16)
			r, _, err := CheckProduct(wrong)
			if err != nil || r.Verdict != judge.Fail || !strings.HasPrefix(r.FaultID, f.id) {
				t.Errorf("%v, %s%v: %v %q, %v", c.n, f.id, f.args, r.Verdict, r.FaultID, err)
			}
			wrongs++
		}
	}
	t.Logf("%d right pass, %d wrong fail under their names", rights, wrongs)
}

// TestProductsOfEight: outputs of 8 bits are held to what float32 sums round to.
func TestProductsOfEight(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	store := fp16.E4M3
	p := product(rng, fp16.E4M3, 12, 48, 20, [2]int{1, 1}, [2]int{1, 1})
	p.Store = &store
	p.Output = p.multiplied(onProduct, fp16.Float32)
	for i, v := range p.Output.Data {
		p.Output.Data[i] = store.Decode(store.Encode(v, fp16.Torch))
	}
	if r, _, err := CheckProduct(p); err != nil || r.Verdict != judge.Pass {
		t.Errorf("%+v, %v", r, err)
	}
	p.Output.Data[7] = store.Decode(store.Encode(p.Output.Data[7], fp16.Torch) + 1)
	if r, _, err := CheckProduct(p); err != nil || r.Verdict != judge.Fail || r.Violations != 1 || r.Worst.Index[1] != 7 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestProductsThatDoNotFit: shapes are refused by the name of the tensor.
func TestProductsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		change func(p *Product)
		want   string
	}{
		{func(p *Product) { p.A.Shape = []int{6, 2, 48} }, "input: shape [6 2 48]: want two axes"},
		{func(p *Product) { p.B.Shape = []int{20, 48} }, "other: shape [20 48]: want 48 rows, as input has columns"},
		{func(p *Product) { p.Output.Shape = []int{20, 12} }, "output: shape [20 12]: want [12 20]"},
		{func(p *Product) { p.ScaleA = tensor.New(fp16.Float32, 5) },
			"scale_a: shape [5]: want one number, [12 1], or one for each block of [12 48]"},
		{func(p *Product) { p.ScaleB = tensor.New(fp16.Float32, 3, 49) },
			"scale_b: shape [3 49]: want one number, [1 20], or one for each block of [48 20]"},
		{func(p *Product) { p.Bias = tensor.New(fp16.Float32, 12) }, "bias: shape [12]: want [20]"},
	} {
		p := product(rand.New(rand.NewPCG(1, 1)), fp16.E4M3, 12, 48, 20, [2]int{1, 1}, [2]int{1, 1})
		p.Output = tensor.New(fp16.Float32, 12, 20)
		c.change(&p)
		if _, _, err := CheckProduct(p); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
