package noise

import "github.com/refrun/refrun/internal/exact/single"

// lanes32 are the numbers one vector register of the kernel holds.
type lanes32 [8]float32

// fma sets y = a*b + c, each lane as single.FMA does. y may be any of a, b and c.
func (y *lanes32) fma(a, b, c *lanes32) {
	for i := range y {
		// single.FMA, which is too long to be inlined.
		s := float64(float64(a[i])*float64(b[i])) + float64(c[i])
		if single.Doubt(s) {
			y[i] = single.Settle(a[i], b[i], c[i])
		} else {
			y[i] = float32(s)
		}
	}
}

// splat32 returns registers that hold one constant each.
func splat32(constants ...float32) []lanes32 {
	r := make([]lanes32, len(constants))
	for k, c := range constants {
		for i := range r[k] {
			r[k][i] = c
		}
	}
	return r
}
