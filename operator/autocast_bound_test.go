package operator

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/pool"
	"github.com/refrun/refrun/internal/op/resize"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// What PyTorch's CPU may return, by rounding-error analysis of arithmetic in
// float32 (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002).
// Exact values are formed in float64, whose own errors are 2^-29 of the bounds
// and lie within their slack of 1 %.
const (
	u32   = 0x1p-24 // float32's unit roundoff
	tiny  = 0x1p-149
	slack = 1.01
)

// answersOf returns the answers to a layer applied to x with those draws, for
// an output of y's shape and format.
func (d device) answersOf(l layer, x, y *tensor.Tensor, draws [][]float64) answers {
	switch l := l.(type) {
	case *conv2d:
		return convAnswers(l, x, y)
	case *normalization:
		return normAnswers(l, x, y)
	case *activation:
		return d.activationAnswers(l.f, x, y)
	case *resample:
		return resampleAnswers(l, x, y)
	case *stochasticBlock:
		return d.noiseAnswers(l, x, y, draws)
	case *identity:
		return exactly(x.Data)
	}
	panic("no analysis of this layer")
}

// convAnswers: autocast casts input, weights and bias to the type that it
// returns. Products of halves are exact in float32; n of them and the bias,
// added in any order, are off by g_(n+1) (sum |x w| + |b|); or by nothing if they
// are integers whose sum of sizes is one of float32. Products of float32 numbers
// round too, which is one factor more.
func convAnswers(l *conv2d, x, y *tensor.Tensor) answers {
	f, s := y.Format, l.weight.Shape
	cast := func(v []float64, g func(float64) float64) []float64 {
		out := make([]float64, len(v))
		for i, w := range v {
			out[i] = g(f.Round(w))
		}
		return out
	}
	run := func(g func(float64) float64) []float64 {
		w := tensor.Of(f, cast(l.weight.Data, g), s[0], s[1], s[2], s[3])
		in := tensor.Of(f, cast(x.Data, g), x.N(), x.C(), x.H(), x.W())
		out := tensor.New(fp16.Float64, y.N(), y.C(), y.H(), y.W())
		var bias []float64
		if l.bias != nil {
			bias = cast(l.bias.Data, g)
		}
		if l.transposed {
			conv.Transposed(out, in, conv.NewTransposedKernel(w, bias), l.geometry)
		} else {
			conv.Forward(out, in, conv.NewKernel(w, bias), l.geometry)
		}
		return out.Data
	}
	sum, size := run(func(v float64) float64 { return v }), run(math.Abs)
	terms := s[1] * s[2] * s[3]
	if l.transposed {
		terms = s[0] * s[2] * s[3]
	}
	k := float64(terms + 1)
	if f == fp16.Float32 {
		k++
	}
	integers := integral(x.Data) && integral(l.weight.Data) && (l.bias == nil || integral(l.bias.Data))
	return within(y, at(sum), func(i int) float64 {
		if integers && size[i] <= 1/u32 {
			return 0
		}
		return slack * k * u32 / (1 - k*u32) * size[i]
	})
}

func integral(v []float64) bool {
	for _, x := range v {
		if x != math.Floor(x) {
			return false
		}
	}
	return true
}

func at(v []float64) func(int) float64 { return func(i int) float64 { return v[i] } }

// normAnswers: with A = gamma/sqrt(V), a mean off by e and an inverse
// deviation off by the factor 1+rho,
//
//	|y - exact| <= |A| ((rho+h)|x-mu| + e) + h (2|mu A| + |beta| + |x A| + |y|)
//
// where h is the unit roundoff: internal/op/norm/torch_test.go derives it, from the order
// of operations that all of PyTorch's norms share.
//
// Half inputs are added in float32. Instance norm adds M numbers in some order:
// e = g_M mean|x| + h |mu|; the squares of x-m, each off by 3 roundings, are
// added and divided in the same way, and exceed those about mu by (m-mu)^2.
// Group norm's means are Welford's, of k steps: as in internal/op/norm/torch_test.go.
// Given statistics (batch) have no error. eps, sum, root and quotient round.
func normAnswers(n *normalization, x, y *tensor.Tensor) answers {
	const h = u32
	hw, perChannel := x.H()*x.W(), n.kind == "instance" || n.kind == "batch"
	m := hw
	if !perChannel {
		m *= x.C() / n.groups
	}
	value, bound := make([]float64, len(x.Data)), make([]float64, len(x.Data))
	for g := 0; g*m < len(x.Data); g++ {
		xs, M := x.Data[g*m:(g+1)*m], float64(m)
		mu, variance, meanAbs, maxAbs := 0.0, 0.0, 0.0, 0.0
		for _, v := range xs {
			mu += v / M
			meanAbs += math.Abs(v) / M
			maxAbs = max(maxAbs, math.Abs(v))
		}
		spread := 0.0
		for _, v := range xs {
			variance += (v - mu) * (v - mu) / M
			spread = max(spread, 2*math.Abs(v-mu))
		}
		var e, dv float64
		switch {
		case n.kind == "batch":
			mu, variance = n.mean.Data[g%x.C()], n.variance.Data[g%x.C()]
		case perChannel:
			e = M*h*meanAbs + h*math.Abs(mu)
			dv = (M+4)*h*(variance+e*e) + e*e
		default:
			const lanes = 8
			k := 16 + math.Ceil(math.Log2(M/(16*lanes)+1)) + 2 + lanes + lanes
			e = k * h * (maxAbs + 3*spread)
			dv = 6 * k * h * math.Sqrt(variance*(variance+mu*mu))
		}
		V := variance + epsilon
		rho := 1/math.Sqrt(1-dv/V) - 1 + 3*h
		for i := g * m; i < (g+1)*m; i++ {
			c := i / hw % x.C()
			gamma, beta := n.weight.Data[c], n.bias.Data[c]
			a, t := math.Abs(gamma)/math.Sqrt(V), gamma/math.Sqrt(V)
			value[i] = t*(x.Data[i]-mu) + beta
			bound[i] = slack * (a*((rho+h)*math.Abs(x.Data[i]-mu)+e) +
				h*(2*math.Abs(mu)*a+math.Abs(beta)+math.Abs(x.Data[i])*a+math.Abs(value[i])))
		}
	}
	return within(y, at(value), at(bound))
}

// activationAnswers: functions of one number, evaluated in float32.
//
//	relu      exact
//	tanh      4 ulp of float32 at most
//	silu      x/(1+e^-x): e^-x is off by 2 roundings, sum and quotient add
//	          theirs. Beyond float32's range it is infinite, and silu -0.
//	gelu      x/2 (1+erf): an error of erf is one of x/2. oneDNN's erf is formula
//	          7.1.26 of Abramowitz and Stegun, good to 1.5e-7, in which numbers
//	          below 1.5 meet in some 20 roundings; 3.7's is another polynomial,
//	          for which the same is assumed. In all the error is below what was
//	          documented; and there are 4 roundings. Subnormal numbers
//	          of float32 become 0.
//	gelu_tanh x/2 (1+t): s = k (x + c x^3) is off by 6 roundings, which reach t
//	          by at most |s| tanh'(s) < 0.45 of that; t and 1+t add 2 each; two
//	          products. 1+t cancels for x < 0, so the error is one of x/2.
func (d device) activationAnswers(f act.Func, x, y *tensor.Tensor) answers {
	exact := tensor.New(fp16.Float64, x.N(), x.C(), x.H(), x.W())
	act.Forward(exact, x, f)
	a := within(y, at(exact.Data), func(i int) float64 {
		v := math.Abs(exact.Data[i])
		switch f {
		case act.ReLU, act.Identity:
			return 0
		case act.GELU:
			return min(d.gelu, (1.5e-7+20*1.5*u32)*math.Abs(x.Data[i])/2) + 4*u32*v
		case act.GELUTanh:
			return slack*(0.45*6+4)*u32*math.Abs(x.Data[i])/2 + 2*u32*v
		case act.Tanh:
			return 8*u32*v + tiny
		}
		return slack*4*u32*v + tiny
	})
	switch f {
	case act.SiLU:
		for i, v := range x.Data {
			if v < -88.722839 { // -ln of the largest float32
				a.hi[i] = 0
			}
		}
		a.far = func(i int) bool { return x.Data[i] < -88.722839 && y.Data[i] == 0 }
	case act.GELU:
		flushed := func(i int) bool { return math.Abs(exact.Data[i]) < 0x1p-126 }
		for i := range x.Data {
			if flushed(i) {
				a.lo[i], a.hi[i] = min(a.lo[i], 0), max(a.hi[i], 0)
			}
		}
		a.far = func(i int) bool { return flushed(i) && y.Data[i] == 0 || x.Data[i] < -3 }
	}
	return a
}

// beyond returns what a device makes of arguments that its formula overflows
// at, or multiplies with 0 although they are infinite, where functions have a
// limit: -Inf, and in 2.9's GELU everything from 2^127 on.
func (d device) beyond(f act.Func, x float64) (y float64, ok bool) {
	switch {
	case math.IsInf(x, -1):
		return fp16.NaN, f == act.GELU || f == act.GELUTanh || f == act.SiLU
	case f != act.GELU || d.mode.Autocast != graph.CPU2:
		return 0, false
	case math.IsInf(x, 1):
		return fp16.NaN, true
	}
	return math.Inf(1), x >= 0x1p127
}

// resampleAnswers: a mean of k^2 numbers is k^2 additions and a quotient; nearest
// is a copy. Bilinear weights come from a float32 source coordinate: scale,
// product and difference each are off by h times at most the side, 1-l by h,
// on two axes; then two products and sums on each.
func resampleAnswers(l *resample, x, y *tensor.Tensor) answers {
	if l.mode == "nearest" {
		z := tensor.Like(y)
		to := resize.Axis{Coordinates: resize.Asymmetric}
		resize.Nearest(z, x, resize.Floor, to, to)
		return exactly(z.Data)
	}
	exact, size := tensor.New(fp16.Float64, y.N(), y.C(), y.H(), y.W()),
		tensor.New(fp16.Float64, y.N(), y.C(), y.H(), y.W())
	abs := tensor.Like(x)
	for i, v := range x.Data {
		abs.Data[i] = math.Abs(v)
	}
	if l.mode == "pool" {
		rows, cols := pool.Blocks(x.H(), l.factor), pool.Blocks(x.W(), l.factor)
		pool.Average(exact, x, pool.Count{}, rows, cols)
		pool.Average(size, abs, pool.Count{}, rows, cols)
		k := float64(l.factor*l.factor + 1)
		return within(y, at(exact.Data), func(i int) float64 { return slack * k * u32 * size.Data[i] })
	}
	resize.Linear(exact, x, resize.Axis{}, resize.Axis{})
	side := float64(max(x.H(), x.W()))
	e := slack * u32 * (2*2*(3*side+1) + 6) * largest(x)
	return within(y, at(exact.Data), func(int) float64 { return e })
}

// noiseAnswers: every operation rounds to the half type. A product with the
// float32 scale rounds to float32 first, so it is one of two halves where
// float32 cannot tell. 1.13 rounds the scale to the half type: such products,
// and those with dropout's mask, are exact in float32, and so are the sums as
// far as their rounding goes (24 >= 2*11+2: Figueroa).
func (d device) noiseAnswers(l *stochasticBlock, x, y *tensor.Tensor, draws [][]float64) answers {
	f, hw := y.Format, x.H()*x.W()
	a := answers{lo: make([]float64, len(x.Data)), hi: make([]float64, len(x.Data))}
	for i, v := range x.Data {
		if l.block.Type == noise.Dropout {
			k := f.Round(1 / (1 - l.block.Scale))
			a.lo[i] = f.Round(v * f.Round(float64(draws[0][i/hw]*k)))
			a.hi[i] = a.lo[i]
			continue
		}
		n := draws[0][i]
		if l.block.Type == noise.Laplace {
			switch m := draws[1][i]; {
			case m < 0:
				n = -n
			case m == 0: // as happens to halves
				n = 0
			}
		}
		p, q := d.products(l.block.Scale, n, f)
		if l.block.Type == noise.Multiplicative {
			p, q = f.Round(v*f.Round(1+p)), f.Round(v*f.Round(1+q))
		} else {
			p, q = f.Round(v+p), f.Round(v+q)
		}
		a.lo[i], a.hi[i] = min(p, q), max(p, q)
	}
	return a
}

// products returns the least and the greatest number that a device may return
// for a constant times a half number.
func (d device) products(c, v float64, f fp16.Format) (lo, hi float64) {
	if d.mode.Autocast == graph.CPU113 {
		p := f.Round(float64(f.Round(c) * v))
		return p, p
	}
	p := fp16.Float32.Round(c) * v
	e := slack*u32*math.Abs(p) + tiny
	return f.Round(p - e), f.Round(p + e)
}
