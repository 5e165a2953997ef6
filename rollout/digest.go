package rollout

import (
	"crypto/sha256"
	"encoding"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// Digest is the SHA-256 of a trajectory, formed while its states stream: over
// a header line "<format> [M,T,C,H,W]\n" and the SHA-256 of each
// realization's states in order, as the format stores them: little-endian,
// row-major.
type Digest struct {
	header string
	format fp16.Format
	each   []hash.Hash
	buf    []byte

	// The bytes of a state wait for those of another realization's, to be hashed beside them.
	waiting []byte // none if empty
	whose   int    // the realization of it
}

// NewDigest begins the digest of a trajectory of that format and shape: [M,T] and that of a state, [C,H,W] of an
// operator's.
func NewDigest(f fp16.Format, m, t int, state ...int) *Digest {
	shape := strings.ReplaceAll(fmt.Sprint(append([]int{m, t}, state...)), " ", ",")
	d := &Digest{header: fmt.Sprintf("%s %s\n", f, shape), format: f}
	for range m {
		d.each = append(d.each, sha256.New())
	}
	return d
}

// Add appends a state of realization m. NaNs count as the canonical one.
func (d *Digest) Add(m int, state []float64) {
	d.buf = d.take(m, appendAs(d.format, d.buf[:0], state))
}

// take appends a state of realization m as the bytes of its format. It may keep them, to hash them
// beside those of another one, and returns a slice to use in their place.
func (d *Digest) take(m int, b []byte) []byte {
	if len(d.waiting) > 0 && d.whose != m {
		addTwo(d.each[d.whose], d.each[m], d.waiting, b)
		d.waiting = d.waiting[:0]
		return b
	}
	d.settle()
	free := d.waiting
	d.waiting, d.whose = b, m
	return free
}

// settle adds the state that waits.
func (d *Digest) settle() {
	if len(d.waiting) > 0 {
		d.each[d.whose].Write(d.waiting)
		d.waiting = d.waiting[:0]
	}
}

// addRecord appends a state of realization m as the bytes of its format, and returns the hash of
// the record that the parts are.
func (d *Digest) addRecord(m int, b []byte, parts ...[]byte) (s sum) {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.Reset()
	d.settle()
	addTwo(d.each[m], h.Hash, b, parts[0])
	for _, p := range parts[1:] {
		h.Write(p)
	}
	return h.sum()
}

// State implements [Sink].
func (d *Digest) State(_, m int, x, _ []float64) error {
	d.Add(m, x)
	return nil
}

// MarshalText returns the digest as it stands, for a checkpoint.
func (d *Digest) MarshalText() ([]byte, error) {
	d.settle()
	var all []byte
	for _, h := range d.each {
		b, err := h.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
	}
	return []byte(base64.StdEncoding.EncodeToString(all)), nil
}

// UnmarshalText returns to what MarshalText of the same trajectory's digest
// said.
func (d *Digest) UnmarshalText(text []byte) error {
	all, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(all)%len(d.each) != 0 {
		return fmt.Errorf("digest state: want %d SHA-256 states in base64", len(d.each))
	}
	d.waiting = d.waiting[:0]
	n := len(all) / len(d.each)
	for i, h := range d.each {
		if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(all[i*n : (i+1)*n]); err != nil {
			return fmt.Errorf("digest state %d: %w", i, err)
		}
	}
	return nil
}

// Hex returns the digest of what was added.
func (d *Digest) Hex() string { return hex.EncodeToString(d.sum()) }

func (d *Digest) sum() []byte {
	d.settle()
	h := sha256.New()
	h.Write([]byte(d.header))
	for _, e := range d.each {
		h.Write(e.Sum(nil))
	}
	return h.Sum(nil)
}
