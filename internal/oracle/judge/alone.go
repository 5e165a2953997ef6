package judge

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
)

// alone finds the single element whose error is the largest for what is expected. That is no less than the
// variance of its last step's own errors, which a few simulations may by chance all have drawn small: of
// millions of elements some are always such. What is expected of a simulated kernel is without its own share.
func (q *Question) alone(t *trial, f fp16.Format) {
	largest := func(out []float64, own float64) (most float64, at int) {
		at = -1
		for i, v := range out {
			d := v - t.stored[i]
			if d == 0 || d-d != 0 {
				continue
			}
			by := t.quantumOf(f, i, t.e[i]-own*float64(d*d))
			if t.sigma != nil {
				by = max(by, float64(t.sigma[i]*t.sigma[i]))
			}
			if x := d * d / by; x > most {
				most, at = x, i
			}
		}
		return math.Sqrt(most), at
	}
	var right []float64
	for _, k := range t.right {
		x, _ := largest(k, 1/float64(2*len(t.right)))
		right = append(right, x)
	}
	l := largestOf(len(t.y), t.fine(f) && t.b.multiplies(), right)
	x, at := largest(q.Output.Data, 0)
	w := farthest{law: l, of: x, chance: l.tail(x), count: 1}
	if at >= 0 {
		w.at = fmt.Sprintf("element %v", q.index(at))
	}
	t.ways[lone] = w
}
