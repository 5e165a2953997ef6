package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/dataset/sample"
	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/rollout"
)

// Spec says what a dataset is: how many operators, of which space, and what is made of
// each. It is all that decides the dataset's numbers.
type Spec struct {
	Name      string
	Operators int
	Seed      uint64
	points    sample.Config // its Dims, Points and, but for Legacy seeds, Seed follow from the others
	Axes      []*Axis       // in order: point coordinates go to those that are not Apart
	// The fields that all operators share, JSON objects as in a case.json; those of Initial
	// are listed in docs/DATASETS.md.
	Operator, Rollout, Initial json.RawMessage
	Store                      fp16.Format // of the states in the files
	File                       string      // extension of the files: .safetensors or .h5
	Gzip                       int         // level of compression of .h5 files, 1 to 9, or [rollout.Huffman]
	States                     bool        // whether files hold the states, or only what is measured of them
	Text                       []byte      // what it was read from
	// Notes say which keys of Spinlock's configuration reach nothing, or are read otherwise
	// than Spinlock does.
	Notes []string
}

// Sampling returns the method by which points are spread over the unit cube, and the cube's dimensions.
func (s *Spec) Sampling() (method string, dims int) { return string(s.points.Method), s.points.Dims }

// mostOperators is the greatest number of operators of a dataset.
const mostOperators = 1_000_000

// Parse reads a specification from JSON text: the project's own form, or Spinlock's, which
// is known by its parameter_space. file is what messages call it. What is wrong is an
// error of one line that names file, field, value and expectation.
//
// The project's own form is
//
//	{"name": "small", "operators": 20, "seed": 1, "sampling": {"method": "sobol"},
//	 "operator": {"num_layers": 2, "base_channels": 8, "grid_size": 32},
//	 "rollout": {"num_timesteps": 51, "num_realizations": 2},
//	 "initial": {"type": "gaussian_random_field"},
//	 "space": {"operator.noise_scale": {"log": [1e-3, 1]}, "operator.kernel_size": {"choice": [3, 5]}},
//	 "store": {"format": "float32", "file": ".h5", "gzip": 4, "states": true}}
func Parse(file string, text []byte) (*Spec, error) {
	o, err := strict.Parse(file, "", text)
	if err != nil {
		return nil, err
	}
	var s *Spec
	if o.Has("parameter_space") {
		s, err = readSpinlock(file, text)
	} else {
		s, err = readOwn(o)
	}
	if err != nil {
		return nil, err
	}
	s.Text = text
	s.points.Points = s.Operators
	for _, a := range s.Axes {
		if !a.Apart {
			s.points.Dims++
		}
	}
	if s.points.Dims == 0 {
		return nil, o.Errorf("space", "nothing in it: want a field that varies")
	}
	if s.points.Dims > sample.MostDims {
		return nil, o.Errorf("space", "%d fields: want at most %d", s.points.Dims, sample.MostDims)
	}
	if err := s.points.Check(); err != nil {
		return nil, o.Errorf("sampling", "%w", err)
	}
	// One unit shows whether the fields are known and fit together.
	if _, err := s.at(file, make([]float64, s.points.Dims), 0); err != nil {
		return nil, err
	}
	return s, nil
}

func readOwn(o *strict.Object) (*Spec, error) {
	o.Need("operators", "operator", "rollout", "space")
	s := &Spec{
		Name: o.String("name", "dataset"), Operators: int(o.Int("operators", 1, 1, mostOperators)),
		Operator: o.Raw("operator"), Rollout: o.Raw("rollout"), Initial: o.Raw("initial"), Store: fp16.Float32,
		File: ".safetensors", Gzip: rollout.Huffman, States: true,
	}
	s.Seed, _ = o.Seed("seed")
	if s.Initial == nil {
		s.Initial = json.RawMessage(`{"type":"gaussian_random_field"}`)
	}
	s.points = sample.Config{Method: sample.Sobol, Scramble: true, Seed: s.Seed}
	if p := o.Child("sampling"); p != nil {
		s.points.Method = sample.Method(p.String("method", "sobol"))
		s.points.Scramble = p.Bool("scramble", true)
		s.points.Bits = int(p.Int("bits", 0, 30, 64))
		s.points.Legacy = p.Bool("legacy_seed", false)
		if seed, ok := p.Seed("seed"); ok {
			s.points.Seed = seed
		}
		if err := p.Close(); err != nil {
			return nil, err
		}
	}
	if p := o.Child("space"); p != nil {
		for _, field := range p.Keys() {
			c := p.Child(field)
			if c == nil {
				p.Open()
				p.Fail(field, "want a range, such as {\"real\": [0, 1]}")
				break
			}
			s.Axes = append(s.Axes, readAxis(c, field))
			if err := c.Close(); err != nil {
				return nil, err
			}
		}
		if err := p.Close(); err != nil {
			return nil, err
		}
	}
	if p := o.Child("store"); p != nil {
		if err := s.readStore(p); err != nil {
			return nil, err
		}
	}
	return s, o.Close()
}

// readStore reads how the dataset is stored.
func (s *Spec) readStore(p *strict.Object) error {
	name := p.String("format", "float32")
	f, err := fp16.ParseFormat(name)
	if err != nil || f == fp16.TF32 {
		p.Fail("format", "%.60q: want float64, float32, float16 or bfloat16", name)
	}
	s.Store = f
	if s.File = p.String("file", s.File); s.File != ".safetensors" && s.File != ".h5" {
		p.Fail("file", "%.60q: want .safetensors or .h5", s.File)
	}
	if p.Has("gzip") {
		if s.Gzip = int(p.Int("gzip", 4, 1, 9)); s.File != ".h5" {
			p.Fail("gzip", "given: want it beside file .h5 only")
		}
	}
	s.States = p.Bool("states", true)
	return p.Close()
}

// set returns a JSON object with the value at a place in it, whose parts dots separate.
// Objects on the way come into being; of lists elements are replaced.
func set(object json.RawMessage, at string, value json.RawMessage) (json.RawMessage, error) {
	if at == "" {
		return value, nil
	}
	key, rest, _ := strings.Cut(at, ".")
	object = bytes.TrimSpace(object)
	if len(object) > 0 && object[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(object, &list); err != nil {
			return nil, err
		}
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(list) {
			return nil, fmt.Errorf("%.60q: want an element of a list of %d, from 0", key, len(list))
		}
		if list[i], err = set(list[i], rest, value); err != nil {
			return nil, err
		}
		return json.Marshal(list)
	}
	m := map[string]json.RawMessage{}
	if len(object) > 0 {
		if err := json.Unmarshal(object, &m); err != nil || m == nil {
			return nil, fmt.Errorf("%.60q: within a value that has no fields", key)
		}
	}
	v, err := set(m[key], rest, value)
	if err != nil {
		return nil, err
	}
	m[key] = v
	return json.Marshal(m)
}

// canonical returns JSON text with sorted keys and no spaces; numbers stay as they are
// written.
func canonical(text json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// parts are what a field may begin with.
var parts = []string{"operator", "rollout", "initial"}

func partOf(field string) (part, rest string, ok bool) {
	part, rest, _ = strings.Cut(field, ".")
	return part, rest, slices.Contains(parts, part)
}
