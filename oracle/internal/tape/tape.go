// Package tape is the gate of recorded draws: whether a tape holds what it is said to hold,
// independent numbers of a law.
//
// A tape is evidence like the states. A step with the recorded noise is right whatever that
// noise is, so that a generator that is seeded anew before every step would pass with all its
// draws alike. Nothing is known of the generator, but what any right one gives: numbers of one
// law, of which none says anything of another one.
//
// Each statistic has a bound of its chance that holds for every size, in nats: a right tape is
// called wrong once in e^certain/6 times, by six statistics: the law, copies, few values, what
// steps and realizations have in common, neighbours, and the rate of masks.
package tape

import (
	"fmt"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/report"
)

// certain is what a statistic's chance must be below, in nats: 1e-10, so that all of one draw
// are beyond it once in 2e9 right tapes.
const certain = 23.03

// Check finds what is wrong with a recorded tape.
func Check(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	g := facts.Begin(ev, f)
	if g.Stream == nil || g.Stream.Name != "tape" || !enters(g.Evidence) {
		return nil, nil
	}
	draws, err := read(g.Evidence)
	if err != nil {
		return nil, err
	}
	for _, d := range draws {
		if s := d.judge(); s != nil {
			g.Find(report.Finding{Verdict: report.FailRNG, Gate: "noise", Step: s.step, Realization: s.m, ID: s.id,
				Excess: diff.Number(s.excess), Text: s.text})
			break
		}
		if k, ok := d.(*masks); ok && k.dropout {
			if least := k.least(); least > 1 {
				g.Report.Blind = append(g.Report.Blind, report.Blind{
					Name: "masks that some realizations or steps have in common", Least: diff.Number(least),
				})
			}
		}
	}
	return g.Found, nil
}

// suspicion is what is wrong with a draw.
type suspicion struct {
	id, text string
	excess   float64
	step, m  int // the first; -1 if it has none
}

// suspicion of what pairs have in common.
func (c *shared) suspicion(limit float64, text string) *suspicion {
	s := &suspicion{c.lag.id(c.bad > 0.9*c.of || c.agree == 1), text, c.nats / limit, -1, -1}
	if c.first.m >= 0 {
		s.step, s.m = c.first.t, c.first.m
		s.text += fmt.Sprintf(", in %.0f of %.0f pairs", c.bad, c.of)
	}
	return s
}

// draw is one of the draws of every step, under test.
type draw interface {
	add(at place, v []float64)
	judge() *suspicion
}

// enters reports whether the draws change any state.
func enters(e *evidence.Evidence) bool {
	n := e.NoiseNode()
	if n < 0 {
		return false
	}
	b := e.Machine.Nodes[n].Noise
	return b.Scale != 0 && !(b.Type == noise.Dropout && b.Scale == 1)
}

// read goes through the tape.
func read(e *evidence.Evidence) ([]draw, error) {
	var draws []draw
	block := e.Machine.Nodes[e.NoiseNode()].Noise
	kinds, channels := e.Op.Draws()
	s := e.States
	for t := 1; t < s.T; t++ {
		for k, b := range e.Case.Rollout.EngineBatches() {
			all, err := drawn(e, kinds, channels, k, b, t)
			if err != nil {
				return nil, err
			}
			if draws == nil { // steps after the first may draw in another type, as those from a float32 start do
				last, err := drawn(e, kinds, channels, k, b, s.T-1)
				if err != nil {
					return nil, err
				}
				for i, kind := range kinds {
					grain := max(grainOf(all[i]), grainOf(last[i]))
					draws = append(draws, newDraw(e, block, i, kind, channels, len(all[i])/(b[1]-b[0]), grain))
				}
			}
			for i, v := range all {
				one := len(v) / (b[1] - b[0])
				for m := b[0]; m < b[1]; m++ {
					draws[i].add(place{t: t, m: m, lo: b[0]}, v[(m-b[0])*one:(m-b[0]+1)*one])
				}
			}
		}
		if err := e.Ctx.Err(); err != nil {
			return nil, err
		}
		e.Progress("tape", t, s.T-1)
	}
	return draws, nil
}

// drawn are the recorded draws of a step of engine batch k, which has the realizations of b, each kind of them by
// itself.
func drawn(e *evidence.Evidence, kinds []noise.Kind, channels, k int, b [2]int, t int) (all [][]float64, err error) {
	from, err := e.Stream.Draws(k, b[0], b[1], t)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		shape, one := []int{b[1] - b[0], channels, e.States.H, e.States.W}, channels*e.States.H*e.States.W
		switch kind {
		case noise.Bernoulli:
			shape[2], shape[3], one = 1, 1, channels
		case noise.ComplexNormal:
			one *= 2
		}
		v := make([]float64, shape[0]*one)
		if err := from.Draw(kind, 0, shape, v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// newDraw begins the test of draw i of a block, which has so many numbers a realization.
func newDraw(e *evidence.Evidence, b noise.Block, i int, kind noise.Kind, channels, one int, grain float64) draw {
	s := e.States
	u := units{m: s.M, t: s.T - 1, kept: make([][]int8, s.M*(s.T-1))}
	for m := range s.M {
		_, lo, _ := evidence.BatchOf(e.Case.Rollout, m)
		u.batch = append(u.batch, lo)
	}
	switch {
	case kind == noise.Bernoulli:
		// Uniform numbers of 23 bits say whether a channel is dropped.
		p, rarer := fp16.Float32.Round(b.Scale), int8(-1)
		if p > 0.5 {
			p, rarer = 1-p, 1
		}
		return newMasks(u, one, signs{rarer, p, fp16.Float32.Ulp(1)}, true)
	case b.Type == noise.Laplace && i == 1:
		return newMasks(u, one, signs{-1, 0.5, grain}, false)
	}
	return newNumbers(kind, u, channels, s.H, one/(channels*s.H), grain)
}
