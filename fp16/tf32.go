package fp16

import (
	"fmt"
	"math"
)

// Rounding is a way of rounding to TF32.
type Rounding uint8

// The roundings that hardware and emulations have for TF32 operands.
const (
	NearestEven Rounding = iota
	NearestAway
	TowardZero
)

var roundingNames = [...]string{"even", "away", "truncate"}

// String returns the name used in mode strings.
func (r Rounding) String() string { return roundingNames[r] }

// ParseRounding returns the rounding of that name: even, away or truncate.
func ParseRounding(name string) (Rounding, error) {
	for i, n := range roundingNames {
		if n == name {
			return Rounding(i), nil
		}
	}
	return 0, fmt.Errorf("unknown rounding %q: want even, away or truncate", name)
}

// RoundTF32 rounds a float32 number to TF32.
func RoundTF32(v float64, r Rounding) float64 {
	b := math.Float32bits(float32(v))
	switch {
	case v-v != 0 || r == NearestEven:
		return TF32.Round(v)
	case r == NearestAway:
		b += 1 << 12
	}
	return float64(math.Float32frombits(b &^ (1<<13 - 1)))
}
