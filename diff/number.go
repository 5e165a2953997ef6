package diff

import (
	"encoding/json"
	"math"
)

// Number is a float64 that may be infinite or NaN in JSON, where it is then
// the string "inf", "-inf" or "nan".
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	switch x := float64(n); {
	case x != x:
		return []byte(`"nan"`), nil
	case math.IsInf(x, 1):
		return []byte(`"inf"`), nil
	case math.IsInf(x, -1):
		return []byte(`"-inf"`), nil
	}
	return json.Marshal(float64(n))
}
