package dataset

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/refrun/refrun/internal/disk"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/internal/hdf5"
	"github.com/refrun/refrun/safetensors"
)

// source is the file of a unit that is read.
type source struct {
	path   string
	file   disk.File
	tensor *safetensors.File
	h5     *hdf5.File
}

// open opens the file of a unit.
func (p *Plan) open(i int) (*source, error) { return openSource(p.place(i)) }

func openSource(path string) (*source, error) {
	s := &source{path: path}
	f, size, err := fault.OpenRegular(s.path)
	if err != nil {
		return nil, err
	}
	s.file = f
	if filepath.Ext(s.path) == ".h5" {
		s.h5, err = hdf5.New(s.path, f, size)
	} else {
		s.tensor, err = safetensors.ParseAt(s.path, f, size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// read sets v to the numbers of an array from an index on: "trajectory" [M,T,C,H,W] or a
// diagnostic [M,T].
func (s *source) read(name string, at int, v []float64) error {
	if s.h5 != nil {
		path := "/metrics/" + name
		if name == trajectory {
			path = "/trajectories"
		}
		d, err := s.h5.Dataset(path)
		if err != nil {
			return err
		}
		n := 1
		for _, side := range d.Shape {
			n *= side
		}
		if at+len(v) > n {
			return fmt.Errorf("%s: %s: %d numbers: want %d", s.path, path, n, at+len(v))
		}
		return d.Read(v, at)
	}
	if name != trajectory {
		name = "metrics." + name
	}
	t, err := s.tensor.Tensor(name)
	if err != nil {
		return err
	}
	if at+len(v) > t.Len() {
		return fmt.Errorf("%s: %s: %d numbers: want %d", s.path, name, t.Len(), at+len(v))
	}
	return t.Read(at, v)
}

// trajectory is the name of the states among the arrays of a unit.
const trajectory = "trajectory"

// State returns one channel [H,W] of a state of a unit that has been made.
func (p *Plan) State(unit, realization, t, channel int) ([]float64, error) {
	u, err := p.Unit(unit)
	if err != nil {
		return nil, err
	}
	s := u.Shape()
	for _, a := range []struct {
		name  string
		is, n int
	}{{"realization", realization, u.Rollout.Realizations}, {"time", t, u.Rollout.Timesteps}, {"channel", channel, s.C}} {
		if a.is < 0 || a.is >= a.n {
			return nil, fmt.Errorf("%s %d of unit %d: want 0 to %d", a.name, a.is, unit, a.n-1)
		}
	}
	if !p.units.States {
		return nil, fmt.Errorf("%s: a dataset without states: want one that keeps them", p.Dir)
	}
	f, err := p.open(unit)
	if err != nil {
		return nil, err
	}
	defer f.file.Close()
	v := make([]float64, s.H*s.W)
	at := (realization*u.Rollout.Timesteps+t)*s.Len() + channel*len(v)
	return v, f.read(trajectory, at, v)
}

// Fields are the fields that the points' coordinates stand for, in order.
func (p *Plan) Fields() []string { return p.fields() }

// Text is the value of a coordinate, shortened to what a person wants to see.
func (u *Unit) Text(i int) string {
	if len(u.texts[i]) > 0 && (u.texts[i][0] == '{' || u.texts[i][0] == '[') {
		return fmt.Sprintf("choice %v", u.Values[i])
	}
	var text string
	if json.Unmarshal(u.texts[i], &text) == nil {
		return text
	}
	return fmt.Sprintf("%.3g", u.Values[i])
}
