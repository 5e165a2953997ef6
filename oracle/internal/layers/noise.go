package layers

import (
	"iter"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// noiseAnswers: the block's formula with the given draws, every written
// operation rounded to the format f of the result as the contract has it, or
// fewer of them, one after the other. A device computes each operation in
// float32 and its draws may be two ulps of float32 off, as logarithm and
// cosine are not everywhere the same.
func (g *layerGate) noiseAnswers(n *operator.Node, in layerValue, f fp16.Format) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		if g.draws == nil || n.Noise.Correlation != 0 { // a field has errors of a transform, too: steps show it
			return
		}
		half := f.Half()
		for _, w := range emulate.NoiseWays(n, half) {
			b := &noiseBlock{g: g, f: f, draw: half && w.Off&emulate.AtDraw == 0, product: half &&
				w.Off&emulate.AtProduct == 0, NoiseWay: w}
			if !yield(b.answer(n, in, w.How)) {
				return
			}
		}
	}
}

// noiseBlock evaluates a stochastic block with certain roundings.
type noiseBlock struct {
	g             *layerGate
	f             fp16.Format
	draw, product bool // these round to f
	emulate.NoiseWay
}

// A span is a number with the ends of where a device has it, and the chance
// that one of its roundings goes otherwise.
type span struct{ lo, mid, hi, sd, flip float64 }

func certain(v float64) span { return span{lo: v, mid: v, hi: v} }

// blur is a relative error of at most e.
func (s span) blur(e, sd float64) span {
	s.lo -= float64(e*math.Abs(s.lo)) + tiny
	s.hi += float64(e*math.Abs(s.hi)) + tiny
	s.sd = measure.RootSum(s.sd, sd*math.Abs(s.mid))
	return s
}

func (s span) times(c float64) span {
	s.lo, s.mid, s.hi = float64(s.lo*c), float64(s.mid*c), float64(s.hi*c)
	if s.lo > s.hi {
		s.lo, s.hi = s.hi, s.lo
	}
	s.sd *= math.Abs(c)
	return s
}

func (s span) plus(t span) span {
	return span{s.lo + t.lo, s.mid + t.mid, s.hi + t.hi, measure.RootSum(s.sd, t.sd), s.flip + t.flip}
}

// by is a product of two independent numbers.
func (s span) by(t span) span {
	ends := []float64{s.lo * t.lo, s.lo * t.hi, s.hi * t.lo, s.hi * t.hi}
	return span{slices.Min(ends), float64(s.mid * t.mid), slices.Max(ends), measure.RootSum(s.sd*t.mid, t.sd*s.mid),
		s.flip + t.flip}
}

// round rounds to f: what blurred the number now shows as a flip.
func (s span) round(f fp16.Format) span {
	flip := s.flip + flipChance(f, s.mid, 3*s.sd)
	return span{f.Round(s.lo), f.Round(s.mid), f.Round(s.hi), 0, flip}
}

func (b *noiseBlock) answer(n *operator.Node, in layerValue, how string) *answer {
	u, x, draws := b.g.u, in.Tensor, b.g.draws
	scale := evidence.NoiseScale(b.g.m.Nodes)
	if b.Constants || b.g.mode.Autocast == operator.CPU113 && n.Noise.Type != noise.Dropout && b.product {
		scale = b.f.Round(scale) // as PyTorch 1.13's CPU does
	}
	a := &answer{how: join(in.how, how), wide: usualSlack}
	a.mid, a.lo, a.hi = make([]float64, len(x.Data)), make([]float64, len(x.Data)), make([]float64, len(x.Data))
	a.sd = make([]float64, len(x.Data))
	if b.draw || b.product {
		a.flip = make([]float64, len(x.Data))
	}
	round := func(s span) span {
		s = s.blur(2*u, u)
		if b.product {
			return s.round(b.f)
		}
		return s
	}
	keep := b.survivor(n)
	for k, v := range x.Data {
		y := certain(v)
		if in.bound != nil {
			y = span{v - in.bound[k], v, v + in.bound[k], in.sd[k], 0}
		}
		switch n.Noise.Type {
		case noise.Dropout:
			y = y.times(keep(k/(x.H()*x.W()))).blur(2*u, u)
		case noise.Multiplicative:
			d := b.drawn(draws.Data[0][k]).times(scale)
			switch {
			case b.Added:
				y = y.plus(round(y.by(round(d)))).blur(2*u, roundingSD*u)
			case b.Once:
				y = y.by(round(certain(1).plus(d.blur(2*u, u)))).blur(2*u, roundingSD*u)
			default:
				y = y.by(round(certain(1).plus(round(d)))).blur(2*u, roundingSD*u)
			}
		default:
			d := draws.Data[0][k]
			if n.Noise.Type == noise.Laplace {
				m := draws.Data[1][k]
				if b.draw {
					m = b.f.Round(m)
				}
				switch {
				case m < 0:
					d = -d
				case m == 0:
					d = 0
				}
			}
			y = y.plus(round(b.drawn(d).times(scale))).blur(2*u, roundingSD*u)
		}
		a.mid[k], a.lo[k], a.hi[k], a.sd[k] = y.mid, y.lo, y.hi, y.sd
		if a.flip != nil {
			a.flip[k] = y.flip
		}
	}
	return a
}

// drawn is a draw as the block takes it.
func (b *noiseBlock) drawn(v float64) span {
	s := certain(v).blur(4*b.g.u, b.g.u)
	if b.draw {
		return s.round(b.f)
	}
	return s
}

// survivor returns the factor of each plane of a dropout.
func (b *noiseBlock) survivor(n *operator.Node) func(plane int) float64 {
	if n.Noise.Type != noise.Dropout {
		return nil
	}
	p := evidence.NoiseScale(b.g.m.Nodes)
	k := 1 / (1 - p)
	if b.draw {
		k = b.f.Round(k)
	}
	return func(plane int) float64 {
		switch {
		case p == 0:
			return 1
		case p == 1 || b.g.draws.Data[0][plane] == 0:
			return 0
		}
		return k
	}
}
