package initial

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// fill returns a state [c,n,n] of a condition.
func fill(t *testing.T, text string, seed uint64, c, n int) []float64 {
	t.Helper()
	cond, err := Parse("f", "initial", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float64, c*n*n)
	if err := cond.Fill(seed, c, n, x); err != nil {
		t.Fatal(err)
	}
	return x
}

// correlations returns the mean square of fields over seeds, and their correlation with
// themselves r columns on, and r rows on.
func correlations(t *testing.T, text string, seeds, n, r int) (variance, columns, rows float64) {
	k := 0.0
	for seed := range seeds {
		x := fill(t, text, uint64(seed), 1, n)
		for y := range n {
			for c := range n {
				v := x[y*n+c]
				variance += v * v
				columns += v * x[y*n+(c+r)%n]
				rows += v * x[(y+r)%n*n+c]
				k++
			}
		}
	}
	return variance / k, columns / variance, rows / variance
}

// TestFields compares random fields with the variance and the correlation of their
// definition, formed here as a sum over the spectrum with package math. The bounds are
// five standard errors, by the number of independent modes.
func TestFields(t *testing.T) {
	for _, c := range []struct {
		text     string
		n        int
		variance float64
		p        func(k2, n float64) float64
	}{
		{`{"type":"gaussian_random_field"}`, 64, 1, func(k2, _ float64) float64 { return math.Exp(-k2 * .01 / 2) }},
		{`{"type":"gaussian_random_field","length_scale":0.03,"variance":4}`, 64, 4,
			func(k2, _ float64) float64 { return math.Exp(-k2 * .0009 / 2) }},
		{`{"type":"gaussian_random_field","length_scale":0.05}`, 45, 1,
			func(k2, _ float64) float64 { return math.Exp(-k2 * .0025 / 2) }},
		{`{"type":"heavy_tailed","alpha":1.5,"variance":2}`, 64, 2, func(k2, _ float64) float64 {
			if k2 == 0 {
				return 0
			}
			return math.Pow(k2, -.75)
		}},
		{`{"type":"critical_fluctuation","correlation_length":6}`, 64, 1, func(k2, n float64) float64 {
			return math.Pow(k2/n/n+1./36, -.98)
		}},
		{`{"type":"white","variance":9}`, 32, 9, func(_, _ float64) float64 { return 1 }},
		// Spinlock's is white, of a variance of 1/(2 n^2).
		{`{"type":"spinlock_grf","length_scale":0.4}`, 128, 1. / (2 * 128 * 128), func(_, _ float64) float64 { return 1 }},
	} {
		sum, squares, lag := 0.0, 0.0, 0.0
		for y := range c.n {
			for x := range c.n {
				kx, ky := math.Remainder(float64(x), float64(c.n)), math.Remainder(float64(y), float64(c.n))
				p := c.p(4*math.Pi*math.Pi*(kx*kx+ky*ky), float64(c.n))
				sum += p
				squares += p * p
				lag += p * math.Cos(2*math.Pi*kx/float64(c.n)*2)
			}
		}
		const seeds = 24
		modes := sum * sum / squares * seeds
		v, columns, rows := correlations(t, c.text, seeds, c.n, 2)
		if e := 5 * math.Sqrt(4/modes); math.Abs(v/c.variance-1) > e {
			t.Errorf("%s: variance %v, want %v within %.2g of it", c.text, v, c.variance, e)
		}
		for _, got := range []float64{columns, rows} {
			if want, e := lag/sum, 5*math.Sqrt(4/modes); math.Abs(got-want) > e*(1-want)+1e-3 {
				t.Errorf("%s: correlation %v two pixels on, want %v", c.text, got, want)
			}
		}
	}
}

// TestMultiscale holds that the variance is the sum of equal shares.
func TestMultiscale(t *testing.T) {
	v, near, _ := correlations(t, `{"type":"multiscale_grf","scales":[0.01,0.1],"variance":2}`, 40, 64, 4)
	if math.Abs(v-2) > 0.35 {
		t.Errorf("variance %v", v)
	}
	// Four pixels on the field of length 0.01 has no correlation, the other e^-0.195.
	if want := math.Exp(-.195) / 2; math.Abs(near-want) > 0.08 {
		t.Errorf("correlation %v, want %v", near, want)
	}
}

// TestShapes compares fields without random parts with their formula.
func TestShapes(t *testing.T) {
	const n = 32
	for _, c := range []struct {
		text string
		want func(x, y float64) float64
	}{
		{`{"type":"phase_boundary","angle":0,"fluctuation":0,"width":2}`,
			func(x, _ float64) float64 { return math.Tanh((x - 16) / math.Sqrt2 / 2) }},
		{`{"type":"phase_boundary","angle":1.5707963267948966,"fluctuation":0}`,
			func(_, y float64) float64 { return math.Tanh((y - 16) / math.Sqrt2 / 3) }},
		{`{"type":"shock_front","angle":0,"position":0.25,"fluctuation":0,"ratio":3}`,
			func(x, _ float64) float64 { return 2 + math.Tanh((x-8)/2) }},
		{`{"type":"thermal_gradient","direction":"both","noise_level":0,"beta":2,"max_temperature":5}`,
			func(x, y float64) float64 { return 5 * (x + y) / 64 * (x + y) / 64 }},
	} {
		for i, v := range fill(t, c.text, 1, 2, n) {
			x, y := float64(i%n), float64(i/n%n)
			if want := c.want(x, y); math.Abs(v-want) > 3e-7*(1+math.Abs(want)) {
				t.Fatalf("%s: %v at (%v,%v), want %v", c.text, v, x, y, want)
			}
		}
	}
	// Of a packet the third channel is the sum of the squares of the others.
	x := fill(t, `{"type":"quantum_wave_packet"}`, 4, 3, n)
	for i := range n * n {
		if want := x[i]*x[i] + x[n*n+i]*x[n*n+i]; math.Abs(x[2*n*n+i]/want-1) > 0.02 && want > 1e-3 {
			t.Fatalf("density %v at %d, want about %v", x[2*n*n+i], i, want)
		}
	}
	// A spot pattern of the wavelength 8 returns after 8 pixels along its first wave only;
	// its mean square is 1/6.
	sum := 0.0
	for seed := range uint64(20) {
		for _, v := range fill(t, `{"type":"turing_pattern","wavelength":8,"perturbation":0}`, seed, 1, 64) {
			sum += v * v / 20 / 64 / 64
		}
	}
	if math.Abs(sum-1./6) > 0.01 {
		t.Errorf("mean square of spots %v", sum)
	}
	// Channels of mutual_information share a field, with the correlation 1-s^2.
	ab, aa := 0.0, 0.0
	for seed := range uint64(60) {
		x := fill(t, `{"type":"mutual_information","length_scale":0.02}`, seed, 2, 32)
		for i := range 32 * 32 {
			ab += x[i] * x[32*32+i]
			aa += x[i] * x[i]
		}
	}
	if math.Abs(ab/aa-.75) > 0.03 {
		t.Errorf("correlation of channels %v, want 0.75", ab/aa)
	}
}

// TestAll holds for every type that a state is made of float32 numbers, is not constant,
// is the same twice and another for another seed, and has the bits that it had.
func TestAll(t *testing.T) {
	h := sha256.New()
	for _, name := range Names() {
		text := fmt.Sprintf(`{"type":%q}`, name)
		a, b, c := fill(t, text, 1, 3, 24), fill(t, text, 1, 3, 24), fill(t, text, 2, 3, 24)
		same, varies := true, false
		for i, v := range a {
			if v != b[i] || float64(float32(v)) != v || math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%s: %v and %v at %d", name, v, b[i], i)
			}
			same = same && v == c[i]
			varies = varies || v != a[0]
		}
		if (same || !varies) != (name == "zeros") {
			t.Errorf("%s: same for another seed %v, varies %v", name, same, varies)
		}
		for seed := range uint64(12) {
			d := sha256.Sum256(fp16.Float32.Append(nil, fill(t, text, seed, 3, 24)))
			fmt.Fprintf(h, "%s %d %x\n", name, seed, d)
		}
	}
	for _, p := range []struct{ name, param, values string }{
		{"structured", "structure", "circle stripe blob"},
		{"composite", "pattern", "grid radial"},
		{"turing_pattern", "pattern", "stripes labyrinth"},
		{"morphogen_gradient", "profile", "power_law sigmoidal"},
		{"reaction_front", "front", "circular irregular"},
		{"bz_reaction", "pattern", "target turbulent"},
		{"shannon_entropy", "pattern", "patches"},
		{"chromatin_domain", "pattern", "AB"},
		{"regulatory_network", "topology", "random"},
		{"error_correcting_code", "code", "parity"},
	} {
		for _, v := range strings.Fields(p.values) {
			d := sha256.Sum256(fp16.Float32.Append(nil, fill(t, fmt.Sprintf(`{"type":%q,%q:%q}`, p.name, p.param, v), 1, 3, 24)))
			fmt.Fprintf(h, "%s %s %x\n", p.name, v, d)
		}
	}
	const want = "7fa664550e26cc39446cb73c8aca0540aeca1062dcff41503829e24f78e9fb9b"
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("digest of all types %s, want %s", got, want)
	}
}

// TestRefused holds the messages.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                         "f: initial.type: missing",
		`{"type":"perlin"}`:                          `f: initial.type: "perlin": want one of bz_reaction`,
		`{"type":"zeros","variance":1}`:              "f: initial.variance: unknown key",
		`{"type":"white","variance":-1}`:             "f: initial.variance: -1: want a number from 0",
		`{"type":"localized","num_blobs":0}`:         "f: initial.num_blobs: 0: want an integer from 1 to 256",
		`{"type":"multiscale_grf","scales":[]}`:      "f: initial.scales: []: want 1 to 64 numbers",
		`{"type":"turing_pattern","pattern":"dots"}`: `f: initial.pattern: "dots": want one of spots`,
	} {
		if _, err := Parse("f", "initial", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	c, err := Parse("f", "initial", []byte(`{"type":"quantum_wave_packet"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Fits(2, 8); err == nil || err.Error() != "type: quantum_wave_packet: 2 channels: want an operator of 3" {
		t.Errorf("%v", err)
	}
}
