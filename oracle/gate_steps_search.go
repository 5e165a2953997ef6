package oracle

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
)

// candidate is a pattern and how far the device is from it.
type candidate struct {
	pattern
	re float64 // rms of (Got - emulation)/s
}

// neighbours returns the contracts that a device may keep in place of the
// claimed one, and be as accurate: other lists of autocast, other roundings of
// TF32 operands, and wider modes.
func neighbours(claim operator.Mode) (l []operator.Mode) {
	add := func(precision, autocast string) {
		if m, err := operator.ParseMode(precision, autocast); err == nil && m != claim {
			l = append(l, m)
		}
	}
	switch claim.Precision {
	case fp16.Float16, fp16.BFloat16:
		for _, a := range []string{"cuda", "cpu", "cuda:1.13", "cpu:1.13"} {
			add(claim.Precision.String(), a)
		}
		fallthrough
	case fp16.TF32:
		for _, p := range []string{"float32", "tf32", "tf32:away", "tf32:truncate"} {
			add(p, "")
		}
	}
	return l
}

// fused are points that compilers leave out together.
var fused = []points{
	atNorm,
	atAct,
	atConv | atBias | atNorm,
	atBias,
	atProduct,
	atDraw | atProduct,
	atAct | atDraw | atProduct | atNoise,
	atShare,
	atOut | atShare,
	allPoints &^ (atConv | atOut),
	allPoints,
}

// distance returns how far the device is from a pattern in one step.
func (g *stepGate) distance(m *measured, p pattern) (float64, error) {
	ref, err := g.nearest(m, p)
	if err != nil {
		return 0, err
	}
	return math.Sqrt(meanOf(g.against(m, m.Got, ref))), nil
}

// meanOf returns the mean square of the numbers that are none of NaN.
func meanOf(r []float64) float64 {
	var sum, n float64
	for _, d := range r {
		if d == d {
			sum, n = sum+float64(d*d), n+1
		}
	}
	return sum / max(n, 1)
}

// nearest returns what a device of a pattern makes of the step; where it may
// form its share of the state in two ways, the one that is nearer to Got.
func (g *stepGate) nearest(m *measured, p pattern) ([]float64, error) {
	if !p.discrete() {
		return g.reference(m.batchStep, p)
	}
	y, o, err := g.emulation(m.batchStep, p)
	if p.plain {
		y, o, err = g.settled(m, p)
	}
	if err != nil {
		return nil, err
	}
	if p.half() && p.points&atShare != 0 {
		p.twice = true
		return nearer(m.Got, y.Data, g.advance(m.X, o, p, nil).Data), nil
	}
	return y.Data, nil
}

// search looks for the pattern that explains a step best, among the claim's
// neighbours and what is left of them without some points: the usual
// combinations first, then point by point.
func (g *stepGate) search(m *measured) (best candidate, err error) {
	nodes, c := g.e.machine.Nodes, g.e.c.Rollout
	best = candidate{g.claim, math.Inf(1)}
	seen := map[pattern]bool{}
	try := func(p pattern) (float64, error) {
		if seen[p] || len(seen) == mostPatterns {
			return math.Inf(1), nil
		}
		seen[p] = true
		re, err := g.distance(m, p)
		if err == nil && re < 0.99*best.re {
			best = candidate{p, re}
		}
		return re, err
	}
	if _, err := try(g.claim); err != nil {
		return best, err
	}
	if g.claim.mode.Autocast == operator.CPU113 {
		p := g.claim
		p.narrow = true
		if _, err := try(p); err != nil {
			return best, err
		}
	}
	if slices.Contains(plainNorms(g.e.op.Config, nodes, g.claim.mode), true) {
		p := g.claim
		p.plain = true
		if _, err := try(p); err != nil {
			return best, err
		}
	}
	bases := []candidate{best}
	wide := candidate{g.claim, math.Inf(1)} // the best one without a half type
	for _, n := range neighbours(g.claim.mode) {
		from := best
		p := contract(nodes, c, n)
		re, err := try(p)
		if err != nil {
			return best, err
		}
		if !p.half() && g.claim.half() { // nearer than eager half modes, but is it near?
			best = from
			if re < wide.re {
				wide = candidate{p, re}
			}
			continue
		}
		same := false
		for _, b := range bases {
			same = same || b.re == re // the same device on this operator
		}
		if !same {
			bases = append(bases, candidate{p, re})
		}
	}
	if g.claim.half() {
		if err := g.without(bases, &best, try); err != nil {
			return best, err
		}
	}
	if wide.re < 0.99*best.re {
		best = wide
	}
	return best, nil
}

// mostPatterns keeps a search from finding a pattern for anything.
const mostPatterns = 80

// without tries the bases with points left out.
func (g *stepGate) without(bases []candidate, best *candidate, try func(pattern) (float64, error)) error {
	for _, b := range bases {
		for _, f := range fused {
			p := b.pattern
			p.points &^= f
			if _, err := try(p); err != nil {
				return err
			}
		}
	}
	for range 4 {
		from := *best
		all := contract(g.e.machine.Nodes, g.e.c.Rollout, best.mode).points
		for at := points(1); at < allPoints; at <<= 1 {
			p := best.pattern
			if p.points ^= at; at&all == 0 {
				continue
			}
			if _, err := try(p); err != nil {
				return err
			}
		}
		if from == *best {
			break
		}
	}
	return nil
}
