package steps

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// half returns the half type of the claim's states, Float64 if they have none: that of
// the operator's outputs where these are the states, or the one that they are kept in.
func (g *stepGate) half() fp16.Format {
	if c, m := g.e.Case.Rollout, g.claim.Mode; c.Policy == rollout.Autoregressive && c.State == "" && g.claim.Half() &&
		g.e.Op.Output(m) == m.Precision {
		return m.Precision
	}
	return g.kept()
}

// kept returns the half type that states are claimed to be kept in, whatever the
// operator's outputs are; Float64 if none is claimed.
func (g *stepGate) kept() fp16.Format {
	if f := g.format(); g.e.Case.Rollout.State != "" && (f == fp16.Float16 || f == fp16.BFloat16) {
		return f
	}
	return fp16.Float64
}

// normalizesHalf reports whether states of a half type are normalized.
func (g *stepGate) normalizesHalf() bool {
	return g.half() != fp16.Float64 && g.e.Case.Rollout.Normalization != rollout.NoNormalization
}

// twofold reports whether devices that round where pattern p does still differ in how often:
// products with a constant may be rounded to float32 first, and a normalization may be
// one operation or a formula on tensors.
func (g *stepGate) twofold(p emulate.Pattern) bool {
	return p.Half() && (p.Points&(emulate.AtShare|emulate.AtKept) != 0 || g.normalizesHalf())
}

// updateAs has a device normalize states of a half type in the way that is nearest to m: products of
// the sums rounded to float32 first or not, and a formula or one operation.
func (g *stepGate) updateAs(d *emulate.Device, m *measured) error {
	if !g.use.Half() || !g.normalizesHalf() {
		return nil
	}
	best, o, err := g.emulation(m.BatchStep, g.use)
	if err != nil {
		return err
	}
	sums, post := g.use, g.use
	for _, sums.Twice = range [2]bool{false, true} {
		for _, post.Twice = range [2]bool{false, true} {
			update := func(sums, post emulate.Pattern) func(x, o *tensor.Tensor) *tensor.Tensor {
				return func(x, o *tensor.Tensor) *tensor.Tensor { return g.post(x, g.sum(x, o, sums, nil), post, nil) }
			}(sums, post)
			if y := update(m.X, o); &nearer(m.Got, best.Data, y.Data)[0] == &y.Data[0] {
				best, d.Update = y, update
			}
		}
	}
	return nil
}

// scaling is the straight line of a normalization, (v-from)/by; by is 0 where it leaves
// numbers as they are.
type scaling struct {
	from, by float64
	formula  bool // the difference is rounded
}

// of returns the normalized v, not rounded yet.
func (s scaling) of(v float64, f fp16.Format) float64 {
	switch {
	case s.by == 0:
		return v
	case s.formula:
		return f.Round(v-s.from) / s.by
	}
	return (v - s.from) / s.by
}

// normalizeTensors normalizes states as a framework does that evaluates the formula on
// tensors of format f: mean, deviation or spread, and the differences are each rounded.
// The quotients are not yet.
func normalizeTensors(c rollout.Config, y *tensor.Tensor, f fp16.Format) {
	each(c, y, func(lo, hi int) {
		s := scalings(c.Normalization, y.Data[lo:hi], f)[0]
		for k := lo; k < hi; k++ {
			y.Data[k] = s.of(y.Data[k], f)
		}
	})
}

// each calls body for what is normalized together.
func each(c rollout.Config, y *tensor.Tensor, body func(lo, hi int)) {
	group := len(y.Data)
	if c.EngineBatch == 0 {
		group /= y.N()
	}
	for lo := 0; lo < len(y.Data); lo += group {
		body(lo, lo+group)
	}
}

// scalings returns how devices may normalize the numbers x of format f: by the formula,
// and with what that and the contract are made of rounded the other way, as the
// greatest number may be, or the mean.
func scalings(n rollout.Normalization, x []float64, f fp16.Format) (all []scaling) {
	const tiny = 1e-8 // as in package rollout
	least, most, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, v := range x {
		least, most, sum = min(least, v), max(most, v), sum+v
	}
	mean, squares := sum/float64(len(x)), 0.0
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	std := math.Sqrt(squares / float64(len(x)-1))
	for _, i := range [3]float64{0, -1, 1} {
		for _, j := range [3]float64{0, -1, 1} {
			if n == rollout.ZScore {
				by := f.Round(std)
				all = append(all, scaling{f.Round(f.Round(mean) + i*f.Ulp(mean)), f.Round(f.Round(by+j*f.Ulp(by)) + tiny), true})
				continue
			}
			lo, hi := f.Round(least+i*f.Ulp(least)), f.Round(most+j*f.Ulp(most))
			for _, formula := range [2]bool{true, false} {
				by := hi - lo
				if formula {
					by = f.Round(by)
				}
				if !(by > tiny) {
					by = 0
				}
				all = append(all, scaling{lo, by, formula})
			}
		}
	}
	return all
}

// closest returns the one of a twofold pattern's answers that is closest to got: y, or
// what follows from the states x and the operator's outputs o in another way. Of states
// that are normalized, each normalization may have its own.
func (g *stepGate) closest(got []float64, y, x, o *tensor.Tensor, p emulate.Pattern) []float64 {
	if !g.normalizesHalf() {
		p.Twice = true
		return nearer(got, y.Data, g.advance(x, o, p, nil).Data)
	}
	c, f := g.e.Case.Rollout, g.half()
	end := func(v float64) float64 {
		if c.Clamp != nil {
			v = min(max(v, c.Clamp[0]), c.Clamp[1])
		}
		return f.Round(v)
	}
	best, once := slices.Clone(y.Data), p
	once.Twice = false
	for _, p.Twice = range [2]bool{false, true} {
		out := g.sum(x, o, p, nil)
		whole := g.post(x, out, once, nil).Data
		each(c, out, func(lo, hi int) {
			distance := func(at func(k int) float64) (sum float64) {
				for k := lo; k < hi; k++ {
					if d := math.Abs(got[k] - at(k)); measure.Finite(d) {
						sum += d
					}
				}
				return sum
			}
			least := distance(func(k int) float64 { return best[k] })
			take := func(at func(k int) float64) {
				if d := distance(at); d < least {
					least = d
					for k := lo; k < hi; k++ {
						best[k] = at(k)
					}
				}
			}
			take(func(k int) float64 { return whole[k] })
			for _, s := range scalings(c.Normalization, out.Data[lo:hi], f) {
				take(func(k int) float64 { return end(s.of(out.Data[k], f)) })
			}
		})
	}
	return best
}
