package oracle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
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
	if all == nil {
		return ""
	}
	return "takes " + strings.Join(all, "; ")
}

// mix looks for the operands of single convolutions that bring a pattern
// nearer to the device: for kinds of convolutions first, then for each by itself.
// What the operands of one make of the states adds to what those of the others do, so
// each can be found while others are wrong.
func (g *stepGate) mix(m *measured, found candidate) (best candidate, err error) {
	nodes := g.e.machine.Nodes
	var points, windows []int
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.Op != operator.OpConv:
		case isWindow(n):
			windows = append(windows, i)
		default:
			points = append(points, i)
		}
	}
	all := slices.Concat(points, windows)
	best = found
	if len(all) == 0 {
		return best, nil
	}
	seen := map[pattern]bool{best.pattern: true}
	try := func(p pattern) error {
		if seen[p] || g.e.late("other operands of single convolutions") {
			return nil
		}
		seen[p] = true
		c, err := g.compare(m, p)
		if err == nil && c.re < 0.99*best.re {
			best = c
		}
		return err
	}
	from, kinds := found.pattern, 2
	if g.claim.mode.Precision == fp16.TF32 {
		from, kinds = g.claim, len(operandModes)
	}
	if !best.discrete() && kinds > 2 { // float32 throughout, so far
		if best, err = g.compare(m, from.with(0, all, len(nodes))); err != nil {
			return best, err
		}
	}
	for w := -1; w < kinds; w++ {
		for k := -1; k < kinds; k++ {
			if err := try(from.with(w, windows, len(nodes)).with(k, points, len(nodes))); err != nil {
				return best, err
			}
		}
	}
	single := all
	if kinds == 2 && g.e.op.MACs(m.X.H(), m.X.W())*int64(m.X.N()) > largeForward {
		single = []int{slices.Min(all), slices.Max(all)} // the ends
	}
	for range 4 {
		before := best.pattern
		for _, i := range single {
			for k := -1; k < kinds; k++ {
				if err := try(best.pattern.with(k, []int{i}, len(nodes))); err != nil {
					return best, err
				}
			}
		}
		if best.pattern == before {
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
	for k, mode := range operandModes { // the same everywhere is a contract of its own
		if best.operands != "" && best.pattern == (pattern{mode: best.mode}).with(k, all, len(nodes)) {
			return g.compare(m, pattern{mode: mode})
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
