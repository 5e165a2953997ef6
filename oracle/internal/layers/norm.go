package layers

import (
	"iter"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// normAnswers: with A = gamma/sqrt(V), V = var + eps, a mean off by dm and a
// variance off by dv, a device is within
//
//	|A| (dm + |x-mu| (rho + 3u)) + u (2|mu A| + |beta| + |x A| + |y|)
//
// of y = A (x-mu) + beta, rho = 1/sqrt(1-dv/V) - 1 + 5.5u: a reciprocal root of 2 ulp (CUDA's
// rsqrt; a root and a division have less) and the rounding of V. The last bracket is the
// folded form x a + (beta - mu a), which rounds most. In float32 sums of N
// numbers in any order, g = g_N(u) and kappa^2 = 1 + mu^2/var,
//
//	dm <= g mean|x|
//	dv <= 6 g kappa^2 var           one pass, legal while kappa <= mostOnePass
//	dv <= (6 g kappa + g^2 kappa^2) var   Welford's, or two passes
//
// (T. Chan, G. Golub, R. LeVeque, "Algorithms for computing the sample
// variance", Am. Stat. 37, 1983). A sum of N numbers one after another has the
// deviation roundingSD u sqrt(N mu^2/3 + var/2) in its mean, and a variance so
// formed a relative one of roundingSD u sqrt(N/3), times kappa or kappa^2:
// trees have less.
//
// An input that is known to within b only moves the statistics too. To first
// order, with h = (x-mu)/sqrt(V),
//
//	|dy| <= |A| (b + mean b + |h| mean(|h| b)),
//
// and the variances of independent errors add up as
// A^2 (sd^2 + (1+h^2) mean(sd^2)/N). The second order is below the first while
// b/sqrt(V) < 2^-6; beyond that nothing is known.
func (g *layerGate) normAnswers(i int, in layerValue, got *tensor.Tensor) iter.Seq[*answer] {
	n := &g.m.Nodes[i]
	return func(yield func(*answer) bool) {
		x := in.Tensor
		exact, err := g.m.Plain(&emulate.Device{}, i, []*tensor.Tensor{x}, nil)
		if err != nil {
			panic("oracle: " + err.Error()) // a norm in float64 takes every input
		}
		bound, sd := make([]float64, len(x.Data)), make([]float64, len(x.Data))
		hw := x.H() * x.W()
		size := hw // of a group of common statistics
		if n.Norm != "batch" {
			size *= x.C() / n.Groups
		}
		for at := 0; at < len(x.Data); at += size {
			s := g.statistics(n, x, at, size, in)
			for k := at; k < at+size; k++ {
				c := k / hw % x.C()
				a, d := float64(math.Abs(n.Weight.Data[c])*s.root), math.Abs(x.Data[k]-s.mean)
				ends := [4]float64{float64(2 * math.Abs(s.mean) * a), math.Abs(n.Bias.Data[c]),
					float64(math.Abs(x.Data[k]) * a), math.Abs(exact.Data[k])}
				moved := float64(d*(s.rho+3*g.u)) + s.dm
				bound[k] = float64(a*moved) + float64(g.u*(ends[0]+ends[1]+ends[2]+ends[3])) + tiny
				squares := 0.0
				for _, v := range ends {
					squares += float64(v * v)
				}
				shared := measure.RootSum(a*s.sdMean, a*d*s.sdRoot)
				sd[k] = measure.RootSum(shared, roundingSD*g.u*math.Sqrt(squares+float64(2*a*a*d*d)))
				if in.bound != nil {
					h := d * s.root
					bound[k] += float64(a * (in.bound[k] + s.meanB + float64(h*s.meanHB)))
					sd[k] = measure.RootSum(sd[k], a*measure.RootSum(in.sd[k], math.Sqrt((1+float64(h*h))*s.meanSD2/float64(size))))
				}
			}
		}
		if !yield(around(in.how, exact.Data, bound, sd)) {
			return
		}
		if g.plain[i] && in.bound == nil && g.of[i] == g.mode.Precision && !yield(g.plainAnswer(n, x, got)) {
			return
		}
		if got != nil && g.splits(i, in) {
			yield(g.splitAnswer(i, in))
		}
	}
}

// mostOnePass is the kappa up to which a one-pass variance is a legal one:
// there it is as good as 6e-5.
const mostOnePass = 10

// normStatistics are those of one group, how far a device's may be from them,
// and means of what the input is uncertain by.
type normStatistics struct {
	mean, root             float64 // mu and 1/sqrt(V)
	dm, rho                float64 // bounds: of the mean, and relative of the root
	sdMean, sdRoot         float64 // standard deviations of the same
	meanB, meanHB, meanSD2 float64
}

func (g *layerGate) statistics(n *operator.Node, x *tensor.Tensor, at, size int, in layerValue) normStatistics {
	var s normStatistics
	xs, N := x.Data[at:at+size], float64(size)
	if n.Norm == "batch" {
		c := at / size % x.C()
		v := n.Variance.Data[c]
		s.mean, s.root = n.Mean.Data[c], 1/math.Sqrt(v+n.Eps)
		s.rho, s.sdRoot = 5.5*g.u, roundingSD*2*g.u
		return s
	}
	abs, variance := 0.0, 0.0
	for _, v := range xs {
		s.mean += v
		abs += math.Abs(v)
	}
	s.mean /= N
	abs /= N
	for _, v := range xs {
		d := v - s.mean
		variance += float64(d * d)
	}
	variance /= N
	V := variance + n.Eps
	s.root = 1 / math.Sqrt(V)
	v := g.u
	if g.mode.Precision == fp16.Float64 {
		v *= 2 // the evaluation here is float64 too
	}
	h := float64((N + 4) * v)
	gamma := h / (1 - h)
	s.dm = gamma * abs
	// kappa^2 var and kappa var, without dividing by a variance that may be 0.
	k2v := variance + float64(s.mean*s.mean)
	kv := math.Sqrt(variance * k2v)
	step := roundingSD * v * math.Sqrt(N/3+2)
	dv, sdV := float64(6*gamma*kv)+float64(s.dm*s.dm), step*kv
	if k2v <= mostOnePass*mostOnePass*variance {
		dv = 6 * gamma * k2v
	}
	// Numbers with a pattern, such as equal ones, have errors that do not
	// cancel: what sums of these very numbers lose, one after another.
	if v == 0x1p-24 {
		lostMean, lostV, lostOnePass := sequential(xs, s.mean, variance)
		s.sdMean, sdV = lostMean, max(sdV, lostV)
		if k2v <= mostOnePass*mostOnePass*variance {
			sdV = max(sdV, lostOnePass)
		}
	}
	// Beyond mostOnePass one pass is allowed no more than it has there.
	sdV = max(sdV, step*min(2*k2v-variance, 2*mostOnePass*kv))
	s.rho = math.Inf(1)
	if dv < V {
		s.rho = 1/math.Sqrt(1-dv/V) - 1 + float64(5.5*v)
	}
	s.sdMean = max(s.sdMean, roundingSD*v*math.Sqrt(float64((N/3+1)*s.mean*s.mean)+variance/2))
	s.sdRoot = sdV/(2*V) + float64(roundingSD*2*v)
	if in.bound != nil {
		most := 0.0
		for k := range size {
			b, h := in.bound[at+k], math.Abs(xs[k]-s.mean)*s.root
			most = max(most, b)
			s.meanB += b / N
			s.meanHB += h * b / N
			s.meanSD2 += in.sd[at+k] * in.sd[at+k] / N
		}
		if !(most*s.root < 0x1p-6) {
			s.dm = math.Inf(1)
		}
		// The second order.
		s.meanB += float64(2 * most * most * s.root)
	}
	return s
}

// sequential returns how far float32 sums of xs, one number after another, end
// from their mean and variance: of the mean, and of the variance in two passes
// and in one.
func sequential(xs []float64, mean, variance float64) (dMean, dVariance, dOnePass float64) {
	N := float64(len(xs))
	sum, squares := 0.0, 0.0
	for _, v := range xs {
		sum = emulate.Single(sum + v)
		squares = emulate.Single(squares + emulate.Single(v*v))
	}
	m := emulate.Single(sum / N)
	deviations := 0.0
	for _, v := range xs {
		d := emulate.Single(v - m)
		deviations = emulate.Single(deviations + emulate.Single(d*d))
	}
	onePass := max(0, emulate.Single(emulate.Single(squares/N)-emulate.Single(m*m)))
	return math.Abs(m - mean), math.Abs(deviations/N - variance), math.Abs(onePass - variance)
}
