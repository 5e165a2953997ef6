package initial

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// structured adds circles, stripes and blobs, each to one channel at random, of normal
// amplitudes: 2n for circles, 3n for blobs, 1 for stripes. All random numbers are drawn
// for every structure, so that its kind decides no other's.
func structured(f *field, a args) error {
	kind := map[string]int{"circle": 0, "stripe": 1, "blob": 2, "any": -1}[a.s["structure"]]
	for range int(a.n["num_structures"]) {
		k, c := f.pick(3), f.pick(f.c)
		if kind >= 0 {
			k = kind
		}
		cx, cy, radius := f.place(), f.place(), f.uniform()
		angle, cycles := f.between(0, tau), f.between(1, 6)
		n, err := f.normal()
		if err != nil {
			return err
		}
		f.each(c, c+1, func(x, y float64) float64 {
			switch k {
			case 0:
				if dist(x, y, cx, cy) < 0.2*f.size*radius {
					return 2 * n
				}
				return 0
			case 1:
				return elem.Sin(turned(x, y, angle) * cycles * tau / f.size)
			}
			return 3 * n * gauss(sq(x-cx)+sq(y-cy), 0.15*f.size*max(radius, 1e-6))
		})
	}
	return nil
}

// localized adds Gaussian blobs, of an amplitude 2n of each channel's own.
func localized(f *field, a args) error {
	for range int(a.n["num_blobs"]) {
		cx, cy := f.place(), f.place()
		width := f.between(a.n["min_width"], max(a.n["min_width"], a.n["max_width"]))
		for c := range f.c {
			n, err := f.normal()
			if err != nil {
				return err
			}
			f.each(c, c+1, func(x, y float64) float64 { return 2 * n * gauss(sq(x-cx)+sq(y-cy), width) })
		}
	}
	return nil
}

// composite is a regular pattern, the same in all channels, and a random field.
func composite(f *field, a args) error {
	angle, u := f.between(0, tau), f.uniform()
	k := tau / f.size
	switch a.s["pattern"] {
	case "waves":
		f.all(func(x, y float64) float64 { return elem.Sin(turned(x, y, angle) * (float64(4*u) + 2) * k) })
	case "grid":
		f.all(func(x, y float64) float64 { return elem.Sin(x*(float64(3*u)+3)*k) * elem.Sin(y*(float64(3*u)+3)*k) })
	case "radial":
		m := f.size / 2
		f.all(func(x, y float64) float64 { return elem.Sin(dist(x, y, m, m) * (float64(4*u) + 2) * k) })
	}
	return f.grf(a.n["grf_length_scale"], sq(a.n["noise_level"]))
}

// turing is a sum of waves of one length: three at 60 degrees make spots, one stripes,
// two to four anywhere a labyrinth.
func turing(f *field, a args) error {
	k := tau / a.n["wavelength"]
	start, waves := f.between(0, tau), 1
	angles := []float64{start, start + tau/3, start + 2*tau/3}
	phases := make([]float64, 4)
	switch a.s["pattern"] {
	case "spots":
		waves = 3
	case "labyrinth":
		waves = 2 + f.pick(3)
		angles = nil
		for i := range phases {
			angles = append(angles, f.between(0, tau))
			phases[i] = f.between(0, tau)
		}
	}
	f.all(func(x, y float64) float64 {
		sum := 0.0
		for i := range waves {
			sum += elem.Cos(float64(k*turned(x, y, angles[i])) + phases[i])
		}
		return sum / float64(waves)
	})
	return f.grf(a.n["wavelength"]/f.size, sq(a.n["perturbation"]))
}

// interference adds circular waves that fade with the distance from their sources.
func interference(f *field, a args) error {
	k, l := tau/a.n["wavelength"], a.n["coherence_length"]
	type source struct{ x, y, phase float64 }
	var all []source
	for range int(a.n["num_sources"]) {
		all = append(all, source{f.place(), f.place(), f.between(0, tau)})
	}
	for c := range f.c {
		shift := tau * float64(c) / float64(f.c)
		f.each(c, c+1, func(x, y float64) float64 {
			sum := 0.0
			for _, s := range all {
				r := dist(x, y, s.x, s.y)
				sum += float64(elem.Cos(float64(k*r)+s.phase+shift) * gauss(r*r, l))
			}
			return sum
		})
	}
	f.normalize()
	return nil
}

// spirals are the waves of the Belousov-Zhabotinsky reaction: the first channel their
// cosine, the second their sine, all others the mean of the two.
func spirals(f *field, a args) error {
	k, n := tau/a.n["wavelength"], int(a.n["num_spirals"])
	arms := 1.0
	switch a.s["pattern"] {
	case "target":
		arms = 0
	case "turbulent":
		n *= 3 + f.pick(5)
	}
	type source struct{ x, y, arms float64 }
	var all []source
	for range n {
		s := source{f.place(), f.place(), arms}
		if f.uniform() < 0.5 {
			s.arms = -arms
		}
		all = append(all, s)
	}
	for c := range f.c {
		f.each(c, c+1, func(x, y float64) float64 {
			u, v := 0.0, 0.0
			for _, s := range all {
				p := float64(s.arms*elem.Atan2(y-s.y, x-s.x)) - float64(k*dist(x, y, s.x, s.y))
				u += elem.Cos(p)
				v += elem.Sin(p + a.n["phase"])
			}
			switch c {
			case 0:
				return u
			case 1:
				return v
			}
			return (u + v) / 2
		})
	}
	f.normalize()
	return nil
}

// cones are random fields within circles of soft edges.
func cones(f *field, a args) error {
	sum := make([]float64, len(f.x))
	area := f.n * f.n
	for range int(a.n["num_cones"]) {
		cx, cy := f.place(), f.place()
		clear(f.x)
		if err := f.grf(a.n["correlation_length"]/f.size, 1); err != nil {
			return err
		}
		for i, v := range f.x {
			x, y := float64(i%f.n), float64(i%area/f.n)
			sum[i] += float64(v * sigmoid((a.n["radius"]-dist(x, y, cx, cy))/a.n["smoothness"]))
		}
	}
	copy(f.x, sum)
	return nil
}

// shared is sqrt(1-s^2) times a random field that all channels share, and s times one of
// each channel's own, so that the correlation of two channels is 1-s^2.
func shared(f *field, a args) error {
	s := a.n["noise_level"]
	latent := newField(0, 1, f.n, make([]float64, f.n*f.n))
	latent.draws = f.draws
	if err := latent.grf(a.n["length_scale"], 1); err != nil {
		return err
	}
	for i := range f.x {
		v, err := f.normal()
		if err != nil {
			return err
		}
		f.x[i] = float64(latent.x[i%len(latent.x)]*math.Sqrt(1-sq(s))) + float64(s*v)
	}
	return nil
}
