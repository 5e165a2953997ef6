package matmul

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/whole"
)

// wholes are the operands of a product of whole numbers, which [whole.Multiply] has exactly: a float64 sum of them is
// exact as well, so that the bits are those of any other way.
type wholes struct {
	left   whole.Lines
	panels whole.Panels
	right  *whole.Panels
	to     []float64 // of the matrix at hand
}

// multiplyWhole computes the job if its result is in float64 and the operands are small whole numbers, and else reports
// that it has not.
func (s *Space) multiplyWhole() bool {
	j, w := &s.job, &s.wholes
	if j.format != fp16.Float64 || j.k == 0 || j.alpha != 1 || j.c.data != nil || !whole.Runs() {
		return false
	}
	if j.prepared != nil {
		if w.right = j.prepared.whole(); w.right == nil {
			return false
		}
	}
	defer func() { w.right, w.to = nil, nil }()
	left := &w.left
	for number := range j.batches {
		if number == 0 || !j.a.single() {
			if !left.Set(j.a.data[j.a.at(number, j.dims):], j.m, j.k, j.a.row, j.a.col) {
				return false
			}
		}
		if j.prepared == nil && (number == 0 || !j.b.single()) {
			if w.right = &w.panels; !w.right.Set(j.b.data[j.b.at(number, j.dims):], j.n, j.k, j.b.col, j.b.row) {
				return false
			}
		}
		if !whole.Fit(left, w.right) {
			return false
		}
		w.to = j.to[number*j.m*j.n:]
		s.each(w.right.Count(), s.wholePanel)
	}
	asm.RanHere("product of whole numbers", true)
	return true
}

// multiplyPanel computes the columns of one panel.
func (s *Space) multiplyPanel(number, i int) {
	j, w := &s.job, &s.wholes
	whole.Multiply(w.to, j.row, j.col, &w.left, w.right, i, nil, &s.workers[number].whole)
}

// whole returns the operand as whole numbers, nil if it is none of those or has a bias.
func (k *Kernel) whole() *whole.Panels {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.lookedAt {
		k.lookedAt = true
		column, step := 1, k.n
		if k.trans {
			column, step = k.k, 1
		}
		if p := new(whole.Panels); k.bias == nil && p.Set(k.b.Data, k.n, k.k, column, step) {
			p.Shorten()
			k.asWhole = p
		}
	}
	return k.asWhole
}
