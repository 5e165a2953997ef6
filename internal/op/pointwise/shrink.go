package pointwise

import (
	"math"

	"github.com/refrun/refrun/internal/exact"
)

func init() {
	register(
		function{"hardshrink", []param{{"lambd", 0.5, number}}, nil, hardshrink, nil},
		function{"softshrink", []param{{"lambd", 0.5, extent}}, nil, softshrink, oddSoftshrink},
	)
}

// hardshrink is +0 within [-lambd, lambd], and x outside.
func hardshrink(x float64, p *args) (y, bound float64) {
	if -p[0] <= x && x <= p[0] {
		return 0, 0
	}
	return x, 0
}

// softshrink is a zero of x's sign within [-lambd, lambd], and nearer to 0 by lambd outside.
func softshrink(x float64, p *args) (y, bound float64) {
	y, e := shrunk(x, p)
	if e == 0 || e != e {
		return y, 0
	}
	return within(y, 1)
}

// shrunk returns softshrink as a sum of two float64 numbers.
func shrunk(x float64, p *args) (y, e float64) {
	switch {
	case x > p[0]:
		return exact.TwoSum(x, -p[0])
	case x < -p[0]:
		return exact.TwoSum(x, p[0])
	case x != x:
		return x, 0
	}
	return math.Copysign(0, x), 0
}

// oddSoftshrink is softshrink rounded to odd.
func oddSoftshrink(x float64, p *args) float64 {
	y, e := shrunk(x, p)
	if e != 0 && math.Float64bits(y)&1 == 0 {
		y = math.Nextafter(y, math.Copysign(math.Inf(1), e))
	}
	return y
}
