package diff

import (
	"encoding/json"
	"math"
	"strconv"
)

// Number is a float64 that may be infinite or NaN in JSON, where it is then
// the string "inf", "-inf" or "nan".
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if !finite(float64(n)) {
		return json.Marshal(n.text())
	}
	return json.Marshal(float64(n))
}

// text is the shortest decimal number that reads back as n, or "inf", "-inf" or "nan".
func (n Number) text() string {
	switch x := float64(n); {
	case x != x:
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	return strconv.FormatFloat(float64(n), 'g', -1, 64)
}
