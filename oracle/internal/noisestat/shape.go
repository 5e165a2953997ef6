package noisestat

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/noise"
)

// shape tests whether the outputs are mixed as the last layer mixes independent
// channels of equal variance.
func (n *noiseTests) shape(u *Unseen) []suspicion {
	k := n.k()
	if k < 2 {
		return nil
	}
	start, w := n.from("channels mixed as by the last layer", 0, func(t *Sums, _ int) statistic {
		level := t.Level(k)
		if level < u.Low/4 {
			return statistic{} // there is no noise
		}
		extra := n.m.excess() * t.self / t.pixels / float64(k)
		worst := statistic{slack: u.loose(t.pixels)}
		for i := range k {
			for j := range i + 1 {
				v := t.cov[i*k+j] / level
				z := v / math.Sqrt((1+extra)*t.pixels)
				if i == j {
					v -= t.pixels
					z = v / math.Sqrt((2+extra)*t.pixels)
				}
				if math.Abs(z) > math.Abs(worst.z) {
					worst.z, worst.value = z, v/t.pixels
				}
			}
		}
		return worst
	})
	if start == 0 {
		return nil
	}
	return []suspicion{
		{"noise.noise-differs-between-channels", fmt.Sprintf("the noise of the outputs is not that of independent "+
			"hidden channels of equal scale (%.1f standard deviations)%s", math.Abs(w.z), about(start)), w.z, -1, -1},
	}
}

// mean tests the mean of the noise. A mean of the draws shows in the direction
// of sum_c W_c; a mean in another direction is no noise but a wrong bias.
func (n *noiseTests) mean(u *Unseen) (s *suspicion, isNoise bool) {
	k := n.k()
	square := func(t *Sums) float64 {
		sum := 0.0
		for _, v := range t.mean {
			sum += float64(v * v)
		}
		return sum / t.pixels / t.Level(k)
	}
	slack := func(t *Sums) float64 { return u.meanSlack(t, t.Level(k)) }
	outputs, w := n.from("mean of the outputs", 0, func(t *Sums, _ int) statistic {
		if t.square == 0 {
			return statistic{}
		}
		q := square(t)
		return statistic{math.Sqrt(q / t.pixels / float64(k)), chiZ(q, float64(k)), slack(t)}
	})
	draws, d := n.from("mean of the draws", 0, func(t *Sums, _ int) statistic {
		if t.square == 0 {
			return statistic{}
		}
		return statistic{t.drift / t.drifts, t.drift / math.Sqrt(t.drifts*t.Level(k)), slack(t)}
	})
	if outputs == 0 && draws == 0 {
		return nil, false
	}
	if draws > 0 {
		t := n.since(draws)
		along := t.drift * t.drift / t.drifts / t.Level(k) / square(t) // share of the mean that lies in the draws' direction
		if along > 0.9 || n.m.Kind == noise.Multiplicative {
			return &suspicion{"noise.noise-has-a-mean", fmt.Sprintf("the draws have a mean of %.3g times their "+
				"standard deviation (%.1f standard deviations)%s", d.value, d.z, about(draws)), d.z, -1, -1}, true
		}
	}
	return &suspicion{"", fmt.Sprintf("the outputs have a mean that noise has not (%.1f standard deviations)%s",
		w.z, about(outputs)), w.z, -1, -1}, false
}

// meanSlack widens the limit of a mean over sums whose z have that variance, since
// the claim's own roundings may have one, too: b in each of n pixels adds n b^2 to
// the chi-square x, whose deviate is about sqrt(2x).
func (u *Unseen) meanSlack(t *Sums, level float64) float64 {
	return 0.05*u.steady*math.Sqrt(t.pixels) + 2*u.bias*math.Sqrt(t.pixels/level)
}

// distribution tests the draws' fourth cumulant.
func (n *noiseTests) distribution(u *Unseen) []suspicion {
	start, w := n.from("excess kurtosis of the draws", n.m.excess(), func(t *Sums, from int) statistic {
		level := t.Level(n.k())
		if level == 0 || t.quad == 0 {
			return statistic{value: n.m.excess()}
		}
		kappa, std := n.kurtosis(t, from)
		off := u.heavy(t, n.k()) // of kappa, by roundings
		if few := n.m.few; few != nil {
			return statistic{kappa, few.z(t.within, t.pixels), off * t.quad / math.Sqrt(few.variance*t.pixels)}
		}
		return statistic{kappa, (kappa - n.m.excess()) / std, off / std}
	})
	if start == 0 {
		return nil
	}
	name := "noise.noise-of-another-distribution"
	switch {
	case n.m.kappa == 0 && math.Abs(w.value+1.2) < 0.3:
		name = "noise.uniform-noise"
	case n.m.kappa == 0 && math.Abs(w.value-3) < 0.8:
		name = "noise.laplace-noise"
	}
	what := "the draws' excess kurtosis"
	if n.m.seen() {
		what += ", once each is made as likely as a normal one,"
	}
	return []suspicion{{name, fmt.Sprintf("%s is %.2f, and %.2g by the specification (%.1f standard deviations)%s",
		what, w.value, n.m.excess(), math.Abs(w.z), about(start)), w.z, -1, -1}}
}

// kurtosis returns the draws' excess kurtosis over the steps from a start on, whose
// sums are t, with its standard deviation: where there are enough samples that of
// these, as the numbers of a pixel whose hidden numbers are small may be anything.
func (n *noiseTests) kurtosis(t *Sums, from int) (kappa, std float64) {
	level := t.Level(n.k())
	kappa, std = t.kurtosis(level)
	var squares, blocks float64
	for _, m := range n.samples {
		for i := from - 1; i < len(m); i++ {
			if m[i].quad > 0 {
				own, _ := m[i].kurtosis(level)
				d := (own - kappa) * m[i].quad
				squares += float64(d * d)
				blocks++
			}
		}
	}
	if blocks >= 16 {
		return kappa, max(std, math.Sqrt(squares)/t.quad)
	}
	return kappa, 1.5 * std
}

// heavy returns what roundings may add to the kurtosis: uniform ones have -1.2, and
// share^2 of them enters, of which 2.4 allows for others.
func (u *Unseen) heavy(t *Sums, k int) float64 {
	share := max(1-u.Low, u.High-1)
	return 2.4 * share * share * float64(k) * t.pixels / t.quad
}

// neighbours tests whether the noise of near pixels is independent.
func (n *noiseTests) neighbours(u *Unseen) []suspicion {
	for i, d := range noiseLags {
		start, w := n.from(fmt.Sprintf("correlation with the pixel at (%d,%d)", d[0], d[1]), 0,
			func(t *Sums, _ int) statistic {
				l, level := t.lags[i], t.Level(n.k())
				if l.count == 0 || level == 0 {
					return statistic{}
				}
				return statistic{l.sum / level / l.count, l.sum / level / math.Sqrt(l.count), u.steady * math.Sqrt(l.count)}
			})
		if start > 0 {
			return []suspicion{
				{"noise.noise-correlated-in-space",
					fmt.Sprintf("the noise of a pixel and of that at (%d,%d) from it have the correlation %.3f (%.1f "+
						"standard deviations)%s", d[0], d[1], w.value, math.Abs(w.z), about(start)), w.z, -1, -1},
			}
		}
	}
	return nil
}

// Slack returns by how much the claim's own roundings may go with a feature: over
// all steps, and in one sample.
func (u *Unseen) Slack(i int, f *FeatureSums) (all, one float64) {
	if i >= len(u.own) || u.own[i].n == 0 {
		return 0, 0
	}
	o := u.own[i]
	return 2 * math.Abs(o.Coherent()) * math.Sqrt(max(f.n, 1)/o.n), 2 * o.largest
}
