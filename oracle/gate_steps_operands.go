package oracle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/operator"
)

// operandModes are those whose operands a convolution may have that is claimed to be
// in TF32, and the first two also in a half type: some keep the last layer, say, out of
// autocast. Libraries choose a kernel for each shape: convolutions of few channels, or
// those of 1x1, may run without tensor cores, and some kernels cut off where others
// round.
var operandModes = []operator.Mode{mustParse("float32"), mustParse("tf32"), mustParse("tf32:away"), mustParse("tf32:truncate")}

func mustParse(precision string) operator.Mode {
	m, err := operator.ParseMode(precision, "")
	if err != nil {
		panic("oracle: " + err.Error())
	}
	return m
}

// with returns the pattern whose nodes have the operands of operandModes[k], or the
// pattern's own if that is its mode, or k is -1.
func (p pattern) with(k int, at []int, nodes int) pattern {
	if k >= 0 && operandModes[k] == p.mode {
		k = -1
	}
	of := []byte(p.operands)
	if p.operands == "" {
		of = make([]byte, nodes)
	}
	for _, i := range at {
		of[i] = byte(k + 1)
	}
	p.operands = string(of)
	if strings.Trim(p.operands, "\x00") == "" {
		p.operands = ""
	}
	return p
}

// modes returns the modes of all nodes, nil if they are the pattern's.
func (p pattern) modes(nodes int) []operator.Mode {
	if p.operands == "" {
		return nil
	}
	of := slices.Repeat([]operator.Mode{p.mode}, nodes)
	for i, k := range []byte(p.operands) {
		if k > 0 {
			of[i] = operandModes[k-1]
		}
	}
	return of
}

// differ says in words which convolutions have other operands.
func (p pattern) differ(nodes []operator.Node) string {
	var all []string
	for k, m := range operandModes {
		var names []string
		for i, of := range []byte(p.operands) {
			if int(of) == k+1 {
				names = append(names, nodes[i].Name)
			}
		}
		if names != nil {
			all = append(all, fmt.Sprintf("%v operands in %s", m, strings.Join(names, ", ")))
		}
	}
	return strings.Join(all, "; ")
}

// mix looks for the operands of single convolutions that bring a pattern
// nearer to the device: for kinds of convolutions first, then for each by itself.
// What the operands of one make of the states adds to what those of the others do, so
// each can be found while others are wrong.
func (g *stepGate) mix(m *measured, best candidate) (candidate, error) {
	nodes := g.e.machine.Nodes
	var sets [][]int
	var points, windows []int
	for i := range nodes {
		if n := &nodes[i]; n.Op == operator.OpConv {
			sets = append(sets, []int{i})
			if isWindow(n) {
				windows = append(windows, i)
			} else {
				points = append(points, i)
			}
		}
	}
	sets = append([][]int{points, windows}, sets...)
	kinds := len(operandModes)
	if g.claim.half() {
		kinds = 2
	}
	found := best
	if !best.discrete() && !g.claim.half() { // float32 throughout, so far
		var err error
		if best, err = g.compare(m, g.claim.with(0, slices.Concat(points, windows), len(nodes))); err != nil {
			return best, err
		}
	}
	for range 2 {
		from := best.pattern
		for _, at := range sets {
			for k := range kinds {
				p := best.pattern.with(k, at, len(nodes))
				if len(at) == 0 || p == best.pattern {
					continue
				}
				if g.e.late("other operands of single convolutions") {
					return best, nil
				}
				c, err := g.compare(m, p)
				if err != nil {
					return best, err
				}
				if c.re < 0.99*best.re {
					best = c
				}
			}
		}
		if best.pattern == from {
			break
		}
	}
	if best.re > 0.99*found.re {
		return found, nil
	}
	for i, k := range []byte(best.operands) { // what hardly matters is as claimed
		if k > 0 {
			p := best.pattern.with(slices.Index(operandModes, best.mode), []int{i}, len(nodes))
			if c, err := g.compare(m, p); err != nil {
				return best, err
			} else if c.re < 1.05*best.re {
				best = c
			}
		}
	}
	return best, nil
}

// mixed looks for a pattern of a half type some of whose convolutions run in another
// mode, and what is stored besides, from some patterns on; it reports whether one fits.
func (g *stepGate) mixed(m *measured, claimed candidate, from ...candidate) (fits bool, err error) {
	for _, best := range append([]candidate{claimed}, from...) {
		if !best.half() {
			continue
		}
		if best, err = g.mix(m, best); err != nil {
			return false, err
		}
		if best.operands == "" {
			continue
		}
		if err := g.climb(&best, func(p pattern) (candidate, error) {
			c, err := g.compare(m, p)
			if err == nil && c.re < 0.99*best.re {
				best = c
			}
			return c, err
		}); err != nil {
			return false, err
		}
		if fits, _, err = g.fits(m, best, claimed); fits || err != nil {
			return fits, err
		}
	}
	return false, nil
}
