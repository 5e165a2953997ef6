package dataset

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/disk"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/internal/hdf5"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// merger writes all units of one size into one file.
type merger struct {
	*Plan
	shape    []int // [M,T,C,H,W]
	progress func(done, total int)
	done     int
}

// Merge writes all units into one file and returns the SHA-256 of it. By the file's
// extension it is safetensors,
//
//	parameters    [N,P]          F64, the points of the unit cube
//	metrics.NAME  [N,M,T]        F64
//	trajectories  [N,M,T,C,H,W]  as the units store them
//
// or HDF5 in Spinlock's layout: /parameters/params, /inputs/fields, /metrics/NAME in float32 and
// /trajectories, a chunk for each realization, compressed. Of both a piece is held at a
// time, a state or a realization, so that memory does not grow with the dataset. All
// units must have been made, and be of one size.
func (p *Plan) Merge(path string, progress func(done, total int)) (string, error) {
	write := map[string]func(*merger, string) error{".safetensors": (*merger).safetensors, ".h5": (*merger).hdf5}[filepath.Ext(path)]
	if write == nil {
		return "", fmt.Errorf("%s: file type %q: want .safetensors or .h5", path, filepath.Ext(path))
	}
	if missing := p.Missing(); len(missing) > 0 {
		return "", fmt.Errorf("%s: %d of %d units missing, the first is %d: want all of them", p.Dir, len(missing), len(p.Lines), missing[0])
	}
	shape, err := p.same()
	if err != nil {
		return "", err
	}
	if err := write(&merger{p, shape, progress, 0}, path); err != nil {
		return "", err
	}
	sum, _, err := hash(path)
	return sum, err
}

// same returns the one shape [M,T,C,H,W] of all units.
func (p *Plan) same() ([]int, error) {
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

// each hands the array of a name of every unit on, a piece of so many numbers at a time.
func (m *merger) each(name string, piece int, f func(unit, k int, v []float64) error) error {
	n := m.shape[0] * m.shape[1]
	if name == trajectory {
		n *= m.state()
	}
	v := make([]float64, piece)
	for i := range m.Lines {
		s, err := m.open(i)
		if err != nil {
			return err
		}
		for k := 0; err == nil && k*piece < n; k++ {
			if err = s.read(name, k*piece, v); err == nil {
				err = f(i, k, v)
			}
		}
		s.file.Close()
		if err != nil {
			return err
		}
		if m.done++; m.progress != nil {
			m.progress(m.done, (len(rollout.DiagnosticNames)+1)*len(m.Lines))
		}
	}
	return nil
}

// state returns the numbers of a state.
func (m *merger) state() int { return m.shape[2] * m.shape[3] * m.shape[4] }

func (m *merger) safetensors(path string) error {
	n, store := len(m.Lines), m.units.Store
	all := []*safetensors.Tensor{{Name: "parameters", DType: safetensors.F64, Shape: []int{n, m.units.Sample.Dims}}}
	for _, name := range rollout.DiagnosticNames {
		all = append(all, &safetensors.Tensor{Name: "metrics." + name, DType: safetensors.F64, Shape: append([]int{n}, m.shape[:2]...)})
	}
	all = append(all, &safetensors.Tensor{Name: "trajectories", DType: safetensors.DTypeOf(store), Shape: append([]int{n}, m.shape...)})
	head, err := safetensors.Header(all, map[string]string{"dataset": m.Identity, "name": m.Name, "contract": m.Contract})
	if err != nil {
		return err
	}
	err = disk.Replace(path, 0o666, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		b.Write(head) // an error stays with b
		for i := range n {
			u, err := m.Unit(i)
			if err != nil {
				return err
			}
			b.Write(fp16.Float64.Append(nil, u.Point))
		}
		var buf []byte
		put := func(f fp16.Format) func(int, int, []float64) error {
			return func(_, _ int, v []float64) error {
				buf = f.Append(buf[:0], v)
				_, err := b.Write(buf)
				return err
			}
		}
		for _, name := range rollout.DiagnosticNames {
			if err := m.each(name, m.shape[1], put(fp16.Float64)); err != nil {
				return err
			}
		}
		if err := m.each(trajectory, m.state(), put(store)); err != nil {
			return err
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

func (m *merger) hdf5(path string) error {
	partial := path + ".partial"
	f, err := disk.Create(partial)
	if err != nil {
		return named(partial, err)
	}
	defer f.Close()
	n, store := len(m.Lines), m.units.Store
	one := append([]int{1, 1}, m.shape[1:]...) // a chunk
	specs := []hdf5.Spec{
		{Path: "/trajectories", Type: hdf5.TypeOf(store), Shape: append([]int{n}, m.shape...), Chunk: one, Gzip: 4},
		{Path: "/inputs/fields", Type: hdf5.Float32, Shape: append([]int{n}, m.shape[2:]...), Chunk: append([]int{1}, m.shape[2:]...), Gzip: 4},
		{Path: "/parameters/params", Type: hdf5.Float32, Shape: []int{n, m.units.Sample.Dims}},
	}
	for _, name := range rollout.DiagnosticNames {
		specs = append(specs, hdf5.Spec{Path: "/metrics/" + name, Type: hdf5.Float32, Shape: append([]int{n}, m.shape[:2]...)})
	}
	w, err := hdf5.Create(f, specs)
	if err == nil {
		err = m.fill(w)
	}
	if err == nil {
		err = w.Finish()
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		if err = disk.Rename(partial, path); err == nil {
			return named(path, disk.SyncDir(filepath.Dir(path)))
		}
	}
	if err != nil {
		disk.Remove(partial)
	}
	return named(path, err)
}

// fill writes the datasets and their attributes.
func (m *merger) fill(w *hdf5.Writer) error {
	spec, err := json.Marshal(m.Spec)
	if err != nil {
		return err
	}
	for _, a := range []struct {
		name  string
		value any
	}{
		{"version", "1.0"}, {"name", m.Name}, {"dataset", m.Identity}, {"contract", m.Contract}, {"config_sha256", fmt.Sprintf("%x", sha256.Sum256(spec))},
		{"num_parameter_sets", int64(len(m.Lines))}, {"num_operators", int64(len(m.Lines))}, {"num_realizations", int64(m.shape[0])},
		{"num_timesteps", int64(m.shape[1])}, {"grid_size", int64(m.shape[3])},
	} {
		if err := w.Attr("/metadata", a.name, a.value); err != nil {
			return err
		}
	}
	for i := range m.Lines {
		u, err := m.Unit(i)
		if err != nil {
			return err
		}
		fp16.Float32.RoundSlice(u.Point, u.Point)
		if err := w.Write("/parameters/params", []int{i, 0}, u.Point); err != nil {
			return err
		}
	}
	for _, name := range rollout.DiagnosticNames {
		err := m.each(name, m.shape[1], func(i, k int, v []float64) error {
			fp16.Float32.RoundSlice(v, v)
			return w.Write("/metrics/"+name, []int{i, k, 0}, v)
		})
		if err != nil {
			return err
		}
	}
	return m.each(trajectory, m.shape[1]*m.state(), func(i, k int, v []float64) error {
		if err := w.Write("/trajectories", []int{i, k, 0, 0, 0, 0}, v); err != nil || k > 0 {
			return err
		}
		first := v[:m.state()] // all realizations begin with it
		fp16.Float32.RoundSlice(first, first)
		return w.Write("/inputs/fields", []int{i, 0, 0, 0}, first)
	})
}
