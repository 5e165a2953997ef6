package fault

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// noiseFault makes a fault that changes a noise node's block or draws.
func noiseFault(row *table.Row, f func(v *trial.View, b *noise.Block, d *emulate.Draws) bool) *trial.Fault {
	return &trial.Fault{Row: row, At: emulate.IsNoise,
		Node: func(v *trial.View, r *trial.Run, i int) *tensor.Tensor { return noised(v, r, i, f) }}
}

func noised(
	v *trial.View, r *trial.Run, i int, f func(v *trial.View, b *noise.Block, d *emulate.Draws) bool,
) *tensor.Tensor {
	if v.Draws == nil {
		return nil
	}
	b, d := emulate.Noise(&v.Machine.Nodes[i], v.Device.Mode), v.Draws.Clone()
	if !f(v, &b, d) {
		return nil
	}
	return noisy(v, b, d, r.In(i, 0), i)
}

// noisy applies a block as the view's device does at node i.
func noisy(v *trial.View, b noise.Block, d *emulate.Draws, x *tensor.Tensor, i int) *tensor.Tensor {
	if v.Noised != nil {
		y, err := v.Noised(i, &b, d, x)
		if err != nil {
			return nil
		}
		return y
	}
	y, f := tensor.Like(x), v.Stored(i)
	x = tensor.Of(fp16.Float64, x.Data, x.Shape...)
	if v.Contract && f != fp16.Float64 {
		// Every operation of the block rounds, where the input is of the format.
		from := v.Machine.Nodes[i].In[0]
		if from != operator.Input && v.Stored(from) == f ||
			!slices.ContainsFunc(x.Data, func(u float64) bool { return !f.Holds(u) }) {
			y.Format, x.Format = f, f
		}
	}
	if err := b.Apply(y, x, noise.Time{}, d.Rewind()); err != nil {
		return nil
	}
	y.Format = fp16.Float64
	return y
}

// redrawn is a fault that changes numbers of draws: f gets draw k's kind and numbers,
// and returns what the device has in their place, or nil.
func redrawn(row *table.Row, f func(v *trial.View, k int, kind noise.Kind, data []float64) []float64) *trial.Fault {
	return noiseFault(row, func(v *trial.View, _ *noise.Block, d *emulate.Draws) bool { return redraw(v, d, f) })
}

func redraw(
	v *trial.View, d *emulate.Draws, f func(v *trial.View, k int, kind noise.Kind, data []float64) []float64,
) bool {
	for k, data := range d.Data {
		if d.Data[k] = f(v, k, d.Kinds[k], data); d.Data[k] == nil {
			return false
		}
	}
	return len(d.Data) > 0
}

// drawn is redrawn of what needs nothing but the numbers.
func drawn(row *table.Row, f func(kind noise.Kind, shape [4]int, data []float64) []float64) *trial.Fault {
	h := redrawn(row, func(v *trial.View, _ int, kind noise.Kind, data []float64) []float64 {
		return f(kind, v.DrawShape(kind), data)
	})
	h.Draws = f
	return h
}

// moved is a fault that takes each number of a draw from elsewhere in it.
func moved(row *table.Row, from func(n, c, h, w int, s [4]int) int) *trial.Fault {
	return drawn(row, func(_ noise.Kind, shape [4]int, data []float64) []float64 {
		return gathered(data, shape, from)
	})
}

func gathered(data []float64, s [4]int, from func(n, c, h, w int, s [4]int) int) []float64 {
	y, at := make([]float64, len(data)), 0
	for n := range s[0] {
		for c := range s[1] {
			for h := range s[2] {
				for w := range s[3] {
					i := from(n, c, h, w, s)
					if i < 0 || i >= len(data) {
						return nil
					}
					y[at] = data[i]
					at++
				}
			}
		}
	}
	return y
}

// claimsDraws reports whether the claim itself rounds draws to f: a device whose pattern leaves that out
// may yet do it.
func claimsDraws(v *trial.View, f fp16.Format) bool {
	e := v.Evidence
	return e.Mode.Precision == f && emulate.Contract(v.Machine.Nodes, e.Case.Rollout, e.Mode).Points&emulate.AtDraw != 0
}

// noiseFaults are those of the stochastic block. The order is that of the library.
func noiseFaults() []*trial.Fault {
	l := []*trial.Fault{scaleFault()}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		h := redrawn(Named("noise.noise-in", f), func(v *trial.View, _ int, _ noise.Kind, data []float64) []float64 {
			if claimsDraws(v, f) {
				return nil
			}
			return mapped(data, f.Round)
		})
		h.Draws = func(_ noise.Kind, _ [4]int, data []float64) []float64 { return mapped(data, f.Round) }
		l = append(l, h)
	}
	return slices.Concat(l, otherDraws(), otherPlaces(), otherNumbers(), otherChannels(), siteFaults())
}

// scaleFault is the noise of another scale, the common ones with names.
func scaleFault() *trial.Fault {
	scale := noiseFault(Named("noise.noise-scale"), func(v *trial.View, b *noise.Block, d *emulate.Draws) bool {
		b.Scale = fp16.Float32.Round((1 + v.Scale()) * fp16.Float32.Round(b.Scale))
		return b.Type != noise.Dropout
	})
	scale.Called = func(v *trial.View, c float64) string {
		s := 0.0
		for i := range v.Machine.Nodes {
			if emulate.IsNoise(&v.Machine.Nodes[i]) {
				s = v.Machine.Nodes[i].Noise.Scale
			}
		}
		near := func(to float64) bool { return math.Abs(1+c-to) < 0.02*max(math.Abs(to), 0.1) }
		switch {
		case near(0):
			return "noise missing"
		case near(math.Sqrt2):
			return "noise scale times sqrt 2"
		case near(1 / math.Sqrt2):
			return "noise scale divided by sqrt 2"
		case near(2):
			return "noise scale doubled (noise added twice)"
		case near(s):
			return "noise scale squared"
		case near(-1):
			return "noise of the other sign"
		}
		return fmt.Sprintf("noise scale times %.3g", 1+c)
	}
	return scale
}

// otherStep is the noise of another step: by says how many steps later, 0 for none.
func otherStep(row *table.Row, by func(step int) int) *trial.Fault {
	return noiseFault(row, func(v *trial.View, _ *noise.Block, d *emulate.Draws) bool {
		t := by(v.Step)
		if t == 0 {
			return false
		}
		o := v.Drawn(t)
		if o == nil || len(o.Data) != len(d.Data) {
			return false
		}
		*d = *o.Clone()
		return true
	})
}

// otherDraws are the noise of other steps near this one.
func otherDraws() (l []*trial.Fault) {
	later := func(t int) func(int) int { return func(int) int { return t } }
	return append(l,
		otherStep(Named("noise.noise-of-the-step-before"), later(-1)),
		otherStep(Named("noise.noise-of-the-next-step"), later(1)),
		otherStep(Named("noise.noise-of-two-steps-before"), later(-2)),
		otherStep(Named("noise.noise-of-the-step-after-the-next"), later(2)))
}

// otherPlaces are the noise of other samples, channels or pixels of the step.
func otherPlaces() (l []*trial.Fault) {
	at := func(n, c, h, w int, s [4]int) int { return ((n*s[1]+c)*s[2]+h)*s[3] + w }
	return append(l,
		moved(Named("noise.noise-of-the-sample-before"), func(n, c, h, w int, s [4]int) int {
			if s[0] == 1 {
				return -1
			}
			return at((n+s[0]-1)%s[0], c, h, w, s)
		}),
		moved(Named("noise.noise-of-the-next-sample"), func(n, c, h, w int, s [4]int) int {
			if s[0] == 1 {
				return -1
			}
			return at((n+1)%s[0], c, h, w, s)
		}),
		moved(Named("noise.the-same-noise-for-all-samples"), func(n, c, h, w int, s [4]int) int { return at(0, c, h, w, s) }),
		moved(Named("noise.the-same-noise-for-all-channels"),
			func(n, c, h, w int, s [4]int) int { return at(n, 0, h, w, s) }),
		moved(Named("noise.noise-of-the-channel-before"),
			func(n, c, h, w int, s [4]int) int { return at(n, (c+s[1]-1)%s[1], h, w, s) }),
		moved(Named("noise.noise-of-the-next-channel"),
			func(n, c, h, w int, s [4]int) int { return at(n, (c+1)%s[1], h, w, s) }),
		moved(Named("noise.noise-transposed"), func(n, c, h, w int, s [4]int) int {
			k := h*s[3] + w
			return at(n, c, k%s[2], k/s[2], s)
		}),
		moved(Named("noise.noise-of-rows-read-as-columns"),
			func(n, c, h, w int, s [4]int) int { return (n*s[1]+c)*s[2]*s[3] + w*s[2] + h }),
		moved(Named("noise.realizations-have-each-other-noise"),
			func(n, c, h, w int, s [4]int) int { return at(s[0]-1-n, c, h, w, s) }),
		moved(Named("noise.noise-in-equal-pairs"), func(n, c, h, w int, s [4]int) int { return at(n, c, h, w, s) &^ 1 }),
		moved(Named("noise.noise-flipped-left-to-right"),
			func(n, c, h, w int, s [4]int) int { return at(n, c, h, s[3]-1-w, s) }),
		moved(Named("noise.noise-flipped-top-to-bottom"),
			func(n, c, h, w int, s [4]int) int { return at(n, c, s[2]-1-h, w, s) }),
		moved(Named("noise.noise-drawn-channels-last"),
			func(n, c, h, w int, s [4]int) int { return ((n*s[2]+h)*s[3]+w)*s[1] + c }),
	)
}

// otherNumbers are noise of another distribution, of few levels, or without a sign.
func otherNumbers() (l []*trial.Fault) {
	return append(l, normals(Named("noise.uniform-noise-for-normal"),
		func(x float64) float64 { return math.Sqrt(3) * (elem.Erfc(-x/math.Sqrt2) - 1) }),
		normals(Named("noise.laplace-noise-for-normal"), func(x float64) float64 {
			return math.Copysign(-elem.Log(max(elem.Erfc(math.Abs(x)/math.Sqrt2), 1e-300))/math.Sqrt2, x)
		}),
		normals(Named("noise.noise-cut-off-at-2-standard-deviations"), func(x float64) float64 { return max(-2, min(2, x)) }),
		normals(Named("noise.noise-cut-off-at-3-standard-deviations"), func(x float64) float64 { return max(-3, min(3, x)) }),
		coarseNoise(1), coarseNoise(0.5), coarseNoise(0.4), coarseNoise(0.25),
		noiseMean(), coarseNoise(0.2), coarseNoise(0.125), coarseNoise(0.1), coarseNoise(1./16), coarseNoise(1./32),
		otherStep(Named("noise.noise-of-the-first-step"), func(step int) int {
			if step < 3 { // which the step before has
				return 0
			}
			return 1 - step
		}),
		drawn(Named("noise.noise-not-centred-absolute-value"),
			func(kind noise.Kind, _ [4]int, data []float64) []float64 {
				if kind == noise.Bernoulli {
					return nil
				}
				return mapped(data, math.Abs)
			}))
}

// otherChannels are a channel without noise, and all of the stream some numbers off.
func otherChannels() (l []*trial.Fault) {
	for k := range 64 {
		l = append(l, drawn(Named("noise.channel-without-noise", k),
			func(kind noise.Kind, s [4]int, data []float64) []float64 {
				if k >= s[1] || s[1] < 2 || kind == noise.Bernoulli {
					return nil
				}
				y, hw := slices.Clone(data), s[2]*s[3]
				for n := range s[0] {
					clear(y[(n*s[1]+k)*hw:][:hw])
				}
				return y
			}))
	}
	for k := -8; k <= 8; k++ {
		if k == 0 {
			continue
		}
		l = append(l, drawn(Named("noise.noise-stream-off-by-numbers", k),
			func(_ noise.Kind, _ [4]int, data []float64) []float64 {
				return turned(data, k)
			}))
	}
	return l
}

// turned returns the numbers k places on, as if they were a ring; nil if those are the
// numbers themselves. Masks of a few channels are shorter than k.
func turned(data []float64, k int) []float64 {
	n := len(data)
	if n == 0 || k%n == 0 {
		return nil
	}
	k = (k%n + n) % n
	return slices.Concat(data[k:], data[:k])
}

// normals is a fault that changes each normal draw.
func normals(row *table.Row, f func(x float64) float64) *trial.Fault {
	return drawn(row, func(kind noise.Kind, _ [4]int, data []float64) []float64 {
		if kind != noise.Normal {
			return data
		}
		return mapped(data, f)
	})
}

func mapped(data []float64, f func(x float64) float64) []float64 {
	y := make([]float64, len(data))
	for i, x := range data {
		y[i] = f(x)
	}
	return y
}

// coarseNoise is noise that takes only values so far apart.
func coarseNoise(step float64) *trial.Fault {
	return normals(Named("noise.noise-in-steps-of", step),
		func(x float64) float64 { return math.RoundToEven(x/step) * step })
}

// noiseMean is noise whose mean is not 0.
func noiseMean() *trial.Fault {
	h := redrawn(Named("noise.mean-of-the-noise"), func(v *trial.View, _ int, kind noise.Kind, data []float64) []float64 {
		if kind != noise.Normal || len(v.Draws.Data) > 1 {
			return nil
		}
		y := make([]float64, len(data))
		for i, x := range data {
			y[i] = x + float64(0.125*v.Scale())
		}
		return y
	})
	h.Called = func(_ *trial.View, c float64) string { return fmt.Sprintf("noise with a mean of %.3g", c/8) }
	return h
}
