package tape

import (
	"fmt"

	"github.com/refrun/refrun/internal/exact/elem"
)

// near are the neighbours that are compared: how many channels, rows and columns on.
var near = [...][3]int{{0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {0, 1, -1}, {0, 0, 2}, {0, 2, 0}, {1, 0, 0}}

// beside counts what numbers have in common with each of near, in two tallies by turns: in
// neither is a number twice.
type beside [len(near)][2]tally

func (b *beside) join(o *beside) {
	for i := range b {
		b[i][0].add(o[i][0])
		b[i][1].add(o[i][1])
	}
}

// neighbours compares the signs of numbers [c,h,w] near each other.
func neighbours(sign []int8, c, h, w int) *beside {
	var b beside
	for i, d := range near {
		for ch := range c - d[0] {
			for y := range h - d[1] {
				row := (ch*h + y) * w
				other := row + (d[0]*h+d[1])*w + d[2]
				from, to := max(0, -d[2]), w-max(0, d[2])
				switch {
				case d[1] > 0 && from < to:
					b[i][y/d[1]%2].add(compare(sign[row+from:row+to], sign[other+from:other+to], -1))
				case d[0] > 0:
					b[i][ch%2].add(compare(sign[row:row+w], sign[other:other+w], -1))
				case d[1] == 0:
					for x := from; x < to; x++ {
						b[i][x/d[2]%2].add(compare(sign[row+x:row+x+1], sign[other+x:other+x+1], -1))
					}
				}
			}
		}
	}
	return &b
}

// correlated says which neighbours have most in common, and from which step on.
func (n *numbers) correlated() *suspicion {
	limit := certain + elem.Log(float64(2*len(near)*len(n.near)))
	var worst tally
	nats, direction, step := limit, 0, -1
	for t := range n.near {
		for i, turns := range n.near[t] {
			for _, c := range turns {
				one := within(c.agree, c.n, 0.5, 0.5+float64(2*n.grain*n.grain))
				if one > limit && step < 0 && t < n.t {
					step = t + 1
				}
				if one > nats {
					worst, nats, direction = c, one, i
				}
			}
		}
	}
	if worst.n == 0 {
		return nil
	}
	d := near[direction]
	id, what := "noise.noise-correlated-in-space", fmt.Sprintf("pixels (%d,%d) apart", d[1], d[2])
	if d[0] > 0 {
		id, what = "noise.noise-differs-between-channels", "channels next to each other"
	}
	return &suspicion{id, fmt.Sprintf("the recorded draws of %s have %.3g %% of their signs in common, "+
		"where half is chance", what, 100*worst.agree/worst.n), nats / limit, step, -1}
}
