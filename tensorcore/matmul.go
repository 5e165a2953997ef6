package tensorcore

import (
	"cmp"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// MatMul sets dst [M,N] to c + a b for a [M,K] and b [K,N]; c [M,N] may be nil for zeros. The
// numbers of K are cut into that many parts, as equal as blocks allow, the longer ones first:
// each part is added in ascending order, the first one to c, and then the parts are added one
// after the other in float32, to nearest even (split-K). Of other orders of K callers change
// the order of a's columns and b's rows. dst has the unit's output format.
func (u *Unit) MatMul(dst, a, b, c *tensor.Tensor, parts int) {
	if parts < 1 {
		panic("tensorcore: no parts")
	}
	u.matMul(dst, a, b, c, func(k int) []int { return u.cuts(k, parts) })
}

// MatMulPart is [Unit.MatMul] in parts of so many numbers of K, a multiple of u.Terms; the last one may be shorter. A
// kernel of FP8 that adds its accumulator to float32 numbers after every 128 products is one of parts of 128.
func (u *Unit) MatMulPart(dst, a, b, c *tensor.Tensor, part int) {
	if part < 1 || part%u.Terms != 0 {
		panic("tensorcore: parts that are not of whole blocks")
	}
	u.matMul(dst, a, b, c, func(k int) []int {
		cuts := []int{0}
		for at := part; at < k; at += part {
			cuts = append(cuts, at)
		}
		return append(cuts, k)
	})
}

// matMul is MatMul of parts between given numbers of K.
func (u *Unit) matMul(dst, a, b, c *tensor.Tensor, parts func(k int) []int) {
	tensor.Require("tensorcore", 2, dst, a, b)
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	if b.Shape[0] != k || dst.Shape[0] != m || dst.Shape[1] != n || c != nil && !c.SameShape(dst) {
		panic("tensorcore: shapes of a matrix product that do not fit")
	}
	if dst.Format != u.Output {
		panic("tensorcore: another output format than the unit's")
	}
	columns := make([]line, n)
	par.For(n, func(j int) { columns[j] = u.line(b.Data[min(j, len(b.Data)):], k, n) })
	cuts, fast := parts(k), u.vector()
	tiles := make([][]float64, n/together)
	if fast != nil {
		par.For(len(tiles), func(j int) { tiles[j] = packed(columns[j*together:][:together]) })
	}
	par.For(m, func(i int) {
		row := u.line(a.Data[i*k:], k, 1)
		sums, part := make([]float64, n), make([]float64, together)
		if c != nil {
			copy(sums, c.Data[i*n:])
		}
		var numbers []float64
		if fast != nil {
			numbers = packed([]line{row})
		}
		for j := 0; j < n; j += together {
			of := sums[j:min(j+together, n)]
			chains := func(from, to int, c []float64) {
				if len(of) == together && numbers != nil && tiles[j/together] != nil {
					fast.chains(u, numbers, tiles[j/together], row, columns[j:], from, to, c)
					return
				}
				u.chains(row, columns[j:j+len(of)], from, to, c)
			}
			chains(cuts[0], cuts[1], of)
			for p := 1; p+1 < len(cuts); p++ {
				more := part[:len(of)]
				clear(more)
				chains(cuts[p], cuts[p+1], more)
				for l, v := range more {
					of[l] = u.Output.Round(nearest(of[l] + v))
				}
			}
		}
		copy(dst.Data[i*n:], sums)
	})
}

// together is how many columns a row is multiplied by at once.
const together = 4

// cuts returns where the parts of k numbers begin, and k.
func (u *Unit) cuts(k, parts int) []int {
	blocks := (k + u.Terms - 1) / u.Terms
	cuts := []int{0}
	for p := range parts {
		of := blocks / parts
		if p < blocks%parts {
			of++
		}
		cuts = append(cuts, min(k, cuts[p]+of*u.Terms))
	}
	return cuts
}

// Fit is how well a model explains results.
type Fit struct {
	Model    Model
	Unit     *Unit
	NotEqual int // of the results
}

// Identify holds rows of operands and what a device returned for c + sum a b to all models that
// have such a unit, those that explain the most results first. Models with one rule stand
// together: no results tell them apart. a and b are [rows, terms].
func Identify(in Input, out fp16.Format, a, b *tensor.Tensor, c, d []float64) []Fit {
	tensor.Require("tensorcore", 2, a, b)
	if !a.SameShape(b) || len(c) != a.Shape[0] || len(d) != a.Shape[0] {
		panic("tensorcore: rows of different lengths")
	}
	var fits []Fit
	terms := a.Shape[1]
	for i := range devices {
		m := Model{&devices[i]}
		u, err := m.Unit(in, out)
		if err != nil {
			continue
		}
		f := Fit{Model: m, Unit: u}
		for r := range d {
			y := u.Dot(a.Data[r*terms:(r+1)*terms], b.Data[r*terms:(r+1)*terms], c[r])
			if y != d[r] && (y == y || d[r] == d[r]) {
				f.NotEqual++
			}
		}
		fits = append(fits, f)
	}
	return sorted(fits)
}

// sorted orders fits by their misses, and the models of one rule together.
func sorted(fits []Fit) []Fit {
	first := map[Rule]int{}
	for i, f := range fits {
		if _, ok := first[f.Unit.Rule]; !ok {
			first[f.Unit.Rule] = i
		}
	}
	slices.SortStableFunc(fits, func(a, b Fit) int {
		return cmp.Or(cmp.Compare(a.NotEqual, b.NotEqual), cmp.Compare(first[a.Unit.Rule], first[b.Unit.Rule]))
	})
	return fits
}
