package fp16

import "math"

// grid describes a format by its precision p (bits of the significand with the
// hidden one) and the exponents of its least and greatest normal number.
type grid struct {
	name       string
	p          int
	emin, emax int
}

var grids = [...]grid{
	Float64:  {"float64", 53, -1022, 1023},
	Float32:  {"float32", 24, -126, 127},
	TF32:     {"tf32", 11, -126, 127},
	Float16:  {"float16", 11, -14, 15},
	BFloat16: {"bfloat16", 8, -126, 127},
}

// Smallest returns the least subnormal number of the format, 2^(emin-p+1).
func (f Format) Smallest() float64 {
	g := grids[f]
	return math.Ldexp(1, g.emin-(g.p-1))
}

// SmallestNormal returns the least normal number of the format, 2^emin.
func (f Format) SmallestNormal() float64 { return math.Ldexp(1, grids[f].emin) }

// Largest returns the greatest finite number of the format, (2-2^(1-p)) 2^emax.
func (f Format) Largest() float64 {
	g := grids[f]
	return math.Ldexp(2-math.Ldexp(1, 1-g.p), g.emax)
}

// ulps are of each format the ulp of 1 and the least of all.
var ulps = func() (u [len(grids)]struct{ one, least float64 }) {
	for f, g := range grids {
		u[f].one, u[f].least = math.Ldexp(1, 1-g.p), Format(f).Smallest()
	}
	return u
}()

// Ulp returns the distance of the two numbers of the format around |v|, or
// the least subnormal below the normal range: 2^(e-p+1). v must be finite.
func (f Format) Ulp(v float64) float64 {
	binade := math.Float64frombits(math.Float64bits(v) & 0x7ff0000000000000) // 2^e; 0 for subnormal numbers
	return max(float64(ulps[f].one*binade), ulps[f].least)
}
