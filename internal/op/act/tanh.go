package act

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// tanh evaluates the hyperbolic tangent, good to elem.TanhErr.
func tanh(x float64) (y, bound float64) {
	y = elem.Tanh(x)
	return y, (elem.TanhErr + 0.1) * elem.U * math.Abs(y)
}
