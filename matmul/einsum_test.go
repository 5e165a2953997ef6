package matmul

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/bigref"
	"github.com/refrun/refrun/tensor"
)

// summed judges an expression of operands with labels: for each element of the result
// the exact sum over all other labels of the product of what the operands have there.
func summed(out string, size map[byte]int, labels []string, operands []*tensor.Tensor) []*big.Rat {
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
	sums := make([]*big.Rat, n)
	for i := range sums {
		sums[i] = new(big.Rat)
	}
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
		p := big.NewRat(1, 1)
		for i, t := range operands {
			from := 0
			for j, n := range t.Shape {
				from = from*n + index[labels[i][j]]%n
			}
			p.Mul(p, bigref.Rat(t.Data[from]))
		}
		sums[at].Add(sums[at], p)
	}
	walk(0, 0)
	return sums
}

// TestEinsum: expressions of one and two operands, each one function.
func TestEinsum(t *testing.T) {
	size := map[byte]int{'a': 2, 'b': 3, 'i': 4, 'j': 5, 'k': 6, 'l': 1, 'z': 0}
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
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
	} {
		var operands []*tensor.Tensor
		var shapes [][]int
		for _, l := range c.labels {
			var shape []int
			for i := range len(l) {
				shape = append(shape, size[l[i]])
			}
			operands, shapes = append(operands, random(r, fp16.Float32, shape...)), append(shapes, shape)
		}
		shape, err := EinsumShape(c.spec, shapes...)
		if err != nil {
			t.Fatal(err)
		}
		dst := tensor.New(fp16.Float32, shape...)
		if err := Einsum(dst, c.spec, operands...); err != nil {
			t.Fatal(err)
		}
		want := summed(c.out, size, c.labels, operands)
		if len(want) != len(dst.Data) {
			t.Fatalf("%s: shape %v", c.spec, shape)
		}
		for i, v := range want {
			if w := bigref.Round(v, fp16.Float32); dst.Data[i] != w {
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
		{"ij", [][]int{{2}}, `einsum: "ij": operand 1, "ij" of shape [2]: want letters, one for each dimension, and at most one "..."`},
		{"i1", [][]int{{2, 2}}, `einsum: "i1": operand 1, "i1" of shape [2 2]: want letters, one for each dimension, and at most one "..."`},
		{"......", [][]int{{2, 2}}, `einsum: "......": operand 1, "......" of shape [2 2]: want letters, one for each dimension, and at most one "..."`},
		{"ij,jk", [][]int{{2, 3}, {4, 5}}, `einsum: "ij,jk": operand 2 of shape [4 5]: dimension 1: want 3 or 1`},
		{"ij->ik", [][]int{{2, 3}}, `einsum: "ij->ik": result "ik": want each label once, of those of the operands`},
		{"ij->ii", [][]int{{2, 3}}, `einsum: "ij->ii": result "ii": want each label once, of those of the operands`},
	} {
		if _, err := EinsumShape(c.spec, c.shapes...); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.spec, err, c.want)
		}
	}
}
