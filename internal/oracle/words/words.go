// Package words has what reports are made to say in more than one place.
package words

import (
	"fmt"
	"math"
)

// UnknownNoise is the name of a stream that cannot be reproduced.
const UnknownNoise = "unknown"

// Three formats a number with three significant digits.
func Three(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 0.01 && a < 1000:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2e", v)
}

// Within returns a slice of a step, ", " before it, to follow the realization that was named; "" if it is all of that.
func Within(slice string, realization int) string {
	if slice == "" || slice == fmt.Sprintf("realization %d", realization) {
		return ""
	}
	return ", " + slice
}
