package initial

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// packets are quantum wave packets: real part, imaginary part and density, the largest of
// which is 1.
func packets(f *field, a args) error {
	s := a.n["sigma"]
	area := f.n * f.n
	for range int(a.n["num_packets"]) {
		cx, cy := f.inside(), f.inside()
		k, angle := f.between(a.n["min_momentum"], max(a.n["min_momentum"], a.n["max_momentum"])), f.between(0, tau)
		wave := func(of func(float64) float64) func(x, y float64) float64 {
			return func(x, y float64) float64 {
				r2 := sq(x-cx) + sq(y-cy)
				return elem.Exp(-r2/(4*s*s)) * of(k*turned(x-cx, y-cy, angle))
			}
		}
		f.each(0, 1, wave(elem.Cos))
		f.each(1, 2, wave(elem.Sin))
	}
	most := 0.0
	for i := range area {
		d := sq(f.x[i]) + sq(f.x[area+i])
		f.x[2*area+i] = d
		most = max(most, d)
	}
	for i := range area {
		if most > 0 {
			f.x[2*area+i] /= most
		}
	}
	return nil
}

// coherent are waves of the wave number omega, each in a Gaussian envelope, on a random field
// of variance 1/2. The phase of a wave is zero at the corner, so that any meets the
// middle of its envelope; in version 1 zero did.
func coherent(f *field, a args) error {
	for range int(a.n["num_modes"]) {
		cx, cy, angle := f.place(), f.place(), f.between(0, tau)
		f.all(func(x, y float64) float64 {
			return a.n["alpha"] * gauss(sq(x-cx)+sq(y-cy), a.n["sigma"]) * elem.Cos(a.n["omega"]*turned(x, y, angle))
		})
	}
	return f.grf(.1, .5)
}

// relativistic is a wave packet that is shorter along its way by gamma.
func relativistic(f *field, a args) error {
	cx, cy, angle, phase := f.inside(), f.inside(), f.between(0, tau), f.between(0, tau)
	k := f.between(a.n["min_momentum"], max(a.n["min_momentum"], a.n["max_momentum"]))
	gamma2 := 1 / (1 - sq(a.n["velocity"]))
	f.all(func(x, y float64) float64 {
		along, across := turned(x-cx, y-cy, angle), turned(x-cx, y-cy, angle+math.Pi/2)
		return elem.Exp(-(float64(gamma2*along*along)+sq(across))/(2*sq(a.n["sigma"]))) * elem.Cos(float64(k*along)+phase)
	})
	return nil
}
