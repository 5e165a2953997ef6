package grad

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// norms are the rules of normalisations.
func norms() map[string]rule {
	return map[string]rule{
		"layer_norm": func(s *step) {
			o := s.op.(graph.LayerNorm)
			s.normalised(s.x, s.d, s.last(o.Shape), o.Eps, s.shape(s.x))
		},
		"rms_norm":   rms,
		"group_norm": func(s *step) { o := s.op.(graph.GroupNorm); s.grouped(o.Groups, o.Eps) },
		"instance_norm": func(s *step) {
			s.grouped(s.shape(s.x)[1], s.op.(graph.InstanceNorm).Eps)
		},
		"batch_norm": batch,
	}
}

// last returns the last axes of the input, as many as a shape has, at least one.
func (s *step) last(shape graph.Ints) []int {
	var axes []int
	rank := len(s.shape(s.x))
	for a := rank - max(len(shape), 1); a < rank; a++ {
		axes = append(axes, a)
	}
	return axes
}

// channels sees a parameter [C] as one of [1,C,1,...], for an input [N,C,...].
func (s *step) channels(p int) int {
	shape := slices.Repeat([]int{1}, len(s.shape(s.x)))
	shape[1] = s.shape(s.x)[1]
	return s.reshape(p, shape)
}

// grouped is the rule of norms of groups of channels.
func (s *step) grouped(groups int, eps float64) {
	x := s.shape(s.x)
	if elements(x) == 0 {
		s.give(0, s.zeros(s.x))
		return
	}
	s.normalised(s.x, s.d, []int{2}, eps, []int{x[0], groups, elements(x[1:]) / groups})
}

// normalised is the rule of n = (x - mean)/sqrt(var + eps) over axes of x in a shape, times a weight
// and plus a bias: with d' = d weight, (d' - mean d' - n mean(d' n)) / sqrt(var + eps), d n and d.
func (s *step) normalised(x, d int, axes []int, eps float64, in []int) {
	own := s.shape(x)
	x = s.reshape(x, in)
	mean, one := s.statistics(x, axes, eps)
	n := s.named("normalized", s.mul(s.sub(x, mean), one))
	if s.wants(1) {
		s.give(1, s.byParameter(s.named("dy_normalized", s.mul(d, s.reshape(n, own)))))
	}
	if s.wants(2) {
		s.give(2, s.byParameter(d))
	}
	if !s.wants(0) {
		return
	}
	if len(s.in) > 1 {
		d = s.named("dy_weight", s.mul(d, s.parameter(s.in[1])))
	}
	d = s.reshape(d, in)
	along := s.named("projection", s.mul(n, s.named("mean_dy_normalized", s.mean(s.mul(d, n), axes))))
	inner := s.named("dy_projected", s.sub(s.named("dy_centred", s.sub(d, s.named("mean_dy", s.mean(d, axes)))), along))
	s.give(0, s.reshape(s.named("dx", s.mul(inner, one)), own))
}

// statistics are the mean of x along axes and 1/sqrt(var + eps), as saved or computed again.
func (s *step) statistics(x int, axes []int, eps float64) (mean, rstd int) {
	rows := slices.Clone(s.shape(x))
	for _, a := range axes {
		rows[a] = 1
	}
	rstd = s.kept("rstd", rows, func() int {
		v := s.named("variance", s.apply(graph.Var{Axes: axes, Correction: new(int), Keep: true}, x))
		return s.rootOf(v, eps)
	})
	return s.kept("mean", rows, func() int { return s.mean(x, axes) }), rstd
}

func (s *step) rootOf(v int, eps float64) int {
	return s.inverseRoot(s.named("variance_eps", s.with(pointwise.Add, v, eps)))
}

// inverseRoot is 1/sqrt(v) within a kernel, of which it is known that its results are stored or not: the operation
// rsqrt by itself rounds the roots of some numbers and not of others.
func (s *step) inverseRoot(v int) int {
	if s.saved == nil { // of [Of], which rounds once
		return s.f("rsqrt", v)
	}
	return s.f("reciprocal", s.named("deviation", s.f("sqrt", v)))
}

// storedStatistics are those of PyTorch on a CPU, which of half numbers stores the sum of squares before it divides it.
func (s *step) storedStatistics(x int, axes []int, eps float64) (mean, rstd int) {
	rows, n := slices.Clone(s.shape(x)), s.sizeOf(x, axes)
	for _, a := range axes {
		rows[a] = 1
	}
	rstd = s.kept("rstd", rows, func() int {
		rest := max(n-1, 0) // so that the sum is divided by 1
		sum := s.named("variance_sum", s.apply(graph.Var{Axes: axes, Correction: &rest, Keep: true}, x))
		return s.rootOf(s.named("variance", s.with(pointwise.Div, sum, float64(n))), eps)
	})
	return s.kept("mean", rows, func() int { return s.mean(x, axes) }), rstd
}

// parameter sees a weight so that it spreads over the input: one for each channel, or for each
// place of the last axes.
func (s *step) parameter(p int) int {
	if _, last := s.op.(graph.LayerNorm); last {
		return p
	}
	return s.channels(p)
}

// byParameter brings a gradient of the input's shape to one of parameters for each channel.
func (s *step) byParameter(d int) int {
	if _, last := s.op.(graph.LayerNorm); last {
		return d
	}
	return s.apply(graph.Reduction{Of: "sum", Axes: s.besideChannels()}, d)
}

// besideChannels are all axes of the input but that of the channels.
func (s *step) besideChannels() []int { return append([]int{0}, s.spatial(2)...) }

// rms, x r weight with r = 1/sqrt(mean x^2 + eps): with d' = d weight, r (d' - x r^2 mean(d' x)), and d x r.
func rms(s *step) {
	r, d, axes := s.rmsParts()
	if s.wants(0) {
		along := s.named("projection", s.mul(s.mul(s.x, s.f("square", r)), s.named("mean_dy_x", s.mean(s.mul(d, s.x), axes))))
		s.give(0, s.named("dx", s.mul(r, s.named("dy_projected", s.sub(d, along)))))
	}
}

// rmsParts are r, d' and the axes of an rms_norm, the weight's gradient of which it gives.
func (s *step) rmsParts() (r, d int, axes []int) {
	o := s.op.(graph.RMSNorm)
	axes = s.last(o.Shape)
	eps := 0x1p-23
	if s.types[s.x].Format == fp16.Float64 {
		eps = 0x1p-52
	}
	if o.Eps != nil {
		eps = *o.Eps
	}
	rows := slices.Clone(s.shape(s.x))
	for _, a := range axes {
		rows[a] = 1
	}
	r = s.kept("rstd", rows, func() int {
		v := s.named("mean_square", s.mean(s.f("square", s.x), axes))
		return s.inverseRoot(s.named("mean_square_eps", s.with(pointwise.Add, v, eps)))
	})
	if s.wants(1) {
		s.give(1, s.named("dy_normalized", s.mul(s.d, s.named("normalized", s.mul(s.x, r)))))
	}
	if d = s.d; len(s.in) > 1 && s.wants(0) {
		d = s.named("dy_weight", s.mul(d, s.in[1]))
	}
	return r, d, axes
}

// batch is the rule of batch_norm, in training that of a norm over all samples, and with running statistics
// d weight/sqrt(var + eps), d n and d.
func batch(s *step) {
	o := s.op.(graph.BatchNorm)
	n := len(s.in)
	if o.Training {
		s.normalised(s.x, s.d, s.besideChannels(), o.Eps, s.shape(s.x))
		return
	}
	if s.wants(n-1) || s.wants(n-2) {
		s.refuse("no rule by running statistics")
		return
	}
	one := s.channels(s.inverseRoot(s.with(pointwise.Add, s.in[n-1], o.Eps)))
	if n == 3 { // an input and its statistics
		s.give(0, s.mul(s.d, one))
		return
	}
	if s.wants(0) {
		s.give(0, s.mul(s.d, s.mul(one, s.channels(s.in[1]))))
	}
	if s.wants(1) {
		s.give(1, s.byParameter(s.mul(s.d, s.mul(s.sub(s.x, s.channels(s.in[n-2])), one))))
	}
	if s.wants(2) {
		s.give(2, s.byParameter(s.d))
	}
}
