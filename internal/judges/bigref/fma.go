package bigref

import (
	"math"
	"math/big"

	"github.com/refrun/refrun/fp16"
)

// FMA32 is a*b + c by rational arithmetic, for finite numbers. The sign of
// an exact zero is IEEE 754's: that of both terms if they agree, else +.
func FMA32(a, b, c float32) float32 {
	p := new(big.Rat).Mul(Rat(float64(a)), Rat(float64(b)))
	x := p.Add(p, Rat(float64(c)))
	if x.Sign() == 0 {
		if math.Signbit(float64(a)) != math.Signbit(float64(b)) && math.Signbit(float64(c)) {
			return float32(math.Copysign(0, -1))
		}
		return 0
	}
	return float32(Round(x, fp16.Float32))
}
