package dataset

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/refrun/refrun/internal/format/hdf5"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// source is the file of a unit that is read. What is read of it has been compared with the
// unit's record.
type source struct {
	unit   int
	path   string
	close  func() error
	tensor *safetensors.File
	h5     *hdf5.File
	failed bool // and closed
}

// sources are files of units that are open, from which a merger reads one array after the other. Each is taken by one
// reader at a time.
type sources struct {
	mu   sync.Mutex
	free map[int]*source // by unit
}

// mostOpen bounds the files that stay open.
const mostOpen = 64

// take returns the file of a unit.
func (o *sources) take(p *Dataset, unit int) (*source, error) {
	o.mu.Lock()
	s := o.free[unit]
	delete(o.free, unit)
	o.mu.Unlock()
	if s != nil {
		return s, nil
	}
	return p.open(unit)
}

// give takes a file back.
func (o *sources) give(s *source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case s.failed:
	case o.free[s.unit] != nil || len(o.free) == mostOpen:
		s.close()
	default:
		if o.free == nil {
			o.free = map[int]*source{}
		}
		o.free[s.unit] = s
	}
}

// close closes all.
func (o *sources) close() {
	for _, s := range o.free {
		s.close()
	}
}

// open opens the file of a unit, which must be the one that its record speaks of.
func (p *Dataset) open(i int) (*source, error) {
	r, err := p.Record(i)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("%s: unit %d: not made", p.Dir, i)
	}
	s := &source{unit: i, path: p.place(i)}
	var at io.ReaderAt
	size := r.Bytes
	if r.Seal == "" {
		at, err = s.whole(r)
	} else if c, e := rollout.OpenChecked(s.path, r.Seal); e != nil {
		err = e
	} else {
		at, size, s.close = c, c.Size, c.Close
	}
	if err == nil {
		err = s.parse(at, size)
	}
	if err != nil {
		return nil, s.broken(err)
	}
	return s, nil
}

// whole opens a file of which the record says the SHA-256.
func (s *source) whole(r *Record) (io.ReaderAt, error) {
	f, _, err := fault.OpenRegular(s.path)
	if err != nil {
		return nil, err
	}
	s.close = f.Close
	sum, n, err := hashOf(f)
	if err == nil && (sum != r.SHA256 || n != r.Bytes) {
		err = fmt.Errorf("%s: SHA-256 %s: want %.64s, as its record says", s.path, sum, r.SHA256)
	}
	return f, err
}

// parse reads what the file says of its arrays.
func (s *source) parse(at io.ReaderAt, size int64) (err error) {
	if filepath.Ext(s.path) == ".h5" {
		s.h5, err = hdf5.New(s.path, at, size)
	} else {
		s.tensor, err = safetensors.ParseAt(s.path, at, size)
	}
	return err
}

// broken says whose file it is that something is wrong with.
func (s *source) broken(err error) error {
	if s.failed = true; s.close != nil {
		s.close()
	}
	if cause := fault.Cause(err); cause != err {
		return fmt.Errorf("unit %d: %s: %w", s.unit, s.path, cause)
	}
	return fmt.Errorf("unit %d: %w", s.unit, err)
}

// read sets v to the numbers of an array from an index on: "trajectory" [M,T,C,H,W] or a
// diagnostic [M,T].
func (s *source) read(name string, at int, v []float64) error {
	if err := s.numbers(name, at, v); err != nil {
		return s.broken(err)
	}
	return nil
}

func (s *source) numbers(name string, at int, v []float64) error {
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
func (p *Dataset) State(unit, realization, t, channel int) ([]float64, error) {
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
	defer f.close()
	v := make([]float64, s.H*s.W)
	at := (realization*u.Rollout.Timesteps+t)*s.Len() + channel*len(v)
	return v, f.read(trajectory, at, v)
}

// Fields are the fields that the points' coordinates stand for, in order.
func (p *Dataset) Fields() []string { return p.fields() }

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
