package attention

import "math"

// The bound of the float64 evaluation, u = 2^-53, n keys, E numbers of a query.
//
// A score is a sum of E products, exact but for the additions: off by E u |q| |k| at most
// (norms, by Cauchy and Schwarz), scale and mask round once more each, so that z is off by
//
//	d_j = 1.001 u (|scale| (E+2) |q| |k_j| + |z_j|) + 2^-1000.
//
// m, the z that is taken from all, cancels from the result: it may be any number, and z - m
// is two words without error. For d_j below 2^-10 a weight is off by the part h_j = 1.001
// (d_j + 1.1 u) of itself (elem.ExpErr). One that is below e^-1000 for all z that there may
// be is 0 here, which with what is lost to underflow is less than 2^-900 of the greatest.
// Any other d_j leaves its row open. The n products with v_c round by u each and their sum
// by n-1 more, the sum of the weights w by n-1, and the quotient by u: with W the computed
// sum of weights, and by Cauchy and Schwarz once more,
//
//	|y^ - y| <= 1.01 ((|h w| + (n+1) u |w|) |v_c| + |y^| (sum h w + (n+2) u W)) / W + n 2^-900 |v_c|,
//
// where 1.01 has room for products of errors and the roundings of the bound and the norms.

const u = 0x1p-53

// rowBound is the sum of the weights of a row, and what its results are off by.
type rowBound struct {
	is           kind
	sum          float64
	norms, sizes float64 // times a column's norm, and times a result
}

type kind uint8

const (
	usual kind = iota
	notANumber
	nothing // no key takes part
	open    // no bound
)

// of returns the bound of a result y in a column of that norm.
func (b *rowBound) of(y, norm float64) float64 {
	if b.is == open {
		return math.Inf(1)
	}
	return float64(b.norms*norm) + float64(b.sizes*math.Abs(y))
}

// norms takes those of the keys and of the columns of the values.
func (s *space) norms() {
	k, v := room(&s.kNorms, s.S), room(&s.vNorms, s.V)
	for j := range k {
		k[j] = norm(s.keys.Data[j*s.E:][:s.E])
	}
	clear(v)
	for j := range s.S {
		for c, x := range s.val.Data[j*s.V:][:s.V] {
			v[c] += float64(x * x)
		}
	}
	for c := range v {
		v[c] = math.Sqrt(v[c])
	}
}

func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v * v)
	}
	return math.Sqrt(sum)
}

// bound turns the z of query i into weights.
func (s *space) bound(b *rowBound, i int, z []float64, greatest float64) {
	q := 1.001 * u * math.Abs(s.scale) * float64(s.E+2) * norm(s.part.Data[(i-s.first)*s.E:][:s.E])
	var hw2, w2, hw float64
	for j, v := range z {
		if v == math.Inf(-1) {
			z[j] = 0
			continue
		}
		d := float64(q*s.kNorms[j]) + float64(1.001*u*math.Abs(v)) + 0x1p-1000
		if v-greatest+float64(2*d) < -1001 {
			z[j] = 0
			continue
		}
		if !(d < 0x1p-10) {
			b.is = open
		}
		w := weight(v, greatest)
		h := float64(1.001 * (d + 1.1*u) * w)
		z[j] = w
		b.sum += w
		hw += h
		hw2 += float64(h * h)
		w2 += float64(w * w)
	}
	n := float64(s.S)
	b.norms = 1.01*(math.Sqrt(hw2)+float64((n+1)*u*math.Sqrt(w2)))/b.sum + float64(n*0x1p-900)
	b.sizes = 1.01 * (hw/b.sum + float64((n+2)*u))
}
