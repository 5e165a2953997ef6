package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/hdf5"
)

// hdf5Output is an HDF5 output in the layout of Spinlock's TrajectoryWriter:
// /trajectories [1,M,T,C,H,W], one state a chunk, gzip 4; /metrics/<name>
// [1,M,T] in float32; attributes of /metadata. bfloat16 numbers are stored as
// float32, float16 as such.
type hdf5Output struct {
	partialFile
	w      *hdf5.Writer
	format fp16.Format
	names  []string // of the diagnostics' datasets
	stored []float64
	states int // in the file when it is complete
}

// gzipLevel is the level Spinlock compresses with.
const gzipLevel = 4

func createHDF5(at partialFile, s Trajectory, f fp16.Format, c Config, metadata map[string]string, state []byte) (Output, error) {
	one := append([]int{1}, s.dims()...)
	specs := []hdf5.Spec{{Path: "/trajectories", Type: hdf5.TypeOf(f), Shape: one, Chunk: []int{1, 1, 1, s.C, s.H, s.W}, Gzip: gzipLevel}}
	o := &hdf5Output{partialFile: at, format: f, states: s.M * s.T}
	for _, name := range DiagnosticNames {
		o.names = append(o.names, "/metrics/"+name)
		specs = append(specs, hdf5.Spec{Path: "/metrics/" + name, Type: hdf5.Float32, Shape: []int{1, s.M, s.T}})
	}
	if err := o.openFile(state != nil); err != nil {
		return nil, err
	}
	var err error
	if state == nil {
		o.w, err = hdf5.Create(o.f, specs)
	} else {
		var at hdf5.State
		if err = json.Unmarshal(state, &at); err == nil {
			o.w, err = hdf5.Resume(o.f, specs, at)
		}
	}
	if err == nil {
		err = o.attributes(s, c, metadata)
	}
	if err != nil {
		o.Close()
		return nil, o.failed(err)
	}
	return o, nil
}

func (o *hdf5Output) attributes(s Trajectory, c Config, metadata map[string]string) error {
	normalization, clamp := string(c.Normalization), "none"
	if c.Normalization == NoNormalization {
		normalization = "none"
	}
	if c.Clamp != nil {
		b, err := json.Marshal(c.Clamp)
		if err != nil {
			return err
		}
		clamp = string(b)
	}
	policy := string(c.Policy)
	switch c.Policy {
	case Residual:
		policy += fmt.Sprintf("(dt=%v)", c.Dt)
	case Convex:
		policy += fmt.Sprintf("(alpha=%v)", c.Alpha)
	}
	attrs := []struct {
		name  string
		value any
	}{
		{"policy", policy}, {"num_timesteps", s.T}, {"num_operators", 1}, {"num_realizations", s.M},
		{"normalization", normalization}, {"clamp_range", clamp},
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		attrs = append(attrs, struct {
			name  string
			value any
		}{name, metadata[name]})
	}
	for _, a := range attrs {
		if err := o.w.Attr("/metadata", a.name, a.value); err != nil {
			return err
		}
	}
	return nil
}

// State implements [Sink].
func (o *hdf5Output) State(t, m int, x, prev []float64) error {
	o.stored = o.stored[:0]
	for _, v := range x {
		o.stored = append(o.stored, o.format.Round(v))
	}
	if err := o.w.Write("/trajectories", []int{0, m, t, 0, 0, 0}, o.stored); err != nil {
		return o.failed(err)
	}
	for k, v := range Diagnose(x, prev).Values() {
		if err := o.w.Write(o.names[k], []int{0, m, t}, []float64{fp16.Float32.Round(v)}); err != nil {
			return o.failed(err)
		}
	}
	return nil
}

// Sync implements [Output].
func (o *hdf5Output) Sync() ([]byte, error) {
	s, err := o.w.Checkpoint()
	if err != nil {
		return nil, o.failed(err)
	}
	return json.Marshal(s)
}

// Finish implements [Output].
func (o *hdf5Output) Finish() error {
	if err := o.w.Finish(); err != nil {
		return o.failed(err)
	}
	return o.partialFile.Finish()
}

// What the writer of package hdf5 keeps: the place of each chunk, for the index
// that it writes in the end, and the compressor.
const (
	hdf5Place      = 16
	hdf5Compressor = 800 << 10
)

func (o *hdf5Output) held() int64 {
	state := int64(cap(o.stored))
	raw := state * int64(hdf5.TypeOf(o.format).Size())
	return 8*state + 2*raw + hdf5Place*int64(o.states) + hdf5Compressor // raw: as bytes, and compressed at most
}
