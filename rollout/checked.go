package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// Checked is a finished file of which no byte is taken on trust: what [Checked.ReadAt] returns
// has been compared with the hashes in the file, and these with a seal that is known from
// elsewhere. One record is held in memory.
type Checked struct {
	Size int64

	sealed *sealed
	close  func() error
	places []place // of the records' bytes, in the order of the file
	held   int     // the record whose bytes are held, -1 for none
	bytes  map[int64][]byte
}

// place is where a part of a record stands.
type place struct {
	extent
	record int
}

// OpenChecked opens a file of that seal. One that has another seal, or none, is an error, as
// is what the seal covers and is not as it was written: all but the states.
func OpenChecked(path, seal string) (*Checked, error) {
	s, close, err := openSealed(path)
	if err != nil {
		return nil, err
	}
	c := &Checked{Size: s.size, sealed: s, close: close, held: -1}
	if err := c.open(seal); err != nil {
		close()
		return nil, err
	}
	return c, nil
}

func (c *Checked) open(seal string) error {
	s := c.sealed
	is, ok, err := s.sealing()
	if err != nil {
		return err
	}
	if !ok || is.hex() != seal {
		return fmt.Errorf("%s: seal %s: want %.64s, that of what was written", s.path, is.hex(), seal)
	}
	for i := range s.count[0] * s.count[1] {
		parts := s.parts(i)
		if s.crc {
			parts = parts[:1] // the seal covers the diagnostics
		}
		for _, e := range parts {
			c.places = append(c.places, place{e, i})
		}
	}
	slices.SortFunc(c.places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	return nil
}

// Close lets the file go.
func (c *Checked) Close() error { return c.close() }

// ReadAt implements [io.ReaderAt]. It is for one caller at a time.
func (c *Checked) ReadAt(b []byte, at int64) (n int, err error) {
	k, _ := slices.BinarySearchFunc(c.places, at, func(p place, at int64) int { return cmp.Compare(p.at+p.n-1, at) })
	for n < len(b) {
		piece, here := b[n:], at+int64(n)
		if k < len(c.places) && c.places[k].at <= here {
			p := c.places[k]
			if err := c.hold(p.record); err != nil {
				return n, err
			}
			n += copy(piece, c.bytes[p.at][here-p.at:])
			k++
			continue
		}
		if k < len(c.places) {
			piece = piece[:min(int64(len(piece)), c.places[k].at-here)]
		}
		m, err := c.sealed.file.ReadAt(piece, here)
		if n += m; m < len(piece) {
			return n, err
		}
	}
	return n, nil
}

// hold reads a record and compares it with its hash.
func (c *Checked) hold(i int) error {
	if c.held == i {
		return nil
	}
	s := c.sealed
	pool := &hashers
	if s.crc {
		pool = &crcs
	}
	h := pool.Get().(*hasher)
	defer pool.Put(h)
	h.Reset()
	c.held, c.bytes = -1, map[int64][]byte{}
	for _, e := range s.parts(i) {
		b := make([]byte, e.n)
		if n, err := s.file.ReadAt(b, e.at); n < len(b) {
			return s.failed(e.at+int64(n), err)
		}
		h.Write(b)
		c.bytes[e.at] = b
	}
	says, err := s.listed(i)
	if err != nil {
		return err
	}
	if h.sum() != says {
		return fmt.Errorf("%s: %s: not what was written", s.path, s.differences(broken{records: []int{i}})[0])
	}
	c.held = i
	return nil
}
