package fault

import (
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
)

// dilate gives the node a kernel with zeros between its taps.
func dilate(n *operator.Node, weights []float64) []float64 {
	p := *n.Weight
	k := p.Shape[2]
	wide := 2*k - 1
	p.Shape = []int{p.Shape[0], p.Shape[1], wide, wide}
	n.Weight = &p
	w := make([]float64, p.Shape[0]*p.Shape[1]*wide*wide)
	for at, u := range weights {
		w[at/(k*k)*wide*wide+at/k%k*2*wide+at%k*2] = u
	}
	return w
}

// weightsRead is a fault that reads weight w[o,c,i,j] at another place of [O,C,K,K];
// negative places are zeros.
func weightsRead(row *table.Row, at func(*operator.Node) bool, from func(o, c, i, j, os, cs, k int) int) *trial.Fault {
	return change(row, at, func(c *convolution, n *operator.Node) bool {
		c.weights = reread(c.weights, n.Weight.Shape, from)
		return true
	})
}

func reread(weights []float64, s []int, from func(o, c, i, j, os, cs, k int) int) []float64 {
	w := make([]float64, len(weights))
	for at := range w {
		j, i := at%s[3], at/s[3]%s[2]
		c, o := at/(s[3]*s[2])%s[1], at/(s[3]*s[2]*s[1])
		if k := from(o, c, i, j, s[0], s[1], s[2]); k >= 0 {
			w[at] = weights[k]
		}
	}
	return w
}

// channelOrder returns which of n channels is read in place of channel c.
func channelOrder(name string) func(c, n int) int {
	return func(c, n int) int {
		switch {
		case name == "first two" && c < 2 && n > 1:
			return 1 - c
		case name == "reversed":
			return n - 1 - c
		case name == "shifted by one":
			return (c + 1) % n
		case name == "shifted back by one":
			return (c + n - 1) % n
		}
		return c
	}
}

// dropped are the patterns of input channels that are not read.
var dropped = []struct {
	id   string
	lost func(c, n int) bool
}{
	{"conv.last-input-channel-not-read", func(c, n int) bool { return n > 1 && c == n-1 }},
	{"conv.first-input-channel-not-read", func(c, n int) bool { return n > 1 && c == 0 }},
	{"conv.input-channels-from-8-on-not-read", func(c, n int) bool { return c >= 8 }},
	{"conv.input-channels-from-16-on-not-read", func(c, n int) bool { return c >= 16 }},
	{"conv.second-half-of-the-input-channels-not-read", func(c, n int) bool { return n > 1 && c >= (n+1)/2 }},
	{"conv.input-channels-of-an-incomplete-block-of-4-not-read", func(c, n int) bool { return c >= n/4*4 }},
	{"conv.input-channels-of-an-incomplete-block-of-8-not-read", func(c, n int) bool { return n > 8 && c >= n/8*8 }},
}

// weightFaults are other weights than the claimed ones, or in other places.
func weightFaults() []*trial.Fault {
	at := func(o, c, i, j, cs, k int) int { return ((o*cs+c)*k+i)*k + j }
	swapped := func(row *table.Row, a, b func(k int) (i, j int)) *trial.Fault {
		return weightsRead(row, emulate.IsWindow, func(o, c, i, j, _, cs, k int) int {
			ai, aj := a(k)
			bi, bj := b(k)
			switch {
			case i == ai && j == aj:
				i, j = bi, bj
			case i == bi && j == bj:
				i, j = ai, aj
			}
			return at(o, c, i, j, cs, k)
		})
	}
	l := []*trial.Fault{
		swapped(Named("conv.first-two-taps-swapped"), func(int) (int, int) { return 0, 0 },
			func(int) (int, int) { return 0, 1 }),
		swapped(Named("conv.last-two-taps-swapped"), func(k int) (int, int) { return k - 1, k - 1 },
			func(k int) (int, int) { return k - 1, k - 2 }),
		swapped(Named("conv.first-taps-of-the-first-two-rows-swapped"), func(int) (int, int) { return 0, 0 },
			func(int) (int, int) { return 1, 0 }),
		swapped(Named("conv.first-and-last-tap-swapped"), func(int) (int, int) { return 0, 0 },
			func(k int) (int, int) { return k - 1, k - 1 }),
		weightsRead(Named("conv.first-two-rows-of-the-kernel-swapped"), emulate.IsWindow, func(o, c, i, j, _, cs, k int) int {
			if i < 2 {
				i = 1 - i
			}
			return at(o, c, i, j, cs, k)
		}),
		weightsRead(Named("conv.first-two-columns-of-the-kernel-swapped"), emulate.IsWindow,
			func(o, c, i, j, _, cs, k int) int {
				if j < 2 {
					j = 1 - j
				}
				return at(o, c, i, j, cs, k)
			}),
		weightsRead(Named("conv.filters-moved-by-half-of-them"), emulate.IsConv,
			func(o, c, i, j, os, cs, k int) int { return at((o+os-max(1, os/2))%os, c, i, j, cs, k) }),
	}
	for _, from := range []int{4, 7, 8, 16} {
		l = append(l, weightsRead(Named("conv.input-channels-from-on-shifted-by-one", from), emulate.IsConv,
			func(o, c, i, j, _, cs, k int) int {
				if n := cs - from; c >= from {
					c = from + (c-from+n-1)%n
				}
				return at(o, c, i, j, cs, k)
			}))
	}
	for _, block := range []int{4, 8, 16, 32} {
		l = append(l, weightsRead(Named("conv.terms-after-the-last-whole-block-of-left-out", block), emulate.IsConv,
			func(o, c, i, j, _, cs, k int) int {
				if (c*k+i)*k+j >= cs*k*k/block*block {
					return -1
				}
				return at(o, c, i, j, cs, k)
			}))
	}
	// others are the weights of another layer of that shape, the first or the last one.
	others := func(row *table.Row, last bool) *trial.Fault {
		return change(row, emulate.IsConv, func(c *convolution, n *operator.Node) (found bool) {
			for i := range c.v.Machine.Nodes {
				if m := &c.v.Machine.Nodes[i]; emulate.IsConv(m) && m.Name != n.Name &&
					len(m.Weight.Data) == len(c.weights) && m.Weight.Shape[0] == n.Weight.Shape[0] &&
					m.Weight.Shape[2] == n.Weight.Shape[2] && (last || !found) {
					c.weights, found = m.Weight.Data, true
				}
			}
			return found
		})
	}
	return append(l, others(Named("conv.weights-of-the-first-other-layer-of-that-shape"), false),
		others(Named("conv.weights-of-the-last-other-layer-of-that-shape"), true))
}
