package initial

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// gradient is a temperature that rises along x, y or both, and a random field.
func gradient(f *field, a args) error {
	lo, hi := a.n["min_temperature"], a.n["max_temperature"]
	along := f.pick(3)
	if i := map[string]int{"any": -1, "x": 0, "y": 1, "both": 2}[a.s["direction"]]; i >= 0 {
		along = i
	}
	f.all(func(x, y float64) float64 {
		u := [3]float64{x, y, (x + y) / 2}[along] / f.size
		return lo + float64((hi-lo)*elem.Pow(u, a.n["beta"]))
	})
	return f.grf(a.n["correlation_length"]/f.size, sq(a.n["noise_level"]))
}

// morphogen adds the profiles of sources, of a strength of 1/2 to 1, and a random field;
// then all is taken to [0,1].
func morphogen(f *field, a args) error {
	l := a.n["decay_length"]
	for range int(a.n["num_sources"]) {
		cx, cy, strength := f.place(), f.place(), f.between(.5, 1)
		f.all(func(x, y float64) float64 {
			r := dist(x, y, cx, cy)
			switch a.s["profile"] {
			case "power_law":
				return strength / (1 + sq(r/l))
			case "sigmoidal":
				return strength * sigmoid((l-r)/(.2*l))
			}
			return strength * elem.Exp(-r/l)
		})
	}
	if err := f.grf(.05, sq(a.n["noise_level"])); err != nil {
		return err
	}
	f.rescale()
	return nil
}

// reaction is the largest of fronts (1+tanh(d/w))/2: straight, around a place, or along
// a level of a random field.
func reaction(f *field, a args) error {
	w := a.n["width"]
	level := func(d float64) float64 { return (1 + elem.Tanh(d/w)) / 2 }
	most := make([]float64, len(f.x))
	for range int(a.n["num_fronts"]) {
		cx, cy, angle, radius := f.place(), f.place(), f.between(0, tau), float64(f.between(.2, .5)*f.size)
		clear(f.x)
		switch a.s["front"] {
		case "planar":
			f.all(func(x, y float64) float64 { return level(turned(x-cx, y-cy, angle)) })
		case "circular":
			f.all(func(x, y float64) float64 { return level(radius - dist(x, y, cx, cy)) })
		case "irregular":
			if err := f.grf(.1, 1); err != nil {
				return err
			}
			for i, v := range f.x { // a unit of the field is a tenth of the side
				f.x[i] = level(v * f.size / 10)
			}
		}
		for i, v := range f.x {
			most[i] = max(most[i], v)
		}
	}
	copy(f.x, most)
	return nil
}

// boundary is tanh(d/(sqrt(2) w)) across a line through the middle, and a random field.
func boundary(f *field, a args) error {
	angle, m := f.given(a.n["angle"], 0, tau), f.size/2
	f.all(func(x, y float64) float64 { return elem.Tanh(turned(x-m, y-m, angle) / (math.Sqrt2 * a.n["width"])) })
	return f.grf(.1, sq(a.n["fluctuation"]))
}

// shock is 1 before a line and ratio behind it, with a width in pixels; the place of the
// line is a fraction of the side. A random field is added.
func shock(f *field, a args) error {
	at, angle := f.given(a.n["position"], .3, .7), f.given(a.n["angle"], 0, tau)
	f.all(func(x, y float64) float64 {
		d := turned(x/f.size-.5, y/f.size-.5, angle) - (at - .5)
		t := elem.Tanh(d * f.size / a.n["width"])
		return float64((1-t)/2) + float64(a.n["ratio"]*(1+t)/2)
	})
	return f.grf(.05, sq(a.n["fluctuation"]))
}
