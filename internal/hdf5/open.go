package hdf5

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// File is an open file. It is not safe for concurrent use.
type File struct {
	path   string
	r      io.ReaderAt
	closer io.Closer
	size   uint64
	root   uint64 // address of the root group's header
	left   uint64 // bytes of metadata the current call may still read
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	file, err := open(path, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return file, nil
}

func open(path string, f *os.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{path, "file", info.Mode().Type().String(), "a regular file"}
	}
	file, err := New(path, f, info.Size())
	if err != nil {
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
		return nil, f.wrong("file", fmt.Sprintf("%q", whole[:min(len(whole), 8)]), "the signature of HDF5; a file that was never finished has none")
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
		return nil, f.wrong("superblock sizes", fmt.Sprintf("offsets of %d and lengths of %d bytes", sizes[0], sizes[1]), "8 bytes each")
	case flags&5 != 0:
		return nil, f.wrong("superblock flags", fmt.Sprintf("%#x", flags), "a file that its writer has closed")
	case base != 0:
		return nil, f.wrong("superblock base address", strconv.FormatUint(base, 10), "0")
	case end > f.size:
		return nil, f.wrong("file", plural(f.size, "byte"), fmt.Sprintf("the %d its superblock speaks of", end))
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

func (f *File) wrong(field, value, want string) error { return &Error{f.path, field, value, want} }

// renew begins a call from outside. In an honest file no call reads a piece of
// metadata more than twice, so this is what the call may read: pointers that go
// round in circles or meet in one place come to an end.
func (f *File) renew() { f.left = 2*f.size + superblockSize }

// block reads n bytes of metadata.
func (f *File) block(what string, at, n uint64) (*cursor, error) {
	if at > f.size || n > f.size-at {
		return nil, f.wrong(fmt.Sprintf("%s at %d", what, at), plural(n, "byte"), fmt.Sprintf("an end within the file's %d bytes", f.size))
	}
	if n > f.left {
		return nil, f.wrong(fmt.Sprintf("%s at %d", what, at), "read again", "metadata that does not refer to itself")
	}
	f.left -= n
	b := make([]byte, n)
	if _, err := f.r.ReadAt(b, int64(at)); err != nil {
		return nil, fmt.Errorf("%s: %s at %d: %w", f.path, what, at, err)
	}
	return &cursor{b: b}, nil
}

// signed reads n bytes that begin with the given signature.
func (f *File) signed(signature, what string, at, n uint64) (*cursor, error) {
	c, err := f.block(what, at, n)
	if err != nil {
		return nil, err
	}
	if got := string(c.take(len(signature))); got != signature {
		return nil, f.wrong(fmt.Sprintf("%s at %d", what, at), text(got), "the signature "+signature)
	}
	return c, nil
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

// header is what an object header says.
type header struct {
	name     string // for messages
	messages []headerMessage
}

type headerMessage struct {
	kind   uint16
	shared bool // the body only says where the message is
	body   []byte
}

// get returns the message of a kind, or nil.
func (h *header) get(kind uint16) *headerMessage {
	i := slices.IndexFunc(h.messages, func(m headerMessage) bool { return m.kind == kind })
	if i < 0 {
		return nil
	}
	return &h.messages[i]
}

// header reads the object header at an address, in either version.
func (f *File) header(at uint64) (*header, error) {
	h := &header{name: fmt.Sprintf("object header at %d", at)}
	c, err := f.block("object header", at, min(16, f.size-min(at, f.size)))
	if err != nil {
		return nil, err
	}
	if string(c.b[:min(4, len(c.b))]) == "OHDR" {
		return h, f.header2(h, at)
	}
	version := c.byte()
	c.take(7)
	size := c.uint(4)
	if c.short || version != 1 {
		return nil, f.wrong(h.name, fmt.Sprintf("version %d", version), "version 1 or the signature OHDR")
	}
	blocks := [][2]uint64{{at + 16, size}}
	for len(blocks) > 0 {
		c, err := f.block(h.name, blocks[0][0], blocks[0][1])
		if err != nil {
			return nil, err
		}
		blocks = blocks[1:]
		for len(c.b) >= 8 {
			kind, n := uint16(c.uint(2)), int(c.uint(2))
			flags := c.byte()
			c.take(3)
			m := headerMessage{kind, flags&2 != 0, c.take(n)}
			if kind == msgContinuation {
				c := cursor{b: m.body}
				blocks = append(blocks, [2]uint64{c.uint(8), c.uint(8)})
			}
			h.messages = append(h.messages, m)
		}
		if c.short {
			return nil, f.wrong(h.name, "a message cut short", "whole messages")
		}
	}
	return h, nil
}

// header2 reads a version-2 object header.
func (f *File) header2(h *header, at uint64) error {
	c, err := f.block(h.name, at, min(34, f.size-at)) // what comes before the messages, and more
	if err != nil {
		return err
	}
	have := len(c.b)
	c.take(4)
	version, flags := c.byte(), c.byte()
	if version != 2 {
		return f.wrong(h.name, fmt.Sprintf("version %d", version), "version 2")
	}
	if flags&0x20 != 0 {
		c.take(16) // times
	}
	if flags&0x10 != 0 {
		c.take(4) // limits of attribute storage
	}
	size := c.uint(1 << (flags & 3))
	prefix := uint64(have - len(c.b))
	if c.short || size > f.size {
		return f.wrong(h.name, "cut short", "a whole one")
	}
	blocks := [][2]uint64{{at, prefix + size + 4}}
	for i := 0; i < len(blocks); i++ {
		at, n := blocks[i][0], blocks[i][1]
		what := "OHDR"
		if i > 0 {
			what, prefix = "OCHK", 4
		}
		c, err := f.signed(what, h.name, at, n)
		if err != nil {
			return err
		}
		if n < prefix+4 {
			return f.wrong(h.name, "cut short", "a whole one")
		}
		whole := append([]byte(what), c.b[:len(c.b)-4]...)
		sum := cursor{b: c.b[len(c.b)-4:]}
		if s := uint32(sum.uint(4)); s != lookup3(whole) {
			return f.wrong(h.name+" checksum", fmt.Sprintf("%08x", s), fmt.Sprintf("%08x", lookup3(whole)))
		}
		c = &cursor{b: whole[prefix:]}
		for len(c.b) >= 4 { // fewer are a gap
			kind, n, flags2 := uint16(c.uint(1)), int(c.uint(2)), c.byte()
			if flags&4 != 0 {
				c.take(2) // order of creation
			}
			m := headerMessage{kind, flags2&2 != 0, c.take(n)}
			if kind == msgContinuation {
				c := cursor{b: m.body}
				blocks = append(blocks, [2]uint64{c.uint(8), c.uint(8)})
			}
			h.messages = append(h.messages, m)
		}
		if c.short {
			return f.wrong(h.name, "a message cut short", "whole messages")
		}
	}
	return nil
}

// find returns the header of the object at a path, such as "/group/name".
func (f *File) find(path string) (*header, error) {
	h, err := f.header(f.root)
	if err != nil {
		return nil, err
	}
	h.name = text("/")
	at := ""
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		links, err := f.links(h)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(links, func(l link) bool { return l.name == name })
		if i < 0 {
			return nil, f.wrong("path", text(path), list("member", h.name, links))
		}
		at += "/" + name
		if links[i].header == undefined {
			return nil, f.wrong("path", text(at), "an object in this file, not a soft or external link")
		}
		if h, err = f.header(links[i].header); err != nil {
			return nil, err
		}
		h.name = text(at)
	}
	return h, nil
}

// list says what there is.
func list(what, in string, links []link) string {
	const most = 8
	var have []string
	for _, l := range links[:min(most, len(links))] {
		have = append(have, text(l.name))
	}
	if len(links) > most {
		have = append(have, fmt.Sprint(len(links)-most, " more"))
	}
	if len(have) == 0 {
		return "a " + what + " of " + in + ", which has none"
	}
	return "a " + what + " of " + in + ": " + strings.Join(have, ", ")
}
