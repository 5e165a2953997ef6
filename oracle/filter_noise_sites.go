package oracle

import (
	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// siteFaults are noise at another place, of another kind, and dropout's own.
func siteFaults() []*hypothesis {
	kind := func(name string, only func(t noise.Type) bool, to noise.Type) *hypothesis {
		return noiseFault(name, func(v *view, b *noise.Block, d *emulate.Draws) bool {
			if b.Type == to || !only(b.Type) {
				return false
			}
			b.Type = to
			return true
		})
	}
	normal := func(t noise.Type) bool { return t == noise.Gaussian || t == noise.Multiplicative }
	dropout := func(name string, f func(keep, p float64) float64) *hypothesis {
		return &hypothesis{name: name, verdict: report.FailRNG, at: isNoise, node: func(v *view, r *run, i int) *tensor.Tensor {
			b := &v.m.Nodes[i].Noise
			if v.draws == nil || b.Type != noise.Dropout || len(v.draws.Data) != 1 {
				return nil
			}
			x := r.in(i, 0)
			y, p := x.Clone(), fp16.Float32.Round(b.Scale)
			for k := range y.N() * y.C() {
				factor := f(v.draws.Data[0][k], p)
				plane := y.Plane(k/y.C(), k%y.C())
				for j := range plane {
					plane[j] *= factor
				}
			}
			return y
		}}
	}
	l := []*hypothesis{
		{name: "activation after the noise", verdict: report.FailRNG, at: isNoise, node: func(v *view, r *run, i int) *tensor.Tensor {
			y, err := v.m.Plain(v.d, i, []*tensor.Tensor{r.in(i, 0)}, v.draws.Rewind())
			for j := range v.m.Nodes {
				if n := &v.m.Nodes[j]; isAct(n) && err == nil {
					z := tensor.Like(y)
					act.Forward(z, y, n.Act)
					return z
				}
			}
			return nil
		}},
		kind("multiplicative noise in place of additive", normal, noise.Multiplicative),
		kind("additive noise in place of multiplicative", normal, noise.Gaussian),
		noiseFault("laplace noise without its sign", func(v *view, b *noise.Block, d *emulate.Draws) bool {
			if b.Type != noise.Laplace || len(d.Data) != 2 {
				return false
			}
			for i := range d.Data[1] {
				d.Data[1][i] = 1
			}
			return true
		}),
		{name: "one realization without noise", verdict: report.FailRNG, at: isNoise, node: func(v *view, r *run, i int) *tensor.Tensor {
			if v.draws == nil || r.in(i, 0).N() < 2 {
				return nil
			}
			y := v.noise(v.m.Nodes[i].Noise, v.draws, r.in(i, 0), i)
			if y != nil {
				copy(y.Samples(v.worst, v.worst+1).Data, r.in(i, 0).Samples(v.worst, v.worst+1).Data)
			}
			return y
		}},
		dropout("dropout missing", func(float64, float64) float64 { return 1 }),
		dropout("dropout not rescaled", func(keep, _ float64) float64 { return keep }),
		dropout("dropout rescaled twice", func(keep, p float64) float64 { return keep / ((1 - p) * (1 - p)) }),
		dropout("dropout rescaled by p for 1-p", func(keep, p float64) float64 { return keep / p }),
		dropout("dropout keeps what it should drop", func(keep, p float64) float64 { return (1 - keep) / (1 - p) }),
		dropout("dropout keeps what it should drop, p and 1-p swapped", func(keep, p float64) float64 { return (1 - keep) / p }),
		dropout("dropout as in evaluation, scaled by 1-p", func(_, p float64) float64 { return 1 - p }),
	}
	// The noise enters before a node that follows nothing else, and not where it should.
	before := func(name string, is func(n *operator.Node) bool) *hypothesis {
		site := func(v *view) int { // the last such node before the noise
			last := -1
			for i := range v.m.Nodes {
				if isNoise(&v.m.Nodes[i]) {
					return last
				}
				if is(&v.m.Nodes[i]) {
					last = i
				}
			}
			return -1
		}
		return &hypothesis{name: name, verdict: report.FailRNG, at: func(n *operator.Node) bool { return is(n) || isNoise(n) }, whole: true, node: func(v *view, r *run, i int) *tensor.Tensor {
			k := site(v)
			if k < 0 || v.draws == nil {
				return nil
			}
			if isNoise(&v.m.Nodes[i]) {
				return r.in(i, 0).Clone()
			}
			if i != k {
				return nil
			}
			var b noise.Block
			for j := range v.m.Nodes {
				if isNoise(&v.m.Nodes[j]) {
					b = v.m.Nodes[j].Noise
				}
			}
			x := r.in(i, 0)
			if s := v.drawShape(noise.Normal); b.Type == noise.Dropout || [4]int{x.N(), x.C(), x.H(), x.W()} != s {
				return nil
			}
			y := v.noise(b, v.draws, x, i)
			if y == nil {
				return nil
			}
			y, err := v.m.Plain(v.d, i, []*tensor.Tensor{y}, nil)
			if err != nil {
				return nil
			}
			return y
		}}
	}
	return append(l,
		before("noise before the norm", isNorm),
		before("noise before the activation", isAct),
		before("noise before the last convolution block", isWindow),
	)
}
