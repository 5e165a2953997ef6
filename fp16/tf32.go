package fp16

import (
	"fmt"
	"math"
)

// Rounding is a way to choose one of the two numbers of a grid around a real
// one. Every operation rounds to nearest even ([Format.Round]); the others are
// for making TF32 operands only.
type Rounding uint8

// The three ways to make a TF32 operand.
const (
	NearestEven Rounding = iota // to nearest, ties to the even last bit
	NearestAway                 // to nearest, ties away from zero
	TowardZero                  // toward zero
)

var roundings = [...]string{"even", "away", "truncate"}

// String returns even, away or truncate, as in mode strings.
func (r Rounding) String() string {
	if int(r) < len(roundings) {
		return roundings[r]
	}
	return fmt.Sprintf("Rounding(%d)", uint8(r))
}

// ParseRounding returns the rounding of that name: even, away or truncate. Any
// other name is an error that lists them.
func ParseRounding(name string) (Rounding, error) {
	for r, n := range roundings {
		if n == name {
			return Rounding(r), nil
		}
	}
	return 0, fmt.Errorf("unknown rounding %.60q: want even, away or truncate", name)
}

// RoundTF32 rounds v, a float32 or any other number, once to the grid of TF32:
// to 10 mantissa bits. An unknown rounding panics.
//
// PyTorch lets cuDNN compute float32 convolutions in TF32 unless told otherwise;
// NVIDIA GPUs since Ampere then take 10 bits of each operand's mantissa. How they
// choose them is not said, so all three ways have a name, and which one a device
// uses is a question to its results.
//
// The nearest roundings give an infinity from the largest number plus half its
// ulp on. TowardZero gives the largest number for every finite one beyond it;
// infinities stay. Subnormal numbers are kept, zeros keep v's sign, and any NaN
// becomes [NaN]: cutting its bits off could have made it an infinity.
func RoundTF32(v float64, r Rounding) float64 {
	even := TF32.Round(v)
	if r == NearestEven || v != v {
		return even
	}
	// n is |v| to nearest even, and q the ulp there. If n is finite, |v|-n is
	// exact and tells on which side of a tie |v| lies.
	a, n := math.Abs(v), math.Abs(even)
	_, b := walks[TF32].base(math.Float64bits(a))
	q := math.Float64frombits(b - 52<<52)
	switch r {
	case NearestAway:
		if a-n == q/2 {
			n += q // the largest number is odd: a tie above it went up already
		}
	case TowardZero:
		if n > a {
			n = min(n-q, TF32.Largest())
		}
	default:
		panic("fp16: unknown TF32 rounding")
	}
	return math.Copysign(n, v)
}
