package steps

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
)

// mix looks for the operands of single convolutions that bring a pattern
// nearer to the device: for kinds of convolutions first, then for each by itself.
// What the operands of one make of the states adds to what those of the others do, so
// each can be found while others are wrong.
func (g *stepGate) mix(m *measured, found candidate) (best candidate, err error) {
	nodes := g.e.Machine.Nodes
	var points, windows []int
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.Op != operator.OpConv:
		case emulate.IsWindow(n):
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
	seen := map[emulate.Pattern]bool{best.Pattern: true}
	try := func(p emulate.Pattern) error {
		if seen[p] || g.e.Late("other operands of single convolutions") {
			return nil
		}
		seen[p] = true
		c, err := g.compare(m, p)
		if err == nil && c.re < 0.99*best.re {
			best = c
		}
		return err
	}
	from, kinds := found.Pattern, 2
	if g.claim.Mode.Precision == fp16.TF32 {
		from, kinds = g.claim, len(emulate.OperandModes)
	}
	if !best.Discrete() && kinds > 2 { // float32 throughout, so far
		if best, err = g.compare(m, from.With(0, all, len(nodes))); err != nil {
			return best, err
		}
	}
	for w := -1; w < kinds; w++ {
		for k := -1; k < kinds; k++ {
			if err := try(from.With(w, windows, len(nodes)).With(k, points, len(nodes))); err != nil {
				return best, err
			}
		}
	}
	single := all
	if kinds == 2 && g.e.Op.MACs(m.X.H(), m.X.W())*int64(m.X.N()) > evidence.LargeForward {
		single = []int{slices.Min(all), slices.Max(all)} // the ends
	}
	for range 4 {
		before := best.Pattern
		for _, i := range single {
			for k := -1; k < kinds; k++ {
				if err := try(best.Pattern.With(k, []int{i}, len(nodes))); err != nil {
					return best, err
				}
			}
		}
		if best.Pattern == before {
			break
		}
	}
	if best.re > 0.99*found.re {
		return found, nil
	}
	for i, k := range []byte(best.Operands) { // what hardly matters is as claimed
		if k > 0 {
			p := best.Pattern.With(slices.Index(emulate.OperandModes, best.Mode), []int{i}, len(nodes))
			if c, err := g.compare(m, p); err != nil {
				return best, err
			} else if c.re < 1.05*best.re {
				best = c
			}
		}
	}
	for k, mode := range emulate.OperandModes { // the same everywhere is a contract of its own
		if best.Operands != "" && best.Pattern == (emulate.Pattern{Mode: best.Mode}).With(k, all, len(nodes)) {
			return g.compare(m, emulate.Pattern{Mode: mode})
		}
	}
	return best, nil
}

// mixed looks for a pattern of a half type some of whose convolutions run in another
// mode, and what is stored besides, from some patterns on; it reports whether one fits.
func (g *stepGate) mixed(m *measured, claimed candidate, from ...candidate) (fits bool, err error) {
	for _, best := range append([]candidate{claimed}, from...) {
		if !best.Half() {
			continue
		}
		if best, err = g.mix(m, best); err != nil {
			return false, err
		}
		if best.Operands == "" {
			continue
		}
		if err := g.climb(&best, func(p emulate.Pattern) (candidate, error) {
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
