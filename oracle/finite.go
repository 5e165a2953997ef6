package oracle

import "github.com/refrun/refrun/tensor"

// finite reports whether x is neither NaN nor an infinity.
func finite(x float64) bool { return x-x == 0 }

// ratio is a/b for a, b >= 0, and 0 for 0/0.
func ratio(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return a / b
}

func allFinite(x *tensor.Tensor) bool {
	for _, v := range x.Data {
		if !finite(v) {
			return false
		}
	}
	return true
}
