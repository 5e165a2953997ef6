package noisestat

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// drawFault is what a fault of the draws makes of a run's statistics.
type drawFault struct {
	name  string
	power []float64 // variance of each hidden channel's draws; nil for 1
	kappa float64   // their excess kurtosis beyond the specified
	mean  float64   // in standard deviations
	one   bool      // in one realization
	once  bool      // at one step
}

// sure is by how many standard deviations more than its limit a statistic must be
// moved for a fault to be seen: but for one in a thousand.
const sure = 3

// blind lists the faults of random numbers that this run could not have shown. What
// a fault does to a statistic is known from the mixture of channels at every pixel, and
// grows as the root of the number of pixels. One that a whole run shows may be too
// short if it begins late: then the entry says when.
func (n *noiseTests) blind(u *Unseen) {
	e := n.e
	steps, of := e.States.T-1, e.States.M
	for _, name := range []string{"another noise stream, noise of another step or realization",
		"draws in half precision", "draws of few levels", fmt.Sprintf("errors of the operator, of any kind, "+
			"below %s of the noise, %s at one step", words.Three(n.buried(u, 1)), words.Three(n.buried(u, steps)))} {
		e.Report.Blind = append(e.Report.Blind,
			report.Blind{Name: name, Least: diff.Number(math.Inf(1)), Needs: "the noise recorded"})
	}
	for _, h := range n.faults() {
		share := 1.0 // of the steps' numbers
		switch {
		case h.once:
			share = 1 / float64(steps)
		case h.one:
			share = 1 / float64(of)
		}
		seen := func(t int) float64 { return n.seen(u, h, t) * math.Sqrt(share) }
		last := 0 // so late it may begin
		for t := steps; t > 0 && last == 0 && !h.once; t-- {
			if seen(t) >= 1 {
				last = t
			}
		}
		if h.once && seen(1) >= 1 || !h.once && last == steps || h.one && of < 2 {
			continue
		}
		b := report.Blind{Name: h.name, Least: diff.Number(1 / seen(1)), Needs: "the noise recorded"}
		more := math.Ceil(1 / (seen(1) * seen(1)) * float64(steps))
		switch {
		case !h.once && last > 0:
			b.Name += fmt.Sprintf(", if it begins at step %d or later", last+1)
			b.Least = diff.Number(1 / seen(steps))
			b.Needs = fmt.Sprintf("%d steps with it, or the noise recorded", steps+1-last)
		case !(more < 1e6):
		case h.once:
			b.Needs = fmt.Sprintf("%.0f realizations, or the noise recorded", math.Ceil(more*float64(of)/float64(steps)))
		default:
			b.Needs = fmt.Sprintf("%.0f steps of %d realizations, or the noise recorded", more, of)
		}
		e.Report.Blind = append(e.Report.Blind, b)
	}
}

// buried returns how large, beside the noise, what is not noise may be over the steps
// from a start on without being seen: its square adds to the scale's.
func (n *noiseTests) buried(u *Unseen, start int) float64 {
	t, k := n.since(start), float64(n.k())
	if t.pixels == 0 {
		return math.Inf(1)
	}
	limit := sure + measure.ZLimit(float64(n.e.States.T+n.e.States.M))
	z := limit * math.Sqrt((2+n.m.kappa*t.self/t.pixels/k)/(k*t.pixels))
	return math.Sqrt((1+z)*u.High/u.Low - 1)
}

// faults returns those whose effect on the statistics is known.
func (n *noiseTests) faults() []drawFault {
	channels := len(n.m.W[0])
	all := func(v float64) []float64 {
		p := make([]float64, channels)
		for i := range p {
			p[i] = v
		}
		return p
	}
	ramp := make([]float64, channels) // squares of 0.5 to 1.5
	for c := range ramp {
		g := 0.5 + measure.Ratio(float64(c), float64(channels-1))
		ramp[c] = float64(g * g)
	}
	one := all(1)
	one[n.quietest()] = 0
	list := []drawFault{
		{name: "noise scale 1 per cent off", power: all(1.01 * 1.01)},
		{name: "noise scale 1.2 times", power: all(1.2 * 1.2)},
		{name: "no noise", power: all(0)},
		{name: "one step without noise", power: all(0), once: true},
		{name: "one realization without noise", power: all(0), one: true},
		{name: "one channel without noise", power: one},
		{name: "scale of the noise from 0.5 to 1.5 times by channel", power: ramp},
		{name: "noise with a mean of a tenth of its deviation", mean: 0.1},
	}
	if n.m.Kind == noise.Laplace {
		kappa := -n.m.kappa
		if n.m.seen() {
			kappa = -0.94 // of normalOfLaplace of a normal number
		}
		return append(list, drawFault{name: "normal noise for Laplace", kappa: kappa})
	}
	// Of normal x cut off at 2: E x^2 = P - 4 phi + 4 (1 - P) and E x^4 = 3 P - 28 phi
	// + 16 (1 - P), with P = 0.9545 and phi = 0.05399. Of sign(w) |w|^(1/2), w = 2 e cos(a),
	// e exponential and a uniform: E|w| = 4/pi, E w^2 = 4.
	return append(list,
		drawFault{name: "draws cut off at 2 standard deviations", power: all(0.9205), kappa: -0.545},
		drawFault{name: "Box-Muller with the root after the cosine", power: all(4 / math.Pi), kappa: math.Pi*math.Pi/4 - 3},
		drawFault{name: "uniform noise for normal", kappa: -1.2},
		drawFault{name: "Laplace noise for normal", kappa: 3},
		drawFault{name: "a sum of four uniform numbers for a normal one", kappa: -0.3})
}

// quietest returns the hidden channel that gives the outputs least.
func (n *noiseTests) quietest() int {
	k := n.k()
	best, least := 0, math.Inf(1)
	for c := range n.m.W[0] {
		sum := 0.0
		for i := range k {
			sum += n.total.share[(c*k+i)*k+i]
		}
		if sum < least {
			best, least = c, sum
		}
	}
	return best
}

// seen returns by how many times what is sure to be seen a fault moves the statistic
// that shows it best, over the steps from a start on; 0 if roundings hide it.
func (n *noiseTests) seen(u *Unseen, h drawFault, start int) float64 {
	t, k, best := n.since(start), n.k(), 0.0
	if !(t.pixels > 0) {
		return 0
	}
	over := func(z, slack, limit float64) { best = max(best, (math.Abs(z)-slack)/(limit+sure)) }
	from, scale := measure.ZLimit(4*float64(n.e.States.T)), measure.ZLimit(float64(n.e.States.T+n.e.States.M))
	extra := n.m.excess() * t.self / t.pixels / float64(k)
	if h.mean != 0 {
		over(h.mean*math.Sqrt(t.drifts/u.High), u.meanSlack(t, u.High), from)
	}
	if h.power != nil {
		cov := n.mixed(t, h.power)
		level := 0.0
		for i := range k {
			level += cov[i*k+i] / t.pixels / float64(k)
		}
		off := max(level*u.Low/u.High-1, 1-level*u.High/u.Low) // of what the scale is held against
		over(max(off, 0)*math.Sqrt(float64(k)*t.pixels/(2+extra)), 0, scale)
		for i := range k {
			for j := range i + 1 {
				if k == 1 || h.one || h.once || level < u.Low/2 {
					break // as they are tested
				}
				v, variance := cov[i*k+j]/level, 1+extra
				if i == j {
					v, variance = v-t.pixels, 2+extra
				}
				over(v/math.Sqrt(variance*t.pixels), u.loose(t.pixels), from)
			}
		}
	}
	if few := n.m.few; h.kappa != 0 && few != nil {
		over(few.z(0, t.pixels), u.heavy(t, k)*t.quad/math.Sqrt(few.variance*t.pixels), from) // normal draws' scores are none
	} else if h.kappa != 0 && t.quad > 0 {
		_, std := n.kurtosis(t, start)
		over(h.kappa/std, u.heavy(t, k)/std, from)
	}
	return best
}

// mixed returns the covariance of z over sums t, were the draws of each channel of
// that variance. Roundings have what the channels leave of it.
func (n *noiseTests) mixed(t *Sums, power []float64) []float64 {
	k := n.k()
	cov := make([]float64, k*k)
	for i := range k {
		cov[i*k+i] = t.pixels
	}
	for c, p := range power {
		for i := range cov {
			cov[i] += float64((p - 1) * t.share[c*k*k+i])
		}
	}
	return cov
}
