package noisestat

import (
	"cmp"
	"fmt"
	"math"
	"sort"

	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// pairs keeps a part of every field, the same pixels of each, to compare those
// of different steps and realizations: noise that is drawn anew has nothing in
// common.
type pairs struct {
	k, m, t int
	pixels  int         // kept of each
	every   int         // of h*w
	kept    [][]float32 // [m*t], of step t+1
	batch   []int       // first realization of the engine batch of m
}

// pairMemory is how many numbers are kept in all.
const pairMemory = 1 << 22

func newPairs(e *facts.Gate, k int) *pairs {
	s := e.States
	hw := s.H * s.W
	want := min(max(pairMemory/(s.M*(s.T-1)*k), 64), 1024, hw)
	p := &pairs{k: k, m: s.M, t: s.T - 1, every: hw / want}
	p.pixels = (hw + p.every - 1) / p.every
	p.kept = make([][]float32, s.M*(s.T-1))
	for m := range s.M {
		_, lo, _ := evidence.BatchOf(e.Case.Rollout, m)
		p.batch = append(p.batch, lo)
	}
	return p
}

// keep takes sample i of a field, which is realization m at a step.
func (p *pairs) keep(f *Field, i, m, step int) {
	v := make([]float32, 0, p.pixels*p.k)
	for q := 0; q < f.h*f.w; q += p.every {
		at := i*f.h*f.w + q
		for _, z := range f.Z[at*f.K : (at+1)*f.K] {
			v = append(v, float32(z))
		}
	}
	p.kept[m*p.t+step-1] = v
}

// correlation returns that of two kept fields, and how many of its standard deviations it is: those of as many
// independent products, or of these very ones, where a few numbers are far larger than all others.
func (p *pairs) correlation(m, t, n, u int) (c, z float64) {
	a, b := p.kept[m*p.t+t], p.kept[n*p.t+u]
	var ab, aa, bb, squares, count float64
	for i, v := range a {
		if v == 0 || b[i] == 0 {
			continue // a pixel that says nothing
		}
		x, y := float64(v), float64(b[i])
		ab += float64(x * y)
		aa += float64(x * x)
		bb += float64(y * y)
		squares += float64(x*y) * float64(x*y)
		count++
	}
	if !(aa > 0) || !(bb > 0) {
		return 0, 0
	}
	return ab / math.Sqrt(aa*bb), ab / math.Sqrt(max(aa*bb/count, squares))
}

// alike is a kind of pairs: realization m at t and m+dm at t-dt.
type alike struct{ dm, dt int }

// judge looks at pairs of realizations at one step, of steps of one realization,
// and of neighbours at neighbouring steps. strong says that some have more than
// half of their noise in common.
func (p *pairs) judge(n *noiseTests, u *Unseen) (all []suspicion, strong bool) {
	var kinds []alike
	for d := 1; d < p.m; d++ {
		kinds = append(kinds, alike{d, 0})
	}
	for d := 1; d < min(p.t, 33); d++ {
		kinds = append(kinds, alike{0, d})
	}
	for _, dm := range []int{1, -1} {
		for d := 1; d < min(p.t, 4) && p.m > 1; d++ {
			kinds = append(kinds, alike{dm, d})
		}
	}
	tested := 0.0
	for _, a := range kinds {
		tested += float64((p.t - a.dt) * (p.m - max(a.dm, -a.dm)))
	}
	limit := measure.ZLimit(tested + float64(len(kinds)))
	slack := u.steady * math.Sqrt(float64(p.pixels*p.k))
	worst := map[bool]float64{}
	shared := false
	for _, a := range kinds {
		var sum, count, bad, since, correlation float64 // since: pairs from the first bad one on
		first, who := 0, 0
		for t := a.dt; t < p.t; t++ {
			for m := max(0, -a.dm); m < min(p.m, p.m-a.dm); m++ {
				c, z := p.correlation(m, t, m+a.dm, t-a.dt)
				if a.dm != 0 && p.batch[m] != p.batch[m+a.dm] && p.batch[m]+t == p.batch[m+a.dm]+t-a.dt {
					// Engine batches seeded with base + first realization + step share seeds by design.
					shared = shared || z > limit
					continue
				}
				sum += z
				count++
				if math.Abs(z) > math.Abs(worst[a.dt == 0]) {
					worst[a.dt == 0] = z
				}
				if math.Abs(z) > limit+slack {
					if bad == 0 {
						first, who = t+1, m+max(a.dm, 0)
					}
					bad++
					correlation += c
				}
				if bad > 0 {
					since++
				}
			}
		}
		together := measure.Ratio(sum, math.Sqrt(count))
		if bad == 0 && math.Abs(together) <= limit+slack*math.Sqrt(count) {
			continue
		}
		if bad == 0 {
			correlation, bad, since, first, who = sum/math.Sqrt(float64(p.pixels*p.k)), count, count, -1, -1
		}
		strong = strong || correlation/bad > 0.5
		all = append(all, suspicion{a.name(bad / since), fmt.Sprintf("%s: correlation %.3f in %.0f of %.0f pairs",
			a, correlation/bad, bad, count), max(math.Abs(together), limit), first, who})
	}
	// The kind of pairs that have most in common first.
	sort.SliceStable(all, func(i, k int) bool { return cmp.Less(all[k].z, all[i].z) })
	n.test("correlation of realizations", 0, 0, worst[true], limit+slack)
	n.test("correlation of steps", 0, 0, worst[false], limit+slack)
	if shared {
		n.e.Report.Notes = append(n.e.Report.Notes, "engine batches share noise at steps with the same seed (base "+
			"+ first realization + step), as that seeding has it")
	}
	return all, strong
}

func (a alike) String() string {
	switch {
	case a.dt == 0:
		return fmt.Sprintf("realizations %d apart have noise in common", a.dm)
	case a.dm == 0:
		return fmt.Sprintf("steps %d apart have noise in common", a.dt)
	}
	return fmt.Sprintf("realizations %d apart have noise in common, %d steps apart", max(a.dm, -a.dm), a.dt)
}

// name names the fault, share being that of the pairs that have it.
func (a alike) name(share float64) string {
	switch {
	case a.dt == 0 && share > 0.9:
		return "noise.the-same-noise-for-all-realizations"
	case a.dt == 0:
		return "noise.realizations-share-their-noise"
	case a.dm == 0 && a.dt == 1 && share > 0.9:
		return "noise.the-same-noise-at-every-step"
	case a.dm == 0:
		return "noise.steps-share-their-noise"
	}
	return "noise.seeds-overlap"
}
