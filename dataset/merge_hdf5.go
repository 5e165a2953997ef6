package dataset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/hdf5"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/rollout"
)

// hdf5 writes one file in the layouts of Spinlock and of The Well. The numbers are stored
// once, in /trajectories [N,M,T,C,H,W], a chunk for each state; /outputs/fields and, for
// each channel, /t0_fields/cK [N*M,T,H,W] are views of it.
func (m *merger) hdf5(path string) error {
	return named(path, disk.ReplaceAlone(path, 0o666, func(f disk.File) error {
		w, err := hdf5.Create(f, m.specs())
		for _, part := range []func(*hdf5.Writer) error{m.spinlock, m.well1, m.perUnit, m.fill, (*hdf5.Writer).Finish} {
			if err == nil {
				err = part(w)
			}
		}
		return err
	}))
}

// specs declares what is stored.
func (m *merger) specs() []hdf5.Spec {
	n, dims := len(m.units), m.Dataset.units.points.Dims
	one := append([]int{1, 1, 1}, m.shape[2:]...) // a chunk, as units have it
	var all []hdf5.Spec
	if m.states {
		gzip := m.gzip
		if m.Dataset.units.File == ".h5" && gzip > 0 { // compressed already
			gzip = m.Dataset.units.Gzip
		}
		all = append(all, hdf5.Spec{Path: "/trajectories", Type: hdf5.TypeOf(m.Dataset.units.Store),
			Shape: append([]int{n}, m.shape...), Chunk: one, Gzip: gzip, Shuffle: gzip == rollout.Huffman})
	}
	all = append(all,
		hdf5.Spec{Path: "/inputs/fields", Type: hdf5.Float32, Shape: append([]int{n}, m.shape[2:]...),
			Chunk: one[2:], Gzip: m.gzip},
		hdf5.Spec{Path: "/parameters/params", Type: hdf5.Float32, Shape: []int{n, dims}},
		hdf5.Spec{Path: "/parameters/values", Type: hdf5.Float64, Shape: []int{n, dims}},
		hdf5.Spec{Path: "/metadata/grid_sizes", Type: hdf5.Int32, Shape: []int{n}})
	for _, name := range rollout.DiagnosticNames {
		all = append(all, hdf5.Spec{Path: "/metrics/" + name, Type: hdf5.Float32, Shape: append([]int{n}, m.shape[:2]...)})
	}
	all = append(all, hdf5.Spec{Path: "/dimensions/time", Type: hdf5.Float32, Shape: m.shape[1:2]},
		hdf5.Spec{Path: "/dimensions/y", Type: hdf5.Float32, Shape: m.shape[3:4]},
		hdf5.Spec{Path: "/dimensions/x", Type: hdf5.Float32, Shape: m.shape[4:5]})
	for _, name := range m.scalars() {
		all = append(all, hdf5.Spec{Path: "/scalars/" + name, Type: hdf5.Float32, Shape: []int{n * m.shape[0]}})
	}
	return all
}

// fields are those of the points' coordinates, in order.
func (p *Dataset) fields() []string {
	var all []string
	for _, a := range p.units.Axes {
		if !a.Apart {
			all = append(all, a.Field)
		}
	}
	return all
}

// scalars are the names of what is one number for a trajectory of The Well's.
func (m *merger) scalars() []string {
	all := []string{"operator", "realization"}
	for _, f := range m.fields() {
		if !slices.Contains(all, f) && !hasSlash(f) {
			all = append(all, f)
		}
	}
	return all
}

func hasSlash(s string) bool {
	return slices.ContainsFunc([]byte(s), func(c byte) bool { return c == '/' || c < ' ' || c > '~' })
}

// attr is an attribute of a group or dataset.
type attr struct {
	path, name string
	value      any
}

func put(w *hdf5.Writer, all ...attr) error {
	for _, a := range all {
		if err := w.Attr(a.path, a.name, a.value); err != nil {
			return err
		}
	}
	return nil
}

// spinlock sets what Spinlock's readers look for beside the numbers.
func (m *merger) spinlock(w *hdf5.Writer) error {
	spec, err := json.Marshal(m.Spec)
	if err != nil {
		return err
	}
	n := len(m.units)
	err = put(w, attr{"/metadata", "version", "1.0"}, attr{"/metadata", "name", m.Name}, attr{
		"/metadata", "dataset", m.Identity,
	}, attr{"/metadata", "contract", m.Contract}, attr{"/metadata", "config", string(spec)}, attr{"/metadata",
		"track_ic_metadata", true}, attr{"/metadata", "num_parameter_sets", n}, attr{"/metadata", "num_operators", n},
		attr{"/metadata", "num_realizations", m.shape[0]}, attr{"/metadata", "num_timesteps", m.shape[1]},
		attr{"/metadata", "grid_size", m.shape[3]}, attr{"/parameters", "names", m.fields()})
	if err != nil || m.states {
		return orElse(err, m.outputs(w))
	}
	return put(w, attr{"/outputs", "feature_only_mode", true},
		attr{"/outputs", "note", "the states were not kept: refrun dataset makes them again"})
}

// outputs shows the trajectories where Spinlock's dataset has them: without the time if
// there is one state.
func (m *merger) outputs(w *hdf5.Writer) error {
	if !m.states {
		return nil
	}
	whole := append([]int{len(m.units)}, m.shape...)
	shape := slices.Clone(whole)
	if m.shape[1] == 1 {
		shape = slices.Delete(shape, 2, 3)
	}
	return w.View("/outputs/fields", hdf5.TypeOf(m.Dataset.units.Store), shape, "/trajectories", make([]int, 6), whole)
}

// well1 sets what The Well's readers look for, but for the numbers.
func (m *merger) well1(w *hdf5.Writer) error {
	n, scalars := len(m.units)*m.shape[0], m.scalars()
	fields := []string{}
	if m.states {
		for c := range m.shape[2] {
			name := fmt.Sprintf("c%d", c)
			fields = append(fields, name)
			box := append([]int{len(m.units)}, m.shape...)
			box[3] = 1
			path := "/t0_fields/" + name
			err := w.View(path, hdf5.Float32, []int{n, m.shape[1], m.shape[3], m.shape[4]}, "/trajectories",
				[]int{0, 0, 0, c, 0, 0}, box)
			if err == nil {
				err = put(w, attr{path, "sample_varying", true}, attr{path, "time_varying", true},
					attr{path, "dim_varying", []bool{true, true}})
			}
			if err != nil {
				return err
			}
		}
	}
	for _, name := range scalars {
		if err := put(w, attr{"/scalars/" + name, "sample_varying", true},
			attr{"/scalars/" + name, "time_varying", false}); err != nil {
			return err
		}
	}
	for i, name := range []string{"time", "y", "x"} {
		path := "/dimensions/" + name
		v := make([]float64, m.shape[[]int{1, 3, 4}[i]])
		for k := range v {
			v[k] = float64(k)
		}
		if err := w.Write(path, []int{0}, v); err != nil {
			return err
		}
		if err := put(w, attr{path, "sample_varying", false}, attr{path, "time_varying", i == 0}); err != nil {
			return err
		}
	}
	if err := w.Group("/boundary_conditions"); err != nil { // none of those that it has are an operator's
		return err
	}
	return put(w, attr{
		"/", "dataset_name", cmp.Or(m.Name, "dataset"),
	}, attr{"/", "grid_type", "cartesian"}, attr{"/", "n_spatial_dims", 2}, attr{"/", "n_trajectories", n},
		attr{"/", "simulation_parameters", []string{}}, attr{"/dimensions", "spatial_dims", []string{"y", "x"}},
		attr{"/scalars", "field_names", scalars}, attr{"/t0_fields", "field_names", fields},
		attr{"/t1_fields", "field_names", []string{}}, attr{"/t2_fields", "field_names", []string{}})
}

// perUnit writes what is known of each unit without its file.
func (m *merger) perUnit(w *hdf5.Writer) error {
	var types, policies, regimes []string
	scalars, fields := m.scalars(), m.fields()
	for i, unit := range m.units {
		u, err := m.Unit(unit)
		if err != nil {
			return err
		}
		x, err := u.Start()
		if err != nil {
			return err
		}
		types, policies, regimes = append(types, u.condition.Type), append(policies, policyName(u.Rollout)),
			append(regimes, regime(u.Operator.NoiseScale))
		for _, err := range []error{
			w.Write("/parameters/params", []int{i, 0}, rounded32(u.Point)), w.Write("/parameters/values", []int{i, 0}, u.Values),
			w.Write("/metadata/grid_sizes", []int{i}, []float64{float64(m.shape[3])}),
			w.Write("/inputs/fields", []int{i, 0, 0, 0}, x),
		} {
			if err != nil {
				return err
			}
		}
		for _, name := range scalars {
			for k := range m.shape[0] {
				v := float64(unit)
				if name == "realization" {
					v = float64(k)
				} else if at := slices.Index(fields, name); at >= 0 {
					v = u.Values[at]
				}
				if err := w.Write("/scalars/"+name, []int{i*m.shape[0] + k}, []float64{fp16.Float32.Round(v)}); err != nil {
					return err
				}
			}
		}
	}
	return orElse(orElse(w.Strings("/metadata/ic_types", types), w.Strings("/metadata/evolution_policies", policies)),
		w.Strings("/metadata/noise_regimes", regimes))
}

func rounded32(v []float64) []float64 {
	out := make([]float64, len(v))
	fp16.Float32.RoundSlice(out, v)
	return out
}

// policyName calls a policy as Spinlock does.
func policyName(c rollout.Config) string {
	switch policy := cmp.Or(c.Policy, rollout.Convex); policy {
	case rollout.Residual:
		return fmt.Sprintf("residual(dt=%v)", c.Dt)
	case rollout.Convex:
		return fmt.Sprintf("convex(alpha=%v)", c.Alpha)
	default:
		return string(policy)
	}
}

// regime is Spinlock's word for a scale of noise.
func regime(scale float64) string {
	switch {
	case scale < 0.01:
		return "low"
	case scale < 0.1:
		return "medium"
	}
	return "high"
}

// fill copies the units' numbers.
func (m *merger) fill(w *hdf5.Writer) error {
	total := (len(rollout.DiagnosticNames) + 1) * len(m.units)
	for _, name := range rollout.DiagnosticNames {
		for i := range m.units {
			err := m.of(i, name, m.shape[1], func(k int, v []float64) error {
				fp16.Float32.RoundSlice(v, v)
				return w.Write("/metrics/"+name, []int{i, k, 0}, v)
			})
			if err != nil {
				return err
			}
			m.step(total)
		}
	}
	for i := range m.units {
		if m.states {
			if err := m.chunks(w, i); err != nil {
				return err
			}
		}
		m.step(total)
	}
	return nil
}

// chunks copies the states of a unit: as they are stored, if they may.
func (m *merger) chunks(w *hdf5.Writer, i int) error {
	s, err := m.opened.take(m.Dataset, m.units[i])
	if err != nil {
		return err
	}
	defer m.opened.give(s)
	at := func(k int) []int { return []int{i, k / m.shape[1], k % m.shape[1], 0, 0, 0} }
	if s.h5 != nil {
		d, err := s.h5.Dataset("/trajectories")
		if err != nil {
			return s.broken(err)
		}
		if spec := m.specs()[0]; d.Storable(spec) {
			for k := range m.shape[0] * m.shape[1] {
				from := at(k)
				from[0] = 0
				b, err := d.StoredChunk(from...)
				if err != nil {
					return s.broken(err)
				}
				if err := w.CopyChunk("/trajectories", at(k), b); err != nil {
					return err
				}
			}
			return nil
		}
	}
	v := make([]float64, m.state())
	for k := range m.shape[0] * m.shape[1] {
		if err := s.read(trajectory, k*len(v), v); err != nil {
			return err
		}
		if err := w.Write("/trajectories", at(k), v); err != nil {
			return err
		}
	}
	return nil
}
