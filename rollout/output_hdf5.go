package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/hdf5"
)

// hdf5Output is an HDF5 output in the layout of Spinlock's TrajectoryWriter:
// /trajectories [1,M,T,C,H,W], one state a chunk, gzip 4; /metrics/<name>
// [1,M,T] in float32; attributes of /metadata. bfloat16 numbers are stored as
// float32, float16 as such.
type hdf5Output struct {
	partialFile
	ledger
	w        *hdf5.Writer
	specs    []hdf5.Spec
	want     hdf5State    // that it was opened with
	chunks   []hdf5.Chunk // that were there then
	places   map[int]extent
	format   fp16.Format
	shape    Trajectory
	ord      order
	config   Config
	metadata map[string]string
	names    []string  // of the diagnostics' datasets
	rounded  []float64 // a state in a format that is stored as another one
	digest   *Digest
	tail     []byte // the diagnostics of a state
	seen     diagnoser
}

// hdf5State is what a later process needs to continue the file.
type hdf5State struct {
	File hdf5.State
	ledger
}

// The datasets of what the file says of its own bytes.
const (
	hdf5Table  = "/integrity/sha256" // of files that were made before there was /integrity/crc32
	hdf5CRC    = "/integrity/crc32"
	hdf5Digest = "/integrity/digest"
	hdf5Seal   = "/integrity/seal"
)

// gzipLevel is the level Spinlock compresses with, the default.
const gzipLevel = 4

// Huffman as [Job.Gzip] sorts the bytes of a state by significance and codes them by how often
// they occur: of noisy states smaller files than by level 9, in a fifth of the time.
const Huffman = hdf5.Huffman

func createHDF5(
	at partialFile, s Trajectory, c Config, f fp16.Format, gzip int, metadata map[string]string, state []byte,
) (trajectory, error) {
	one := append([]int{1}, s.dims()...)
	specs := []hdf5.Spec{
		{Path: "/trajectories", Type: hdf5.TypeOf(f), Shape: one, Chunk: append([]int{1, 1, 1}, s.State...), Gzip: gzip,
			Shuffle: gzip == Huffman},
	}
	o := &hdf5Output{partialFile: at, format: f, shape: s, ord: orderOf(c), config: c, metadata: metadata}
	for _, name := range DiagnosticNames {
		o.names = append(o.names, "/metrics/"+name)
		specs = append(specs, hdf5.Spec{Path: "/metrics/" + name, Type: hdf5.Float32, Shape: []int{1, s.M, s.T}})
	}
	o.specs = append(specs, hdf5.Spec{Path: hdf5CRC, Type: hdf5.Uint8, Shape: []int{1, s.M, s.T, crcSize}},
		hdf5.Spec{Path: hdf5Digest, Type: hdf5.Uint8, Shape: []int{sha256.Size}},
		hdf5.Spec{Path: hdf5Seal, Type: hdf5.Uint8, Shape: []int{sha256.Size}})
	if err := o.openFile(state != nil); err != nil {
		return nil, err
	}
	var err error
	if state == nil {
		if err = o.start(hdf5.Create(o.f, o.specs)); err != nil {
			o.Close()
		}
		return o, err
	}
	if err = json.Unmarshal(state, &o.want); err == nil {
		o.chunks, err = hdf5.Survey(o.f, o.specs, o.want.File)
	}
	if err != nil {
		o.Close()
		return nil, o.failed(err)
	}
	return o, nil
}

// start begins to write with a writer.
func (o *hdf5Output) start(w *hdf5.Writer, err error) error {
	if o.w = w; err == nil {
		err = o.attributes(o.shape, o.config, o.metadata)
	}
	if err != nil {
		return o.failed(err)
	}
	return nil
}

func (o *hdf5Output) order() order { return o.ord }

// records says where the records of a partial file are: of those that it was opened
// with, or of those that were written since.
func (o *hdf5Output) records(chunk func(i int) (extent, bool)) *records {
	w := o.w
	if w == nil {
		w, _ = hdf5.Layout(o.specs)
	}
	var metrics []int64
	for _, name := range o.names {
		p, _ := w.Place(name)
		metrics = append(metrics, p.At)
	}
	table, _ := w.Place(hdf5CRC)
	return &records{path: partial(o.path), file: o.f, count: [2]int{o.shape.M, o.shape.T}, table: table.At, crc: true,
		parts: func(i int) []extent {
			e, ok := chunk(i)
			if !ok {
				return nil
			}
			all := append(make([]extent, 0, 6), e)
			for _, at := range metrics {
				all = append(all, extent{at + 4*int64(i), 4})
			}
			return all
		}}
}

// found returns the records of the chunks that the survey found where they belong in
// the order of writing.
func (o *hdf5Output) found() *records {
	at := map[int]extent{}
	for w, c := range o.chunks {
		if w >= o.want.Records || c.Number != o.ord.index(w) {
			break
		}
		at[c.Number] = extent{c.At, c.Size}
	}
	return o.records(func(i int) (extent, bool) { e, ok := at[i]; return e, ok })
}

// verify implements [Output].
func (o *hdf5Output) verify() (good, all int, err error) {
	r := o.found()
	good, stale, err := r.verify(o.ord, o.want.ledger)
	if stale {
		err = o.relist(r, o.ord, good)
	}
	return good, o.want.Records, err
}

// back implements [Output].
func (o *hdf5Output) back(n int) error {
	if o.w != nil { // nothing was there
		return nil
	}
	var err error
	if o.ledger, err = o.found().first(n, o.ord, o.want.ledger); err != nil {
		return err
	}
	left := o.shape.M*o.shape.T - n
	var missing []int
	for range o.names {
		missing = append(missing, left)
	}
	missing = append(missing, crcSize*left, sha256.Size, sha256.Size)
	at, err := o.want.File.Truncated(o.f, o.specs, o.chunks, n, missing)
	if err != nil {
		return o.failed(err)
	}
	o.chunks = nil
	return o.start(hdf5.Resume(o.f, o.specs, at))
}

// state implements [trajectory].
func (o *hdf5Output) state(m, t int, x []float64) error {
	if o.places == nil {
		o.places = map[int]extent{}
		for _, c := range o.chunks {
			o.places[c.Number] = extent{c.At, c.Size}
		}
	}
	e, ok := o.places[m*o.shape.T+t]
	if !ok {
		return fmt.Errorf("%s: realization %d, state %d: want one that was written", partial(o.path), m, t)
	}
	b := make([]byte, e.n)
	_, err := o.f.ReadAt(b, e.at)
	if err == nil {
		b, err = o.specs[0].Unpack(b)
	}
	if err != nil {
		return o.failed(err)
	}
	storedHDF5(o.format).Decode(x, b)
	return nil
}

// storedHDF5 returns the format in which an HDF5 file holds numbers of format f.
func storedHDF5(f fp16.Format) fp16.Format {
	if f == fp16.BFloat16 || f == fp16.TF32 {
		return fp16.Float32
	}
	return f
}

// sealing implements [trajectory].
func (o *hdf5Output) sealing(d *Digest) { o.digest = d }

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
	policy := cmp.Or(c.Policy, Convex)
	switch policy {
	case Residual:
		policy += Policy(fmt.Sprintf("(dt=%v)", c.Dt))
	case Convex:
		policy += Policy(fmt.Sprintf("(alpha=%v)", c.Alpha))
	}
	attrs := []struct {
		name  string
		value any
	}{
		{"policy", string(policy)}, {"num_timesteps", s.T}, {"num_operators", 1}, {"num_realizations", s.M},
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

// ahead implements [pairwise].
func (o *hdf5Output) ahead(t, m int, x, prev [2][]float64) { o.seen.take(2, t, m, x, prev) }

// State implements [Sink]. A record is the chunk as it is stored, compressed, and the
// diagnostics.
func (o *hdf5Output) State(t, m int, x, prev []float64) error {
	to, stored := x, storedHDF5(o.format)
	if stored != o.format {
		o.rounded = slices.Grow(o.rounded[:0], len(x))[:len(x)]
		o.format.RoundSlice(o.rounded, x)
		to = o.rounded
	}
	o.buf = appendAs(stored, o.buf[:0], to)
	chunk, err := o.w.WriteChunk("/trajectories", []int{0, m, t, 0, 0, 0}, o.buf)
	if err != nil {
		return o.failed(err)
	}
	o.push(len(chunk))
	o.tail = o.tail[:0]
	for k, v := range o.seen.values(t, m, x, prev) {
		v = fp16.Float32.Round(v)
		if err := o.w.Write(o.names[k], []int{0, m, t}, []float64{v}); err != nil {
			return o.failed(err)
		}
		o.tail = fp16.Float32.Append(o.tail, []float64{v})
	}
	s := crcOf(chunk, o.tail)
	o.add(s)
	o.buf = o.digest.take(m, o.buf)
	return o.bytes(hdf5CRC, []int{0, m, t, 0}, s[:crcSize])
}

// bytes writes bytes into a dataset of them.
func (o *hdf5Output) bytes(path string, at []int, b []byte) error {
	var v [sha256.Size]float64
	for i, x := range b {
		v[i] = float64(x)
	}
	if err := o.w.Write(path, at, v[:len(b)]); err != nil {
		return o.failed(err)
	}
	return nil
}

// Sync implements [Output].
func (o *hdf5Output) Sync() ([]byte, error) {
	if err := o.kept(o.w.Size()); err != nil {
		return nil, err
	}
	s, err := o.w.Checkpoint()
	if err != nil {
		return nil, o.failed(err)
	}
	return json.Marshal(hdf5State{s, o.ledger})
}

// Finish implements [Output].
func (o *hdf5Output) Finish() error {
	if err := o.kept(o.w.Size()); err != nil {
		return err
	}
	if err := o.records(nil).auditTable(o.ord, o.ledger); err != nil {
		return err
	}
	for i := range o.shape.M * o.shape.T {
		if err := o.w.CheckRecord("/trajectories", i); err != nil {
			return &LostError{partial(o.path), err.Error(), true}
		}
	}
	if err := o.bytes(hdf5Digest, []int{0}, o.digest.sum()); err != nil {
		return err
	}
	if err := o.bytes(hdf5Seal, []int{0}, make([]byte, sha256.Size)); err != nil {
		return err
	}
	if err := o.w.Finish(); err != nil {
		return o.failed(err)
	}
	info, err := o.f.Stat()
	if err != nil {
		return o.failed(err)
	}
	h, err := parseHDF5(partial(o.path), o.f, info.Size())
	if err != nil {
		return err
	}
	if err := h.auditTable(o.ord, o.ledger); err != nil {
		return err
	}
	s, err := rest(partial(o.path), o.f, info.Size(), h.kept)
	if err != nil {
		return err
	}
	if err := o.write(s[:], h.sealAt.at); err != nil {
		return err
	}
	o.seal = s
	if err := h.audit(); err != nil {
		return err
	}
	if err := o.sync(info.Size()); err != nil {
		return err
	}
	if err := o.publish(partial(o.path)); err != nil {
		return err
	}
	return o.Close()
}

// What the writer of package hdf5 keeps: the place of each chunk, for the index
// that it writes in the end, and the compressor.
const (
	hdf5Place      = 16
	hdf5Compressor = 800 << 10
)

func (o *hdf5Output) held() int64 {
	raw := int64(o.shape.Len() * hdf5.TypeOf(o.format).Size())
	// raw: here, there, sorted, and compressed at most
	return 8*int64(cap(o.rounded)) + 4*raw + hdf5Place*o.shape.states() + hdf5Compressor
}
