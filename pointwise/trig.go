package pointwise

import "github.com/refrun/refrun/internal/elem"

// sin, cos and tan are those of package elem, for angles of any size.
func sin(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	return within(elem.Sin(x), elem.TrigErr)
}

func cos(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return 1, 0
	}
	return within(elem.Cos(x), elem.TrigErr)
}

func tan(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	return within(elem.Tan(x), elem.TanErr)
}

// erf is elem.Erf.
func erf(x float64, _ *args) (y, bound float64) {
	if x == 0 {
		return x, 0
	}
	return within(elem.Erf(x), elem.ErfErr)
}
