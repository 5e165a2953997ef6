package dataset

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// merger reads units in order, for a file or a folder of all of them.
type merger struct {
	*Dataset
	units    []int // which of them
	shape    []int // [M,T,C,H,W] of each; nil where they may differ
	states   bool  // the units hold their states, not only what was measured
	gzip     int
	progress func(done, total int)
	done     int
	opened   *sources
}

// Merge writes all units into one file and returns the SHA-256 of it. By the file's
// extension it is safetensors,
//
//	parameters    [N,P]          F64, the points of the unit cube
//	metrics.NAME  [N,M,T]        F64
//	trajectories  [N,M,T,C,H,W]  as the units store them
//
// or HDF5, which is in Spinlock's layout and in The Well's at once: see [Dataset.Export] for the
// latter's folders. gzip is its level of compression, 1 to 9, 0 for none; chunks of HDF5 units are
// copied as they are. Of both a piece is held at a time, a state, so that memory does not
// grow with the operators, but for what plan and index need of each. All units must have been
// made, and be of one size. What is copied has been compared with the units' records: a unit that
// is not as it was made is an error.
func (p *Dataset) Merge(path string, gzip int, progress func(done, total int)) (string, error) {
	write := map[string]func(*merger, string) error{
		".safetensors": (*merger).safetensors, ".h5": (*merger).hdf5,
	}[filepath.Ext(path)]
	if write == nil {
		return "", fmt.Errorf("%s: file type %q: want .safetensors or .h5", path, filepath.Ext(path))
	}
	m, err := p.merger(gzip, progress, true)
	if err != nil {
		return "", err
	}
	defer m.opened.close()
	if err := write(m, path); err != nil {
		return "", err
	}
	sum, _, err := hash(path)
	return sum, err
}

// merger returns one of all units, which must have been made and, if that is wanted, be
// of one size.
func (p *Dataset) merger(gzip int, progress func(done, total int), same bool) (*merger, error) {
	if gzip < 0 || gzip > 9 {
		return nil, fmt.Errorf("--gzip: %d: want a level from 1 to 9, or 0 for none", gzip)
	}
	if missing := p.Missing(); len(missing) > 0 {
		if r, err := p.Record(missing[0]); err != nil || r != nil && p.size(missing[0]) >= 0 {
			return nil, fmt.Errorf("%s: unit %d: %s", p.Dir, missing[0], p.fault(missing[0], false))
		}
		return nil, fmt.Errorf("%s: %d of %d units missing, the first is %d: want all of them", p.Dir, len(missing),
			len(p.Lines), missing[0])
	}
	m := &merger{Dataset: p, states: p.units.States, gzip: gzip, progress: progress, opened: new(sources)}
	for i := range p.Lines {
		m.units = append(m.units, i)
	}
	if !same {
		return m, nil
	}
	var err error
	m.shape, err = p.same()
	return m, err
}

// same returns the one shape [M,T,C,H,W] of all units.
func (p *Dataset) same() ([]int, error) {
	var first []int
	for i := range p.Lines {
		u, err := p.Unit(i)
		if err != nil {
			return nil, err
		}
		s := u.Shape()
		dims := []int{u.Rollout.Realizations, u.Rollout.Timesteps, s.C, s.H, s.W}
		if first == nil {
			first = dims
		}
		if fmt.Sprint(dims) != fmt.Sprint(first) {
			return nil, fmt.Errorf("%s: unit %d: [M,T,C,H,W] %v: want %v, those of unit 0, to merge them", p.Dir, i, dims, first)
		}
	}
	return first, nil
}

// step says that a part of so many is done.
func (m *merger) step(total int) {
	if m.done++; m.progress != nil {
		m.progress(m.done, total)
	}
}

// read hands n numbers of the array of a name of one unit on, a piece of them at a time.
func (m *merger) read(i int, name string, n, piece int, f func(k int, v []float64) error) error {
	s, err := m.opened.take(m.Dataset, m.units[i])
	if err != nil {
		return err
	}
	defer m.opened.give(s)
	v := make([]float64, piece)
	for k := 0; k*piece < n; k++ {
		if err := s.read(name, k*piece, v); err != nil {
			return err
		}
		if err := f(k, v); err != nil {
			return err
		}
	}
	return nil
}

// of is read of all numbers of the array, of units of one size.
func (m *merger) of(i int, name string, piece int, f func(k int, v []float64) error) error {
	return m.read(i, name, m.count(name), piece, f)
}

// count returns the numbers of the array of a name of a unit.
func (m *merger) count(name string) int {
	n := m.shape[0] * m.shape[1]
	if name == trajectory {
		n *= m.state()
	}
	return n
}

// copyTo writes n numbers of an array of one unit in a format.
func (m *merger) copyTo(w io.Writer, i int, name string, n, piece int, f fp16.Format) error {
	var buf []byte
	return m.read(i, name, n, piece, func(_ int, v []float64) error {
		buf = f.Append(buf[:0], v)
		_, err := w.Write(buf)
		return err
	})
}

// state returns the numbers of a state.
func (m *merger) state() int { return m.shape[2] * m.shape[3] * m.shape[4] }

func (m *merger) safetensors(path string) error {
	n, store := len(m.units), m.Dataset.units.Store
	all := []*safetensors.Tensor{
		{Name: "parameters", DType: safetensors.F64, Shape: []int{n, m.Dataset.units.points.Dims}},
	}
	names := rollout.DiagnosticNames[:]
	for _, name := range names {
		all = append(all, &safetensors.Tensor{
			Name: "metrics." + name, DType: safetensors.F64, Shape: append([]int{n}, m.shape[:2]...),
		})
	}
	if m.states {
		all = append(all, &safetensors.Tensor{
			Name: "trajectories", DType: safetensors.DTypeOf(store), Shape: append([]int{n}, m.shape...),
		})
		names = append(names[:len(names):len(names)], trajectory)
	}
	head, err := safetensors.Header(all, map[string]string{"dataset": m.Identity, "name": m.Name, "contract": m.Contract})
	if err != nil {
		return err
	}
	err = disk.ReplaceAlone(path, 0o666, func(w disk.File) error {
		b := bufio.NewWriterSize(w, 1<<20)
		b.Write(head) // an error stays with b
		for _, i := range m.units {
			u, err := m.Unit(i)
			if err != nil {
				return err
			}
			b.Write(fp16.Float64.Append(nil, u.Point))
		}
		for _, name := range names {
			piece, f := m.shape[1], fp16.Float64
			if name == trajectory {
				piece, f = m.state(), store
			}
			for i := range m.units {
				if err := m.copyTo(b, i, name, m.count(name), piece, f); err != nil {
					return err
				}
				m.step(len(names) * n)
			}
		}
		return b.Flush()
	})
	return named(path, err)
}

// named makes an error name a file: its own or, of an error that is about one, that.
func named(path string, err error) error {
	if cause := fault.Cause(err); cause != err {
		return fmt.Errorf("%s: %w", path, cause)
	}
	return err
}
