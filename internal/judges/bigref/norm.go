package bigref

import (
	"math"
	"math/big"
	"sync"

	"github.com/refrun/refrun/fp16"
)

// Norm is a mean and a variance plus eps: as two float64 know them, which mostly decide what
// they make of a number, and as fractions.
type Norm struct {
	mean, root Ball // root of V
	exactly    func() (mean, v *big.Rat)
}

// Mean returns the mean as a fraction, and V the variance plus eps.
func (n Norm) Mean() *big.Rat {
	mean, _ := n.exactly()
	return mean
}

func (n Norm) V() *big.Rat {
	_, v := n.exactly()
	return v
}

// GroupNorm returns the mean and the biased variance, plus eps, of the finite
// numbers xs: the sum of (x-mean)^2 over their count, as written.
func GroupNorm(xs []float64, eps float64) Norm {
	count, sum, square := Exactly(float64(len(xs))), Ball{}, Ball{}
	for _, x := range xs {
		sum = sum.Add(Exactly(x))
	}
	mean := sum.Quo(count)
	for _, x := range xs {
		d := Exactly(x).Sub(mean)
		square = square.Add(d.Mul(d))
	}
	v := square.Quo(count).Add(Exactly(eps))
	return Norm{mean, v.Sqrt(), sync.OnceValues(func() (mean, v *big.Rat) { return groupNorm(xs, eps) })}
}

func groupNorm(xs []float64, eps float64) (mean, v *big.Rat) {
	count := new(big.Rat).SetInt64(int64(len(xs)))
	mean = new(big.Rat)
	for _, x := range xs {
		mean.Add(mean, Rat(x))
	}
	mean.Quo(mean, count)
	v = new(big.Rat)
	d := new(big.Rat)
	for _, x := range xs {
		d.Sub(Rat(x), mean)
		v.Add(v, d.Mul(d, d))
	}
	v.Quo(v, count)
	return mean, v.Add(v, Rat(eps))
}

// RunningNorm returns a given mean, and variance plus eps.
func RunningNorm(mean, variance, eps float64) Norm {
	return Norm{Exactly(mean), Exactly(variance).Add(Exactly(eps)).Sqrt(), func() (m, v *big.Rat) {
		return Rat(mean), new(big.Rat).Add(Rat(variance), Rat(eps))
	}}
}

// Compare returns the sign of gamma (x-Mean)/sqrt(V) + beta - c. V must be
// positive. With p = gamma (x-Mean) and b = c-beta it is the order of p and
// b sqrt(V), which their signs and squares tell.
func (n Norm) Compare(x, gamma, beta float64, c *big.Rat) int {
	p := new(big.Rat).Sub(Rat(x), n.Mean())
	p.Mul(p, Rat(gamma))
	b := new(big.Rat).Sub(c, Rat(beta))
	switch sign := p.Sign(); {
	case sign > b.Sign():
		return 1
	case sign < b.Sign():
		return -1
	default:
		return sign * p.Mul(p, p).Cmp(b.Mul(b.Mul(b, b), n.V()))
	}
}

// Round returns gamma (x-Mean)/sqrt(V) + beta rounded to format f.
func (n Norm) Round(x, gamma, beta float64, f fp16.Format) float64 {
	y := Exactly(x).Sub(n.mean).Mul(Exactly(gamma)).Quo(n.root).Add(Exactly(beta))
	return y.Or(f, func() float64 { return n.Search(x, gamma, beta, f) })
}

// Search is Round by fractions.
//
// The numbers of a format from 0 up are numbered 0, 1, 2, ...; between k and
// k+1 lies the point where rounding changes from one to the other. The answer
// is the first k whose point above is not passed, found by bisection.
func (n Norm) Search(x, gamma, beta float64, f fp16.Format) float64 {
	sign := n.Compare(x, gamma, beta, new(big.Rat))
	if sign == 0 {
		return 0
	}
	if sign < 0 {
		gamma, beta = -gamma, -beta
	}
	g := gridOf(f)
	// passed: y rounds to a number above the kth.
	passed := func(k int64) bool {
		middle := new(big.Rat).Add(g.number(k), g.number(k+1))
		middle.Quo(middle, big.NewRat(2, 1))
		c := n.Compare(x, gamma, beta, middle)
		return c > 0 || c == 0 && k&1 == 1
	}
	// lo is passed or -1, hi is not passed or beyond the format.
	lo, hi := int64(-1), g.overflow()
	probe := func(k int64) {
		switch {
		case k <= lo || k >= hi:
		case passed(k):
			lo = k
		default:
			hi = k
		}
	}
	// A hint, and no more than that: it usually leaves nothing to bisect.
	mean, _ := n.Mean().Float64()
	v, _ := n.V().Float64()
	hint := g.index(float64(gamma*(x-mean))/math.Sqrt(v) + beta)
	probe(hint)
	probe(hint - 1)
	probe(hint + 1)
	for hi-lo > 1 {
		probe(lo + (hi-lo)/2)
	}
	y := math.Inf(1)
	if hi < g.overflow() {
		y, _ = g.number(hi).Float64()
	}
	return math.Copysign(y, float64(sign))
}

// numbers are the numbers of a format from 0 up: k = 2^(p-1) E + m stands for
// m 2^(emin-p+1) if E = 0 and (2^(p-1)+m) 2^(E-1+emin-p+1) otherwise.
type numbers struct{ p, emin, emax int }

func gridOf(f fp16.Format) numbers {
	switch f {
	case fp16.Float64:
		return numbers{53, -1022, 1023}
	case fp16.Float32:
		return numbers{24, -126, 127}
	case fp16.TF32:
		return numbers{11, -126, 127}
	case fp16.Float16:
		return numbers{11, -14, 15}
	case fp16.BFloat16:
		return numbers{8, -126, 127}
	}
	panic("bigref: unknown format")
}

// overflow is the index of 2^(emax+1), the first number beyond the format.
func (g numbers) overflow() int64 { return int64(g.emax-g.emin+2) << (g.p - 1) }

func (g numbers) number(k int64) *big.Rat {
	e, m := int(k>>(g.p-1)), k&(1<<(g.p-1)-1)
	if e > 0 {
		m += 1 << (g.p - 1)
		e--
	}
	r := new(big.Rat).SetInt64(m)
	return r.Mul(r, pow2(e+g.emin-g.p+1))
}

// index returns the index of a number near |y|, 0 for NaN.
func (g numbers) index(y float64) int64 {
	y = math.Abs(y)
	if !(y >= math.Ldexp(1, g.emin)) {
		return 0
	}
	if y >= math.Ldexp(1, g.emax) {
		return g.overflow()
	}
	frac, e := math.Frexp(y) // y = frac 2^e, 1/2 <= frac < 1
	return int64(e-1-g.emin)<<(g.p-1) + int64(math.Ldexp(frac, g.p))
}
