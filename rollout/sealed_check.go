package rollout

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
)

// broken is what differs in a file.
type broken struct {
	records []int // the first of them
	more    int
	parts   []string // other than records
}

// check reads the whole file and compares it with what it says of itself. With a
// digest, it forms that of the states, too.
func (s *sealed) check(digest *Digest) (b broken, err error) {
	const most = 8
	err = s.each(s.count[0]*s.count[1], func(i int) int { return i }, s.sum, func(i int, is sum) error {
		says, err := s.listed(i)
		if err == nil && is != says {
			if len(b.records) < most {
				b.records = append(b.records, i)
			} else {
				b.more++
			}
		}
		return err
	})
	if err != nil {
		return b, err
	}
	if s.list != nil { // a .npy file
		whole, err := rest(s.path, s.file, s.size, nil)
		if err != nil {
			return b, err
		}
		if whole != s.whole && len(b.records) == 0 {
			b.parts = append(b.parts, "its header")
		}
		if s.said != s.saidSeal {
			b.parts = append(b.parts, filepath.Base(sumsPath(s.path)))
		}
	} else {
		is, ok, err := s.sealing()
		if err != nil {
			return b, err
		}
		if !ok {
			b.parts = append(b.parts, "its header, metadata, diagnostics, hashes or seal")
		}
		s.seal = is
	}
	if digest == nil || s.digest == nil || len(b.records)+len(b.parts) > 0 { // a wrong header may speak of huge states
		return b, nil
	}
	if err := s.form(digest); err != nil {
		return b, err
	}
	if !bytes.Equal(digest.sum(), s.digest) {
		b.parts = append(b.parts, "its digest")
	}
	return b, nil
}

// sealing returns the hash that the seal must be, and whether it is.
func (s *sealed) sealing() (is sum, ok bool, err error) {
	if is, err = rest(s.path, s.file, s.size, s.kept); err != nil {
		return is, false, err
	}
	says := make([]byte, s.sealAt.n)
	if n, err := s.file.ReadAt(says, s.sealAt.at); n < len(says) {
		return is, false, s.failed(s.sealAt.at, err)
	}
	want := is[:]
	if len(says) == 2*sha256.Size {
		want = []byte(hex.EncodeToString(is[:]))
	}
	return is, bytes.Equal(says, want), nil
}

// form adds all states to a digest.
func (s *sealed) form(d *Digest) error {
	if s.packed != nil {
		x := make([]float64, s.shape.Len())
		for i := range s.shape.M * s.shape.T {
			t, m := i/s.shape.M, i%s.shape.M
			if err := s.packed.Read(x, (m*s.shape.T+t)*len(x)); err != nil {
				return err
			}
			d.Add(m, x)
		}
		return nil
	}
	var b []byte
	size := s.format.Bytes() * s.shape.Len()
	for i := range s.shape.M * s.shape.T {
		t, m := i/s.shape.M, i%s.shape.M // states of two realizations are hashed beside each other
		b = slices.Grow(b[:0], size)[:size]
		rest := b
		for _, e := range s.parts(m*s.shape.T + t)[:max(1, s.pieces)] {
			n := len(rest)
			if s.pieces > 0 {
				n = int(e.n)
			}
			if _, err := s.file.ReadAt(rest[:n], e.at); err != nil {
				return s.failed(e.at, err)
			}
			rest = rest[n:]
		}
		b = d.take(m, b)
	}
	return nil
}
