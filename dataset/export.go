package dataset

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/zarr"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// Layout is a form in which a dataset is given to others.
type Layout struct {
	Format string // one of [Formats]
	// Gzip is the level of compression of HDF5 and Zarr, 1 to 9; 0 for none.
	Gzip int
	// Split are the shares of the operators in train, valid and test, of The Well's layout.
	Split    [3]int
	Progress func(done, total int)
}

// Formats are the layouts that [Dataset.Export] writes.
var Formats = []string{"well", "zarr", "safetensors"}

// Export writes all units into a folder, in another layout:
//
//   - well: data/train, data/valid and data/test with a file in each, The Well's layout and
//     Spinlock's in one ([Dataset.Merge]). The operators of each stand in a row, which any part of a
//     Sobol sequence may: it is spread over the space.
//   - zarr: a store of Zarr version 3. trajectories is sharded: a file for each operator.
//   - safetensors: a file for each operator, with its parameters and initial condition.
//
// All units must have been made, and be of one size but for safetensors.
func (p *Dataset) Export(dir string, l Layout) error {
	write := map[string]func(*merger, string, Layout) error{
		"well": (*merger).well, "zarr": (*merger).zarr, "safetensors": (*merger).apart,
	}[l.Format]
	if write == nil {
		return fmt.Errorf("--format: %.60q: want well, zarr or safetensors", l.Format)
	}
	m, err := p.merger(l.Gzip, l.Progress, l.Format != "safetensors")
	if err != nil {
		return err
	}
	defer m.opened.close()
	if err := disk.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("%s: %w: want a folder to write to", dir, fault.Cause(err))
	}
	return named(dir, write(m, dir, l))
}

// well writes The Well's folders.
func (m *merger) well(dir string, l Layout) error {
	all := l.Split[0] + l.Split[1] + l.Split[2]
	if all <= 0 || l.Split[0] < 0 || l.Split[1] < 0 || l.Split[2] < 0 {
		return fmt.Errorf("--split: %v: want three numbers of 0 or more, such as 8,1,1", l.Split)
	}
	n, sum := len(m.units), 0
	for i, part := range []string{"train", "valid", "test"} {
		lo := n * sum / all
		sum += l.Split[i]
		one := *m
		if one.units = m.units[lo : n*sum/all]; len(one.units) == 0 {
			continue
		}
		to := filepath.Join(dir, "data", part)
		if err := disk.MkdirAll(to, 0o777); err != nil {
			return err
		}
		if err := one.hdf5(filepath.Join(to, fileName(m.Name)+".h5")); err != nil {
			return err
		}
	}
	return nil
}

// fileName makes a file's name of a text.
func fileName(s string) string {
	b := []byte(cmp.Or(s, "dataset"))
	for i, c := range b {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_') {
			b[i] = '_'
		}
	}
	return string(b[:min(len(b), 100)])
}

// rowsOf is how many operators stand in a file of the small arrays of a Zarr store.
const rowsOf = 256

// zarr writes a store.
func (m *merger) zarr(dir string, l Layout) error {
	n, store := len(m.units), storable(m.Dataset.units.Store)
	c, h, w := m.shape[2], m.shape[3], m.shape[4]
	axes := []string{"operator", "realization", "time", "channel", "y", "x"}
	rows := min(rowsOf, n)
	all := map[string]*zarr.Array{
		"params": {Shape: []int{n, m.Dataset.units.points.Dims}, Type: fp16.Float64, Rows: rows,
			Names: []string{"operator", "parameter"}},
		"values": {Shape: []int{n, m.Dataset.units.points.Dims}, Type: fp16.Float64, Rows: rows,
			Names: []string{"operator", "parameter"}},
		"inputs": {Shape: []int{n, c, h, w}, Type: fp16.Float32, Rows: rows, Piece: []int{1, c, h, w}, Gzip: l.Gzip,
			Names: []string{"operator", "channel", "y", "x"}},
	}
	for _, name := range rollout.DiagnosticNames {
		all[name] = &zarr.Array{
			Shape: []int{n, m.shape[0], m.shape[1]}, Type: fp16.Float64, Rows: rows, Gzip: l.Gzip, Names: axes[:3],
		}
	}
	if m.states {
		all["trajectories"] = &zarr.Array{Shape: append([]int{n}, m.shape...), Type: store, Rows: 1,
			Piece: []int{1, 1, 1, c, h, w}, Gzip: l.Gzip, Names: axes}
	}
	if err := m.zarrSmall(dir, all); err != nil {
		return err
	}
	if m.states {
		err := m.parallel(func(i int) error {
			return all["trajectories"].WriteFile(dir, "trajectories", i, func(put func([]float64) error) error {
				return m.of(i, trajectory, m.state(), func(_ int, v []float64) error { return put(v) })
			})
		})
		if err != nil {
			return err
		}
	}
	return zarr.WriteRoot(dir, map[string]any{
		"name": m.Name, "dataset": m.Identity, "contract": m.Contract, "parameters": m.fields(),
		"spec": json.RawMessage(m.Spec),
	}, all)
}

// zarrSmall writes all arrays but the trajectories, a file of each after the other.
func (m *merger) zarrSmall(dir string, all map[string]*zarr.Array) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == "trajectories" {
			continue
		}
		a := all[name]
		for k := range a.Files() {
			err := a.WriteFile(dir, name, k, func(put func([]float64) error) error {
				for i := k * a.Rows; i < min((k+1)*a.Rows, len(m.units)); i++ {
					if err := m.row(i, name, put); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// row puts what an array holds of a unit.
func (m *merger) row(i int, name string, put func([]float64) error) error {
	if name != "params" && name != "values" && name != "inputs" {
		return m.of(i, name, m.shape[0]*m.shape[1], func(_ int, v []float64) error { return put(v) })
	}
	u, err := m.Unit(m.units[i])
	if err != nil {
		return err
	}
	switch name {
	case "params":
		return put(u.Point)
	case "values":
		return put(u.Values)
	}
	x, err := u.Start()
	if err != nil {
		return err
	}
	return put(x)
}

// storable is the format in which files that have no bfloat16 hold numbers of a format.
func storable(f fp16.Format) fp16.Format {
	if f == fp16.BFloat16 {
		return fp16.Float32
	}
	return f
}

// apart writes a safetensors file for each operator: parameters [P] and values [P], initial
// [C,H,W], metrics.NAME [M,T], trajectory [M,T,C,H,W]; its metadata say what the unit is.
func (m *merger) apart(dir string, _ Layout) error {
	return m.parallel(func(i int) error {
		u, err := m.Unit(m.units[i])
		if err != nil {
			return err
		}
		x0, err := u.Start()
		if err != nil {
			return err
		}
		s, size, p := u.Shape(), []int{u.Rollout.Realizations, u.Rollout.Timesteps}, []int{len(u.Point)}
		all := []*safetensors.Tensor{
			{Name: "parameters", DType: safetensors.F64, Shape: p}, {Name: "values", DType: safetensors.F64, Shape: p},
			{Name: "initial", DType: safetensors.F32, Shape: []int{s.C, s.H, s.W}},
		}
		for _, name := range rollout.DiagnosticNames {
			all = append(all, &safetensors.Tensor{Name: "metrics." + name, DType: safetensors.F64, Shape: size})
		}
		if m.states {
			all = append(all, &safetensors.Tensor{
				Name: trajectory, DType: safetensors.DTypeOf(u.Store), Shape: append(size[:2:2], s.C, s.H, s.W),
			})
		}
		head, err := safetensors.Header(all, u.about(m.Dataset))
		if err != nil {
			return err
		}
		return disk.ReplaceAlone(filepath.Join(dir, fmt.Sprintf("%08d.safetensors", u.Index)), 0o666,
			func(w disk.File) error {
				b := bufio.NewWriterSize(w, 1<<20)
				b.Write(head) // an error stays with b
				b.Write(fp16.Float64.Append(fp16.Float64.Append(nil, u.Point), u.Values))
				b.Write(fp16.Float32.Append(nil, x0))
				for _, name := range rollout.DiagnosticNames {
					if err := m.copyTo(b, i, name, size[0]*size[1], size[1], fp16.Float64); err != nil {
						return err
					}
				}
				if m.states {
					if err := m.copyTo(b, i, trajectory, size[0]*size[1]*s.Len(), s.Len(), u.Store); err != nil {
						return err
					}
				}
				return b.Flush()
			})
	})
}

// about says in texts what a unit is.
func (u *Unit) about(p *Dataset) map[string]string {
	return map[string]string{"dataset": p.Identity,
		"unit": fmt.Sprint(u.Index), "identity": u.Identity, "contract": p.Contract, "operator": string(u.OperatorText),
		"rollout": string(u.RolloutText), "initial": string(u.InitialText), "weights_seed": fmt.Sprint(u.WeightsSeed),
		"base_seed": fmt.Sprint(u.Rollout.BaseSeed), "initial_seed": fmt.Sprint(u.InitialSeed)}
}

// parallel calls f for every unit, several at a time, and returns the first error.
func (m *merger) parallel(f func(i int) error) error {
	var next, failed atomic.Int64
	var mu sync.Mutex
	var first error
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(m.units)) {
		all.Go(func() {
			for failed.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= len(m.units) {
					return
				}
				err := f(i)
				mu.Lock()
				if err != nil && first == nil {
					first = err
					failed.Store(1)
				}
				m.step(len(m.units))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return first
}

// number is the value of an axis as a number: itself, 0 or 1 for a truth, and otherwise which
// of the choices it is, from 0.
func (a *Axis) number(v json.RawMessage) float64 {
	var x float64
	if json.Unmarshal(v, &x) == nil {
		return x
	}
	switch string(v) {
	case "true":
		return 1
	case "false":
		return 0
	}
	for i, c := range a.choices {
		if string(c) == string(v) {
			return float64(i)
		}
	}
	return math.NaN()
}
