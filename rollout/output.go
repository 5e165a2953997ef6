package rollout

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// Output is a sink that keeps the trajectory in a file. While the rollout runs
// it writes to a partial file beside the final one; Finish gives it its name.
// A run that dies therefore leaves no file that looks complete.
//
// Every record, a state with its diagnostics, gets a hash as it is written, in
// .safetensors and HDF5 files a [crc]. The hashes stand in the file; their chain goes into
// the checkpoint. What a partial file is said to hold is compared with that chain before a
// run goes on from it, and once more before the file gets its name.
type Output interface {
	Sink
	// Sync makes everything written so far durable and returns what a later
	// process needs, beside the partial file, to continue from here.
	Sync() (state []byte, err error)
	// Finish completes the file under its final name.
	Finish() error
	// Close lets the partial file go; after Finish it does nothing.
	Close() error

	// verify reads what the state that the output was opened with speaks of again. It
	// returns the first record that is not what was written, or how many there are.
	verify() (good, all int, err error)
	// back makes the output what it was after so many records, at most those of verify,
	// and ready to be written.
	back(records int) error
	// order returns the order of the records.
	order() order
	// held returns the bytes of memory that the output keeps.
	held() int64
}

// trajectory is an output of states.
type trajectory interface {
	Output
	// state reads a state that was written, as it is stored.
	state(m, t int, x []float64) error
	// sealing takes what the finished file says of all of its states, to which the output
	// adds each of them.
	sealing(digest *Digest)
	// sealText returns the seal of the finished file in hexadecimal, "" if it is not known.
	sealText() string
}

// Trajectory is the size of a whole rollout.
type Trajectory struct {
	M, T int
	// the shape of a state, [C,H,W] of an operator's; of several states that of their numbers, one after another
	State []int
	parts []part // of State: the states of a step graph that has names for them; nil of one that has none
}

// part is one of several states.
type part struct {
	name  string // of its tensor: trajectory or trajectory.NAME
	shape []int
}

// named are the states with the names of their tensors.
func (s Trajectory) named() []part {
	if s.parts == nil {
		return []part{{"trajectory", s.State}}
	}
	return s.parts
}

func (s Trajectory) dims() []int { return append([]int{s.M, s.T}, s.State...) }

// Len returns the number of elements of a state.
func (s Trajectory) Len() int { return tensor.Size(s.State) }

func (s Trajectory) states() int64 { return int64(s.M) * int64(s.T) }

// flat is a file of the states and their diagnostics, then the hashes of them.
type flat struct {
	partialFile
	ledger
	want    ledger // of the state that it was opened with
	format  fp16.Format
	shape   Trajectory
	pieces  []stretch // of the states
	ord     order
	head    []byte
	at      int64    // offset of the trajectory
	metrics [5]int64 // offsets of the diagnostics [M,T], F64
	bare    bool     // the file has no diagnostics
	table   int64    // offset of the hashes, [M,T,32]
	sealed  bool     // they are [M,T], a [crc] each, and the digest of the states and the seal follow
	digest  *Digest
	tail    []byte // the diagnostics of a state
	prints  prints
	seen    diagnoser
}

// newFlat lays a file out: a head, the diagnostics unless it is bare, the
// trajectory, the hashes, and, if it is sealed, the digest and the seal.
func newFlat(at partialFile, s Trajectory, c Config, f fp16.Format, head []byte, bare, sealed bool) *flat {
	o := &flat{partialFile: at, format: f, shape: s, ord: orderOf(c), head: head, at: int64(len(head)),
		bare: bare, sealed: sealed}
	if !bare {
		for i := range o.metrics {
			o.metrics[i] = o.at
			o.at += 8 * s.states()
		}
	}
	o.table = o.at
	for _, p := range s.named() {
		n := int64(tensor.Size(p.shape)) * int64(f.Bytes())
		o.pieces = append(o.pieces, stretch{o.table, n})
		o.table += s.states() * n
	}
	return o
}

// stretch is where the states of a name stand in a file: from at on, n bytes each.
type stretch struct{ at, n int64 }

// first is what diagnostics are of: of several states the first.
func (o *flat) first(x []float64) []float64 {
	if len(o.pieces) < 2 || x == nil {
		return x
	}
	return x[:o.pieces[0].n/int64(o.format.Bytes())]
}

func (o *flat) stateBytes() int64 { return int64(o.shape.Len()) * int64(o.format.Bytes()) }

// size returns the bytes of the whole file.
func (o *flat) size() int64 {
	if o.sealed {
		return o.table + crcSize*o.shape.states() + 2*sha256.Size
	}
	return o.table + sha256.Size*o.shape.states()
}

// begin creates the file, or opens the one that it continues if state is not nil.
func (o *flat) begin(state []byte) error {
	if state != nil {
		if err := json.Unmarshal(state, &o.want); err != nil || o.want.Records < 0 ||
			int64(o.want.Records) > o.shape.states() {
			return fmt.Errorf("%s.resume: state of the output: want the one that the unfinished run left", o.path)
		}
		return o.open(o.size(), true)
	}
	if err := o.open(o.size(), false); err != nil {
		return err
	}
	return o.back(0)
}

func (o *flat) order() order { return o.ord }

// records says where the records are.
func (o *flat) records() *records {
	return &records{path: partial(o.path), file: o.f, count: [2]int{o.shape.M, o.shape.T}, table: o.table,
		crc: o.sealed, prints: o.prints,
		parts: func(i int) []extent {
			all := make([]extent, 0, 6)
			for _, p := range o.pieces {
				all = append(all, extent{p.at + int64(i)*p.n, p.n})
			}
			if !o.bare {
				for _, at := range o.metrics {
					all = append(all, extent{at + 8*int64(i), 8})
				}
			}
			return all
		}}
}

// verify implements [Output].
func (o *flat) verify() (good, all int, err error) {
	good, stale, err := o.records().verify(o.ord, o.want)
	if stale {
		err = o.relist(o.records(), o.ord, good)
	}
	return good, o.want.Records, err
}

// relist writes the hashes of the first n records into the table once more.
func (p *partialFile) relist(r *records, o order, n int) error {
	return r.each(n, o.index, r.sum, func(i int, is sum) error {
		return p.write(is[:r.width()], r.table+int64(i)*r.width())
	})
}

// back implements [Output].
func (o *flat) back(n int) error {
	l, err := o.records().first(n, o.ord, o.want)
	if o.ledger = l; err != nil {
		return err
	}
	return o.write(o.head, 0)
}

// state implements [trajectory].
func (o *flat) state(m, t int, x []float64) error {
	i, b := int64(m)*int64(o.shape.T)+int64(t), make([]byte, o.stateBytes())
	for rest, k := b, 0; len(rest) > 0; k++ {
		p := o.pieces[k]
		if _, err := o.f.ReadAt(rest[:p.n], p.at+i*p.n); err != nil {
			return o.records().failed(p.at+i*p.n, err)
		}
		rest = rest[p.n:]
	}
	o.format.Decode(x, b)
	return nil
}

// sealing implements [trajectory].
func (o *flat) sealing(d *Digest) { o.digest = d }

// ahead implements [pairwise].
func (o *flat) ahead(t, m int, x, prev [2][]float64) {
	if !o.bare {
		for i := range x {
			x[i], prev[i] = o.first(x[i]), o.first(prev[i])
		}
		o.seen.take(2, t, m, x, prev)
	}
}

// State implements [Sink].
func (o *flat) State(t, m int, x, prev []float64) error {
	i := m*o.shape.T + t
	o.buf = appendAs(o.format, o.buf[:0], x)
	rest := o.buf
	for _, p := range o.pieces {
		if err := o.write(rest[:p.n], p.at+int64(i)*p.n); err != nil {
			return err
		}
		rest = rest[p.n:]
	}
	o.push(len(o.buf))
	o.tail = o.tail[:0]
	if !o.bare {
		for k, v := range o.seen.values(t, m, o.first(x), o.first(prev)) {
			o.tail = fp16.Float64.Append(o.tail, []float64{v})
			if err := o.write(o.tail[8*k:], o.metrics[k]+8*int64(i)); err != nil {
				return err
			}
		}
	}
	if o.sealed {
		s := crcOf(o.buf, o.tail)
		o.add(s)
		o.buf = o.digest.take(m, o.buf)
		return o.write(s[:crcSize], o.table+int64(i)*crcSize)
	}
	s := o.digest.addRecord(m, o.buf, o.buf, o.tail)
	o.add(s)
	o.prints.add(i, int(o.shape.states()), o.buf, o.tail)
	return o.write(s[:], o.table+int64(i)*sha256.Size)
}

// Sync implements [Output].
func (o *flat) Sync() ([]byte, error) {
	if err := o.sync(o.size()); err != nil {
		return nil, err
	}
	return o.ledger.text()
}

// auditTable compares the table of a whole file with the ledger. If it is right, a
// resumed run finds what else is not.
func (r *records) auditTable(o order, want ledger) error {
	n := r.count[0] * r.count[1]
	if want.Records != n {
		return fmt.Errorf("%s: %d records written: want %d", r.path, want.Records, n)
	}
	var told ledger
	for w := range n {
		s, err := r.listed(o.index(w))
		if err != nil {
			return err
		}
		told.add(s)
	}
	if told != want {
		return &LostError{
			Path: r.path, What: "the hashes of its records are not those that were written; --force begins again",
		}
	}
	return nil
}

// audit compares the records of a whole file with its table.
func (r *records) audit() error {
	return r.each(r.count[0]*r.count[1], func(i int) int { return i }, r.as, func(i int, is sum) error {
		says, err := r.listed(i)
		if err == nil && is != says {
			err = &LostError{r.path, fmt.Sprintf("%s: not the bytes that were written", r.call(i)), true}
		}
		return err
	})
}

// call names a record.
func (r *records) call(i int) string {
	return fmt.Sprintf("realization %d, state %d", i/r.count[1], i%r.count[1])
}

// audit reads everything that the run wrote again, and compares it with what it knows
// of it.
func (o *flat) audit() error {
	r := o.records()
	if err := o.partialFile.audit(r, o.ord, o.ledger, o.head, o.size()); err != nil {
		return err
	}
	return r.audit()
}

// Finish implements [Output].
func (o *flat) Finish() error {
	if err := o.write(o.digest.sum(), o.size()-2*sha256.Size); err != nil {
		return err
	}
	return o.finish(o.records(), o.ord, o.ledger, o.head, o.at, o.size())
}

// audit reads what a run wrote into a file of that size again, but for the records, and compares
// it with what it knows of it.
func (p *partialFile) audit(r *records, o order, l ledger, head []byte, size int64) error {
	if err := p.kept(size); err != nil {
		return err
	}
	if err := r.auditTable(o, l); err != nil {
		return err
	}
	is := make([]byte, len(head))
	if _, err := p.f.ReadAt(is, 0); err != nil && len(head) > 0 {
		return r.failed(0, err)
	}
	if !bytes.Equal(is, head) {
		return &LostError{partial(p.path), "its header is not the one that was written", true}
	}
	return nil
}

// finish seals a file that ends with the seal, of everything but that and what stands from begin
// to the table, and gives it its name.
func (p *partialFile) finish(r *records, o order, l ledger, head []byte, begin, size int64) error {
	if err := p.audit(r, o, l, head, size); err != nil {
		return err
	}
	seal := extent{size - sha256.Size, sha256.Size}
	s, err := rest(r.path, p.f, size, []extent{{begin, r.table - begin}, seal})
	if err != nil {
		return err
	}
	if err := p.write(s[:], seal.at); err != nil {
		return err
	}
	p.seal = s
	if err := r.audit(); err != nil {
		return err
	}
	if err := p.sync(size); err != nil {
		return err
	}
	if err := p.publish(partial(p.path)); err != nil {
		return err
	}
	return p.Close()
}

// The names of what a file says of its own bytes.
const (
	tableName  = "integrity.sha256" // of each record: the bytes of a state, then of its diagnostics
	crcName    = "integrity.crc32"  // likewise, the [crc] of each
	digestName = "integrity.digest" // of all states, as [Digest]
	sealName   = "integrity.seal"   // of everything that the table does not cover
)

// layOutSafetensors lays out a safetensors output: trajectory [M,T,C,H,W], or those of several states, in the
// stored format, and each diagnostic as metrics.<name> [M,T] in F64.
func layOutSafetensors(
	at partialFile, s Trajectory, c Config, f fp16.Format, metadata map[string]string,
) (*flat, error) {
	var all []*safetensors.Tensor
	for _, name := range DiagnosticNames {
		all = append(all, &safetensors.Tensor{Name: "metrics." + name, DType: safetensors.F64, Shape: []int{s.M, s.T}})
	}
	for _, p := range s.named() {
		all = append(all, &safetensors.Tensor{
			Name: p.name, DType: safetensors.DTypeOf(f), Shape: append([]int{s.M, s.T}, p.shape...),
		})
	}
	all = append(all, &safetensors.Tensor{Name: crcName, DType: safetensors.U8, Shape: []int{s.M, s.T, crcSize}},
		&safetensors.Tensor{Name: digestName, DType: safetensors.U8, Shape: []int{sha256.Size}},
		&safetensors.Tensor{Name: sealName, DType: safetensors.U8, Shape: []int{sha256.Size}})
	head, err := safetensors.Header(all, metadata)
	if err != nil {
		return nil, err
	}
	return newFlat(at, s, c, f, head, false, true), nil
}
