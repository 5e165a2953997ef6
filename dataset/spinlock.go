package dataset

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/dataset/sample"
	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/rollout"
)

// spinlockFields are the fields that Spinlock calls by other names here: its sections
// architecture, stochastic and operator hold operator fields, evolution the rollout's.
var spinlockFields = map[string]string{"update_policy": "policy_type"}

// alias is the ending of a name under which Spinlock lists an initial condition more than
// once.
var alias = regexp.MustCompile(`_(v[0-9]+|low|mid|high)$`)

// spinlock takes a configuration of Spinlock's apart. What reaches nothing is named in
// notes, as Spinlock's own reader drops it silently.
type spinlock struct {
	Spec
	file string
}

// readSpinlock reads Spinlock's YAML, as JSON.
func readSpinlock(file string, text []byte) (*Spec, error) {
	o, err := strict.Parse(file, "", text)
	if err != nil {
		return nil, err
	}
	s := &spinlock{file: file}
	s.Operator, s.Rollout, s.Initial = json.RawMessage(`{}`), json.RawMessage(`{}`),
		json.RawMessage(`{"type":"gaussian_random_field"}`)
	s.Store, s.File, s.Gzip, s.States, s.Name = fp16.Float32, ".safetensors", rollout.Huffman, true, "dataset"
	o.Need("sampling", "simulation")
	if m := o.Child("metadata"); m != nil {
		s.Name = m.String("name", s.Name)
	}
	for _, read := range []struct {
		key string
		fn  func(*strict.Object) error
	}{{"parameter_space", s.space}, {"sampling", s.sampling}, {"simulation", s.simulation}, {"dataset", s.storage}} {
		if c := o.Child(read.key); c != nil {
			if err := read.fn(c); err != nil {
				return nil, err
			}
		}
	}
	s.rest(o, "", "version", "metadata", "parameter_space", "sampling", "simulation", "dataset", "logging")
	o.Open()
	return &s.Spec, o.Close()
}

// rest notes the keys of an object that are not read.
func (s *spinlock) rest(o *strict.Object, place string, known ...string) {
	for _, k := range o.Keys() {
		if !slices.Contains(known, k) {
			if place != "" {
				k = place + "." + k
			}
			s.Notes = append(s.Notes, k+": not read")
		}
	}
	o.Open()
}

// space reads parameter_space, whose order is that of the points' coordinates.
func (s *spinlock) space(o *strict.Object) error {
	sections := []string{"architecture", "stochastic", "operator", "evolution", "u_afno"}
	for _, section := range sections {
		c := o.Child(section)
		if c == nil {
			continue
		}
		part := "operator."
		if section == "evolution" {
			part = "rollout."
		}
		for _, name := range c.Keys() {
			p := c.Child(name)
			if p == nil {
				return c.Errorf(name, "want a type and its bounds or choices")
			}
			field := name
			if other, ok := spinlockFields[name]; ok {
				field = other
			}
			a, err := s.axis(p, part+field)
			if err != nil {
				return err
			}
			s.Axes = append(s.Axes, a)
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	s.rest(o, "parameter_space", sections...)
	return o.Close()
}

// axis reads one parameter.
func (s *spinlock) axis(p *strict.Object, field string) (*Axis, error) {
	a := &Axis{Field: field}
	switch kind := p.String("type", ""); kind {
	case "integer":
		a.kind = rounded
		a.bounds(p, "bounds")
	case "continuous":
		if a.kind = linear; p.Bool("log_scale", false) {
			a.kind = logs
		}
		a.bounds(p, "bounds")
	case "choice":
		a.kind = choice
		a.choose(p, "choices")
	case "boolean":
		a.kind = truth
	default:
		p.Open()
		p.Fail("type", "%.60q: want integer, continuous, choice or boolean", kind)
	}
	p.Ignore("description")
	return a, p.Close()
}

// sampling reads which points are wanted. Spinlock gives scipy no seed, so that no
// seed is its own; this is the one of the configuration.
func (s *spinlock) sampling(o *strict.Object) error {
	o.Need("total_samples")
	s.Operators = int(o.Int("total_samples", 1, 1, mostOperators))
	s.points = sample.Config{Method: sample.Sobol, Scramble: true, Legacy: true, Seed: 42}
	if strategy := o.String("strategy", "sobol_stratified"); strategy != "sobol_stratified" && strategy != "sobol" {
		o.Fail("strategy", "%.60q: want sobol or sobol_stratified", strategy)
	}
	if c := o.Child("sobol"); c != nil {
		s.points.Scramble = c.Bool("scramble", true)
		if seed, ok := c.Seed("seed"); ok {
			s.points.Seed = seed
		}
		s.rest(c, "sampling.sobol", "scramble", "seed")
		if err := c.Close(); err != nil {
			return err
		}
	}
	s.Seed = s.points.Seed
	s.rest(o, "sampling", "strategy", "sobol", "total_samples")
	return o.Close()
}

// simulation reads the rollout and the initial condition.
func (s *spinlock) simulation(o *strict.Object) error {
	steps, realizations := o.Int("num_timesteps", 1, 1, 10000), o.Int("num_realizations", 10, 1, 100)
	precision := o.String("precision", "float32")
	kind := o.String("operator_type", "cnn")
	if kind != "cnn" && kind != "u_afno" {
		o.Fail("operator_type", "%.60q: want cnn or u_afno", kind)
	}
	if kind == "u_afno" {
		s.Operator = json.RawMessage(`{"operator_type":"u_afno"}`)
	}
	b, err := json.Marshal(map[string]any{
		"num_timesteps": steps, "num_realizations": realizations, "precision": precision,
	})
	if err != nil {
		return err
	}
	s.Rollout = b
	known := []string{"num_timesteps", "num_realizations", "precision", "operator_type", "input_generation"}
	if c := o.Child("input_generation"); c != nil {
		if err := s.inputs(c); err != nil {
			return err
		}
	}
	s.rest(o, "simulation", known...)
	return o.Close()
}

// inputs reads the initial conditions. The parameters that the configuration gives an alias
// hold here; Spinlock drops them.
func (s *spinlock) inputs(o *strict.Object) error {
	method := o.String("method", "random")
	known := []string{"method", "length_scale", "variance", "ic_type_weights"}
	if method != "sampled" {
		text := map[string]any{"type": method}
		if method == "random" || method == "gaussian_random_field" {
			text["length_scale"], text["variance"] = o.Float("length_scale", 0.1), o.Float("variance", 1)
		}
		b, err := json.Marshal(text)
		if err != nil {
			return err
		}
		s.Initial, err = s.condition(o, method, method, b)
		s.rest(o, "simulation.input_generation", append(known, method)...)
		return orElse(err, o.Close())
	}
	weights := o.Child("ic_type_weights")
	if weights == nil {
		return o.Errorf("ic_type_weights", "missing: want the weights of the types")
	}
	a := &Axis{Field: "initial", Apart: true, kind: choice}
	var w []float64
	for _, name := range weights.Keys() {
		kind := alias.ReplaceAllString(name, "")
		b, err := json.Marshal(map[string]string{"type": kind})
		if err != nil {
			return err
		}
		text, err := s.condition(o, name, kind, b)
		if err != nil {
			return err
		}
		a.choices = append(a.choices, text)
		w = append(w, weights.Float(name, 0))
		known = append(known, name)
	}
	if err := weights.Close(); err != nil {
		return err
	}
	if len(w) == 0 || !a.weigh(w) {
		return o.Errorf("ic_type_weights", "%v: want numbers of 0 or more, not all 0", w)
	}
	s.Axes = append(s.Axes, a)
	s.rest(o, "simulation.input_generation", known...)
	return o.Close()
}

func orElse(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// storage reads nothing but whether the states are to be kept: files are one for each
// operator here.
func (s *spinlock) storage(o *strict.Object) error {
	s.rest(o, "dataset", "output_path")
	return o.Close()
}
