package hdf5

import (
	"fmt"
	"io"
	"strconv"

	"github.com/refrun/refrun/internal/ground/fault"
)

// File is an open file. It is not safe for concurrent use.
type File struct {
	path   string
	r      io.ReaderAt
	closer io.Closer
	size   uint64
	root   uint64 // address of the root group's header
	left   uint64 // bytes of metadata the current call may still read
	pages  map[uint64][]byte
}

// Open opens the regular file at path. Errors about its content are of type
// [*Error].
//
// What is understood: superblocks 0 to 3; object headers of both versions;
// symbol-table groups, and newer ones as long as they are small; datasets of
// the types listed at [Type], contiguous or in chunks found by a version-1
// B-tree, a fixed array or as the only one; the filters deflate, shuffle and
// fletcher32. That covers what h5py writes by default, and with
// libver="latest" the datasets that cannot grow. All else is an error that
// says what it is.
func Open(path string) (*File, error) {
	f, size, err := fault.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	file, err := New(path, f, size)
	if err != nil {
		f.Close()
		return nil, err
	}
	file.closer = f
	return file, nil
}

// New reads a file of the given size from r; path only names it in messages.
func New(path string, r io.ReaderAt, size int64) (*File, error) {
	f := &File{path: path, r: r, size: uint64(max(size, 0))}
	f.renew()
	c, err := f.block("superblock", 0, min(f.size, superblockSize))
	if err != nil {
		return nil, err
	}
	whole := c.b
	if string(c.take(8)) != signature {
		return nil, f.wrong("file", fmt.Sprintf("%q", whole[:min(len(whole), 8)]),
			"the signature of HDF5; a file that was never finished has none")
	}
	version := c.byte()
	var sizes []byte
	var flags, base, end uint64
	switch version {
	case 0, 1:
		c.take(4)
		sizes = c.take(2)
		c.take(9)
		if version == 1 {
			c.take(4)
		}
		base = c.uint(8)
		c.take(8)
		end = c.uint(8)
		c.take(16)
		f.root = c.uint(8)
	case 2, 3:
		sizes = c.take(2)
		flags = c.uint(1)
		base = c.uint(8)
		c.take(8)
		end = c.uint(8)
		f.root = c.uint(8)
		if sum := uint32(c.uint(4)); !c.short && sum != lookup3(whole[:44]) {
			return nil, f.wrong("superblock checksum", fmt.Sprintf("%08x", sum), fmt.Sprintf("%08x", lookup3(whole[:44])))
		}
	default:
		return nil, f.wrong("superblock version", strconv.Itoa(int(version)), "0 to 3")
	}
	switch {
	case c.short:
		return nil, f.wrong("superblock", "cut short", "a whole one")
	case sizes[0] != 8 || sizes[1] != 8:
		return nil, f.wrong("superblock sizes",
			fmt.Sprintf("offsets of %d and lengths of %d bytes", sizes[0], sizes[1]), "8 bytes each")
	case flags&5 != 0:
		return nil, f.wrong("superblock flags", fmt.Sprintf("%#x", flags), "a file that its writer has closed")
	case base != 0:
		return nil, f.wrong("superblock base address", strconv.FormatUint(base, 10), "0")
	case end > f.size:
		return nil, f.wrong("file", fault.Count(f.size, "byte"), fmt.Sprintf("the %d its superblock speaks of", end))
	}
	if _, err := f.header(f.root); err != nil {
		return nil, err
	}
	return f, nil
}

// Close closes the file.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

func (f *File) wrong(field, value, want string) error {
	return &Error{Path: f.path, Field: field, Value: value, Want: want}
}

// renew begins a call from outside. In an honest file no call reads a piece of
// metadata more than twice, so this is what the call may read: pointers that go
// round in circles or meet in one place come to an end.
func (f *File) renew() { f.left = 2*f.size + superblockSize }

// block reads n bytes of metadata.
func (f *File) block(what string, at, n uint64) (*cursor, error) {
	if at > f.size || n > f.size-at {
		return nil, f.wrong(fmt.Sprintf("%s at %d", what, at), fault.Count(n, "byte"),
			fmt.Sprintf("an end within the file's %d bytes", f.size))
	}
	if n > f.left {
		return nil, f.wrong(fmt.Sprintf("%s at %d", what, at), "read again", "metadata that does not refer to itself")
	}
	f.left -= n
	b := make([]byte, n)
	if err := f.paged(b, at); err != nil {
		return nil, fmt.Errorf("%s: %s at %d: %w: want %s", f.path, what, at, err, fault.Count(n, "byte"))
	}
	return &cursor{b: b}, nil
}

// pageSize is what is read at once of metadata, which are hundreds of pieces of a few bytes, and mostPages bounds the
// pages that are kept.
const (
	pageSize  = 1 << 12
	mostPages = 64
)

// paged is readAt by pages.
func (f *File) paged(b []byte, at uint64) error {
	if len(b) > pageSize {
		return f.readAt(b, int64(at))
	}
	for len(b) > 0 {
		page, err := f.page(at / pageSize * pageSize)
		if err != nil {
			return err
		}
		n := copy(b, page[at%pageSize:])
		b, at = b[n:], at+uint64(n)
	}
	return nil
}

func (f *File) page(at uint64) ([]byte, error) {
	if b, is := f.pages[at]; is {
		return b, nil
	}
	b := make([]byte, min(pageSize, f.size-at))
	if err := f.readAt(b, int64(at)); err != nil {
		return nil, err
	}
	if f.pages == nil || len(f.pages) == mostPages {
		f.pages = map[uint64][]byte{}
	}
	f.pages[at] = b
	return b, nil
}

// readAt fills b; an [io.ReaderAt] may do so and still speak of the end.
func (f *File) readAt(b []byte, at int64) error {
	if n, err := f.r.ReadAt(b, at); n < len(b) {
		return err
	}
	return nil
}

// signed reads n bytes that begin with the given signature.
func (f *File) signed(signature, what string, at, n uint64) (*cursor, error) {
	c, err := f.block(what, at, n)
	if err != nil {
		return nil, err
	}
	if got := string(c.take(len(signature))); got != signature {
		return nil, f.wrong(fmt.Sprintf("%s at %d", what, at), fault.Text(got), "the signature "+signature)
	}
	return c, nil
}

// checked reads n bytes that begin with a signature and end with a checksum.
func (f *File) checked(signature, what string, at, n uint64) (*cursor, error) {
	c, err := f.signed(signature, what, at, n)
	if err != nil {
		return nil, err
	}
	if len(c.b) < 4 {
		return nil, f.wrong(fmt.Sprintf("%s at %d", what, at), fault.Count(n, "byte"), "room for a checksum")
	}
	whole := append([]byte(signature), c.b[:len(c.b)-4]...)
	end := cursor{b: c.b[len(c.b)-4:]}
	if sum := uint32(end.uint(4)); sum != lookup3(whole) {
		return nil, f.wrong(fmt.Sprintf("%s at %d checksum", what, at), fmt.Sprintf("%08x", sum),
			fmt.Sprintf("%08x", lookup3(whole)))
	}
	return &cursor{b: whole[len(signature):]}, nil
}

// cursor takes fields off a block. Beyond its end there are only zeros, and
// short is set.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

// uint takes a little-endian integer of n bytes, at most 8.
func (c *cursor) uint(n int) uint64 {
	var u uint64
	for i, b := range c.take(n) {
		u |= uint64(b) << (8 * i)
	}
	return u
}

func (c *cursor) byte() byte { return byte(c.uint(1)) }
