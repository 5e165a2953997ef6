package grad

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// otherRules are further rules of operations, of the same real functions: what kernels compute whose errors are not
// those of the usual rule, because other things cancel or because other things are stored.
var otherRules map[string]map[string]rule

func init() {
	otherRules = map[string]map[string]rule{
		// PyTorch on a CPU: the sums of d x and of d, from which dx is a line in d and x
		"layer_norm": {"from sums": func(s *step) {
			o := s.op.(graph.LayerNorm)
			s.fromSums(s.last(o.Shape), o.Eps, s.shape(s.x), false)
		}},
		"group_norm": {"from sums": func(s *step) {
			o := s.op.(graph.GroupNorm)
			s.fromSums([]int{2}, o.Eps, s.groups(o.Groups), true)
		}},
		"instance_norm": {
			"from sums": func(s *step) {
				s.fromSums([]int{2}, s.op.(graph.InstanceNorm).Eps, s.groups(s.shape(s.x)[1]), true)
			},
			"weight last":            func(s *step) { s.weightLast(s.spatial(2), s.op.(graph.InstanceNorm).Eps) },
			"weight last, exchanged": func(s *step) { s.exchangedNorm(false, s.op.(graph.InstanceNorm).Eps) },
		},
		"batch_norm": {
			"weight last": inTraining(func(s *step, eps float64) {
				s.weightLast(append([]int{0}, s.spatial(2)...), eps)
			}),
			"weight last, exchanged": inTraining(func(s *step, eps float64) { s.exchangedNorm(true, eps) }),
		},
		"rms_norm": {"spread": rmsSpread, "normalized": rmsNormalized},
		// p d - p sum(p d)
		"softmax": {"spread": func(s *step) {
			of := s.named("dy_y", s.mul(s.d, s.y))
			s.give(0, s.named("dx", s.sub(of, s.named("y_row_sum", s.mul(s.y, s.named("row_sum", s.sum(of, s.rowAxes())))))))
		}},
		// the softmax again, and not e^y
		"log_softmax": {"softmax": func(s *step) {
			p := s.named("probabilities", s.apply(graph.Softmax{Axis: s.op.(graph.Softmax).Axis}, s.x))
			s.give(0, s.named("dx",
				s.sub(s.d, s.named("probabilities_sum", s.mul(p, s.named("row_sum", s.sum(s.d, s.rowAxes())))))))
		}},
		// p (1 + x (1 - p))
		"silu": {"product": func(s *step) {
			p := s.f("sigmoid", s.x)
			slope := s.mul(p, s.with(pointwise.Add, s.mul(s.x, s.from(1, pointwise.Sub, p)), 1))
			s.give(0, s.named("dx", s.mul(s.d, s.named("slope", slope))))
		}},
		// d (1 - y) first, and then y
		"sigmoid": {"by steps": func(s *step) {
			s.give(0, s.mul(s.mul(s.d, s.from(1, pointwise.Sub, s.y)), s.y))
		}},
		// 1 - y^2
		"tanh": {"square": func(s *step) {
			s.give(0, s.named("dx", s.mul(s.d, s.named("slope", s.from(1, pointwise.Sub, s.f("square", s.y))))))
		}},
		"scaled_dot_product_attention": {
			"delta":                         func(s *step) { s.attention(true, scaledScores, false) },
			"delta, scaled last":            func(s *step) { s.attention(true, scaledLast, false) },
			"delta, scaled last, by blocks": func(s *step) { s.attention(true, scaledLast, true) },
			"scaled last":                   func(s *step) { s.attention(false, scaledLast, false) },
			autograd:                        func(s *step) { s.attention(false, scaledBoth, false) },
		},
	}
	for op, r := range formulas() {
		if otherRules[op] == nil {
			otherRules[op] = map[string]rule{}
		}
		otherRules[op][autograd] = r
	}
}

// inTraining is a rule of batch_norm where it is another one than the usual.
func inTraining(r func(s *step, eps float64)) rule {
	return func(s *step) {
		if o := s.op.(graph.BatchNorm); o.Training {
			r(s, o.Eps)
			return
		}
		batch(s)
	}
}

// rowAxes are the axis of a softmax; of a number alone there is none.
func (s *step) rowAxes() []int {
	if len(s.shape(s.x)) == 0 {
		return nil
	}
	return s.along(graph.Ints{s.op.(graph.Softmax).Axis})
}

// spatial are the axes of an input from one on.
func (s *step) spatial(from int) (axes []int) {
	for a := from; a < len(s.shape(s.x)); a++ {
		axes = append(axes, a)
	}
	return axes
}

// groups is the shape of an input as groups of channels.
func (s *step) groups(n int) []int {
	x := s.shape(s.x)
	return []int{x[0], n, elements(x[1:]) / max(n, 1)}
}

// fromSums is normalised by the sums of d' x and d' alone: with b = (mean sum(d') - sum(d' x)) r^3/n it is
// r d' + b x - (b mean + r sum(d')/n). The weight's has d (r x - r mean), or of channels (sum(d x) - mean sum(d)) r.
func (s *step) fromSums(axes []int, eps float64, in []int, channels bool) {
	own := s.shape(s.x)
	x := s.reshape(s.x, in)
	mean, r := s.statistics(x, axes, eps)
	n := float64(s.sizeOf(x, axes))
	if s.wants(1) && channels {
		s.give(1, s.weightFromSums(x, mean, r, in))
	} else if s.wants(1) {
		shift := s.neg(s.mul(r, mean))
		s.give(1, s.mul(s.d, s.reshape(s.add(s.mul(x, r), shift), own)))
	}
	if s.wants(2) {
		s.give(2, s.byParameter(s.d))
	}
	if !s.wants(0) {
		return
	}
	d := s.d
	if len(s.in) > 1 {
		d = s.mul(d, s.parameter(s.in[1]))
	}
	d = s.reshape(d, in)
	ds, db := s.named("sum_dy_x", s.sum(s.mul(d, x), axes)), s.named("sum_dy", s.sum(d, axes))
	b := s.named("slope", s.scale(1/n, s.mul(s.sub(s.mul(db, mean), ds), s.mul(r, s.f("square", r)))))
	c := s.named("shift", s.add(s.mul(b, mean), s.scale(1/n, s.mul(db, r))))
	s.give(0, s.reshape(s.named("dx", s.sub(s.named("line", s.add(s.mul(d, r), s.mul(x, b))), c)), own))
}

// weightFromSums is (sum(d x) - mean sum(d)) r of each channel of each sample, summed over the samples.
func (s *step) weightFromSums(x, mean, r int, in []int) int {
	own := s.shape(s.x)
	per := []int{own[0], own[1], elements(own[2:])}
	each := func(v int) int { // of the group of each channel
		return s.reshape(s.expand(v, []int{in[0], in[1], own[1] / max(in[1], 1)}), []int{own[0], own[1], 1})
	}
	d := s.reshape(s.d, per)
	ds, db := s.sum(s.mul(d, s.reshape(s.x, per)), []int{2}), s.sum(d, []int{2})
	all := s.mul(s.sub(ds, s.mul(db, each(mean))), each(r))
	return s.apply(graph.Reduction{Of: "sum", Axes: []int{0, 2}}, all)
}

// weightLast is (d - mean(d) - (x - mean) k) r w with k = sum((x - mean) d) r^2/n, and for w sum((x - mean) d) r.
func (s *step) weightLast(axes []int, eps float64) {
	s.weightLastBy(axes, eps, func(v int) int { return s.sum(v, axes) })
}

// weightLastBy is weightLast with sums of its own.
func (s *step) weightLastBy(axes []int, eps float64, sum func(v int) int) {
	mean, r := s.storedStatistics(s.x, axes, eps)
	centred := s.named("centred", s.sub(s.x, mean))
	dot := s.named("dot", sum(s.named("centred_dy", s.mul(centred, s.d))))
	if s.wants(1) {
		s.give(1, s.apply(graph.Reduction{Of: "sum", Axes: s.besideChannels()}, s.mul(dot, r)))
	}
	total := s.named("sum_dy", sum(s.d))
	if s.wants(2) {
		s.give(2, s.apply(graph.Reduction{Of: "sum", Axes: s.besideChannels()}, total))
	}
	if !s.wants(0) {
		return
	}
	n := float64(s.sizeOf(s.x, axes))
	k := s.scale(1/n, s.mul(dot, s.f("square", r)))
	inner := s.sub(s.sub(s.d, s.mul(centred, k)), s.scale(1/n, total))
	by := r
	if len(s.in) > 1 {
		by = s.mul(r, s.channels(s.in[1]))
	}
	s.give(0, s.mul(inner, by))
}

// rmsSpread is r d' - x r^3 mean(d' x).
func rmsSpread(s *step) {
	r, d, axes := s.rmsParts()
	if s.wants(0) {
		by := s.mul(s.mul(r, s.f("square", r)), s.named("mean_dy_x", s.mean(s.mul(d, s.x), axes)))
		s.give(0, s.named("dx", s.sub(s.named("dy_rstd", s.mul(d, r)), s.named("projection", s.mul(s.x, by)))))
	}
}

// rmsNormalized is r (d' - n mean(d' n)) with n = x r.
func rmsNormalized(s *step) {
	r, d, axes := s.rmsParts()
	if s.wants(0) {
		n := s.named("normalized", s.mul(s.x, r))
		along := s.named("projection", s.mul(n, s.named("mean_dy_normalized", s.mean(s.mul(d, n), axes))))
		s.give(0, s.named("dx", s.mul(r, s.named("dy_projected", s.sub(d, along)))))
	}
}

// attention is the rule of softmax(q k^T scale + mask) v, P being the softmax: P^T d for v, and with dP = d v^T and
// dS = P (dP - delta) the products of dS with k and q, scaled. delta is sum(P dP) of each row, or what that is in exact
// arithmetic, sum(d y), as kernels have it that have no row of P at a time. P is e^(S - lse) if the forward pass has
// saved lse, the logarithm of the sums of e^S, or by this rule computes it. By blocks of queries is how dK and dV are
// added up.
func (s *step) attention(byOutput bool, scaled scaling, byBlocks bool) {
	o := s.op.(graph.Attention)
	q, k, v := s.in[0], s.in[1], s.in[2]
	scale := 1 / math.Sqrt(float64(s.shape(q)[len(s.shape(q))-1]))
	if o.Scale != nil {
		scale = *o.Scale
	}
	k, v = s.heads(k, o), s.heads(v, o)
	after := scale
	if scaled == scaledBoth && scale > 0 {
		after, scale = math.Sqrt(scale), 1
		q, k = s.named("query_scaled", s.scale(after, q)), s.named("key_scaled", s.scale(after, k))
	}
	scores := s.named("scores", s.scale(scale, s.named("products", s.matmul(q, s.swap(k)))))
	scores = s.masked(scores, o)
	p := s.probabilities(scores, byOutput)
	if s.wants(2) {
		s.give(2, s.unheads(s.overQueries("dV", s.operand("P", p), s.d, 1, byBlocks), 2))
	}
	if !s.wants(0) && !s.wants(1) && !s.wants(3) {
		return
	}
	dp := s.named("dP", s.matmul(s.d, s.swap(v)))
	of := s.named("P_dP", s.mul(p, dp))
	if byOutput {
		of = s.named("dO_O", s.mul(s.d, s.y))
	}
	delta := s.named("delta", s.sum(of, s.lastAxis(of)))
	ds := s.named("dS", s.mul(p, s.named("dP_delta", s.sub(dp, delta))))
	if s.wants(3) {
		s.give(3, ds)
	}
	if scaled == scaledScores {
		ds, after = s.named("dS_scaled", s.scale(scale, ds)), 1
	}
	if s.wants(0) {
		s.give(0, s.named("dQ_scaled", s.scale(after, s.named("dQ", s.matmul(ds, k)))))
	}
	if s.wants(1) {
		s.give(1, s.unheads(s.overQueries("dK", ds, q, after, byBlocks), 1))
	}
}

// overQueries is a^T b times a number, summed over all queries, or as PyTorch has it on a CPU: over so many at a time,
// after each of which it stores the sum so far.
func (s *step) overQueries(name string, a, b int, scale float64, byBlocks bool) int {
	axis := len(s.shape(a)) - 2
	n := s.shape(a)[axis]
	block := n
	switch {
	case !byBlocks:
	case n >= 768:
		block = 256
	case n >= 192:
		block = 64
	default:
		block = 32
	}
	product := func(a, b int) int { return s.matmul(s.swap(a), b) }
	if block >= n {
		return s.named(name+"_scaled", s.scale(scale, s.named(name, product(a, b))))
	}
	total := none
	for from := 0; from < n && s.err == nil; from += block {
		to := min(n, from+block)
		part := s.scale(scale, product(s.slice(a, axis, from, to), s.slice(b, axis, from, to)))
		if total != none {
			part = s.add(total, s.named(name+"_part", part))
		}
		total = s.named(name+"_so_far", part)
	}
	return total
}

// operand is a value as a product takes it, which kernels store for that while others read it as it was.
func (s *step) operand(name string, v int) int {
	if s.saved == nil { // of [Of], which stores nothing
		return v
	}
	return s.named(name, s.apply(graph.Cast{Dtype: s.types[v].Format.String()}, v))
}

// scaling is where an attention has its scale: on scores and on dS, on dQ and dK, or its root on queries and on keys,
// as PyTorch has it without a kernel of its own.
type scaling int

const (
	scaledScores scaling = iota
	scaledLast
	scaledBoth
)

func (s *step) lastAxis(v int) []int { return []int{len(s.shape(v)) - 1} }

// probabilities are e^(S - lse), or e^(S - max)/sum.
func (s *step) probabilities(scores int, byLSE bool) int {
	axes := s.lastAxis(scores)
	if !byLSE && !s.has("lse") {
		return s.named("probabilities", s.apply(graph.Softmax{Axis: -1}, scores))
	}
	rows := append([]int(nil), s.shape(scores)...)
	rows[len(rows)-1] = 1
	lse := s.kept("lse", rows, func() int {
		return s.apply(graph.Reduction{Of: "logsumexp", Axes: axes, Keep: true}, scores)
	})
	return s.named("probabilities", s.f("exp", s.sub(scores, lse)))
}

// heads repeats the heads of a key or a value for those of the query that share them.
func (s *step) heads(v int, o graph.Attention) int {
	if n := s.sharing(v, o); n > 1 {
		axis := len(s.shape(v)) - 3
		return s.apply(graph.RepeatInterleave{Repeats: n, Axis: &axis}, v)
	}
	return v
}

// sharing is how many heads of the query share one of a key or a value.
func (s *step) sharing(v int, o graph.Attention) int {
	q, k := s.shape(s.in[0]), s.shape(v)
	if !o.Grouped || len(q) < 3 || k[len(k)-3] == 0 {
		return 1
	}
	return q[len(q)-3] / k[len(k)-3]
}

// unheads adds up the gradients of heads that share one.
func (s *step) unheads(d, input int) int {
	n := s.sharing(s.in[input], s.op.(graph.Attention))
	if n <= 1 || s.err != nil {
		return d
	}
	shape := append([]int(nil), s.shape(d)...)
	axis := len(shape) - 3
	apart := append(append(append([]int(nil), shape[:axis]...), shape[axis]/n, n), shape[axis+1:]...)
	return s.apply(graph.Reduction{Of: "sum", Axes: []int{axis + 1}}, s.reshape(d, apart))
}

// masked hides scores.
func (s *step) masked(scores int, o graph.Attention) int {
	hidden := s.full(math.Inf(-1), graph.Type{Format: s.types[scores].Format})
	switch {
	case o.Causal:
		shape := s.shape(scores)
		return s.where(s.causal(shape[len(shape)-2], shape[len(shape)-1]), scores, hidden)
	case len(s.in) < 4:
		return scores
	case s.whole(s.in[3]):
		return s.where(s.in[3], scores, hidden)
	}
	return s.named("masked", s.add(scores, s.in[3]))
}
