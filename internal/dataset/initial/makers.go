package initial

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// The ranges that parameters share.
func positive(name string, def float64) number { return number{name, def, 1e-9, 1e9, false} }
func upTo(name string, def float64) number     { return number{name, def, 0, 1e9, false} }
func count(name string, def float64) number    { return number{name, def, 1, 256, true} }

// seeded marks an angle, a place or a phase that is random unless it is given.
const randomly = -1e9

func orRandom(name string) number { return number{name, randomly, -1e9, 1e9, false} }

// given returns a parameter, or a random number of [lo,hi) if it is not given.
func (f *field) given(v, lo, hi float64) float64 {
	u := f.between(lo, hi) // drawn all the same, so that no other number depends on it
	if v == randomly {
		return u
	}
	return v
}

const tau = 2 * math.Pi

// makers are the types. Places and widths are in pixels unless it is said otherwise.
var makers = map[string]maker{
	"zeros": {fill: func(*field, args) error { return nil }},
	"white": {numbers: []number{upTo("variance", 1)}, fill: func(f *field, a args) error {
		s := math.Sqrt(a.n["variance"])
		for i := range f.x {
			v, err := f.normal()
			if err != nil {
				return err
			}
			f.x[i] = v * s
		}
		return nil
	}},
	"gaussian_random_field": {numbers: []number{upTo("length_scale", 0.1), upTo("variance", 1)},
		fill: func(f *field, a args) error {
			return f.grf(a.n["length_scale"], a.n["variance"])
		}},
	// What Spinlock makes of the same parameters: sqrt(v e^(-k^2 l^2/2)), k in cycles a
	// pixel, and a transform that divides by the number of pixels.
	"spinlock_grf": {numbers: []number{upTo("length_scale", 0.1), upTo("variance", 1)},
		fill: func(f *field, a args) error {
			l, v := a.n["length_scale"], a.n["variance"]
			amplitude := make([]float64, f.n*f.n)
			for y := range f.n {
				for x := range f.n {
					k2 := sq(f.wave(x)/(tau*f.size)) + sq(f.wave(y)/(tau*f.size))
					amplitude[y*f.n+x] = math.Sqrt(v*elem.Exp(-k2*l*l/2)) / sq(f.size)
				}
			}
			return f.filtered(amplitude)
		}},
	// Fields of several lengths, each of an equal share of the variance.
	"multiscale_grf": {numbers: []number{upTo("variance", 1)}, scales: []float64{.02, .05, .1, .2, .4},
		fill: func(f *field, a args) error {
			for _, s := range a.scales {
				if err := f.grf(s, a.n["variance"]/float64(len(a.scales))); err != nil {
					return err
				}
			}
			return nil
		}},
	// p = k^-alpha without the mean, which has no part in it.
	"heavy_tailed": {numbers: []number{{"alpha", 1.5, 0, 10, false}, upTo("variance", 1)},
		fill: func(f *field, a args) error {
			return f.spectrum(a.n["variance"], func(k2 float64) float64 {
				if k2 == 0 {
					return 0
				}
				return elem.Pow(k2, -a.n["alpha"]/2)
			})
		}},
	// The correlations of Ornstein and Zernike, p = (k^2 + xi^-2)^(-1+eta/2), xi in pixels.
	"critical_fluctuation": {numbers: []number{
		positive("correlation_length", 15), {"eta", 0.04, 0, 2, false}, upTo("variance", 1),
	}, fill: func(f *field, a args) error {
		return f.spectrum(a.n["variance"], func(k2 float64) float64 {
			return elem.Pow(k2/sq(f.size)+1/sq(a.n["correlation_length"]), float64(a.n["eta"]/2)-1)
		})
	}},
	"structured": {numbers: []number{count("num_structures", 5)},
		texts: []text{{"structure", []string{"any", "circle", "stripe", "blob"}}}, fill: structured},
	"localized": {
		numbers: []number{count("num_blobs", 5), positive("min_width", 5), positive("max_width", 15)}, fill: localized,
	},
	"composite": {numbers: []number{upTo("noise_level", .1), upTo("grf_length_scale", .05)},
		texts: []text{{"pattern", []string{"waves", "grid", "radial"}}}, fill: composite},
	"quantum_wave_packet": {numbers: []number{
		positive("sigma", 10), upTo("min_momentum", .1), upTo("max_momentum", .5), count("num_packets", 1),
	}, channels: 3, fill: packets},
	"turing_pattern": {numbers: []number{positive("wavelength", 16), upTo("perturbation", .1)},
		texts: []text{{"pattern", []string{"spots", "stripes", "labyrinth"}}}, fill: turing},
	"thermal_gradient": {numbers: []number{
		{"min_temperature", 0, -1e9, 1e9, false},
		{"max_temperature", 1, -1e9, 1e9, false},
		positive("beta", 1),
		upTo("noise_level", .1),
		positive("correlation_length", 5),
	}, texts: []text{{"direction", []string{"any", "x", "y", "both"}}}, fill: gradient},
	"morphogen_gradient": {numbers: []number{
		positive("decay_length", 20), count("num_sources", 1), upTo("noise_level", .05),
	}, texts: []text{{"profile", []string{"exponential", "power_law", "sigmoidal"}}}, fill: morphogen},
	"reaction_front": {numbers: []number{positive("width", 3), count("num_fronts", 1)},
		texts: []text{{"front", []string{"planar", "circular", "irregular"}}}, fill: reaction},
	"light_cone": {numbers: []number{
		positive("radius", 20), positive("smoothness", 2), positive("correlation_length", 5), count("num_cones", 1),
	}, fill: cones},
	"phase_boundary": {
		numbers: []number{positive("width", 3), orRandom("angle"), upTo("fluctuation", .1)}, fill: boundary,
	},
	"shock_front": {numbers: []number{
		orRandom("position"), orRandom("angle"), positive("width", 2), upTo("ratio", 2), upTo("fluctuation", .05),
	}, fill: shock},
	"interference_pattern": {numbers: []number{
		count("num_sources", 2), positive("wavelength", 16), positive("coherence_length", 100),
	}, fill: interference},
	"bz_reaction": {numbers: []number{
		positive("wavelength", 16), count("num_spirals", 1), {"phase", 0, -1e9, 1e9, false},
	}, texts: []text{{"pattern", []string{"spiral", "target", "turbulent"}}}, fill: spirals},
	"coherent_state": {numbers: []number{
		upTo("alpha", 1), positive("sigma", 10), upTo("omega", .2), count("num_modes", 1),
	}, version: 2, fill: coherent},
	"relativistic_wave_packet": {numbers: []number{
		{"velocity", .5, 0, .999, false}, positive("sigma", 10), upTo("min_momentum", .1), upTo("max_momentum", .5),
	}, fill: relativistic},
	"mutual_information": {
		numbers: []number{upTo("length_scale", .3), {"noise_level", .5, 0, 1, false}}, fill: shared,
	},
	"mixed": {
		numbers: []number{upTo("length_scale", .1), upTo("variance", 1), count("num_structures", 5)}, fill: mixed,
	},
	"shannon_entropy": {numbers: []number{
		{"min_entropy", .1, -20, 20, false}, {"max_entropy", 1, -20, 20, false}, count("patch_size", 8),
	}, texts: []text{{"pattern", []string{"gradient", "patches"}}}, fill: entropy},
	"cell_population": {numbers: []number{
		count("num_cells", 50), positive("radius", 3), {"clustering", .5, 0, 1, false}, positive("kernel_width", 5),
	}, fill: cells},
	"chromatin_domain": {numbers: []number{
		count("num_domains", 5), positive("min_size", 10), positive("max_size", 30), positive("sharpness", 3),
	}, texts: []text{{"pattern", []string{"TAD", "AB"}}}, fill: chromatin},
	"gene_expression": {numbers: []number{
		{"correlation", .3, 0, 1, false},
		{"min_expression", 0, -1e9, 1e9, false},
		{"max_expression", 1, -1e9, 1e9, false},
	}, fill: genes},
	"regulatory_network": {numbers: []number{
		count("num_nodes", 5), {"probability", .3, 0, 1, false}, {"decay", .2, 0, 1, false},
	}, texts: []text{{"topology", []string{"scale_free", "random"}}}, fill: network},
	"dla_cluster": {
		numbers: []number{{"num_particles", 500, 1, 10000, true}, {"stickiness", 1, .01, 1, false}}, fill: cluster,
	},
	"error_correcting_code": {numbers: []number{
		{"rate", .5, .01, 1, false}, count("block_size", 8), {"error_rate", .1, 0, 1, false},
	}, texts: []text{{"code", []string{"repetition", "parity"}}}, fill: code},
}
