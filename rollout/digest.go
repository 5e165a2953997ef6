package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"

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
}

// NewDigest begins the digest of a trajectory of that shape and format, which
// must be Float32 or Float64.
func NewDigest(f fp16.Format, m, t, c, h, w int) *Digest {
	if f != fp16.Float32 && f != fp16.Float64 {
		panic("rollout: digest of an unknown format")
	}
	d := &Digest{header: fmt.Sprintf("%s [%d,%d,%d,%d,%d]\n", f, m, t, c, h, w), format: f}
	for range m {
		d.each = append(d.each, sha256.New())
	}
	return d
}

// Add appends a state of realization m. NaNs count as the canonical one.
func (d *Digest) Add(m int, state []float64) {
	b := d.buf[:0]
	for _, v := range state {
		if v != v {
			v = fp16.NaN
		}
		if d.format == fp16.Float64 {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
	}
	d.buf = b
	d.each[m].Write(b)
}

// Hex returns the digest of what was added.
func (d *Digest) Hex() string {
	h := sha256.New()
	h.Write([]byte(d.header))
	for _, e := range d.each {
		h.Write(e.Sum(nil))
	}
	return hex.EncodeToString(h.Sum(nil))
}
