package tensorcore

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// line is a row or a column, and the spans of its blocks.
type line struct {
	numbers []operand
	spans   []span
}

// span is the greatest and the least exponent of the numbers of some blocks that are not zero.
type span struct{ hi, lo int }

// spread is how many numbers a span is of, whole blocks.
func (u *Unit) spread() int { return max(u.Terms, 8) }

// line returns k numbers that are so many apart.
func (u *Unit) line(v []float64, k, apart int) line {
	n := u.spread()
	l := line{make([]operand, k), make([]span, (k+n-1)/n)}
	for i := range l.spans {
		s := span{none, over}
		for at := i * n; at < min(k, (i+1)*n); at++ {
			x := u.operand(v[at*apart])
			l.numbers[at] = x
			if x.e != none {
				s.hi, s.lo = max(s.hi, x.e), min(s.lo, x.e)
			}
		}
		l.spans[i] = s
	}
	u.arrange(l.numbers)
	return l
}

// chains adds the blocks of a row and of some columns, from one number to another, to accumulators. Every
// block waits for the one before it: a processor works on those of two columns at once.
func (u *Unit) chains(row line, columns []line, from, to int, c []float64) {
	truncates := (u.Kind == NVIDIA || u.Kind == Floor) && u.Output == fp16.Float32 && u.Terms%4 == 0
	for at := from; at < to; {
		i := at / u.spread()
		end := min(to, (i+1)*u.spread())
		a, s := row.numbers[at:end], row.spans[i]
		for j := 0; j < len(c); j++ {
			b, t := columns[j].numbers[at:end], columns[j].spans[i]
			if j+1 == len(c) || s.hi+t.hi > over/4 || len(a)%u.Terms != 0 {
				c[j] = u.chain(a, b, c[j])
				continue
			}
			two, right, next := (*[2]float64)(c[j:]), columns[j+1].numbers[at:end], columns[j+1].spans[i]
			switch {
			case truncates && s.hi+next.hi < over/4:
				u.truncateTwo(a, b, right, two)
			case u.Kind == Exact && exactly64(s, t, two[0]) && exactly64(s, next, two[1]):
				exactlyTwo(a, b, right, u.Terms, two)
			case u.Kind == Pairs && normalPairs(s, t) && normalPairs(s, next):
				pairsTwo(a, b, right, two)
			default:
				two[0], two[1] = u.chain(a, b, two[0]), u.chain(a, right, two[1])
			}
			j++
		}
		at = end
	}
}

// greatest4 is greatest of four products.
func greatest4(x, y *[4]operand) int {
	return max(max(x[0].e+y[0].e, x[1].e+y[1].e), max(x[2].e+y[2].e, x[3].e+y[3].e))
}

// cut4 is cut of four products.
func cut4(x, y *[4]operand, to float64) int64 {
	return int64(float64(x[0].v*y[0].v)*to) + int64(float64(x[1].v*y[1].v)*to) +
		(int64(float64(x[2].v*y[2].v)*to) + int64(float64(x[3].v*y[3].v)*to))
}

// exponent32 is [exponent] of a number of float32, but -1023 for 0.
func exponent32(c float64) int {
	e := int(math.Float64bits(c)>>52&0x7ff) - 1023
	if e < -126 && c != 0 {
		e = -126
	}
	return e
}

// truncateTwo is truncated, or floored, of a row's blocks and those of two columns, all of finite operands.
func (u *Unit) truncateTwo(row, left, right []operand, c *[2]float64) {
	terms, lowest, bits, floors, odd := u.Terms, u.Lowest[0], uint(23), u.Kind == Floor, false
	if floors {
		lowest = none
	}
	if u.Keep > 0 {
		bits = uint(u.Keep)
	}
	left, right = left[:len(row)], right[:len(row)]
	for at := 0; at+terms <= len(row); at += terms {
		topL, topR := lowest, lowest
		for i := at; i < at+terms; i += 4 {
			x := (*[4]operand)(row[i:])
			topL = max(topL, greatest4(x, (*[4]operand)(left[i:])))
			topR = max(topR, greatest4(x, (*[4]operand)(right[i:])))
		}
		eL, eR := exponent32(c[0]), exponent32(c[1])
		if floors {
			odd = eL < -512 || eR < -512 || eL > 127 || eR > 127 || topL < -512 || topR < -512
		} else {
			topL, topR = max(topL, eL), max(topR, eR)
			odd = max(topL, topR) > 300
		}
		if odd { // nothing to add to, or not finite
			c[0], c[1] = u.block(row[at:at+terms], left[at:at+terms], c[0]), u.block(row[at:at+terms], right[at:at+terms], c[1])
			continue
		}
		toL, toR := power(u.Fraction-topL), power(u.Fraction-topR)
		var sumL, sumR int64
		for i := at; i < at+terms; i += 4 {
			x := (*[4]operand)(row[i:])
			sumL += cut4(x, (*[4]operand)(left[i:]), toL)
			sumR += cut4(x, (*[4]operand)(right[i:]), toR)
		}
		if floors {
			c[0], c[1] = joined(sumL, topL, eL, c[0]), joined(sumR, topR, eR, c[1])
			continue
		}
		yL := float64(sumL+int64(c[0]*toL)) * power(topL-u.Fraction)
		yR := float64(sumR+int64(c[1]*toR)) * power(topR-u.Fraction)
		if c[0] = kept(yL, bits); !normal32(c[0]) {
			c[0] = towardZero(c[0])
		}
		if c[1] = kept(yR, bits); !normal32(c[1]) {
			c[1] = towardZero(c[1])
		}
	}
}

// normal32 reports whether a number of float32's digits is a normal one.
func normal32(y float64) bool { return math.Float64bits(y)>>52&0x7ff-897 < 254 }

// exactly64 reports whether a float64 holds exactly's sums of blocks of operands whose exponents are within spans,
// as it mostly does. All terms, and so all sums, are whole multiples of the last digit of any, and no sum of 9 terms
// is 16 times the greatest. A zero product changes no sum but -0, which is none of theirs.
func exactly64(s, t span, c float64) bool {
	top, low := s.hi+t.hi, s.lo+t.lo-20
	bits := math.Float64bits(c)
	if e := int(bits>>52&0x7ff) - 1023; e != -1023 {
		e = max(e, -126)
		top, low = max(top, e), min(low, e-23)
	}
	return top-low <= 46 && top <= 120 && low >= -149 && bits != 1<<63
}

// exactlyTwo is exactly of a row's blocks and those of two columns, where a float64 holds all sums.
func exactlyTwo(a, left, right []operand, terms int, c *[2]float64) {
	l, r := c[0], c[1]
	left, right = left[:len(a)], right[:len(a)]
	if terms == 4 {
		for len(a) >= 4 && len(left) >= 4 && len(right) >= 4 {
			x, y, z := (*[4]operand)(a), (*[4]operand)(left), (*[4]operand)(right)
			l = float64(float32(l + (float64(x[0].v*y[0].v) + float64(x[1].v*y[1].v)) +
				(float64(x[2].v*y[2].v) + float64(x[3].v*y[3].v))))
			r = float64(float32(r + (float64(x[0].v*z[0].v) + float64(x[1].v*z[1].v)) +
				(float64(x[2].v*z[2].v) + float64(x[3].v*z[3].v))))
			a, left, right = a[4:], left[4:], right[4:]
		}
	}
	for len(a) >= 2 && len(left) >= 2 && len(right) >= 2 {
		x, y, z := (*[2]operand)(a), (*[2]operand)(left), (*[2]operand)(right)
		l = float64(float32(l + (float64(x[0].v*y[0].v) + float64(x[1].v*y[1].v))))
		r = float64(float32(r + (float64(x[0].v*z[0].v) + float64(x[1].v*z[1].v))))
		a, left, right = a[2:], left[2:], right[2:]
	}
	c[0], c[1] = l, r
}

// normalPairs reports of blocks of operands whose exponents are within spans that neither a product nor a sum of
// products is subnormal, as all are whole multiples of a normal number.
func normalPairs(s, t span) bool { return s.lo+t.lo >= -106 && s.hi+t.hi <= 110 }

// pairsTwo is pairs of a row's blocks and those of two columns, where [normalPairs] says so of both.
func pairsTwo(a, left, right []operand, c *[2]float64) {
	l, r := flushed(float32(c[0])), flushed(float32(c[1]))
	left, right = left[:len(a)], right[:len(a)]
	for len(a) >= 4 && len(left) >= 4 && len(right) >= 4 {
		x, y, z := (*[4]operand)(a), (*[4]operand)(left), (*[4]operand)(right)
		l = flushed(
			l + ((float32(x[0].v*y[0].v) + float32(x[1].v*y[1].v)) + (float32(x[2].v*y[2].v) + float32(x[3].v*y[3].v))),
		)
		r = flushed(
			r + ((float32(x[0].v*z[0].v) + float32(x[1].v*z[1].v)) + (float32(x[2].v*z[2].v) + float32(x[3].v*z[3].v))),
		)
		a, left, right = a[4:], left[4:], right[4:]
	}
	c[0], c[1] = nearest(float64(l)), nearest(float64(r))
}
