package judge

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// alone finds the single element whose error is the largest for what is expected. That is no less than the
// variance of its last step's own errors, which a few simulations may by chance all have drawn small: of
// millions of elements some are always such.
func (q *Question) alone(t *trial, f fp16.Format) {
	var w farthest
	if f == fp16.Float32 && t.b.multiplies() {
		w.usual = chained * chained
	}
	quantum := func(i int) float64 {
		if t.sigma == nil {
			return t.quantum(f, i, t.e)
		}
		return max(t.quantum(f, i, t.e), float64(t.sigma[i]*t.sigma[i]))
	}
	for _, k := range t.right {
		for i, v := range k {
			if d := v - t.stored[i]; d != 0 && d-d == 0 {
				w.right = max(w.right, d*d/quantum(i))
			}
		}
	}
	for m, c := range t.others {
		for i, s := range c.squares {
			if s > 0 {
				d := t.right[m][i] - t.stored[i]
				by := d * d / float64(s)
				if t.sigma != nil {
					by = max(by, float64(t.sigma[i]*t.sigma[i]))
				}
				w.right = max(w.right, d*d/by)
			}
		}
	}
	at := -1
	for i, v := range q.Output.Data {
		if d := v - t.stored[i]; d != 0 && d-d == 0 {
			if x := d * d / quantum(i); x > w.of {
				w.of, at = x, i
			}
		}
	}
	if at >= 0 {
		w.at = fmt.Sprintf("element %v", tensor.Index(q.offset+at, q.whole))
	}
	t.ways[lone] = w
}
