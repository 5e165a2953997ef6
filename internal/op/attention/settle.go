package attention

import (
	"math"
	"math/big"
	"sync"

	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/double"
	"github.com/refrun/refrun/internal/exact/elem"
)

// settler decides the roundings of a row that the bound left open.
type settler struct {
	s       *space
	i       int
	keys    []int // that take part
	added   []float64
	z       []double.Num
	weights []float64 // sharper ones, nil if there are none
	total   double.Num
	v       []float64
	exact   []*big.Float // z when they are needed
	sharp   []float64    // memory of weights
}

// settlers keeps their memory.
var settlers = sync.Pool{New: func() any { return new(settler) }}

// infinitelyBelow reports whether the z of query i and key j, which is not masked, is -Inf.
func (s *space) infinitelyBelow(i, j int) bool {
	sum := 0.0
	for e, k := range s.keys.Data[j*s.E:][:s.E] {
		sum += float64(s.q.Data[s.of[1]+i*s.E+e] * k)
	}
	return float64(s.scale*sum) == math.Inf(-1)
}

// settler returns that of query i.
func (s *space) settler(i int) *settler {
	t := settlers.Get().(*settler)
	t.s, t.i, t.keys, t.added, t.exact = s, i, t.keys[:0], t.added[:0], nil
	for j := range s.S {
		if added, out := s.masked(i, j); !out && !s.infinitelyBelow(i, j) {
			t.keys, t.added = append(t.keys, j), append(t.added, added)
		}
	}
	t.sharpen()
	return t
}

// done returns the memory.
func (t *settler) done() {
	t.s, t.exact = nil, nil
	settlers.Put(t)
}

// sharpen takes weights of z in two words. A compensated sum of E products p, as two words
// that are not added, is off by 1.01 (E u)^2 sum |p| (T. Ogita, S. M. Rump, S. Oishi, "Accurate
// sum and dot product", SIAM J. Sci. Comput. 26, 2005, proposition 4.5); scale, mask and the
// greatest by 2^-105 each of what they make, also after that. All of it must be less than
// 2^-65. What is less than e^-700 is left out.
func (t *settler) sharpen() {
	s := t.s
	room(&t.z, len(t.keys))
	q := s.q.Data[s.of[1]+t.i*s.E:][:s.E]
	size, most := 0.0, math.Inf(-1)
	for j, key := range t.keys {
		hi, lo, sizes := 0.0, 0.0, 0.0
		for e, k := range s.keys.Data[key*s.E:][:len(q)] {
			p := float64(q[e] * k)
			sum := hi + p
			rest := sum - hi
			lo += (hi - (sum - rest)) + (p - rest)
			hi = sum
			sizes += math.Abs(p)
		}
		p := double.Sum(hi, lo).Scaled(s.scale)
		z := p.Add(t.added[j])
		size = max(size, float64(math.Abs(s.scale)*sizes*(1+float64(float64(s.E)*float64(s.E))))+math.Abs(z.Hi))
		most = max(most, z.Hi)
		t.z[j] = z
	}
	if t.weights = nil; !(size+math.Abs(most) < 0x1p36) {
		return
	}
	t.weights, t.total = room(&t.sharp, len(t.z)), double.Num{}
	for j, z := range t.z {
		t.weights[j] = 0
		if d := z.Add(-most); d.Hi > -700 {
			t.weights[j] = elem.ExpSum(d.Hi, d.Lo)
		}
		t.total = t.total.Add(t.weights[j])
	}
}

// settle returns column c of the row.
func (t *settler) settle(c int) float64 {
	s, f := t.s, t.s.dst.Format
	v, infinite := room(&t.v, len(t.keys)), 0.0
	for j, k := range t.keys {
		v[j] = s.val.Data[k*s.V+c]
		if v[j]-v[j] != 0 {
			infinite += v[j]
		}
	}
	if infinite != 0 {
		return f.Round(infinite)
	}
	if t.weights != nil {
		// Weights are off by 1.1 u and less than 2^-60 of themselves, their sums and the
		// quotient, in two words, by less than 2^-70; taking the first word costs u more.
		sum, size := double.Num{}, 0.0
		for j, w := range t.weights {
			p := double.Product(w, v[j])
			sum = sum.Plus(p)
			size += math.Abs(p.Hi)
		}
		y := sum.Over(t.total).Hi
		bound := float64(u*(float64(1.2*(size/t.total.Hi))+float64(2.3*math.Abs(y)))) + float64(float64(len(v))*0x1p-870)
		if size == 0 {
			y, bound = 0, 0
			for _, x := range v {
				if x != 0 {
					bound = 1
				}
			}
		}
		if y, ok := f.Decide(y, bound); ok {
			return y
		}
	}
	return f.Round(exact.Weighted(t.exactly(), v))
}

// exactly returns z without error: 4096 bits are more than there are.
func (t *settler) exactly() []*big.Float {
	s := t.s
	for j := len(t.exact); j < len(t.keys); j++ {
		var sum exact.Sum
		for e, k := range s.keys.Data[t.keys[j]*s.E:][:s.E] {
			sum.Add(float64(s.q.Data[s.of[1]+t.i*s.E+e] * k))
		}
		m, exp := sum.Int()
		z := new(big.Float).SetPrec(4096).SetInt(m)
		z.SetMantExp(z, exp)
		z.Mul(z, big.NewFloat(s.scale))
		t.exact = append(t.exact, z.Add(z, big.NewFloat(t.added[j])))
	}
	return t.exact
}
