package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// noiseSuspects are right steps with other draws than those of the step.
func (e *Gate) noiseSuspects(w *wrong) []suspect {
	if w.claimed.Noise < 0 || w.Draws == nil {
		return nil
	}
	var all []suspect
	add := func(name, what string, draws func() (noise.Draws, error)) {
		all = append(all,
			suspect{name: name, what: what, verdict: report.FailRNG, gate: "noise", step: func() ([]float64, error) {
				d, err := draws()
				if err != nil {
					return nil, err
				}
				y, err := w.claimed.Step(d)
				if err != nil {
					return nil, err
				}
				return y.Data, nil
			}})
	}
	of := func(k, lo, hi, t int) func() (noise.Draws, error) {
		return func() (noise.Draws, error) { return e.Stream.Draws(k, lo, hi, t) }
	}
	change := func(f func(shape []int, to, from []float64)) func() (noise.Draws, error) {
		return func() (noise.Draws, error) { return w.changed(f), nil }
	}
	t := w.Step
	add("noise.no-noise", "it has no noise", func() (noise.Draws, error) { return nil, nil })
	for _, u := range []int{t - 1, t + 1, t - 2, t + 2, t - 3, t + 3, 1, t - 4, t + 4} {
		if u < 1 || u >= e.States.T || u == t {
			continue
		}
		name := "noise.noise-of-another-step"
		if u == 1 {
			name = "noise.the-same-noise-at-every-step"
		}
		add(name, fmt.Sprintf("it has the noise of step %d", u), of(w.Batch, w.Lo, w.Hi, u))
	}
	for _, p := range mixings(w.Hi - w.Lo) {
		name := "noise.noise-of-another-realization"
		if p.of[w.Hi-w.Lo-1] == 0 {
			name = "noise.the-same-noise-for-all-realizations"
		}
		mix := func(shape []int, to, from []float64) {
			n := len(from) / len(p.of)
			for m, k := range p.of {
				copy(to[m*n:(m+1)*n], from[k*n:(k+1)*n])
			}
		}
		add(name, "each realization has "+p.name+" noise", change(mix))
		if t > 1 {
			add("noise.noise-of-another-realization-and-step",
				"each realization has "+p.name+" noise of the step before", func() (noise.Draws, error) {
					return e.changedAt(w, t-1, mix)
				})
		}
	}
	if w.Lo > 0 {
		add("noise.every-engine-batch-has-the-same-noise", "it has the first engine batch's noise", of(0, 0, w.Hi-w.Lo, t))
	}
	if w.Hi-w.Lo > 1 && e.Stream.Name != "tape" && e.Stream.Name != "counter" {
		add("noise.noise-seeded-by-realization", "each realization is seeded by itself",
			func() (noise.Draws, error) { return e.oneByOne(w) })
	}
	add("noise.noise-of-the-wrong-sign", "its noise has the other sign", change(func(_ []int, to, from []float64) {
		for i, v := range from {
			to[i] = -v
		}
	}))
	add("noise.noise-transposed", "its noise has height and width swapped", change(func(shape []int, to, from []float64) {
		h, w := shape[2], shape[3]
		for p := 0; p+h*w <= len(from); p += h * w {
			for i := range h * w {
				to[p+i] = from[p+i%h*w+i/h]
			}
		}
	}))
	add("noise.all-channels-share-their-noise", "all channels have the first one's noise",
		change(func(shape []int, to, from []float64) {
			hw := len(from) / (shape[0] * shape[1])
			for i := range from {
				to[i] = from[i/(hw*shape[1])*hw*shape[1]+i%hw]
			}
		}))
	for k := 1; k <= 8; k++ {
		for _, by := range []int{k, -k} {
			add("noise.noise-shifted-in-the-stream", fmt.Sprintf("its noise is shifted by %d numbers", by),
				change(func(_ []int, to, from []float64) { Roll(to, from, by) }))
			if w.Hi-w.Lo > 1 {
				add("noise.noise-shifted-in-the-stream", fmt.Sprintf("its noise is shifted by %d numbers in each "+
					"realization", by), change(func(shape []int, to, from []float64) {
					n := len(from) / shape[0]
					for m := 0; m < len(from); m += n {
						Roll(to[m:m+n], from[m:m+n], by)
					}
				}))
			}
		}
	}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		if f.Ulp(1) > w.claimed.D.Store[w.claimed.Noise].Ulp(1) {
			add("noise.noise-in:"+f.String(), fmt.Sprintf("its draws are rounded to %v", f),
				change(func(_ []int, to, from []float64) { f.RoundSlice(to, from) }))
		}
	}
	return slices.Concat(all, e.scaleSuspects(w), e.factorSuspects(w))
}

// changed returns the draws of the step with each array changed; shape is that
// of the tensor that was drawn.
func (w *wrong) changed(f func(shape []int, to, from []float64)) noise.Draws {
	return changedDraws(w.Draws, w.claimed.Hidden(), f)
}

func changedDraws(d *emulate.Draws, hidden *tensor.Tensor, f func(shape []int, to, from []float64)) noise.Draws {
	y := &emulate.Draws{Kinds: d.Kinds}
	for i, from := range d.Data {
		shape := []int{hidden.N(), hidden.C(), hidden.H(), hidden.W()}
		if d.Kinds[i] == noise.Bernoulli {
			shape[2], shape[3] = 1, 1
		}
		to := make([]float64, len(from))
		f(shape, to, from)
		y.Data = append(y.Data, to)
	}
	return y
}

// changedAt is changed with the draws of step u.
func (e *Gate) changedAt(w *wrong, u int, f func(shape []int, to, from []float64)) (noise.Draws, error) {
	from, err := e.Stream.Draws(w.Batch, w.Lo, w.Hi, u)
	if err != nil {
		return nil, err
	}
	d := emulate.Keep(from)
	if _, err := w.claimed.Again(d); err != nil { // which draws
		return nil, err
	}
	return changedDraws(d, w.claimed.Hidden(), f), nil
}

// oneByOne returns the draws of engine batches of one realization each.
func (e *Gate) oneByOne(w *wrong) (noise.Draws, error) {
	y := &emulate.Draws{}
	for m := w.Lo; m < w.Hi; m++ {
		from, err := e.Stream.Draws(m, m, m+1, w.Step)
		if err != nil {
			return nil, err
		}
		d := emulate.Keep(from)
		if _, err := e.Machine.Plain(w.claimed.D, w.claimed.Noise,
			[]*tensor.Tensor{w.claimed.Hidden().Samples(m-w.Lo, m-w.Lo+1)}, d); err != nil {
			return nil, err
		}
		if y.Kinds = d.Kinds; y.Data == nil {
			y.Data = make([][]float64, len(d.Data))
		}
		for i := range d.Data {
			y.Data[i] = append(y.Data[i], d.Data[i]...)
		}
	}
	return y, nil
}

// scaleSuspects are steps whose noise is the specified one, times a number that
// is fitted, or enters in another way.
func (e *Gate) scaleSuspects(w *wrong) []suspect {
	var all []suspect
	without, err := w.claimed.Step(nil)
	if err != nil {
		return nil
	}
	part := make([]float64, len(w.want))
	got := make([]float64, len(w.want))
	for i, v := range without.Data {
		part[i], got[i] = w.want[i]-v, w.Got[i]-v
	}
	m := w.worst()
	const ulps = 0x1p-21 // draws may be a few float32 ulps off, all to one side
	if c, ok := fit1(w.Sample(got, m), w.Sample(part, m)); ok && math.Abs(c-1) > ulps {
		n := &e.Machine.Nodes[w.claimed.Noise]
		name, s := "noise.noise-scale-wrong", n.Noise.Scale
		near := func(x float64) bool { return math.Abs(c-x) < 0.005*math.Abs(x) }
		if near(s) && s < 0.9 {
			name = "noise.noise-scale-squared"
		} else if near(math.Sqrt2) {
			name = "noise.noise-scale-larger-by-the-root-of-2"
		}
		all = append(all, suspect{name: name, what: fmt.Sprintf("its noise is %.6g times the specified one", c),
			verdict: report.FailRNG, gate: "noise", step: func() ([]float64, error) {
				noisy, err := e.Machine.Plain(w.claimed.D, w.claimed.Noise, []*tensor.Tensor{w.claimed.Hidden()}, w.Draws.Rewind())
				if err != nil {
					return nil, err
				}
				for i, h := range w.claimed.Hidden().Data {
					noisy.Data[i] = h + float64(c*(noisy.Data[i]-h))
				}
				w.claimed.D.Store[w.claimed.Noise].RoundSlice(noisy.Data, noisy.Data)
				return w.outOf(noisy)
			}})
	}
	n := e.Machine.Nodes[w.claimed.Noise].Noise
	swap := map[noise.Type]noise.Type{noise.Gaussian: noise.Multiplicative, noise.Multiplicative: noise.Gaussian}
	if other, ok := swap[n.Type]; ok {
		n.Type = other
		all = append(all, suspect{name: "noise.noise-enters-in-another-way", what: fmt.Sprintf("its noise is %v",
			other), verdict: report.FailRNG, gate: "noise", step: func() ([]float64, error) {
			noisy := tensor.Like(w.claimed.Hidden())
			if err := n.Apply(noisy, w.claimed.Hidden(), noise.Time{}, w.Draws.Rewind()); err != nil {
				return nil, err
			}
			w.claimed.D.Store[w.claimed.Noise].RoundSlice(noisy.Data, noisy.Data)
			return w.outOf(noisy)
		}})
	}
	return all
}

// outOf returns the states for an output of the noise.
func (w *wrong) outOf(noisy *tensor.Tensor) ([]float64, error) {
	out, err := w.claimed.From(noisy)
	if err != nil {
		return nil, err
	}
	return w.claimed.Next(out).Data, nil
}

// Roll sets to[i] to from[i-by], around.
func Roll(to, from []float64, by int) {
	n := len(from)
	for i := range from {
		to[i] = from[((i-by)%n+n)%n]
	}
}
