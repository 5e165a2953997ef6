package fault

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// keptOtherwise is dropout whose planes take another factor, of what is kept (0 or 1) and its probability.
func keptOtherwise(v *trial.View, r *trial.Run, i int, f func(keep, p float64) float64) *tensor.Tensor {
	b := &v.Machine.Nodes[i].Noise
	if v.Draws == nil || b.Type != noise.Dropout || len(v.Draws.Data) != 1 {
		return nil
	}
	y, p := r.In(i, 0).Clone(), fp16.Float32.Round(b.Scale)
	for k := range y.N() * y.C() {
		factor := f(v.Draws.Data[0][k], p)
		plane := y.Plane(k/y.C(), k%y.C())
		for j := range plane {
			plane[j] *= factor
		}
	}
	return y
}

// siteFaults are noise at another place, of another kind, and dropout's own.
func siteFaults() []*trial.Fault {
	kind := func(row *table.Row, only func(t noise.Type) bool, to noise.Type) *trial.Fault {
		return noiseFault(row, func(v *trial.View, b *noise.Block, d *emulate.Draws) bool {
			if b.Type == to || !only(b.Type) {
				return false
			}
			b.Type = to
			return true
		})
	}
	normal := func(t noise.Type) bool { return t == noise.Gaussian || t == noise.Multiplicative }
	l := []*trial.Fault{
		{Row: Named("noise.activation-after-the-noise"), At: emulate.IsNoise,
			Node: func(v *trial.View, r *trial.Run, i int) *tensor.Tensor {
				y, err := v.Machine.Plain(v.Device, i, []*tensor.Tensor{r.In(i, 0)}, v.Draws.Rewind())
				for j := range v.Machine.Nodes {
					if n := &v.Machine.Nodes[j]; emulate.IsAct(n) && err == nil {
						z := tensor.Like(y)
						act.Forward(z, y, n.Act)
						return z
					}
				}
				return nil
			}},
		kind(Named("noise.multiplicative-noise-in-place-of-additive"), normal, noise.Multiplicative),
		kind(Named("noise.additive-noise-in-place-of-multiplicative"), normal, noise.Gaussian),
		noiseFault(Named("noise.laplace-noise-without-its-sign"), func(v *trial.View, b *noise.Block, d *emulate.Draws) bool {
			if b.Type != noise.Laplace || len(d.Data) != 2 {
				return false
			}
			d.Data[1] = mapped(d.Data[1], func(float64) float64 { return 1 })
			return true
		}),
		{Row: Named("noise.one-realization-without-noise"), At: emulate.IsNoise,
			Node: func(v *trial.View, r *trial.Run, i int) *tensor.Tensor {
				if v.Draws == nil || r.In(i, 0).N() < 2 {
					return nil
				}
				y := noisy(v, emulate.Noise(&v.Machine.Nodes[i], v.Device.Mode), v.Draws, r.In(i, 0), i)
				if y != nil {
					copy(y.Samples(v.Worst, v.Worst+1).Data, r.In(i, 0).Samples(v.Worst, v.Worst+1).Data)
				}
				return y
			}},
	}
	return append(append(l, dropoutFaults()...),
		noiseBefore(Named("noise.noise-before-the-norm"), emulate.IsNorm),
		noiseBefore(Named("noise.noise-before-the-activation"), emulate.IsAct),
		noiseBefore(Named("noise.noise-before-the-last-convolution-block"), emulate.IsWindow),
	)
}

// dropoutFaults are those of what a dropout keeps.
func dropoutFaults() []*trial.Fault {
	dropout := func(row *table.Row, f func(keep, p float64) float64) *trial.Fault {
		return &trial.Fault{Row: row, At: emulate.IsNoise,
			Node: func(v *trial.View, r *trial.Run, i int) *tensor.Tensor { return keptOtherwise(v, r, i, f) }}
	}
	return []*trial.Fault{
		dropout(Named("noise.dropout-missing"), func(float64, float64) float64 { return 1 }),
		dropout(Named("noise.dropout-not-rescaled"), func(keep, _ float64) float64 { return keep }),
		dropout(Named("noise.dropout-rescaled-twice"), func(keep, p float64) float64 { return keep / ((1 - p) * (1 - p)) }),
		dropout(Named("noise.dropout-rescaled-by-p-for-1-p"), func(keep, p float64) float64 { return keep / p }),
		dropout(Named("noise.dropout-keeps-what-it-should-drop"),
			func(keep, p float64) float64 { return (1 - keep) / (1 - p) }),
		dropout(Named("noise.dropout-keeps-what-it-should-drop-p-and-1-p-swapped"),
			func(keep, p float64) float64 { return (1 - keep) / p }),
		dropout(Named("noise.dropout-as-in-evaluation-scaled-by-1-p"), func(_, p float64) float64 { return 1 - p }),
	}
}

// noiseBefore is noise that enters before the last such node in front of its place, and not there.
func noiseBefore(row *table.Row, is func(n *operator.Node) bool) *trial.Fault {
	site := func(v *trial.View) int { // the last such node before the noise
		last := -1
		for i := range v.Machine.Nodes {
			if emulate.IsNoise(&v.Machine.Nodes[i]) {
				return last
			}
			if is(&v.Machine.Nodes[i]) {
				last = i
			}
		}
		return -1
	}
	return &trial.Fault{Row: row, At: func(n *operator.Node) bool { return is(n) || emulate.IsNoise(n) },
		Node: func(v *trial.View, r *trial.Run, i int) *tensor.Tensor {
			k := site(v)
			if k < 0 || v.Draws == nil {
				return nil
			}
			if emulate.IsNoise(&v.Machine.Nodes[i]) {
				return r.In(i, 0).Clone()
			}
			if i != k {
				return nil
			}
			var b noise.Block
			for j := range v.Machine.Nodes {
				if emulate.IsNoise(&v.Machine.Nodes[j]) {
					b = emulate.Noise(&v.Machine.Nodes[j], v.Device.Mode)
				}
			}
			x := r.In(i, 0)
			if s := v.DrawShape(noise.Normal); b.Type == noise.Dropout || [4]int{x.N(), x.C(), x.H(), x.W()} != s {
				return nil
			}
			y := noisy(v, b, v.Draws, x, i)
			if y == nil {
				return nil
			}
			y, err := v.Machine.Plain(v.Device, i, []*tensor.Tensor{y}, nil)
			if err != nil {
				return nil
			}
			return y
		}}
}
