// Package kernel holds the outputs of single kernels to what a device's own arithmetic gives.
//
// A dot product or a matrix product on tensor cores is one sum in a known order, so that every
// bit of it is known ([tensorcore]): a kernel is right if all its results are those bits.
// Check counts those that are not, shows the worst, and tries other devices and orders of
// summation.
//
//	r, err := kernel.Check(kernel.Question{Op: "matmul", A: a, B: b, Output: out,
//		Operands: tensorcore.FP16, Store: fp16.Float32, Device: "h100"})
//	fmt.Println(r.Verdict, r.NotEqual, r.Fits[0].Device)
package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// Question is an output with what is claimed of it.
type Question struct {
	Op       string // dot, of rows [rows, terms], or matmul, [M,K] by [K,N]
	A, B     *tensor.Tensor
	C        *tensor.Tensor // what is added to, of the output's shape; nil for zeros
	Output   *tensor.Tensor // [rows] or [M,N]
	Operands tensorcore.Input
	Store    fp16.Format // of the output, Float32, Float16 or BFloat16: sums are rounded to it at the end
	Device   string      // whose units are claimed, "" to ask which
	SplitK   int         // in how many parts K is claimed to be added, 0 for 1
	PartK    int         // or of how many numbers each part is, 0 for what SplitK says
}

// Verdicts.
const (
	Pass    = "PASS"     // every bit is the claimed device's; or, of no claim, some device's
	Fail    = "FAIL"     // some are not
	NoPower = "NO-POWER" // the right output is constant, or has no elements: a kernel that computes nothing has that too
)

// Report is the answer.
type Report struct {
	Verdict  string `json:"verdict"`
	Op       string `json:"op"`
	Operands string `json:"operands"`
	Store    string `json:"store"`
	Device   string `json:"device"`  // claimed, or the first that fits
	Source   string `json:"source"`  // how its rule is known: recorded, related, reported, open
	SplitK   int    `json:"split_k"` // of it
	PartK    int    `json:"part_k,omitempty"`
	// the format of its accumulators: float32, or float16, which some outputs of float16 are made with
	Sums     string `json:"sums"`
	Elements int    `json:"elements"`
	NotEqual int    `json:"not_equal"`

	// Worst is the result farthest from what the device gives, relative to the greatest of
	// those; nil if all are equal.
	Worst *Worst `json:"worst,omitempty"`

	// Fits are all devices and splits that were tried, those that explain the most results first,
	// devices of one rule together.
	Fits []Fit `json:"fits"`
}

// Worst is one result.
type Worst struct {
	Index []int   `json:"index"`
	Got   float64 `json:"got"` // not finite: see Text
	Want  float64 `json:"want"`
	Text  string  `json:"text"` // both, in digits that tell them apart
}

// Fit is how many results a device explains.
type Fit struct {
	Device   string `json:"device"`
	SplitK   int    `json:"split_k"`
	PartK    int    `json:"part_k,omitempty"` // the numbers of each part, where it is no split of K in equal ones
	Sums     string `json:"sums"`
	WithoutC bool   `json:"without_c,omitempty"` // what is added to is left out
	Elements int    `json:"elements"`            // that were looked at: of large products the first rows and columns
	NotEqual int    `json:"not_equal"`
}

// Check answers. Shapes that do not fit, more parts than K has numbers, a device that has no such unit, and
// operands that are not numbers of their format are errors that name the wrong part.
func Check(q Question) (*Report, error) {
	if err := q.shapes(); err != nil {
		return nil, err
	}
	if s := q.SplitK; s < 0 || s > 1 && (q.Op != "matmul" || s > q.A.Shape[1]) {
		return nil, fmt.Errorf("split_k: %d: want 1, or for a matmul up to its K", s)
	}
	if p := q.PartK; p < 0 || p > 0 && (q.Op != "matmul" || q.SplitK > 1) {
		return nil, fmt.Errorf("part_k: %d: want it of a matmul, without split_k", p)
	}
	r := &Report{Op: q.Op, Operands: q.Operands.String(), Store: q.Store.String(), Device: q.Device,
		SplitK: max(q.SplitK, 1), Elements: len(q.Output.Data)}
	if q.Device != "" {
		m, err := tensorcore.Lookup(q.Device)
		if err == nil {
			var u *tensorcore.Unit
			if u, err = m.Unit(q.Operands, fp16.Float32); err == nil && q.PartK%u.Terms != 0 {
				return nil, fmt.Errorf("part_k: %d: want a multiple of %d, the products of a block", q.PartK, u.Terms)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("accumulate: %w", err)
		}
	}
	fits := q.fits()
	for _, f := range fits {
		r.Fits = append(r.Fits, f.Fit)
	}
	best := slices.IndexFunc(fits, func(f candidate) bool {
		if f.WithoutC || q.Device == "" {
			return !f.WithoutC
		}
		return f.Device == q.Device && f.PartK == q.PartK && (q.PartK > 0 || f.SplitK == max(q.SplitK, 1))
	})
	f := fits[best]
	want := q.answer(f.unit, way{parts: f.SplitK, part: f.PartK})
	r.Device, r.SplitK, r.PartK, r.Sums = f.Device, f.SplitK, f.PartK, f.Sums
	r.Source, r.NotEqual = f.unit.Source.String(), misses(want, q.Output.Data)
	switch {
	case r.NotEqual > 0:
		r.Verdict, r.Worst = Fail, q.worst(want)
	case one(want):
		r.Verdict = NoPower
	default:
		r.Verdict = Pass
	}
	return r, nil
}

// Fits says how many of some of the results each device's unit misses, the best first, as [Check] does.
func Fits(q Question) ([]Fit, error) {
	if err := q.shapes(); err != nil {
		return nil, err
	}
	var all []Fit
	for _, f := range q.fits() {
		all = append(all, f.Fit)
	}
	return all, nil
}

// fits tries every unit on a sample.
func (q *Question) fits() (fits []candidate) {
	type rule struct {
		tensorcore.Rule
		sums fp16.Format
	}
	explained := map[rule][]int{} // how many results each misses, by split
	few := q.sample()
	for _, name := range tensorcore.Names() {
		m, _ := tensorcore.Lookup(name)
		for _, sums := range []fp16.Format{fp16.Float32, fp16.Float16} {
			u, err := m.Unit(q.Operands, sums)
			if err != nil || sums == fp16.Float16 && q.Store != fp16.Float16 {
				continue
			}
			of := rule{u.Rule, sums}
			if explained[of] == nil {
				for _, way := range q.ways(u.Terms) {
					explained[of] = append(explained[of], misses(few.answer(u, way), few.Output.Data))
				}
			}
			for i, way := range q.ways(u.Terms) {
				fits = append(fits, candidate{
					Fit{name, way.parts, way.part, sums.String(), way.withoutC, len(few.Output.Data), explained[of][i]}, u,
				})
			}
		}
	}
	sorted(fits)
	return fits
}

// candidate is a fit with its unit.
type candidate struct {
	Fit
	unit *tensorcore.Unit
}

// one reports whether all numbers are one, or there are none.
func one(v []float64) bool {
	for _, x := range v {
		if x != v[0] && (x == x || v[0] == v[0]) {
			return false
		}
	}
	return true
}

// sample returns the question for so few of the first rows and columns that all devices can answer.
func (q *Question) sample() *Question {
	if q.Op != "matmul" {
		return q
	}
	m, k, n := q.A.Shape[0], q.A.Shape[1], q.B.Shape[1]
	each := max(1, int(math.Sqrt(mostProducts/float64(max(1, k)))))
	columns := min(n, max(each, mostProducts/max(1, k*m)))
	rows := min(m, max(1, mostProducts/max(1, k*columns)))
	few := *q
	few.A, few.B, few.C, few.Output = corner(q.A, rows, k), corner(q.B, k, columns), corner(q.C, rows, columns),
		corner(q.Output, rows, columns)
	return &few
}

// corner is the first rows and columns of a matrix.
func corner(t *tensor.Tensor, rows, columns int) *tensor.Tensor {
	if t == nil || t.Shape[0] == rows && t.Shape[1] == columns {
		return t
	}
	c := tensor.New(t.Format, rows, columns)
	for i := range rows {
		copy(c.Data[i*columns:(i+1)*columns], t.Data[i*t.Shape[1]:])
	}
	return c
}

// way is how a device adds: in how many parts of K, of how many numbers if they are not equal ones, and to what.
type way struct {
	parts, part int
	withoutC    bool
}

// ways returns those to try with a unit of so many terms: of a dot product there is one split. Libraries divide K in
// parts of whole tiles, and add what a tile's products make to other sums.
func (q *Question) ways(terms int) (all []way) {
	for _, s := range append([]int{max(q.SplitK, 1)}, splits...) {
		if (s == 1 || q.Op == "matmul" && s <= q.A.Shape[1]) && !slices.Contains(all, way{parts: s}) {
			all = append(all, way{parts: s})
		}
	}
	if k := q.A.Shape[1]; q.Op == "matmul" && k > 0 {
		add := func(part int) {
			w := way{parts: (k + part - 1) / part, part: part}
			equal := k%part == 0 && slices.Contains(all, way{parts: w.parts})
			if part%terms == 0 && !slices.Contains(all, w) && (part == q.PartK || part < k && !equal) {
				all = append(all, w)
			}
		}
		if q.PartK > 0 {
			add(q.PartK)
		}
		for _, tile := range tiles {
			for _, s := range splits {
				add((k + s*tile - 1) / (s * tile) * tile)
			}
			add(tile)
		}
	}
	if q.C != nil {
		all = append(all, way{parts: 1, withoutC: true})
	}
	return all
}

// answer returns what a unit gives, rounded to what is stored.
func (q *Question) answer(u *tensorcore.Unit, by way) []float64 {
	c := q.C
	if by.withoutC {
		c = nil
	}
	if q.Op == "matmul" {
		dst := tensor.New(u.Output, q.Output.Shape...)
		if by.part > 0 {
			u.MatMulPart(dst, q.A, q.B, c, by.part)
		} else {
			u.MatMul(dst, q.A, q.B, c, by.parts)
		}
		q.Store.RoundSlice(dst.Data, dst.Data)
		return dst.Data
	}
	terms := q.A.Shape[1]
	d := make([]float64, q.A.Shape[0])
	for i := range d {
		if c != nil {
			d[i] = c.Data[i]
		}
		d[i] = q.Store.Round(u.Dot(q.A.Data[i*terms:(i+1)*terms], q.B.Data[i*terms:(i+1)*terms], d[i]))
	}
	return d
}

// misses counts the results that are not equal. NaN equals NaN, and the zeros are equal.
func misses(want, got []float64) (n int) {
	for i, v := range got {
		if v != want[i] && (v == v || want[i] == want[i]) {
			n++
		}
	}
	return n
}

// worst returns the result farthest off; one that is not finite on one side only is the worst.
func (q *Question) worst(want []float64) *Worst {
	at, most := -1, -1.0
	for i, v := range q.Output.Data {
		d := math.Abs(v - want[i])
		if v == want[i] || v != v && want[i] != want[i] {
			continue
		}
		if d != d {
			d = math.Inf(1)
		}
		if d > most {
			at, most = i, d
		}
	}
	w := &Worst{Got: q.Output.Data[at], Want: want[at],
		Text: fmt.Sprintf("%.9g where the device gives %.9g", q.Output.Data[at], want[at])}
	for _, v := range []*float64{&w.Got, &w.Want} {
		if *v-*v != 0 { // JSON has no such numbers
			*v = 0
		}
	}
	for a := len(q.Output.Shape) - 1; a >= 0; a-- {
		w.Index = append([]int{at % q.Output.Shape[a]}, w.Index...)
		at /= q.Output.Shape[a]
	}
	return w
}
