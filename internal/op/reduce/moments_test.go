package reduce

import (
	"math"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// root returns the root of a fraction rounded to a format, by asking where the square of what
// lies halfway between two numbers is.
func root(v *big.Rat, f fp16.Format) float64 {
	if v.Sign() == 0 {
		return 0
	}
	return bigref.Nearest(f, func(prec uint) *big.Float {
		x := new(big.Float).SetPrec(prec + 40).SetRat(v)
		return x.Sqrt(x)
	})
}

// exactRoot returns the root of a fraction if it is one of some bits.
func exactRoot(v *big.Rat) (*big.Rat, bool) {
	num, den := new(big.Int).Sqrt(v.Num()), new(big.Int).Sqrt(v.Denom())
	r := new(big.Rat).SetFrac(num, den)
	return r, new(big.Rat).Mul(r, r).Cmp(v) == 0
}

func rootOf(v *big.Rat, f fp16.Format) float64 {
	if r, ok := exactRoot(v); ok {
		return bigref.Round(r, f)
	}
	return root(v, f)
}

// moments are sums over a line: of squares, of squares about the mean and of sizes, as two
// float64 know them, and as they are.
type moments struct {
	squares, about, sizes bigref.Ball
	exactly               func() exactMoments
}

type exactMoments struct{ squares, about, sizes *big.Rat }

func momentsOf(line []float64) *moments {
	m := new(moments)
	mean := ballOf(line).Quo(bigref.Exactly(float64(len(line))))
	for _, v := range line {
		x := bigref.Exactly(v)
		d := x.Sub(mean)
		m.squares, m.about = m.squares.Add(x.Mul(x)), m.about.Add(d.Mul(d))
		m.sizes = m.sizes.Add(bigref.Exactly(math.Abs(v)))
	}
	m.exactly = sync.OnceValue(func() exactMoments {
		e := exactMoments{new(big.Rat), new(big.Rat), new(big.Rat)}
		mean := exactSum(line)
		mean.Quo(mean, big.NewRat(int64(len(line)), 1))
		for _, v := range line {
			q := bigref.Rat(v)
			e.squares.Add(e.squares, new(big.Rat).Mul(q, q))
			e.sizes.Add(e.sizes, new(big.Rat).Abs(q))
			q.Sub(q, mean)
			e.about.Add(e.about, new(big.Rat).Mul(q, q))
		}
		return e
	})
	return m
}

// productOf is the judge of products. What two float64 know of one has an exponent of its own,
// as it may leave their range on the way.
func productOf(line []float64, f fp16.Format) float64 {
	p, exponent := bigref.Exactly(1), 0
	for _, v := range line {
		m, e := math.Frexp(v)
		p = p.Mul(bigref.Exactly(m))
		_, more := math.Frexp(p.Hi)
		by := math.Ldexp(1, -more)
		p, exponent = bigref.Ball{Hi: p.Hi * by, Lo: p.Lo * by, Err: p.Err * by}, exponent+e+more
	}
	by := math.Ldexp(1, min(max(exponent, -400), 400)) // all the same beyond
	return bigref.Ball{Hi: p.Hi * by, Lo: p.Lo * by, Err: p.Err * by}.Or(f, func() float64 {
		product := big.NewRat(1, 1)
		for _, v := range line {
			product.Mul(product, bigref.Rat(v))
		}
		return bigref.Round(product, f)
	})
}

// TestMoments: variances, their roots, norms, products and the greatest and the least are the
// judge's.
func TestMoments(t *testing.T) {
	o := hashed.New(t, *elements)
	trials(t, 9, func(what string, r *rand.Rand, x *tensor.Tensor, axes []int, along []bool) int {
		lines := linesOf(x, along)
		kept := len(lines)
		f, correction := formats[r.IntN(len(formats))], r.IntN(3)
		of := map[string]*tensor.Tensor{}
		for _, name := range []string{
			"var", "std", "norm0", "norm1", "norm2", "norm inf", "norm -inf", "prod", "max", "min",
		} {
			of[name] = tensor.New(f, kept)
		}
		Var(of["var"], x, correction, axes...)
		Std(of["std"], x, correction, axes...)
		for name, order := range map[string]float64{
			"norm0": 0, "norm1": 1, "norm2": 2, "norm inf": math.Inf(1), "norm -inf": math.Inf(-1),
		} {
			Norm(of[name], x, order, axes...)
		}
		Prod(of["prod"], x, axes...)
		Max(of["max"], x, axes...)
		Min(of["min"], x, axes...)
		for name, y := range of {
			o.Add(name, y.Data...)
		}
		for i, l := range lines {
			if !o.Judge {
				break
			}
			numbers := l.of
			n := int64(len(numbers))
			m := momentsOf(numbers)
			zeros, most, least, count := 1.0, numbers[0], numbers[0], 0.0
			for _, v := range numbers {
				zeros = math.Copysign(zeros, zeros*v)
				if v != 0 {
					count++
				}
				if v > most || v == 0 && most == 0 && math.Signbit(most) {
					most = v
				}
				if v < least || v == 0 && least == 0 && math.Signbit(v) {
					least = v
				}
			}
			want := map[string]float64{"norm1": m.sizes.Or(f, func() float64 { return bigref.Round(m.exactly().sizes, f) }),
				"norm2": m.squares.Sqrt().Or(f, func() float64 { return rootOf(m.exactly().squares, f) }),
				"prod":  productOf(numbers, f),
				"max":   f.Round(most), "min": f.Round(least), "var": fp16.NaN, "std": fp16.NaN,
				"norm0": f.Round(count), "norm inf": f.Round(max(math.Abs(most), math.Abs(least))), "norm -inf": math.Inf(1)}
			for _, v := range numbers {
				want["norm -inf"] = min(want["norm -inf"], f.Round(math.Abs(v)))
			}
			want["prod"] = math.Copysign(want["prod"], zeros)
			if n > int64(correction) {
				v, by := m.about.Quo(bigref.Exactly(float64(n-int64(correction)))), big.NewRat(n-int64(correction), 1)
				want["var"] = v.Or(f, func() float64 { return bigref.Round(by.Quo(m.exactly().about, by), f) })
				want["std"] = v.Sqrt().Or(f, func() float64 {
					return rootOf(new(big.Rat).Quo(m.exactly().about, big.NewRat(n-int64(correction), 1)), f)
				})
			} else if most > least {
				want["var"], want["std"] = math.Inf(1), math.Inf(1)
			}
			for name, w := range want {
				if got := of[name].Data[i]; !same(got, w) {
					t.Fatalf("%s: %s %d in %v is %v, want %v", what, name, i, f, got, w)
				}
			}
		}
		return kept
	})
}

// logs are the logarithms of a line that logSum has taken, by precision; at 0 what two float64
// know.
type logs struct {
	big  map[uint]*big.Float
	ball *bigref.Ball
}

// logSum is the judge of logarithms of sums: d plus the logarithm of the sum of all e^(x-m),
// with what lies far below m left out where something else decides.
func (of *logs) logSum(xs []float64, d *big.Rat, m float64, sign int, f fp16.Format) float64 {
	if of.ball == nil {
		sum := bigref.Ball{}
		for _, x := range xs {
			if !math.IsInf(x, -1) {
				sum = sum.Add(bigref.Exactly(x).Sub(bigref.Exactly(m)).Exp())
			}
		}
		sum = sum.Log()
		of.ball, of.big = &sum, map[uint]*big.Float{}
	}
	v := *of.ball
	if sign < 0 {
		v = v.Neg()
	}
	return bigref.Of(d).Add(v).Or(f, func() float64 { return of.slowly(xs, d, m, sign, f) })
}

func (of *logs) slowly(xs []float64, d *big.Rat, m float64, sign int, f fp16.Format) float64 {
	const far = 300
	near, others := 0, 0
	for _, x := range xs {
		if m-x <= far {
			near++
		} else if !math.IsInf(x, -1) {
			others++
		}
	}
	if near == 1 { // the logarithm is between 0 and 2^-400
		if others > 0 {
			tiny := new(big.Rat).SetFrac(big.NewInt(int64(sign)), new(big.Int).Lsh(big.NewInt(1), 1000))
			if d.Sign() == 0 {
				return bigref.Round(tiny, f)
			}
			d = new(big.Rat).Add(d, tiny)
		}
		return bigref.Round(d, f)
	}
	return bigref.Nearest(f, func(prec uint) *big.Float {
		w := prec + 600 // what lies 300 below is 433 bits down
		wide := func() *big.Float { return new(big.Float).SetPrec(w) }
		if of.big[w] == nil {
			sum := wide()
			for _, x := range xs {
				if m-x <= far {
					sum.Add(sum, bigref.Exp(wide().Sub(wide().SetFloat64(x), wide().SetFloat64(m)), w))
				}
			}
			of.big[w] = bigref.Log(sum, w)
		}
		v := of.big[w]
		if sign < 0 {
			v = wide().Neg(v)
		}
		return wide().Add(wide().SetRat(d), v)
	})
}

// TestLogarithms: log-softmax and logsumexp are the judge's.
func TestLogarithms(t *testing.T) {
	o, done := hashed.New(t, *elements), 0
	trials(t, 10, func(what string, r *rand.Rand, x *tensor.Tensor, axes []int, along []bool) int {
		if r.IntN(4) == 0 {
			x.Data[r.IntN(len(x.Data))] = math.Inf(-1)
		}
		f := formats[r.IntN(len(formats))]
		kept := len(newView(x.Shape, axes).first)
		y, sums := tensor.New(f, x.Shape...), tensor.New(f, kept)
		LogSumExp(sums, x, axes...)
		shares := done < *elements // ten times as many come of a tensor
		if shares {
			LogSoftmax(y, x, axes...)
			done += len(y.Data)
			o.Add("log_softmax", y.Data...)
		}
		o.Add("logsumexp", sums.Data...)
		if !o.Judge {
			return kept
		}
		for i, l := range linesOf(x, along) {
			of, places := l.of, l.places
			judge, m := new(logs), math.Inf(-1)
			for _, v := range of {
				m = max(m, v)
			}
			if math.IsInf(m, -1) {
				if !same(sums.Data[i], m) || shares && !same(y.Data[places[0]], fp16.NaN) {
					t.Fatalf("%s: of nothing but -Inf: %v and %v", what, sums.Data[i], y.Data[places[0]])
				}
				continue
			}
			if want := judge.logSum(of, bigref.Rat(m), m, 1, f); !same(sums.Data[i], want) {
				t.Fatalf("%s: logsumexp %d in %v is %v, want %v", what, i, f, sums.Data[i], want)
			}
			for j, v := range of {
				if !shares {
					break
				}
				want := v
				if !math.IsInf(v, -1) {
					want = judge.logSum(of, new(big.Rat).Sub(bigref.Rat(v), bigref.Rat(m)), m, -1, f)
				}
				if !same(y.Data[places[j]], want) {
					t.Fatalf("%s: log-softmax %d of line %d in %v is %v, want %v", what, j, i, f, y.Data[places[j]], want)
				}
			}
		}
		return kept
	})
}

// TestHardLogarithms: lines where parts cancel, vanish or are simple.
func TestHardLogarithms(t *testing.T) {
	inf := math.Inf(-1)
	for _, line := range [][]float64{
		{3}, {2, 2}, {0, 0, 0}, {0, -70000}, {0, 0, -70000}, {5, -30}, {5, -1000}, {0, -90}, {0, -103},
		{-0.6931472, -0.6931472}, {-0.69314724, -0.6931472},
		{-1.0986123, -1.0986123, -1.0986123}, {inf, 4}, {1e38, -1e38}, {0x1p-149, 0}, {-0x1p-149, -200},
		{-0x1p-126, -90}, {1, 1 - 0x1p-24, -250},
		{0, -32896}, {257, -30000}, {257, -8000}, {0, -8190}, {0x1p-149, -8000}, {-257, -257 - 0x1p-8, -9000},
	} {
		x := tensor.Of(fp16.Float32, line, len(line))
		m := inf
		for i := range line {
			line[i] = fp16.Float32.Round(line[i])
			m = max(m, line[i])
		}
		for _, f := range formats {
			y, s, judge := tensor.New(f, len(line)), tensor.New(f, 1), new(logs)
			LogSoftmax(y, x, 0)
			LogSumExp(s, x, 0)
			if want := judge.logSum(line, bigref.Rat(m), m, 1, f); !same(s.Data[0], want) {
				t.Errorf("%v in %v: logsumexp %v, want %v", line, f, s.Data[0], want)
			}
			for i, v := range line {
				if v == inf {
					continue
				}
				if want := judge.logSum(line, new(big.Rat).Sub(bigref.Rat(v), bigref.Rat(m)), m, -1, f); !same(y.Data[i], want) {
					t.Errorf("%v in %v: log-softmax %d is %v, want %v", line, f, i, y.Data[i], want)
				}
			}
		}
	}
}

// TestMomentSpecials: what is not finite, in every format.
func TestMomentSpecials(t *testing.T) {
	inf, nan := math.Inf(1), fp16.NaN
	for _, f := range append(formats, fp16.Float64) {
		for _, c := range []struct {
			line                                                 []float64
			variance, norm1, norm2, prod, most, least, sum, logs float64
		}{
			{[]float64{1, inf}, nan, inf, inf, inf, inf, 1, inf, nan},
			{[]float64{-inf, 0}, nan, inf, inf, nan, 0, -inf, 0, -inf},
			{[]float64{nan, 1}, nan, nan, nan, nan, nan, nan, nan, nan},
			{[]float64{-inf, -2}, nan, inf, inf, inf, -2, -inf, -2, -inf},
			{[]float64{3}, nan, 3, 3, 3, 3, 3, 3, 0},
			{nil, nan, 0, 0, 1, -inf, inf, -inf, 0},
		} {
			x := tensor.Of(fp16.Float32, c.line, len(c.line))
			norm := func(order float64) func(dst, src *tensor.Tensor, axes ...int) {
				return func(dst, src *tensor.Tensor, axes ...int) { Norm(dst, src, order, axes...) }
			}
			of := func(g func(dst, src *tensor.Tensor, axes ...int)) float64 {
				y := tensor.New(f, 1)
				g(y, x, 0)
				return y.Data[0]
			}
			y := tensor.New(f, len(c.line))
			LogSoftmax(y, x, 0)
			got := []float64{
				of(func(dst, src *tensor.Tensor, axes ...int) { Var(dst, src, 1, axes...) }),
				of(norm(1)), of(norm(2)), of(Prod), of(Max), of(Min), of(LogSumExp), 0,
			}
			if len(c.line) > 0 {
				got[7] = y.Data[0]
			}
			for i, want := range []float64{c.variance, c.norm1, c.norm2, c.prod, c.most, c.least, c.sum, c.logs} {
				if !same(fp16.Float64.Round(got[i]), want) {
					t.Errorf("%v in %v: number %d is %v, want %v", c.line, f, i, got[i], want)
				}
			}
		}
	}
}
