package oracle

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// normalizesHalf reports whether a half mode normalizes states of its half type:
// under other policies they are float32.
func normalizesHalf(c rollout.Config) bool {
	return c.Policy == rollout.Autoregressive && c.Normalization != rollout.NoNormalization
}

// twofold reports whether devices that round where p does still differ in how often:
// products with a constant may be rounded to float32 first, and a normalization may be
// one operation or a formula on tensors.
func (p pattern) twofold(c rollout.Config) bool {
	return p.half() && (p.points&atShare != 0 || normalizesHalf(c))
}

// updateAs has a device normalize states of a half type in the way that is nearer to m.
func (g *stepGate) updateAs(d *emulate.Device, m *measured) error {
	p := g.use
	if !p.half() || !normalizesHalf(g.e.c.Rollout) {
		return nil
	}
	once, o, err := g.emulation(m.batchStep, p)
	if err != nil {
		return err
	}
	p.twice = true
	formula := g.advance(m.X, o, p, nil)
	if &nearer(m.Got, once.Data, formula.Data)[0] == &formula.Data[0] {
		d.Update = func(x, o *tensor.Tensor) *tensor.Tensor { return g.advance(x, o, p, nil) }
	}
	return nil
}

// normalizeTensors normalizes states as a framework does that evaluates the formula on
// tensors of format f: mean, deviation or spread, and the differences are each rounded.
// The quotients are not yet.
func normalizeTensors(c rollout.Config, y *tensor.Tensor, f fp16.Format) {
	group := len(y.Data)
	if c.EngineBatch == 0 {
		group /= y.N
	}
	for lo := 0; lo < len(y.Data); lo += group {
		from, by := mapping(c.Normalization, y.Data[lo:lo+group], f)
		for k, v := range y.Data[lo : lo+group] {
			if by != 0 {
				y.Data[lo+k] = f.Round(v-from) / by
			}
		}
	}
}

// mapping returns what a normalization takes from each of the numbers x and what it divides
// them by, 0 if it leaves them as they are.
func mapping(n rollout.Normalization, x []float64, f fp16.Format) (from, by float64) {
	const tiny = 1e-8 // as in package rollout
	least, most, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, v := range x {
		least, most, sum = min(least, v), max(most, v), sum+v
	}
	if n == rollout.MinMax {
		if by = f.Round(most - least); !(by > tiny) {
			return least, 0
		}
		return least, by
	}
	mean, squares := sum/float64(len(x)), 0.0
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	return f.Round(mean), f.Round(f.Round(math.Sqrt(squares/float64(len(x)-1))) + tiny)
}
