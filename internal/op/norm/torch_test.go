package norm_test

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// The files of testdata/ops hold what PyTorch returns. Our float32 output must
// be the exact value rounded once, bit for bit; PyTorch's is compared by a
// bound on its own error, which is derived here from its algorithm. h is the
// unit roundoff of its arithmetic: 2^-24 for out_f32, 2^-53 for out_f64.
//
// All of its normalisations end in the same way: from a mean m and an inverse
// deviation s it forms a = s gamma, b = beta - m a and y = x a + b, with or
// without fusing, or ((x-m) s) gamma + beta, which rounds less. Let m be off
// by at most e and s by the factor 1+rho. Then
//
//	a = A (1+rho)(1+h)           with A = gamma/sqrt(V)
//	y = a (x-m) + beta           and the roundings of m a, b, x a and y:
//	    h (|m a| + |b| + |x a| + |y|), where |b| <= |beta| + |m a|
//
// so that, to first order in h,
//
//	|y - exact| <= |A| ((rho+h)|x-mu| + e) + h (2|mu A| + |beta| + |x A| + |y|).
//
// What is of higher order is covered by a factor 1.01, which holds while rho
// and e|A| are below 2^-8: the test insists.

// A torchError is the error of a mean, and the relative error of 1/sqrt(V).
type torchError struct{ e, rho float64 }

// stats is what the estimates of torchError need to know about a group.
type stats struct {
	n                       float64
	mean, variance, eps     float64
	meanAbs, maxAbs, spread float64 // mean |x|, max |x|, max x - min x
}

func statsOf(xs []float64, eps float64) stats {
	judge := bigref.GroupNorm(xs, 0)
	s := stats{n: float64(len(xs)), eps: eps}
	s.mean, _ = judge.Mean().Float64()
	s.variance, _ = judge.V().Float64()
	lo, hi := xs[0], xs[0]
	for _, x := range xs {
		s.meanAbs += math.Abs(x) / s.n
		s.maxAbs = max(s.maxAbs, math.Abs(x))
		lo, hi = min(lo, x), max(hi, x)
	}
	s.spread = hi - lo
	return s
}

// rhoOf returns the relative error of 1/sqrt(v+eps) for a v off by dv, plus
// that of its own roundings.
func (s stats) rhoOf(dv, roundings float64) float64 {
	return 1/math.Sqrt(1-dv/(s.variance+s.eps)) - 1 + roundings
}

// twoPass: the sum in float64, n roundings of partial sums below n meanAbs,
// and one to the type; then d = x - m and d*d rounded to the type (3 h with
// the two of d), summed in float64, rounded, divided. The sum of (x-m)^2
// exceeds that of (x-mu)^2 by n (m-mu)^2. The inverse is formed in float64 and
// rounded.
func (s stats) twoPass(h float64) torchError {
	const u = 0x1p-53
	e := s.n*u*s.meanAbs + h*math.Abs(s.mean)
	dv := e*e + (5*h+s.n*u)*(s.variance+e*e)
	return torchError{e, s.rhoOf(dv, h+4*u)}
}

// welford: chunks of 16 vectors by Welford's update, chunks merged as a tree,
// then the lanes and the tail one after another. A number passes k updates or
// merges at most. Each of them adds to the mean an increment of three
// roundings below the spread and rounds the sum once:
//
//	e <= k h (maxAbs + 3 spread).
//
// The sum of squares of such algorithms is off by a relative k h kappa with
// kappa = sqrt(1 + mu^2/var), times a small constant, for which 6, the number
// of roundings of an update, is taken (T. Chan, G. Golub, R. LeVeque,
// "Algorithms for computing the sample variance", Am. Stat. 37, 1983, table 1).
// The inverse is formed in the type in older versions: eps, the sum, the root
// and the quotient round.
func (s stats) welford(h float64) torchError {
	const lanes = 8
	k := 16 + math.Ceil(math.Log2(s.n/(16*lanes)+1)) + 2 + lanes + lanes
	dv := 6 * k * h * math.Sqrt(s.variance*(s.variance+s.mean*s.mean))
	return torchError{k * h * (s.maxAbs + 3*s.spread), s.rhoOf(dv, 3*h)}
}

// running: mean and variance are given; eps, the sum, the root and the
// quotient round.
func running(h float64) torchError { return torchError{0, 3 * h} }

// distance returns the bound for one element.
func (e torchError) distance(t *testing.T, h, x, mean, v, gamma, beta, y float64) float64 {
	t.Helper()
	a := math.Abs(gamma) / math.Sqrt(v)
	if !(e.rho < 0x1p-8 && e.e*a < 0x1p-8) {
		t.Fatalf("the bound does not hold: rho %g, e %g", e.rho, e.e)
	}
	sum := a*((e.rho+h)*math.Abs(x-mean)+e.e) +
		h*(2*math.Abs(mean)*a+math.Abs(beta)+math.Abs(x)*a+math.Abs(y))
	return 1.01 * sum
}

var torchCases = []struct {
	file  string
	error func(s stats, h float64) torchError
}{
	{"instance_norm_plain", stats.twoPass},
	{"instance_norm_odd", stats.twoPass},
	{"instance_norm_hard", stats.twoPass},
	{"group_norm", stats.welford},
	{"layer_norm_as_group1", stats.welford},
	{"batch_norm_eval", func(_ stats, h float64) torchError { return running(h) }},
}

func TestTorch(t *testing.T) {
	for _, c := range torchCases {
		t.Run(c.file, func(t *testing.T) {
			file, err := safetensors.Open(filepath.Join("..", "..", "..", "testdata", "ops", c.file+".safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			load := func(name string) []float64 {
				raw, err := file.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				v, err := raw.Float64s()
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			eps, err := strconv.ParseFloat(file.Metadata["eps"], 64)
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := file.Tensor("x")
			sh := raw.Shape
			src := tensor.Of(fp16.Float32, load("x"), sh[0], sh[1], sh[2], sh[3])
			gamma, beta := load("weight"), load("bias")

			// groups is 0 for running statistics.
			groups := src.C()
			var mean, variance []float64
			switch file.Metadata["op"] {
			case "group_norm":
				if groups, err = strconv.Atoi(file.Metadata["groups"]); err != nil {
					t.Fatal(err)
				}
			case "batch_norm":
				mean, variance, groups = load("running_mean"), load("running_var"), 0
			}
			run := func(f fp16.Format) *tensor.Tensor {
				dst := tensor.New(f, src.N(), src.C(), src.H(), src.W())
				if groups == 0 {
					norm.Batch(dst, src, mean, variance, gamma, beta, eps)
				} else {
					norm.Group(dst, src, groups, gamma, beta, eps)
				}
				return dst
			}
			got32, got64 := run(fp16.Float32), run(fp16.Float64)
			out32, out64 := load("out_f32"), load("out_f64")

			m := src.H() * src.W()
			if groups > 0 {
				m *= src.C() / groups
			}
			var worst32, worst64 float64
			for g := 0; g*m < len(src.Data); g++ {
				var judge bigref.Norm
				xs := src.Data[g*m : (g+1)*m]
				if groups > 0 {
					judge = bigref.GroupNorm(xs, eps)
				} else {
					judge = bigref.RunningNorm(mean[g%src.C()], variance[g%src.C()], eps)
				}
				mu, _ := judge.Mean().Float64()
				v, _ := judge.V().Float64()
				s := statsOf(xs, eps)
				for i := g * m; i < (g+1)*m; i++ {
					ch := i / (src.H() * src.W()) % src.C()
					checkElement(t, got32, src, judge, i, gamma[ch], beta[ch])

					y, x := got32.Data[i], src.Data[i]
					const h, u = 0x1p-24, 0x1p-53
					bound := c.error(s, h).distance(t, h, x, mu, v, gamma[ch], beta[ch], y) + h*math.Abs(y)
					if d := math.Abs(out32[i] - y); !(d <= bound) {
						t.Fatalf("element %d: float32 %g, PyTorch %g: %g apart, bound %g", i, y, out32[i], d, bound)
					} else if bound > 0 {
						worst32 = max(worst32, d/bound)
					}
					// In float64 both sides have an error. Ours is of the two-pass
					// kind, or of given statistics.
					ours := running(u)
					if groups > 0 {
						ours = s.twoPass(u)
					}
					y64 := got64.Data[i]
					bound = c.error(s, u).distance(t, u, x, mu, v, gamma[ch], beta[ch], y64) +
						ours.distance(t, u, x, mu, v, gamma[ch], beta[ch], y64)
					if d := math.Abs(out64[i] - y64); !(d <= bound) {
						t.Fatalf("element %d: float64 %g, PyTorch %g: %g apart, bound %g", i, y64, out64[i], d, bound)
					} else if bound > 0 {
						worst64 = max(worst64, d/bound)
					}
				}
			}
			t.Logf("largest distance from PyTorch: %.3f of the float32 bound, %.3f of the float64 bound", worst32, worst64)
		})
	}
}
