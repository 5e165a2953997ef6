package asm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// activation is a kernel and its twin in plain Go.
type activation struct {
	name   string
	kernel func(*Act) ActKernel
	twin   func(float64) float64
	exact  bool
}

var activations = []activation{
	{"identity", func(a *Act) ActKernel { return a.Identity }, func(x float64) float64 { return x }, true},
	{"relu", func(a *Act) ActKernel { return a.ReLU }, func(x float64) float64 {
		if x < 0 {
			return 0
		}
		return x
	}, true},
	{"gelu", func(a *Act) ActKernel { return a.GELU }, ActGELU, false},
	{"gelu_tanh", func(a *Act) ActKernel { return a.GELUTanh }, ActGELUTanh, false},
	{"silu", func(a *Act) ActKernel { return a.SiLU }, ActSiLU, false},
	{"sigmoid", func(a *Act) ActKernel { return a.Sigmoid }, ActSigmoid, false},
	{"tanh", func(a *Act) ActKernel { return a.Tanh }, ActTanh, false},
	{"erf", func(a *Act) ActKernel { return a.Erf }, ActErf, false},
}

// eachAct runs a test for every function of every backend with kernels.
func eachAct(t *testing.T, run func(t *testing.T, a activation, k ActKernel)) {
	n := 0
	for _, b := range backends {
		if b.act == nil {
			continue
		}
		n++
		for _, a := range activations {
			t.Run(b.name+"/"+a.name, func(t *testing.T) { run(t, a, a.kernel(b.act)) })
		}
	}
	t.Logf("%d backends with kernels", n)
}

// bare is a grid of 51 bits, with no guard: it shows the evaluation itself.
func bare() *ActGrid {
	g := NewActGrid(0x1p-50, 0x1p-1000, math.MaxFloat64)
	g.low, g.high = 1, 1
	return g
}

// numbers returns n float32 numbers of all kinds: ordinary ones, every
// magnitude, zeros, infinities, NaNs.
func numbers(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		switch r.IntN(8) {
		case 0:
			x[i] = float64(math.Float32frombits(r.Uint32()))
		case 1:
			x[i] = float64(float32(40 * r.NormFloat64()))
		case 2:
			x[i] = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
				math.MaxFloat32, -math.MaxFloat32, 0x1p-149, -0x1p-149, 14.5, -14.5, 700, -700, 350, -350}[r.IntN(15)]
		default:
			x[i] = float64(float32(2 * r.NormFloat64()))
		}
	}
	return x
}

// TestActTwins: every bit of results and flags is that of plain Go, for all
// lengths, in place and out of place, at any alignment, within its memory.
func TestActTwins(t *testing.T) {
	grids := map[string]*ActGrid{
		"float32": NewActGrid(0x1p-23, 0x1p-126, math.MaxFloat32), "float16": NewActGrid(0x1p-10, 0x1p-14, 65504),
		"bfloat16": NewActGrid(0x1p-7, 0x1p-126, 0x1.fep127), "bare": bare(),
	}
	eachAct(t, func(t *testing.T, a activation, k ActKernel) {
		r := rand.New(rand.NewPCG(1, 2))
		for name, g := range grids {
			opened, decided := 0, 0
			for trial := range 1000 {
				n := 8 + 8*(trial%8)
				at, inPlace := trial%5, trial%3 == 0
				src, dst := newGuarded[float64](n+8, 7), newGuarded[float64](n+8, 7)
				in := src.data()[at : at+n]
				copy(in, numbers(r, n))
				before := append([]float64(nil), in...)
				out := dst.data()[at : at+n]
				if inPlace {
					dst, out = src, in
				}
				open := k.Apply(out, in, g)
				src.check(t, "src")
				dst.check(t, "dst")
				for i, v := range dst.data() {
					if (i < at || i >= at+n) && v != 7 {
						t.Fatalf("%s: number %d of %d from %d written", name, i, n, at)
					}
				}
				if n < 64 && open>>n != 0 {
					t.Fatalf("%s: %d numbers, open %x", name, n, open)
				}
				for i, x := range before {
					y := a.twin(x)
					want, ok := g.Round(y)
					if a.exact {
						want, ok = g.Exact(y)
					}
					if !ok {
						want = x
						opened++
					} else {
						decided++
					}
					if ok != (open>>i&1 == 0) {
						t.Fatalf("%s: %x of %d is open: %v, want %v", name, x, n, ok, !ok)
					}
					if math.Float64bits(out[i]) != math.Float64bits(want) && x == x {
						t.Fatalf("%s: %x of %d becomes %x, want %x", name, x, n, out[i], want)
					}
					if !inPlace && math.Float64bits(in[i]) != math.Float64bits(x) {
						t.Fatalf("%s: number %d of src changed", name, i)
					}
				}
			}
			if opened < 100 || decided < 20000 {
				t.Errorf("%s: %d open, %d decided: both should happen", name, opened, decided)
			}
		}
	})
}

func TestActMisuse(t *testing.T) {
	eachAct(t, func(t *testing.T, a activation, k ActKernel) {
		for _, n := range [][2]int{{0, 0}, {8, 16}, {16, 8}, {7, 7}, {72, 72}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("lengths %v: no panic", n)
					}
				}()
				k.Apply(make([]float64, n[0]), make([]float64, n[1]), bare())
			}()
		}
	})
}

// TestActRound holds the guard to roundings by big.Float: a decided number is
// what both ends of the interval round to, an open one has ends that differ, or
// is too large. Subnormal numbers and halfway cases included.
func TestActRound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, f := range []struct {
		p          int
		emin, emax int
	}{{24, -126, 127}, {11, -126, 127}, {11, -14, 15}, {8, -126, 127}} {
		greatest := math.Ldexp(2-math.Ldexp(1, 1-f.p), f.emax)
		g := NewActGrid(math.Ldexp(1, 1-f.p), math.Ldexp(1, f.emin), greatest)
		opened, decided := 0, 0
		for range 20_000 {
			e := f.emin - f.p - 3 + r.IntN(f.emax-f.emin+f.p+5)
			if r.IntN(2) == 0 {
				e = f.emin - f.p - 2 + r.IntN(f.p+4)
			}
			y := math.Ldexp(1+r.Float64(), e)
			if r.IntN(2) == 0 { // near a tie of the grid, or on it
				step := math.Ldexp(1, max(math.Ilogb(y), f.emin)-f.p)
				y = float64(math.Round(y/step)*step) * (1 + float64(r.IntN(5)-2)*0x1p-36*[]float64{1, 0.99, 1.01}[r.IntN(3)])
			}
			if r.IntN(2) == 0 {
				y = -y
			}
			ends := [2]float64{}
			for i, c := range []float64{g.low, g.high} {
				ends[i] = onGrid(new(big.Float).SetPrec(200).Mul(big.NewFloat(y), big.NewFloat(c)), f.p, f.emin)
			}
			got, ok := g.Round(y)
			if want := ends[0] == ends[1] && math.Abs(y) < greatest/2; ok != want {
				t.Fatalf("%d bits: %x is decided: %v, want %v", f.p, y, ok, want)
			}
			if ok {
				decided++
			} else {
				opened++
			}
			if ok && (got != ends[0] || math.Signbit(got) != math.Signbit(y)) {
				t.Fatalf("%d bits: %x becomes %x, want %x", f.p, y, got, ends[0])
			}
			if got, ok := g.Exact(y); ok && got != onGrid(big.NewFloat(y), f.p, f.emin) {
				t.Fatalf("%d bits: %x, exact, becomes %x", f.p, y, got)
			}
		}
		if opened < 200 || decided < 4000 {
			t.Errorf("%d bits: %d open, %d decided: both should happen", f.p, opened, decided)
		}
	}
}

// onGrid rounds y to p bits and no number finer than 2^(emin-p+1), ties to even.
func onGrid(y *big.Float, p, emin int) float64 {
	if y.Sign() == 0 {
		return 0
	}
	e := max(y.MantExp(nil)-1, emin) - (p - 1)
	// y as a multiple of 2^e, rounded to an integer.
	scaled := new(big.Float).SetPrec(300).SetMantExp(y, -e)
	n, _ := scaled.Int(nil)
	rest := new(big.Float).SetPrec(300).Sub(scaled, new(big.Float).SetPrec(300).SetInt(n))
	half := new(big.Float).Abs(rest).Cmp(big.NewFloat(0.5))
	if half > 0 || half == 0 && n.Bit(0) == 1 {
		n.Add(n, big.NewInt(int64(rest.Sign())))
	}
	v, _ := new(big.Float).SetMantExp(new(big.Float).SetPrec(300).SetInt(n), e).Float64()
	return v
}

// TestActPolynomials proves the bounds of the polynomials.
//
// f is the function, p the polynomial, d = p - f. Let f' be f's own
// interpolation at N Chebyshev nodes, so close that f - f' does not matter
// (functions that are analytic around the interval converge geometrically).
// p - f' is a polynomial of degree N-1, and the maximum of such a one is at most
// 1/cos(pi/8) times that over 4N Chebyshev nodes (H. Ehlich, K. Zeller, Math.
// Zeitschrift 86, 1964). N = 60 leaves |f - f'| below 2^-52: where |f| <= M in
// the ellipse around the interval whose axes add up to twice its length, it is
// at most 4 M 2^-(N-1) (L. N. Trefethen, "Approximation Theory and Approximation
// Practice", theorem 8.2). For (e^r-1)/r, M < 2. The other ellipse reaches from
// z = -0.1 to 0.84; there Re a > -0.5, |a+5|/2 = 2.5/|1-z| < 16, and
// |erfcx(a/sqrt 2)| <= erfcx(Re a/sqrt 2) < 1.7 as erfcx is a Laplace transform:
// M < 28. (Phi(x) - 1/2)/x is an integral of e^(-s u^2/2)/sqrt(2 pi) over 0 < u < 1,
// s = x^2, and the ellipse there reaches to Re s > -1.6: M < 0.9 and |f - f'| < 2^-57.
func TestActPolynomials(t *testing.T) {
	const prec, n = 200, 60
	one := big.NewFloat(1)
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(v) }
	slope := func(r float64) *big.Float {
		e := bigref.Exp(number(r), prec)
		return e.Quo(e.Sub(e, one), number(r))
	}
	mills := func(z float64) *big.Float { // (a+5) erfcx(a/sqrt 2)/2, a = 5 z/(1-z)
		a := number(0).Quo(number(5*z), number(0).Sub(one, number(z)))
		x := number(0).Quo(a, number(0).Sqrt(number(2)))
		y := bigref.Exp(number(0).Mul(x, x), prec)
		y.Mul(y, bigref.Erfc(x, prec))
		return y.Mul(y, a.Add(a, number(5))).Quo(y, number(2))
	}
	phi := func(w float64) *big.Float { // (Phi(x) - 1/2)/x, x^2 = w + 49/8
		x := number(0).Sqrt(number(0).Add(number(w), number(49./8)))
		y := number(0).Sub(one, bigref.Erfc(number(0).Quo(x, number(0).Sqrt(number(2))), prec))
		return y.Quo(y, x.Add(x, x))
	}
	h := math.Ln2 / 2 * (1 + 0x1p-40)
	for _, c := range []struct {
		name   string
		f      func(float64) *big.Float
		p      []float64
		lo, hi float64
		bound  float64
	}{
		{"(e^r-1)/r", slope, actTable.exp[:], -h, h, 7.6e-12},
		{"(a+5) erfcx(a/sqrt 2)/2", mills, actTable.mills[:], 0, 14.5 / 19.5, 4.4e-12},
		{"(Phi(x) - 1/2)/x", phi, actTable.near.phi[:], -49. / 8, 49. / 8, 4.09e-15},
	} {
		worst, least := 0.0, math.Inf(1)
		for i := range 4 * n {
			u := (c.lo+c.hi)/2 + (c.hi-c.lo)/2*math.Cos((float64(i)+0.5)*math.Pi/(4*n))
			f := c.f(u)
			p := number(0)
			for k := len(c.p) - 1; k >= 0; k-- {
				p.Mul(p, number(u)).Add(p, number(c.p[k]))
			}
			d, _ := p.Sub(p, f).Float64()
			v, _ := f.Float64()
			worst, least = max(worst, math.Abs(d)), min(least, v)
		}
		worst /= math.Cos(math.Pi / 8)
		t.Logf("%s: error below 2^%.2f, 2^%.2f of its least value %.3f",
			c.name, math.Log2(worst), math.Log2(worst/least), least)
		if worst > c.bound*least {
			t.Errorf("%s: error %x, relative 2^%.2f", c.name, worst, math.Log2(worst/least))
		}
	}
}

// TestActGELUNear: the evaluation of the polynomial misses less than 2^-53 of what that
// is, and GELU less than ActErr, with numbers that come near it.
func TestActGELUNear(t *testing.T) {
	// Coefficient k takes part in k+1 roundings, each of 2^-53 of what it is then; the last
	// ones of all together are below half an ulp of P < 1/2.
	sum, h := 0.0, 1.0
	for k, c := range actTable.near.phi {
		if k > 0 {
			sum += float64(k) * math.Abs(c) * h
		}
		h *= 49. / 8
	}
	if sum += 0.5; !(sum < 1) {
		t.Errorf("the polynomial is evaluated to %g of 2^-53", sum)
	}
	r := rand.New(rand.NewPCG(17, 18))
	worst := 0.0
	for i := range 1000 {
		x := 3.5 * (2*r.Float64() - 1)
		switch i % 4 {
		case 1:
			x = -3.5 + 0.01*r.Float64()
		case 2:
			x *= math.Ldexp(1, -r.IntN(140))
		}
		x = float64(float32(x))
		if i == 0 {
			x = -3.5
		}
		y, want := ActGELUNear(x), bigref.GELU(x, fp16.Float64)
		e := math.Abs(y-want) / math.Abs(y) / ActErr
		if !(e <= 0.81) || math.Signbit(y) != math.Signbit(x) {
			t.Fatalf("GELU(%x) = %x, want %x: error %.2f of the bound", x, y, want, e)
		}
		worst = max(worst, e)
	}
	t.Logf("largest error %.3f of the bound", worst)
	if worst < 0.1 {
		t.Error("were the worst places looked at?")
	}
}

// TestActErf: ActErf is good to 2^-47 as far as it reaches, zeros keep their sign, and beyond it every format's guard
// leaves it open.
func TestActErf(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	grids := []*ActGrid{NewActGrid(0x1p-23, 0x1p-126, math.MaxFloat32), NewActGrid(0x1p-10, 0x1p-14, 65504),
		NewActGrid(0x1p-7, 0x1p-126, 0x1.fep127)}
	worst := 0.0
	for i := range 1500 {
		x := actTable.erfFar * (2*r.Float64() - 1)
		if i%3 == 0 {
			x *= math.Ldexp(1, -r.IntN(148))
		}
		if i < 2 {
			x = actTable.erfFar
		}
		x = math.Float64frombits(math.Float64bits(x) &^ (1<<29 - 1)) // 24 bits, and no more than that
		y, want := ActErf(x), bigref.Unary("erf", x, nil, fp16.Float64)
		if x == 0 {
			continue
		}
		e := math.Abs(y-want) / math.Abs(want)
		if worst = max(worst, e); !(e <= 0x1p-47) || math.Signbit(y) != math.Signbit(x) {
			t.Fatalf("erf(%x) = %x, want %x: error %x", x, y, want, e)
		}
	}
	t.Logf("largest error 2^%.2f", math.Log2(worst))
	if worst < 0x1p-53 {
		t.Error("were the worst places looked at?")
	}
	if y := ActErf(math.Copysign(0, -1)); y != 0 || !math.Signbit(y) {
		t.Errorf("erf(-0) = %v", y)
	}
	for _, x := range []float64{
		float64(math.Nextafter32(float32(actTable.erfFar), 3)), 2.5, 4, 100, math.MaxFloat32, math.Inf(1), math.NaN(),
	} {
		for _, g := range grids {
			for _, x := range []float64{x, -x} {
				if y, ok := g.Round(ActErf(x)); ok {
					t.Errorf("erf(%v) is %v, want it open", x, y)
				}
			}
		}
	}
}

// TestActErr holds the evaluations to their bound, against the nearest float64 of
// the exact value, and where they are too small for it to their sign.
func TestActErr(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		name  string
		fast  func(float64) float64
		exact func(float64, fp16.Format) float64
		wide  float64 // results for x below -wide are less than 2^-152
		least float64 // of the largest error seen, in units of the bound
	}{
		{"gelu", ActGELU, bigref.GELU, 14.49, 0.1},
		{"gelu_tanh", ActGELUTanh, bigref.GELUTanh, 11.1, 0.1},
		{"silu", ActSiLU, bigref.SiLU, 111, 0.1},
		{"sigmoid", ActSigmoid,
			func(x float64, f fp16.Format) float64 { return bigref.Unary("sigmoid", x, nil, f) }, 106, 0.1},
		{"tanh", ActTanh, bigref.RoundTanh, math.MaxFloat32, 0.3},
	} {
		worst := 0.0
		for i := range 600 {
			x := r.NormFloat64() * math.Ldexp(1, -r.IntN(30)*r.IntN(2))
			switch i % 3 {
			case 1:
				x = -min(c.wide, 120) * r.Float64()
			case 2:
				x = 5 * r.Float64()
			}
			x = float64(float32(x))
			y, want := c.fast(x), c.exact(x, fp16.Float64)
			e := math.Abs(y-want) / math.Abs(y) / ActErr
			if !(e <= 1) || math.Signbit(y) != math.Signbit(want) {
				t.Fatalf("%s(%x) = %x, want %x: error %.2f of the bound", c.name, x, y, want, e)
			}
			worst = max(worst, e)
		}
		t.Logf("%-9s largest error %.3f of the bound", c.name, worst)
		if worst < c.least {
			t.Errorf("%s: largest error %.3f of the bound: were the worst places looked at?", c.name, worst)
		}
		for _, x := range []float64{c.wide + 0.1, 20, 100, 699, 701, 1e10, math.MaxFloat32} {
			if x < c.wide || c.wide == math.MaxFloat32 {
				continue
			}
			y := c.fast(-x)
			if c.name == "sigmoid" { // which is positive
				y = -y
			}
			if !(y < 0 && y > -0x1p-152) {
				t.Errorf("%s(%g) = %g, want less than 2^-152 and of the function's sign", c.name, -x, c.fast(-x))
			}
		}
		for _, x := range []float64{100, 699, 701, 1e10, math.MaxFloat32} {
			want := x
			if c.name == "tanh" || c.name == "sigmoid" {
				want = 1
			}
			if y := c.fast(x); !(math.Abs(y-want) <= ActErr*want) {
				t.Errorf("%s(%g) = %g, want %g", c.name, x, y, want)
			}
		}
	}
}

// BenchmarkAct reports ns per number, data in the first cache.
func BenchmarkAct(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 1024
	src, dst := make([]float64, n), make([]float64, n)
	for i := range src {
		src[i] = float64(float32(r.NormFloat64()))
	}
	for _, be := range backends {
		if be.act == nil {
			continue
		}
		for _, a := range activations {
			b.Run(a.name+"/"+be.name, func(b *testing.B) {
				k, g := a.kernel(be.act), NewActGrid(0x1p-23, 0x1p-126, math.MaxFloat32)
				for b.Loop() {
					for i := 0; i < n; i += 64 {
						k.Apply(dst[i:i+64], src[i:i+64], g)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/number")
			})
		}
	}
}

// TestExpBelow: the kernels make the bits of actExp, for every length and place, and those
// are as near as ExpBelowErr says.
func TestExpBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, b := range backends {
		if b.act == nil {
			continue
		}
		for n := 8; n <= 200; n += 8 {
			src, dst := newGuarded[float64](n, 7), newGuarded[float64](n, 7)
			top := float64(float32(100 * r.NormFloat64()))
			for i := range src.data() {
				src.data()[i] = top - math.Abs(float64(float32(math.Ldexp(r.NormFloat64(), i%12))))
			}
			src.data()[0], src.data()[1], src.data()[2] = top, math.Inf(-1), top-700
			b.act.ExpBelow(dst.at(0), src.at(0), n, top)
			src.check(t, "src")
			dst.check(t, "dst")
			for i, x := range src.data() {
				got, want := dst.data()[i], actExp(max(x-top, -700))
				if math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("%s: number %d of %d, e^(%v - %v): %v, want %v", b.name, i, n, x, top, got, want)
				}
				if d := x - top; d >= -600 && math.Abs(got/math.Exp(d)-1) > ExpBelowErr {
					t.Fatalf("%s: e^%v is %v, off by %v", b.name, d, got, got/math.Exp(d)-1)
				}
			}
		}
	}
}
