package fault

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// normFaults are those of norms. The order is that of the library.
func normFaults() []*trial.Fault {
	return slices.Concat(momentFaults(), groupFaults(), tailFaults(), otherStatistics(), affineFaults(),
		narrowNormFaults())
}

// inverseFault is a norm with another 1/sqrt(var + eps).
func inverseFault(row *table.Row, f func(v, eps float64) float64) *trial.Fault {
	return normFault(row, func(s *statistics, _ *tensor.Tensor, _ *operator.Node) bool {
		s.inverse = f
		return true
	})
}

// momentFault is a norm with another mean or variance of the numbers that it has at hand.
func momentFault(row *table.Row, f func(xs []float64, m, v float64) (mean, variance float64)) *trial.Fault {
	return normFault(row, func(s *statistics, _ *tensor.Tensor, _ *operator.Node) bool {
		s.moments = f
		return !s.given
	})
}

// momentFaults are norms with another mean, variance or eps, of the right numbers.
func momentFaults() (l []*trial.Fault) {
	l = append(l,
		normFault(Named("norm.unbiased-variance"), func(s *statistics, x *tensor.Tensor, n *operator.Node) bool {
			s.moments = func(xs []float64, m, v float64) (float64, float64) {
				return m, v * float64(len(xs)) / float64(len(xs)-1)
			}
			return !s.given && x.C()/s.groups*x.H()*x.W() > 1
		}))
	l = append(l,
		inverseFault(Named("norm.eps-outside-the-square-root"),
			func(v, eps float64) float64 { return 1 / (math.Sqrt(v) + eps) }),
		inverseFault(Named("norm.eps-missing"), func(v, _ float64) float64 { return 1 / math.Sqrt(v) }),
	)
	for _, to := range []float64{1e-4, 1e-3, 1e-6, 1e-5, 1e-2, 1e-8, 1e-12} {
		l = append(l, inverseFault(Named("norm.eps", to), func(v, _ float64) float64 { return 1 / math.Sqrt(v+to) }))
	}
	l = append(l,
		inverseFault(Named("norm.divided-by-the-variance-not-its-root"),
			func(v, eps float64) float64 { return 1 / (v + eps) }),
		inverseFault(Named("norm.not-divided-by-the-standard-deviation"), func(_, _ float64) float64 { return 1 }),
	)
	l = append(l, momentFault(Named("norm.mean-not-subtracted"),
		func(_ []float64, _, v float64) (float64, float64) { return 0, v }))
	return l
}

// groupFaults are norms with the statistics of other groups of numbers.
func groupFaults() (l []*trial.Fault) {
	grouped := func(row *table.Row, groups func(c int) int) *trial.Fault {
		return normFault(row, func(s *statistics, x *tensor.Tensor, _ *operator.Node) bool {
			g := groups(x.C())
			if g < 1 || x.C()%g != 0 || !s.given && s.groups == g {
				return false
			}
			s.groups, s.given = g, false
			return true
		})
	}
	l = append(l,
		grouped(Named("norm.instance-statistics"), func(c int) int { return c }),
		grouped(Named("norm.layer-statistics"), func(int) int { return 1 }),
		grouped(Named("norm.group-statistics-of-32-groups"), func(c int) int { return min(32, c) }))
	for _, g := range []int{2, 4, 8, 16} {
		l = append(l, grouped(Named("norm.group-statistics-of-groups", g), func(int) int { return g }))
		l = append(l, grouped(Named("norm.group-statistics-of-channels", g), func(c int) int { return c / g }))
	}
	l = append(l,
		normFault(Named("norm.batch-statistics"), func(s *statistics, x *tensor.Tensor, _ *operator.Node) bool {
			s.overBatch, s.given, s.groups = true, false, x.C()
			return true
		}),
		normFault(Named("norm.statistics-over-all-samples-together"),
			func(s *statistics, x *tensor.Tensor, _ *operator.Node) bool {
				s.overBatch = true
				return !s.given && s.groups < x.C() && x.N() > 1
			}),
		momentFault(Named("norm.running-statistics-of-a-fresh-norm-mean-0-variance-1"),
			func([]float64, float64, float64) (float64, float64) { return 0, 1 }))
	return l
}

// tailFaults are norms whose statistics count lanes beyond the end of a block, which hold zeros.
func tailFaults() (l []*trial.Fault) {
	for k, block := range []int{128, 256, 512, 1024, 0, 128} {
		full := k == 5
		row := Named("norm.tails-of-blocks", block)
		if full {
			row = Named("norm.block-of-zeros")
		}
		if block == 0 {
			row = Named("norm.tails-to-a-power-of-2")
		}
		l = append(l, normFault(row, func(s *statistics, x *tensor.Tensor, _ *operator.Node) bool {
			n := x.C() / max(s.groups, 1) * x.H() * x.W()
			b := block
			if b == 0 {
				for b = 1; b < n; b *= 2 {
				}
			}
			tail := float64((b - n%b) % b)
			if tail == 0 && full {
				tail = float64(b)
			}
			s.moments = func(_ []float64, m, v float64) (float64, float64) { return m, v + tail*m*m/float64(n) }
			return !s.given && tail > 0
		}))
	}
	return l
}

// paramFault is a norm with another gamma and beta.
func paramFault(row *table.Row, of func(p *operator.Param) *operator.Param) *trial.Fault {
	return &trial.Fault{Row: row, At: emulate.IsNorm, Node: func(v *trial.View, i int) *tensor.Tensor {
		n := v.Machine.Nodes[i]
		n.Weight, n.Bias = of(n.Weight), of(n.Bias)
		return normalize(v.In(i, 0), &n, claimed(&n))
	}}
}

// affineFaults are norms with another gamma and beta, or without the norm itself.
func affineFaults() (l []*trial.Fault) {
	l = append(l,
		normFault(Named("norm.without-gamma"),
			func(s *statistics, _ *tensor.Tensor, _ *operator.Node) bool { s.gamma = 0; return true }),
		normFault(Named("norm.without-beta"),
			func(s *statistics, _ *tensor.Tensor, _ *operator.Node) bool { s.beta = 0; return true }),
		normFault(Named("norm.without-gamma-and-beta"), func(s *statistics, _ *tensor.Tensor, _ *operator.Node) bool {
			s.gamma, s.beta = 0, 0
			return true
		}),
		normFault(Named("norm.gamma-applied-twice"),
			func(s *statistics, _ *tensor.Tensor, _ *operator.Node) bool { s.squared = true; return true }),
		normFault(Named("norm.beta-applied-twice"),
			func(s *statistics, _ *tensor.Tensor, _ *operator.Node) bool { s.beta = 2; return true }),
		&trial.Fault{Row: Named("norm.missing"), At: emulate.IsNorm,
			Node: func(v *trial.View, i int) *tensor.Tensor { return v.In(i, 0).Clone() }},
	)
	return append(l,
		paramFault(Named("norm.gamma-and-beta-of-the-next-channel"), func(p *operator.Param) *operator.Param {
			return reordered(p, func(c, n int) int { return (c + 1) % n })
		}),
		paramFault(Named("norm.gamma-and-beta-of-the-channel-before"), func(p *operator.Param) *operator.Param {
			return reordered(p, func(c, n int) int { return (c + n - 1) % n })
		}))
}

// narrowNormFaults are norms with something in a format that is too narrow.
func narrowNormFaults() (l []*trial.Fault) {
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		l = append(l, momentFault(Named("norm.statistics-in", f), func(_ []float64, m, v float64) (float64, float64) {
			return f.Round(m), f.Round(v)
		}), normFault(Named("norm.mean-and-1-sqrt-var-eps-in", f),
			func(s *statistics, _ *tensor.Tensor, _ *operator.Node) bool {
				s.moments = func(_ []float64, m, v float64) (float64, float64) { return f.Round(m), v }
				s.inverse = func(v, eps float64) float64 { return f.Round(1 / math.Sqrt(v+eps)) }
				return !s.given
			}))
		l = append(l, inverseFault(Named("norm.1-sqrt-var-eps-in", f),
			func(v, eps float64) float64 { return f.Round(1 / math.Sqrt(f.Round(v+eps))) }))
	}
	for _, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
		l = append(l, momentFault(Named("norm.one-pass-variance-in", f),
			func(xs []float64, _, _ float64) (float64, float64) { return onePass(xs, f) }))
		if f == fp16.Float32 {
			continue
		}
		l = append(l, momentFault(Named("norm.one-pass-variance-of-squares-in", f),
			func(xs []float64, m, _ float64) (float64, float64) {
				m, squares := f.Round(m), 0.0
				for _, x := range xs {
					squares += f.Round(x * x)
				}
				return m, max(0, f.Round(f.Round(squares/float64(len(xs)))-f.Round(m*m)))
			}), momentFault(Named("norm.variance-of-differences-in", f), func(xs []float64, m, _ float64) (float64, float64) {
			squares := 0.0
			for _, x := range xs {
				d := f.Round(x - m)
				squares += float64(d * d)
			}
			return m, squares / float64(len(xs))
		}), momentFault(Named("norm.statistics-added-up-in", f), func(xs []float64, _, _ float64) (float64, float64) {
			n := float64(len(xs))
			m := tree(xs, f, func(v float64) float64 { return v }) / n
			return m, tree(xs, f, func(v float64) float64 { return (v - m) * (v - m) }) / n
		}), inverseFault(Named("norm.eps-lost-in-a-sum-in", f), func(v, eps float64) float64 {
			return 1 / math.Sqrt(f.Round(f.Round(v)+f.Round(eps)))
		}), paramFault(Named("norm.gamma-and-beta-in", f),
			func(p *operator.Param) *operator.Param { return inFormat(p, f) }), centred(f))
	}
	return l
}

// otherStatistics are norms with statistics of the wrong numbers.
func otherStatistics() []*trial.Fault {
	one := func(row *table.Row, f func(v *trial.View, n *operator.Node, x *tensor.Tensor) *tensor.Tensor) *trial.Fault {
		return &trial.Fault{Row: row, At: emulate.IsNorm, Node: func(v *trial.View, i int) *tensor.Tensor {
			return f(v, &v.Machine.Nodes[i], v.In(i, 0))
		}}
	}
	// by takes statistics from a function of sample and channel.
	by := func(x *tensor.Tensor, n *operator.Node, of func(k, c int) (m, v float64)) *tensor.Tensor {
		y := tensor.Like(x)
		for k := range x.N() * x.C() {
			m, v := of(k/x.C(), k%x.C())
			s := 1 / math.Sqrt(v+n.Eps)
			to := y.Plane(k/x.C(), k%x.C())
			for j, u := range x.Plane(k/x.C(), k%x.C()) {
				to[j] = float64((u-m)*s*n.Weight.Data[k%x.C()]) + n.Bias.Data[k%x.C()]
			}
		}
		return y
	}
	groups := func(x *tensor.Tensor, n *operator.Node, k, c int) []float64 {
		hw, per := x.H()*x.W(), x.C()/n.Groups
		first := k*x.C() + c/per*per
		return x.Data[first*hw : (first+per)*hw]
	}
	rowsOf := func(row *table.Row, keep func(h int) bool) *trial.Fault {
		return one(row, func(_ *trial.View, n *operator.Node, x *tensor.Tensor) *tensor.Tensor {
			if n.Norm == "batch" || x.H() < 2 {
				return nil
			}
			return by(x, n, func(k, c int) (float64, float64) {
				var some []float64
				all := groups(x, n, k, c)
				for r := 0; r*x.W() < len(all); r++ {
					if keep(r % x.H()) {
						some = append(some, all[r*x.W():(r+1)*x.W()]...)
					}
				}
				return measure.Moments(some)
			})
		})
	}
	return []*trial.Fault{
		one(Named("norm.statistics-of-the-sample-before"),
			func(_ *trial.View, n *operator.Node, x *tensor.Tensor) *tensor.Tensor {
				if n.Norm == "batch" || x.N() < 2 {
					return nil
				}
				return by(x, n, func(k, c int) (float64, float64) { return measure.Moments(groups(x, n, (k+x.N()-1)%x.N(), c)) })
			}),
		one(Named("norm.statistics-of-the-channel-before"),
			func(_ *trial.View, n *operator.Node, x *tensor.Tensor) *tensor.Tensor {
				if n.Norm == "batch" || x.C() < 2 {
					return nil
				}
				return by(x, n, func(k, c int) (float64, float64) { return measure.Moments(groups(x, n, k, (c+x.C()-1)%x.C())) })
			}),
		one(Named("norm.statistics-over-the-channels-of-each-pixel"),
			func(_ *trial.View, n *operator.Node, x *tensor.Tensor) *tensor.Tensor {
				y, hw := tensor.Like(x), x.H()*x.W()
				for p := range x.N() * hw {
					at := p/hw*x.C()*hw + p%hw
					column := make([]float64, x.C())
					for c := range column {
						column[c] = x.Data[at+c*hw]
					}
					m, v := measure.Moments(column)
					for c, u := range column {
						y.Data[at+c*hw] = float64((u-m)/math.Sqrt(v+n.Eps)*n.Weight.Data[c]) + n.Bias.Data[c]
					}
				}
				return y
			}),
		rowsOf(Named("norm.statistics-of-every-second-row"), func(h int) bool { return h%2 == 0 }),
		one(Named("norm.sums-divided-by-a-count-rounded-up-to-128"),
			func(_ *trial.View, n *operator.Node, x *tensor.Tensor) *tensor.Tensor {
				if n.Norm == "batch" {
					return nil
				}
				return by(x, n, func(k, c int) (float64, float64) {
					g := groups(x, n, k, c)
					m, v := measure.Moments(g)
					q := float64(len(g)) / float64((len(g)/128+1)*128)
					return m * q, v * q
				})
			}),
	}
}
