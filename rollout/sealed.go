package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/hdf5"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// sealed is a finished file, as far as it speaks of its own bytes.
type sealed struct {
	records
	size     int64
	kept     []extent // what the seal leaves out: what the table covers, and the seal
	sealAt   extent   // of the seal in the file
	seal     sum      // that check found to be right
	metadata map[string]string

	// Of a trajectory.
	shape  Trajectory
	pieces int           // how many tensors the states are in, 0 for one
	format fp16.Format   // of the numbers in the file
	digest []byte        // that it says; nil for a tape
	packed *hdf5.Dataset // the states, whose bytes are compressed; nil where they are not

	// Of a .npy file, of which another one speaks.
	whole, said, saidSeal sum
}

// errNoSeal says that a file does not speak of its own bytes.
var errNoSeal = errors.New("no digest inside: nothing could be verified")

// openSealed opens a file of ours; close lets it go.
func openSealed(path string) (s *sealed, close func() error, err error) {
	f, size, err := fault.OpenRegular(path)
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want a file that can be read", path, c)
		}
		return nil, nil, err
	}
	switch filepath.Ext(path) {
	case ".npz":
		s, err = parseNpz(path, f, size)
	case ".h5", ".hdf5":
		s, err = parseHDF5(path, f, size)
	case ".npy":
		s, err = parseNpy(path, f, size)
	default: // a tape may have any name
		s, err = parseSafetensors(path, f, size)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return s, f.Close, nil
}

// newSealed returns a file whose records the caller places.
func newSealed(path string, f io.ReaderAt, size int64) *sealed {
	return &sealed{records: records{path: path, file: f}, size: size}
}

// flatten places the records of a trajectory whose states, diagnostics of width bytes,
// and table each stand in one run.
func (s *sealed) flatten(dims []int, states extent, metrics []extent, table, seal extent) error {
	if len(dims) < 3 || slices.Min(dims) < 1 {
		return fmt.Errorf("%s: trajectory: shape %v: want [M,T,C,H,W], or [M,T,...] of a step graph", s.path, dims)
	}
	s.shape = Trajectory{M: dims[0], T: dims[1], State: dims[2:]}
	s.count = [2]int{dims[0], dims[1]}
	n := s.shape.states()
	for _, m := range metrics {
		if m.n%n != 0 {
			return fmt.Errorf("%s: metrics: %d bytes: want as many numbers as states", s.path, m.n)
		}
	}
	if err := s.tabled(table, seal, n); err != nil {
		return err
	}
	s.kept = append(s.kept, states, seal)
	if !s.crc { // of whose files the seal covers the diagnostics
		s.kept = append(s.kept, metrics...)
	}
	each := states.n / n
	s.parts = func(i int) []extent {
		all := make([]extent, 0, 6)
		if each > 0 {
			all = append(all, extent{states.at + int64(i)*each, each})
		}
		for _, m := range metrics {
			w := m.n / n
			all = append(all, extent{m.at + int64(i)*w, w})
		}
		return all
	}
	return nil
}

// tabled takes the places of table and seal of n records.
func (s *sealed) tabled(table, seal extent, n int64) error {
	if table.n != n*s.width() {
		return fmt.Errorf("%s: table of hashes: %d bytes: want %d, those of %d records", s.path, table.n, n*s.width(), n)
	}
	if seal.n != sha256.Size && seal.n != 2*sha256.Size { // as bytes, or in hexadecimal
		return fmt.Errorf("%s: seal: %d bytes: want %d", s.path, seal.n, sha256.Size)
	}
	s.table, s.sealAt = table.at, seal
	return nil
}

func parseSafetensors(path string, f io.ReaderAt, size int64) (*sealed, error) {
	file, err := safetensors.ParseAt(path, f, size)
	if err != nil {
		return nil, err
	}
	return sealedOf(file, f, size)
}

// sealedOf takes what a safetensors file says of its own bytes.
func sealedOf(file *safetensors.File, f io.ReaderAt, size int64) (*sealed, error) {
	path, names := file.Path, file.Names()
	states := slices.DeleteFunc(slices.Clone(names),
		func(n string) bool { return n != "trajectory" && !strings.HasPrefix(n, "trajectory.") })
	crc, table := slices.Contains(names, crcName) && len(states) > 0, tableName
	if crc {
		table = crcName
	}
	if !slices.Contains(names, table) || !slices.Contains(names, sealName) {
		return nil, fmt.Errorf("%s: %w", path, errNoSeal)
	}
	at := func(name string) (e extent) {
		if t, err := file.Tensor(name); err == nil {
			e.at, e.n = t.Place()
		}
		return e
	}
	s := newSealed(path, f, size)
	s.metadata, s.crc = file.Metadata, crc
	if len(states) == 0 {
		return s, s.tape(file, at(tableName), at(sealName))
	}
	t, err := file.Tensor(states[0])
	if err != nil {
		return nil, err
	}
	var ok bool
	if s.format, ok = t.DType.Format(); !ok {
		return nil, fmt.Errorf("%s: trajectory: dtype %s: want F64, F32, F16 or BF16", path, t.DType)
	}
	var metrics []extent
	for _, name := range metricNames() {
		if _, err := file.Tensor(name); err != nil {
			return nil, err
		}
		metrics = append(metrics, at(name))
	}
	s.digest = make([]byte, at(digestName).n)
	if _, err := f.ReadAt(s.digest, at(digestName).at); err != nil {
		return nil, s.failed(at(digestName).at, err)
	}
	if err := s.flatten(t.Shape, at(states[0]), metrics, at(table), at(sealName)); err != nil ||
		len(states) == 1 && states[0] == "trajectory" {
		return s, err
	}
	return s, s.several(file, states)
}

// several places the records of several states: of each state all of them.
func (s *sealed) several(file *safetensors.File, names []string) error {
	one, total := s.parts, 0
	each := make([]extent, len(names))
	for k, name := range names {
		t, err := file.Tensor(name)
		if err != nil {
			return err
		}
		if len(t.Shape) < 2 || t.Shape[0] != s.shape.M || t.Shape[1] != s.shape.T {
			return fmt.Errorf("%s: %s: shape %v: want [%d,%d,...]", s.path, name, t.Shape, s.shape.M, s.shape.T)
		}
		each[k].at, each[k].n = t.Place()
		total += tensor.Size(t.Shape[2:])
		if k > 0 {
			s.kept = append(s.kept, each[k])
		}
		each[k].n /= s.shape.states()
	}
	s.shape.State = []int{total}
	s.pieces = len(names)
	s.records.parts = func(i int) (all []extent) {
		for _, e := range each {
			all = append(all, extent{e.at + int64(i)*e.n, e.n})
		}
		return append(all, one(i)[1:]...)
	}
	return nil
}

// tape places the records of a tape: the draws of each engine batch and step.
func (s *sealed) tape(file *safetensors.File, table, seal extent) error {
	t, err := file.Tensor(tableName)
	if err != nil {
		return err
	}
	if len(t.Shape) != 3 || t.Shape[0] < 1 || t.Shape[1] < 1 {
		return fmt.Errorf("%s: %s: shape %v: want [BATCHES,STEPS,%d]", s.path, tableName, t.Shape, sha256.Size)
	}
	s.count = [2]int{t.Shape[0], t.Shape[1]}
	draws := make([][]extent, t.Shape[0]) // of all steps of a batch
	for _, name := range file.Names() {
		if strings.HasPrefix(name, "integrity.") {
			continue
		}
		number, ok := strings.CutPrefix(name, "batch")
		number, _, _ = strings.Cut(number, ".")
		k, err := strconv.Atoi(number)
		if !ok || err != nil || k < 0 || k >= len(draws) {
			return fmt.Errorf("%s: %s: unknown array: want the draws of an engine batch", s.path, fault.Text(name))
		}
		t, err := file.Tensor(name)
		if err != nil {
			return err
		}
		var e extent
		if e.at, e.n = t.Place(); len(t.Shape) < 1 || t.Shape[0] != s.count[1] {
			return fmt.Errorf("%s: %s: shape %v: want %d steps", s.path, fault.Text(name), t.Shape, s.count[1])
		}
		draws[k] = append(draws[k], e) // in the order of the file, which is that of the draws
		s.kept = append(s.kept, e)
	}
	s.kept = append(s.kept, seal)
	steps := int64(s.count[1])
	s.parts = func(i int) (all []extent) {
		for _, e := range draws[i/s.count[1]] {
			n := e.n / steps
			all = append(all, extent{e.at + int64(i%s.count[1])*n, n})
		}
		return all
	}
	return s.tabled(table, seal, int64(s.count[0])*steps)
}

func parseNpz(path string, f io.ReaderAt, size int64) (*sealed, error) {
	z, err := npy.ParseArchive(path, f, size)
	if err != nil {
		return nil, err
	}
	seal, ok := strings.CutPrefix(z.Comment(), npzSeal)
	if !ok || !slices.Contains(z.Names(), tableName) {
		return nil, fmt.Errorf("%s: %w", path, errNoSeal)
	}
	s := newSealed(path, f, size)
	places := map[string]extent{}
	var states *npy.Array
	for _, name := range append(metricNames(), tableName, digestName, "metadata", "trajectory") {
		at, n, a, err := z.Place(name)
		if err != nil {
			return nil, err
		}
		places[name], states = extent{at, n}, a
	}
	if s.format, ok = states.Format(); !ok {
		if states.DType != npy.TypeOf(fp16.BFloat16) {
			return nil, fmt.Errorf("%s: trajectory: type %s: want <f8, <f4, <f2 or the bits of bfloat16, <u2", path,
				fault.Text(states.DType))
		}
		s.format = fp16.BFloat16
	}
	var metrics []extent
	for _, name := range metricNames() {
		metrics = append(metrics, places[name])
	}
	const most = 1 << 24
	if places["metadata"].n > most || places[digestName].n > most {
		return nil, fmt.Errorf("%s: metadata: %d bytes: want at most %d", path, places["metadata"].n, most)
	}
	meta := make([]byte, places["metadata"].n)
	s.digest = make([]byte, places[digestName].n)
	for name, b := range map[string][]byte{"metadata": meta, digestName: s.digest} {
		if n, err := f.ReadAt(b, places[name].at); n < len(b) {
			return nil, s.failed(places[name].at, err)
		}
	}
	json.Unmarshal(meta, &s.metadata) // the seal covers it, whatever it says
	return s, s.flatten(states.Shape, places["trajectory"], metrics, places[tableName],
		extent{size - int64(len(seal)), int64(len(seal))})
}

func parseHDF5(path string, f io.ReaderAt, size int64) (*sealed, error) {
	file, err := hdf5.New(path, f, size)
	if err != nil {
		return nil, err
	}
	place := func(name string) (extent, error) { return placeOf(file, name) }
	table, err := place(hdf5CRC)
	var missing *hdf5.Error
	crc := err == nil
	if !crc {
		table, err = place(hdf5Table)
	}
	if errors.As(err, &missing) && missing.Field == "path" {
		return nil, fmt.Errorf("%s: %w", path, errNoSeal)
	}
	seal, e := place(hdf5Seal)
	if err = cmp.Or(err, e); err != nil {
		return nil, err
	}
	s := newSealed(path, f, size)
	s.metadata, s.crc = map[string]string{}, crc
	if v, err := file.Attr("/metadata", identityKey); err == nil {
		s.metadata[identityKey], _ = v.(string)
	}
	d, err := file.Dataset("/trajectories")
	if err != nil {
		return nil, err
	}
	format, ok := map[hdf5.Type]fp16.Format{
		hdf5.Float64: fp16.Float64, hdf5.Float32: fp16.Float32, hdf5.Float16: fp16.Float16,
	}[d.Type]
	if !ok || len(d.Shape) < 4 || d.Shape[0] != 1 {
		return nil, fmt.Errorf("%s: /trajectories: %v %v: want numbers [1,M,T,C,H,W]", path, d.Type, d.Shape)
	}
	s.format, s.packed = format, d
	var metrics []extent
	for _, name := range DiagnosticNames {
		e, err := place("/metrics/" + name)
		if err != nil {
			return nil, err
		}
		metrics = append(metrics, e)
	}
	at, err := place(hdf5Digest)
	if err != nil {
		return nil, err
	}
	s.digest = make([]byte, at.n)
	if n, err := f.ReadAt(s.digest, at.at); n < len(s.digest) {
		return nil, s.failed(at.at, err)
	}
	if err := s.flatten(d.Shape[1:], extent{}, metrics, table, seal); err != nil {
		return nil, err
	}
	if err := s.chunked(d); err != nil {
		return nil, err
	}
	return s, nil
}

// placeOf is where a dataset's numbers lie.
func placeOf(file *hdf5.File, name string) (e extent, err error) {
	d, err := file.Dataset(name)
	if err != nil {
		return e, err
	}
	p, err := d.Place()
	return extent{p.At, p.Size}, err
}

// chunked adds where each state's chunk lies.
func (s *sealed) chunked(d *hdf5.Dataset) error {
	chunks := make([]extent, s.shape.states())
	for i := range chunks {
		p, err := d.Place(0, i/s.shape.T, i%s.shape.T, 0, 0, 0)
		if err != nil {
			return err
		}
		chunks[i] = extent{p.At, p.Size}
	}
	s.kept = append(s.kept, chunks...)
	rest := s.parts
	s.parts = func(i int) []extent { return append([]extent{chunks[i]}, rest(i)...) }
	return nil
}
