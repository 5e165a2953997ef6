package measure

import "github.com/refrun/refrun/tensor"

// Finite reports whether x is neither NaN nor an infinity.
func Finite(x float64) bool { return x-x == 0 }

// Ratio is a/b for a, b >= 0, and 0 for 0/0.
func Ratio(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return a / b
}

// AllFinite reports whether no number is NaN or an infinity.
func AllFinite(x *tensor.Tensor) bool {
	for _, v := range x.Data {
		if !Finite(v) {
			return false
		}
	}
	return true
}
