package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/dataset/sample"
	"github.com/refrun/refrun/internal/ground/strict"
)

// own is a specification in the project's own form, temporal one in Spinlock's with the
// space of its temporal datasets.
const (
	own = `{"name":"t","operators":40,"seed":3,
"operator":{"num_layers":1,"base_channels":4,"grid_size":8,"noise_type":"gaussian"},
"rollout":{"num_timesteps":4,"num_realizations":2},
"space":{"operator.noise_scale":{"log":[0.001,1]},"operator.kernel_size":{"choice":[3,5],"weights":[3,1]},
"rollout.policy_type":{"choice":["convex","residual"]},"operator.num_layers":{"integer":[0,2]},
"initial":{"choice":[{"type":"white"},{"type":"localized","num_blobs":2}]},"rollout.dt":{"real":[0.01,0.1]}}}`

	temporal = `{"version":"1.0","metadata":{"name":"temporal","purpose":"none"},
"parameter_space":{
"architecture":{"num_layers":{"type":"integer","bounds":[2,5],"description":"d"},
 "base_channels":{"type":"integer","bounds":[16,64]},
 "kernel_size":{"type":"choice","choices":[3,5,7]},"activation":{"type":"choice","choices":["gelu"]},
 "dropout_rate":{"type":"continuous","bounds":[0.0,0.3]}},
"stochastic":{"noise_type":{"type":"choice","choices":["gaussian"]},
 "noise_scale":{"type":"continuous","bounds":[0.00001,1.0],"log_scale":true},
 "noise_schedule":{"type":"choice","choices":["constant"]},"spatial_correlation":{"type":"continuous",
 "bounds":[0,0.3]}},
"operator":{"normalization":{"type":"choice","choices":["instance"]},"grid_size":{"type":"choice","choices":[128]}},
"evolution":{"update_policy":{"type":"choice","choices":["residual","convex"],"weights":[0.75,0.25]}}},
"sampling":{"strategy":"sobol_stratified","sobol":{"scramble":true,"seed":42},
 "stratification":{"method":"adaptive"},"total_samples":16384,"batch_size":100},
"simulation":{"device":"cuda","input_generation":{"method":"sampled",
 "ic_type_weights":{"gaussian_random_field_v0":0.25,"multiscale_grf_low":0.25,"structured":0.5},
 "gaussian_random_field_v0":{"length_scale":0.05,"variance":0.25},
 "structured":{"num_structures":3,"structure_types":["stripe"]}},
 "precision":"float32","num_realizations":5,"num_timesteps":500},
"dataset":{"output_path":"x.h5","storage":{"backend":"hdf5"}},"logging":{"level":"INFO"}}`
)

func parse(t *testing.T, text string) *Units {
	t.Helper()
	s, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Units("f")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestAxes compares values at chosen numbers with those of the rules in the axes' document.
func TestAxes(t *testing.T) {
	for _, c := range []struct {
		text string
		at   map[float64]string
	}{
		{`{"integer":[2,5]}`, map[float64]string{0: "2", .2499: "2", .25: "3", .75: "5", .9999: "5"}},
		{`{"real":[-1,3]}`, map[float64]string{0: "-1", .5: "1", .75: "2"}},
		{`{"log":[0.01,1]}`, map[float64]string{0: "0.01", .5: "0.1"}},
		{`{"choice":["a","b","c"]}`, map[float64]string{0: `"a"`, .34: `"b"`, .99: `"c"`}},
		{`{"choice":[1,2,3],"weights":[1,0,3]}`, map[float64]string{.24: "1", .25: "3", .9: "3"}},
		{`{"choice":[1,2],"weights":[1,0]}`, map[float64]string{.9999999: "1"}},
		{`{"boolean":true}`, map[float64]string{.5: "false", .6: "true"}},
	} {
		a := axisOf(t, c.text)
		for u, want := range c.at {
			got := string(a.value(u))
			var x, y float64
			if json.Unmarshal([]byte(got), &x) == nil && json.Unmarshal([]byte(want), &y) == nil && math.Abs(x-y) < 1e-15 {
				continue
			}
			if got != want {
				t.Errorf("%s at %v: %s, want %s", c.text, u, got, want)
			}
		}
	}
	// Spinlock's integers: the ends half as often as the others.
	n := map[string]int{}
	a := &Axis{kind: rounded, lo: 2, hi: 5}
	for i := range 6000 {
		n[string(a.value((float64(i)+.5)/6000))]++
	}
	if n["2"] != 1000 || n["3"] != 2000 || n["4"] != 2000 || n["5"] != 1000 {
		t.Errorf("%v", n)
	}
}

// TestOrder holds that a unit is the same whenever it is made, that another seed makes
// another one, and that seeds and identities are never the same twice.
func TestOrder(t *testing.T) {
	a, b, other := parse(t, own), parse(t, own), parse(t, strings.Replace(own, `"seed":3`, `"seed":4`, 1))
	ids, seeds := map[string]int{}, map[uint64]int{}
	for i := a.Operators - 1; i >= 0; i-- {
		x, err := a.At(i)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.At((i * 7) % 40); err != nil {
			t.Fatal(err)
		}
		y, err := b.At(i)
		if err != nil {
			t.Fatal(err)
		}
		z, err := other.At(i)
		if err != nil {
			t.Fatal(err)
		}
		if x.Identity != y.Identity || x.Identity == z.Identity {
			t.Fatalf("unit %d: %s, %s, %s", i, x.Identity, y.Identity, z.Identity)
		}
		ids[x.Identity]++
		seeds[x.WeightsSeed]++
		seeds[x.Rollout.BaseSeed]++
		seeds[x.InitialSeed]++
	}
	if len(ids) != 40 || len(seeds) != 120 {
		t.Errorf("%d identities, %d seeds", len(ids), len(seeds))
	}
}

// TestPrefix holds that more operators of a Sobol sequence leave the first ones as they are.
func TestPrefix(t *testing.T) {
	a, b := parse(t, own), parse(t, strings.Replace(own, `"operators":40`, `"operators":4000`, 1))
	x, err := a.At(17)
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.At(17)
	if err != nil || x.Identity != y.Identity {
		t.Errorf("%v, %s and %s", err, x.Identity, y.Identity)
	}
}

// TestSpinlock reads a configuration of Spinlock's: its points are scipy's, in the order
// of its parameters, and what reaches nothing is named.
func TestSpinlock(t *testing.T) {
	u := parse(t, temporal)
	if u.points.Dims != 12 || u.points.Method != sample.Sobol {
		t.Fatalf("%+v", u.points)
	}
	h := sha256.New()
	kinds, policies, layers := map[string]int{}, map[string]int{}, map[int]int{}
	for i := range u.Operators {
		x := make([]float64, 12)
		u.sampler.At(i, x)
		for _, v := range x {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
			h.Write(b[:])
		}
		if i >= 2000 {
			continue
		}
		one, err := u.At(i)
		if err != nil {
			t.Fatal(err)
		}
		kinds[string(one.InitialText)]++
		policies[string(one.Rollout.Policy)]++
		layers[one.Operator.NumLayers]++
		if want := 16 + int(math.RoundToEven(x[1]*48)); one.Operator.BaseChannels != want {
			t.Fatalf("unit %d: %d channels, want %d", i, one.Operator.BaseChannels, want)
		}
		if want := 1e-5 * math.Pow(1e5, x[6]); math.Abs(one.Operator.NoiseScale/want-1) > 1e-13 {
			t.Fatalf("unit %d: noise %v, want %v", i, one.Operator.NoiseScale, want)
		}
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); !strings.HasPrefix(got, "223d1a6e8fef59f5") {
		t.Errorf("points %s are not scipy's", got)
	}
	if n := kinds[`{"num_structures":3,"structure":"stripe","type":"structured"}`]; n < 900 || n > 1100 {
		t.Errorf("%v", kinds)
	}
	if n := kinds[`{"length_scale":0.05,"type":"gaussian_random_field","variance":0.25}`]; n < 400 || n > 600 {
		t.Errorf("%v", kinds)
	}
	if n := policies["residual"]; n < 1480 || n > 1520 {
		t.Errorf("%v", policies)
	}
	if layers[2] > layers[3] || layers[5] > layers[4] {
		t.Errorf("%v", layers)
	}
	for _, want := range []string{"sampling.stratification: not read", "simulation.device: not read",
		"dataset.storage: not read", "simulation.input_generation.structured: read; Spinlock drops it"} {
		if !strings.Contains(strings.Join(u.Notes, "\n"), want) {
			t.Errorf("%q: not in %q", want, u.Notes)
		}
	}
}

// TestSpinlockInitial: parameters of initial conditions have their meaning under Spinlock's
// names, and those that have none are noted.
func TestSpinlockInitial(t *testing.T) {
	for _, c := range []struct{ block, want, note string }{
		{`"quantum_wave_packet":{"momentum_range":[0.2,0.3],"sigma":8}`,
			`{"max_momentum":0.3,"min_momentum":0.2,"sigma":8,"type":"quantum_wave_packet"}`, ""},
		{`"thermal_gradient":{"gradient_direction":"random","temperature_range":[0.5,2]}`,
			`{"direction":"any","max_temperature":2,"min_temperature":0.5,"type":"thermal_gradient"}`, ""},
		{`"shock_front":{"shock_angle":null,"shock_width":3,"amplitude_range":[1,2]}`,
			`{"type":"shock_front","width":3}`, "shock_front.amplitude_range: not read"},
		{`"localized":{"num_blobs":[1,5]}`, `{"type":"localized"}`, "localized.num_blobs: not read"},
		{`"multiscale_grf":{"scales":[0.1,0.2]}`, `{"scales":[0.1,0.2],"type":"multiscale_grf"}`, ""},
	} {
		kind := c.block[1 : 1+strings.Index(c.block[1:], `"`)]
		text := temporal[:strings.Index(temporal, `"method":"sampled"`)] + `"method":"` + kind + `",` + c.block +
			`},"num_realizations":5,"num_timesteps":500},"dataset":{}}`
		s, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(s.Notes, "\n")
		if string(s.Initial) != c.want || !strings.Contains(notes, c.note) ||
			c.note == "" && strings.Contains(notes, kind+".") {
			t.Errorf("%s: %s, want %s; %s", c.block, s.Initial, c.want, notes)
		}
	}
	text := strings.Replace(temporal, `"precision"`, `"operator_type":"u_afno","precision"`, 1)
	text = strings.Replace(text, `"evolution":`, `"u_afno":{"modes":{"type":"integer","bounds":[4,8]},`+
		`"encoder_levels":{"type":"integer","bounds":[2,3]}},"evolution":`, 1)
	u := parse(t, text)
	one, err := u.At(5)
	if err != nil || one.Operator.UAFNO == nil || one.Operator.UAFNO.EncoderLevels < 2 || u.points.Dims != 14 {
		t.Errorf("%v, %+v", err, one)
	}
	if at := len(u.Axes) - 1; u.Axes[at-1].Field != "operator.encoder_levels" ||
		u.Axes[at-3].Field != "rollout.policy_type" {
		t.Errorf("Spinlock's own parameters of a U-AFNO come last: %v", u.Axes[at-3].Field)
	}
}

// TestRefused holds the messages of what is wrong.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, from, to, want string }{
		{own, `"operators":40`, `"operators":1000000000`, "f: operators: 1000000000: want an integer from 1 to 1000000"},
		{own, `"operators":40`, `"operator_count":40`, "f: operator_count: unknown key"},
		{own, `"space":{`, `"space":{},"none":{`, "f: none: unknown key"},
		{own, `{"log":[0.001,1]}`, `{"log":[0,1]}`, `f: space.operator.noise_scale.log: [0 1]: want numbers greater than 0`},
		{own, `{"log":[0.001,1]}`, `{"log":[1,0.5]}`,
			`f: space.operator.noise_scale.log: [1 0.5]: want two numbers, the lower one first`},
		{own, `{"log":[0.001,1]}`, `{"log":[1,2],"real":[1,2]}`, `f: space.operator.noise_scale: 2 ranges: want one of`},
		{own, `{"log":[0.001,1]}`, `0.5`, `f: space.operator.noise_scale`},
		{own, `"operator.kernel_size":{"choice":[3,5]`, `"operator.kernel_size":{"choice":[4,5]`,
			"f: operator.kernel_size: 4: want an odd number"},
		{own, `"weights":[3,1]`, `"weights":[3,-1]`,
			`f: space.operator.kernel_size.weights: [3 -1]: want numbers of 0 or more`},
		{own, `"weights":[3,1]`, `"weights":[3]`, `f: space.operator.kernel_size.weights: 1 numbers: want 2`},
		{own, `operator.noise_scale`, `weights.noise_scale`,
			`f: space.weights.noise_scale: want a field of operator, rollout or initial`},
		{own, `operator.noise_scale`, `operator.noise_scal`, "f: operator.noise_scal: unknown key"},
		{own, `"grid_size":8`, `"output_channels":3`, "f: operator.grid_size: missing"},
		{own, `"grid_size":8`, `"grid_size":65000`, "f: operator.grid_size: 65000: want states"},
		{own, `"num_realizations":2`, `"num_realizations":2,"base_seed":1`, "f: rollout.base_seed: 1: want none"},
		{temporal, `"num_layers":{"type":"integer"`, `"num_layers":{"type":"array"`,
			`f: parameter_space.architecture.num_layers.type: "array": want integer`},
		{temporal, `"structured":0.5`, `"perlin":0.5`, `f: simulation.input_generation.perlin.type: "perlin": want one of`},
		{temporal, `"precision"`, `"operator_type":"fno","precision"`,
			`f: simulation.operator_type: "fno": want cnn or u_afno`},
	} {
		text := strings.Replace(c.text, c.from, c.to, 1)
		if text == c.text {
			t.Fatalf("%s is not there", c.from)
		}
		_, err := Parse("f", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", c.to, err, c.want)
		}
	}
	if _, err := Parse("f", []byte(own[:strings.Index(own, `"space"`)]+`"space":{}}`)); err == nil ||
		err.Error() != "f: space: nothing in it: want a field that varies" {
		t.Errorf("%v", err)
	}
}

// axisOf reads one axis.
func axisOf(t *testing.T, text string) *Axis {
	t.Helper()
	o, err := strict.Parse("f", "", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	a := readAxis(o, "x")
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	return a
}
