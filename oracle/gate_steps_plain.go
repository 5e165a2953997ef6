package oracle

import (
	"cmp"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// ties are the statistics of plain norms that lie beside a tie in a step, and
// the ones that an emulation is to round the other way.
type ties struct {
	found []tie
	other map[tie]bool
}

// tie is a statistic of a norm's plane; near is how near it is to a tie.
type tie struct {
	node, plane, which int
	sample             int
	near               float64
}

// mostTies is how many ties of a sample are tried.
const mostTies = 6

// loose is the share of a norm's inputs that a device may have rounded the other
// way, in layers that are not seen.
const loose = 0.05

// plainNorm is a norm with statistics in f.
func (g *stepGate) plainNorm(i int, f fp16.Format, x *tensor.Tensor) *tensor.Tensor {
	y := tensor.Like(x)
	for p := range x.N * x.C {
		from, to := x.Plane(p/x.C, p%x.C), y.Plane(p/x.C, p%x.C)
		s := narrowly(f, from, g.e.machine.Nodes[i].Eps, loose)
		var other [2]bool
		if g.ties != nil {
			for k, near := range s.beside() {
				t := tie{i, p, k, p / x.C, 0}
				if other[k] = g.ties.other[t]; near < 1 && !other[k] {
					t.near = near
					g.ties.found = append(g.ties.found, t)
				}
			}
		}
		mean, inverse := s.round(other)
		standardized(to, from, mean, inverse)
	}
	return y
}

// settled is emulation for a plain pattern. A statistic beside a tie is rounded
// as brings the sample nearer to what the device has: one after another, of all
// samples at once, since they have nothing to do with each other.
func (g *stepGate) settled(m *measured, p pattern) (next, o *tensor.Tensor, err error) {
	g.ties = &ties{other: map[tie]bool{}}
	defer func() { g.ties = nil }()
	if next, o, err = g.emulation(m.batchStep, p); err != nil {
		return nil, nil, err
	}
	of := make([][]tie, m.X.N)
	for _, t := range g.ties.found {
		of[t.sample] = append(of[t.sample], t)
	}
	for _, l := range of {
		slices.SortStableFunc(l, func(a, b tie) int { return cmp.Compare(a.near, b.near) })
	}
	size := len(m.Got) / m.X.N
	far := func(y *tensor.Tensor, n int) (sum float64) {
		for i := n * size; i < (n+1)*size; i++ {
			if d := (m.Got[i] - y.Data[i]) / m.s[i]; finite(d) {
				sum += math.Abs(d)
			}
		}
		return sum
	}
	for k := range mostTies {
		var tried []tie
		for _, l := range of {
			if k < len(l) {
				t := l[k]
				t.near = 0
				tried = append(tried, t)
				g.ties.other[t] = true
			}
		}
		if len(tried) == 0 {
			break
		}
		y, q, err := g.emulation(m.batchStep, p)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range tried {
			if n := t.sample; far(y, n) < far(next, n) {
				copy(next.Data[n*size:(n+1)*size], y.Data[n*size:])
				outs := len(o.Data) / m.X.N
				copy(o.Data[n*outs:(n+1)*outs], q.Data[n*outs:])
			} else {
				delete(g.ties.other, t)
			}
		}
	}
	return next, o, nil
}
