package matmul

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// summed judges an expression of operands with labels: for each element of the result
// the sum over all other labels of the product of what the operands have there, of which it
// returns the factors.
func summed(out string, size map[byte]int, labels []string, operands []*tensor.Tensor) [][][]float64 {
	all := out
	for _, l := range labels {
		for i := range len(l) {
			if !slices.Contains([]byte(all), l[i]) {
				all += l[i : i+1]
			}
		}
	}
	n := 1
	for i := range len(out) {
		n *= size[out[i]]
	}
	sums := make([][][]float64, n)
	index := map[byte]int{}
	var walk func(d, at int)
	walk = func(d, at int) {
		if d < len(all) {
			for i := range size[all[d]] {
				index[all[d]] = i
				to := at
				if d < len(out) {
					to = at*size[all[d]] + i
				}
				walk(d+1, to)
			}
			return
		}
		var p []float64
		for i, t := range operands {
			from := 0
			for j, n := range t.Shape {
				from = from*n + index[labels[i][j]]%n
			}
			p = append(p, t.Data[from])
		}
		sums[at] = append(sums[at], p)
	}
	walk(0, 0)
	return sums
}

// total rounds a sum of products.
func total(sum [][]float64, f fp16.Format) float64 {
	ball := bigref.Ball{}
	for _, factors := range sum {
		p := bigref.Exactly(1)
		for _, v := range factors {
			p = p.Mul(bigref.Exactly(v))
		}
		ball = ball.Add(p)
	}
	return ball.Or(f, func() float64 {
		r := new(big.Rat)
		for _, factors := range sum {
			p := big.NewRat(1, 1)
			for _, v := range factors {
				p.Mul(p, bigref.Rat(v))
			}
			r.Add(r, p)
		}
		return bigref.Round(r, f)
	})
}

// TestEinsum: expressions of one and two operands, each one function.
func TestEinsum(t *testing.T) {
	size := map[byte]int{'a': 2, 'b': 3, 'i': 4, 'j': 5, 'k': 6, 'l': 1, 'z': 0}
	r := rand.New(rand.NewPCG(1, 2))
	expressions := []struct {
		spec, out string
		labels    []string
	}{
		{"bij,bjk->bik", "bik", []string{"bij", "bjk"}},
		{"bij,bkj->bik", "bik", []string{"bij", "bkj"}},
		{"bij,bjk->bki", "bki", []string{"bij", "bjk"}},
		{"ij,jk", "ik", []string{"ij", "jk"}},
		{"kj,ji", "ik", []string{"kj", "ji"}},
		{"ii->i", "i", []string{"ii"}},
		{"ii", "", []string{"ii"}},
		{"ij->ji", "ji", []string{"ij"}},
		{"ijk->j", "j", []string{"ijk"}},
		{"i,j->ij", "ij", []string{"i", "j"}},
		{"i,i->", "", []string{"i", "i"}},
		{"i,i->i", "i", []string{"i", "i"}},
		{"ijk,bk->bj", "bj", []string{"ijk", "bk"}}, // i of the first alone is summed
		{"iij,jkk->ik", "ik", []string{"iij", "jkk"}},
		{"abij,akjb->bika", "bika", []string{"abij", "akjb"}},
		{"lij,bjk->bik", "bik", []string{"lij", "bjk"}},
		{"zi,ij->zj", "zj", []string{"zi", "ij"}},
		{"iz,zj->ij", "ij", []string{"iz", "zj"}},
		{" b i j , j -> b i ", "bi", []string{"bij", "j"}},
		{",ij->ij", "ij", []string{"", "ij"}},
	}
	makers := []func() float64{
		r.NormFloat64,
		func() float64 { return float64(r.IntN(9) - 4) },
		func() float64 { return (float64(r.IntN(2))*2 - 1) * (1 + float64(r.IntN(8))*0x1p-10) }, // cancel
		func() float64 { return math.Ldexp(r.NormFloat64(), r.IntN(100)-50) },
		func() float64 { return []float64{1, 0x1p-12, 3, -0x1p-12, 0x1p-60}[r.IntN(5)] }, // ties
		func() float64 { return math.Ldexp(float64(r.IntN(65)-32), -149) },
	}
	o := hashed.New(t, *long)
	for trial, seen := 0, 0; trial < 6*len(expressions) || seen < *long; trial++ {
		c, of := expressions[trial%len(expressions)], makers[trial/len(expressions)%len(makers)]
		in, f := formats[r.IntN(len(formats))], formats[r.IntN(len(formats))]
		var operands []*tensor.Tensor
		var shapes [][]int
		for _, l := range c.labels {
			var shape []int
			for i := range len(l) {
				shape = append(shape, size[l[i]])
			}
			x := tensor.New(in, shape...)
			for i := range x.Data {
				if x.Data[i] = in.Round(of()); math.IsInf(x.Data[i], 0) {
					x.Data[i] = 1
				}
			}
			operands, shapes = append(operands, x), append(shapes, shape)
		}
		shape, err := EinsumShape(c.spec, shapes...)
		if err != nil {
			t.Fatal(err)
		}
		dst := tensor.New(f, shape...)
		if err := Einsum(dst, c.spec, operands...); err != nil {
			t.Fatal(err)
		}
		o.Add("einsum", dst.Data...)
		if seen += len(dst.Data); !o.Judge {
			continue
		}
		want := summed(c.out, size, c.labels, operands)
		if len(want) != len(dst.Data) {
			t.Fatalf("%s: shape %v", c.spec, shape)
		}
		for i, v := range want {
			if w := total(v, f); math.Float64bits(dst.Data[i]) != math.Float64bits(w) {
				t.Fatalf("%s: element %d is %v, want %v", c.spec, i, dst.Data[i], w)
			}
		}
	}
}

// TestEinsumDots: an ellipsis is the leading dimensions of a product of matrices.
func TestEinsumDots(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	a, b := random(r, fp16.Float32, 5, 1, 6, 7), random(r, fp16.Float32, 3, 7, 4)
	want := tensor.New(fp16.Float32, 5, 3, 6, 4)
	Forward(want, a, b, Params{})
	for _, spec := range []string{"...ij,...jk->...ik", "...ij,...jk", "a...ij,...jk->a...ik"} {
		got := tensor.Like(want)
		if err := Einsum(got, spec, a, b); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Data, want.Data) {
			t.Errorf("%s differs", spec)
		}
	}
}

// TestEinsumChain: three operands are two functions, each rounded.
func TestEinsumChain(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.Float64} {
		a, b, c := random(r, f, 4, 5), random(r, f, 5, 6), random(r, f, 6, 3)
		ab, want, got := tensor.New(f, 4, 6), tensor.New(f, 4, 3), tensor.New(f, 4, 3)
		Forward(ab, a, b, Params{})
		Forward(want, ab, c, Params{})
		if err := Einsum(got, "ij,jk,kl->il", a, b, c); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Data, want.Data) {
			t.Errorf("%v differs", f)
		}
	}
}

func TestEinsumErrors(t *testing.T) {
	for _, c := range []struct {
		spec   string
		shapes [][]int
		want   string
	}{
		{"ij,jk", [][]int{{2, 3}}, `einsum: "ij,jk": 1 operands: want 2`},
		{"ij", [][]int{{2}},
			`einsum: "ij": operand 1, "ij" of shape [2]: want letters, one for each dimension, and at most one "..."`},
		{"i1", [][]int{{2, 2}}, `einsum: "i1": operand 1, "i1" of shape [2 2]: want letters, one for each dimension, ` +
			`and at most one "..."`},
		{"......", [][]int{{2, 2}}, `einsum: "......": operand 1, "......" of shape [2 2]: want letters, ` +
			`one for each dimension, and at most one "..."`},
		{"ij,jk", [][]int{{2, 3}, {4, 5}}, `einsum: "ij,jk": operand 2 of shape [4 5]: dimension 1: want 3 or 1`},
		{"ij->ik", [][]int{{2, 3}}, `einsum: "ij->ik": result "ik": want each label once, of those of the operands`},
		{"ij->ii", [][]int{{2, 3}}, `einsum: "ij->ii": result "ii": want each label once, of those of the operands`},
	} {
		if _, err := EinsumShape(c.spec, c.shapes...); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.spec, err, c.want)
		}
	}
}
