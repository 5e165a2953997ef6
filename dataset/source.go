package dataset

import (
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
func (p *Plan) open(i int) (*source, error) {
	s := &source{path: filepath.Join(p.Dir, filepath.FromSlash(p.Path(i)))}
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
