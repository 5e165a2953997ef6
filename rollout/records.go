package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"sort"
	"sync"

	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/par"
)

// sum is a SHA-256.
type sum [sha256.Size]byte

func (s sum) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// hex returns it in hexadecimal; "" of one that was not formed.
func (s sum) hex() string {
	if s == (sum{}) {
		return ""
	}
	return hex.EncodeToString(s[:])
}

func (s *sum) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("%.100q: want a SHA-256 in hexadecimal", text)
	}
	copy(s[:], b)
	return nil
}

// ledger counts the records of an output in the order in which they were written, and
// chains their hashes: link = SHA-256(link before, hash). Two ledgers are equal only if
// the records are.
type ledger struct {
	Records int
	Chain   sum
}

func (l *ledger) add(s sum) {
	var b [2 * sha256.Size]byte
	copy(b[:], l.Chain[:])
	copy(b[sha256.Size:], s[:])
	l.Chain = sha256.Sum256(b[:])
	l.Records++
}

func (l ledger) text() ([]byte, error) { return json.Marshal(l) }

// order is the order in which the records of an output are written: engine batch by
// engine batch, in each step by step, in each realization by realization.
type order struct {
	batches [][2]int
	t       int // steps of each
}

func orderOf(c Config) order { return order{c.EngineBatches(), c.Timesteps} }

// index returns where record w of the order stands in the file, row-major in
// realization and step.
func (o order) index(w int) int {
	k, t, n := o.place(w)
	return (o.batches[k][0]+n)*o.t + t
}

// place returns batch and step of record w, and which of the batch it is.
func (o order) place(w int) (k, t, n int) {
	size := o.batches[0][1] // only the last batch may be smaller
	k = min(w/(size*o.t), len(o.batches)-1)
	b := o.batches[k]
	w -= b[0] * o.t
	return k, w / (b[1] - b[0]), w % (b[1] - b[0])
}

// until returns how many records there are up to step t of batch k and with it; with
// t = -1 none of the batch.
func (o order) until(k, t int) int {
	b := o.batches[k]
	return b[0]*o.t + (t+1)*(b[1]-b[0])
}

// extent is a run of bytes of a file.
type extent struct{ at, n int64 }

// records says where the records of a file are: for a trajectory each state, as it is
// stored, and its diagnostics; for a tape the draws of each step of an engine batch.
type records struct {
	path  string
	file  io.ReaderAt
	count [2]int               // realizations and states, or engine batches and steps
	parts func(i int) []extent // of record i, row-major in count
	table int64                // where the hashes of the records stand, in that order
	crc   bool                 // they are a [crc] each; otherwise SHA-256
	list  io.ReaderAt          // of which file; nil for this one

	prints prints // of the records that this process wrote
}

// width is the size of a record's hash in the table.
func (r *records) width() int64 {
	if r.crc {
		return crcSize
	}
	return sha256.Size
}

// prints are the crcs of records of which the table has SHA-256: they say whether a file still
// holds what this process wrote in a twentieth of the time.
type prints []uint64 // by the record's place, known | crc; 0 if none is known

const known = 1 << 32

// add takes note of record i of n, which is the bytes of the parts.
func (p *prints) add(i, n int, parts ...[]byte) {
	if *p == nil {
		*p = make(prints, n)
	}
	var h crc
	for _, b := range parts {
		h.Write(b)
	}
	(*p)[i] = known | uint64(h)
}

// as returns the hash of record i as the file holds it now: that of the table, whose hashes
// are those of the records as they were written, if the record is still the same.
func (r *records) as(i int) (sum, error) {
	if r.prints != nil && r.prints[i] != 0 {
		h := crcs.Get().(*hasher)
		defer crcs.Put(h)
		if err := r.feed(h, i); err != nil {
			return sum{}, err
		}
		if known|uint64(*h.Hash.(*crc)) == r.prints[i] {
			return r.listed(i)
		}
	}
	return r.sum(i)
}

// failed names the file that could not be read.
func (r *records) failed(at int64, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%s: ends before byte %d: want the file as it was written", r.path, at)
	}
	return fmt.Errorf("%s: at byte %d: %w: want a file that can be read", r.path, at, fault.Cause(err))
}

// hashers are what one hash at work needs.
var hashers = sync.Pool{New: func() any { return &hasher{Hash: sha256.New(), buf: make([]byte, 128<<10)} }}

// crcs are what one crc at work needs.
var crcs = sync.Pool{New: func() any { return &hasher{Hash: new(crc), buf: make([]byte, 128<<10)} }}

type hasher struct {
	hash.Hash
	buf []byte
}

// read adds the bytes of an extent.
func (h *hasher) read(file io.ReaderAt, e extent) (at int64, err error) {
	for e.n > 0 {
		b := h.buf[:min(e.n, int64(len(h.buf)))]
		if n, err := file.ReadAt(b, e.at); n < len(b) {
			return e.at + int64(n), err
		}
		h.Write(b)
		e.at, e.n = e.at+int64(len(b)), e.n-int64(len(b))
	}
	return 0, nil
}

func (h *hasher) sum() (s sum) {
	h.Sum(s[:0])
	return s
}

// sum returns the hash of record i as the file holds it now.
func (r *records) sum(i int) (sum, error) {
	pool := &hashers
	if r.crc {
		pool = &crcs
	}
	h := pool.Get().(*hasher)
	defer pool.Put(h)
	if err := r.feed(h, i); err != nil {
		return sum{}, err
	}
	return h.sum(), nil
}

// feed begins a hash anew, of record i as the file holds it now.
func (r *records) feed(h *hasher, i int) error {
	h.Reset()
	for _, e := range r.parts(i) {
		if at, err := h.read(r.file, e); err != nil {
			return r.failed(at, err)
		}
	}
	return nil
}

// listed returns the hash of record i that the table says.
func (r *records) listed(i int) (s sum, err error) {
	list := r.list
	if list == nil {
		list = r.file
	}
	b := s[:r.width()]
	at := r.table + int64(i)*r.width()
	if n, err := list.ReadAt(b, at); n < len(b) {
		return s, r.failed(at, err)
	}
	return s, nil
}

// each calls use with n records, of which index says the places, one after the other,
// and with their hashes, which are formed by of, in parallel.
func (r *records) each(n int, index func(int) int, of func(i int) (sum, error), use func(i int, is sum) error) error {
	const block = 256
	var sums [block]sum
	var errs [block]error
	for lo := 0; lo < n; lo += block {
		k := min(block, n-lo)
		par.For(k, func(j int) { sums[j], errs[j] = of(index(lo + j)) })
		for j := range k {
			if errs[j] != nil {
				return errs[j]
			}
			if err := use(index(lo+j), sums[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// verify reads the records that want speaks of again and returns how many of them, in
// the order of writing, are what was written. One of two accounts must be right, that
// of the records or that of the table; an error says that neither is. stale says that
// the table's is not.
func (r *records) verify(o order, want ledger) (good int, stale bool, err error) {
	var found, told ledger // by the records, and by the table
	good = want.Records
	err = r.each(want.Records, o.index, r.sum, func(i int, is sum) error {
		says, err := r.listed(i)
		if is != says && good == want.Records {
			good = found.Records
		}
		found.add(is)
		told.add(says)
		return err
	})
	switch {
	case err != nil:
		return 0, false, err
	case found == want:
		return want.Records, told != want, nil
	case told == want:
		return good, false, nil
	}
	return 0, false, &LostError{Path: r.path, What: "neither its records nor their hashes are those that " +
		"the checkpoint speaks of: want --force to begin again"}
}

// first returns the ledger of the first n records, of which all are the verified ones
// of want.
func (r *records) first(n int, o order, want ledger) (l ledger, err error) {
	if n == want.Records {
		return want, nil
	}
	err = r.each(n, o.index, r.sum, func(_ int, is sum) error {
		l.add(is)
		return nil
	})
	return l, err
}

// rest returns the hash of everything in a file of that size but the given extents.
func rest(path string, file io.ReaderAt, size int64, but []extent) (sum, error) {
	sort.Slice(but, func(i, k int) bool { return but[i].at < but[k].at })
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.Reset()
	at := int64(0)
	for _, e := range append(but, extent{at: size}) {
		if e.at > at {
			if where, err := h.read(file, extent{at, e.at - at}); err != nil {
				return sum{}, (&records{path: path}).failed(where, err)
			}
		}
		at = max(at, e.at+e.n)
	}
	return h.sum(), nil
}
