package npy

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/fault"
)

const extension = ".npy" // of an entry, not part of its array's name

// Archive is a .npz file: a zip file of arrays, stored or deflated. Only its
// directory is kept; each array is read when asked for.
type Archive struct {
	source
	r      io.ReaderAt
	names  []string
	byName map[string]entry
	file   *os.File // nil if there is nothing to close
}

// entry is where an array lies, and what the directory says of it.
type entry struct {
	name   string
	offset int64 // of its bytes, packed or not, in the archive
	packed int64 // how many they are
	size   int64 // of the .npy file, as claimed
	crc    uint32
	method uint16
}

// OpenArchive opens the regular .npz file at path. Errors about its content are
// of type [*Error]. The archive must be closed.
func OpenArchive(path string) (*Archive, error) {
	file, size, err := fault.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	z, err := ParseArchive(path, file, size)
	if err != nil {
		file.Close()
		return nil, err
	}
	z.file = file
	return z, nil
}

// ParseArchive reads the directory of a .npz file of size bytes; path only
// names it in messages. Every entry must be an array by its name, neither
// encrypted nor packed by other methods than store and deflate. No two may have
// the same name or share bytes: so all of them together unpack to at most 1032
// times the archive, which is the most that deflate can do.
func ParseArchive(path string, r io.ReaderAt, size int64) (*Archive, error) {
	z := &Archive{source: source{path: path}, r: r, byName: map[string]entry{}}
	dir, err := zip.NewReader(r, size)
	if err != nil {
		return nil, z.wrong("file", fault.Text(err.Error()), "a zip archive")
	}
	entries := make([]entry, 0, len(dir.File))
	for _, f := range dir.File {
		e, err := z.entryOf(f, size)
		if err != nil {
			return nil, err
		}
		if _, twice := z.byName[e.name]; twice {
			return nil, z.wrong("entry", fault.Text(f.Name), "each name once")
		}
		z.byName[e.name] = e
		z.names = append(z.names, e.name)
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.offset, b.offset) })
	for i, e := range entries[min(1, len(entries)):] {
		if before := entries[i]; e.offset < before.offset+before.packed {
			return nil, source{path, e.name}.wrong("place", fmt.Sprint(e.offset), fmt.Sprintf("%d or more, where %s ends", before.offset+before.packed, fault.Text(before.name)))
		}
	}
	return z, nil
}

// entryOf checks what the directory says of a file. What the file's own header
// repeats is not looked at.
func (z *Archive) entryOf(f *zip.File, size int64) (entry, error) {
	name, ok := strings.CutSuffix(f.Name, extension)
	if want := badName(name); !ok || want != "" {
		return entry{}, z.wrong("entry", fault.Text(f.Name), cmp.Or(want, "the name of an array, ending in "+extension))
	}
	wrong := func(field, value, want string) (entry, error) {
		return entry{}, source{z.path, name}.wrong(field, value, want)
	}
	offset, err := f.DataOffset()
	switch {
	case err != nil:
		return wrong("place", fault.Text(err.Error()), "the header of the entry")
	case f.Flags&1 != 0:
		return wrong("flags", "encrypted", "an entry that is not")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return wrong("method", fmt.Sprint(f.Method), "0 (stored) or 8 (deflated)")
	case offset < 0 || offset > size || f.CompressedSize64 > uint64(size-offset):
		return wrong("packed size", fmt.Sprint(f.CompressedSize64), fmt.Sprintf("to end within the %d bytes of the archive", size))
	case f.UncompressedSize64 > math.MaxInt:
		return wrong("size", fmt.Sprint(f.UncompressedSize64), "a size that an int counts")
	case f.Method == zip.Store && f.CompressedSize64 != f.UncompressedSize64:
		return wrong("size", fmt.Sprint(f.UncompressedSize64), fmt.Sprintf("the %d of its stored bytes", f.CompressedSize64))
	}
	return entry{name, offset, int64(f.CompressedSize64), int64(f.UncompressedSize64), f.CRC32, f.Method}, nil
}

// badName returns what is wanted of an array's name if it could be mistaken:
// arrays are never written to files of their names here, but others do so.
func badName(name string) (want string) {
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == ':' }
	if name == "." || !fs.ValidPath(name) || strings.ContainsFunc(name, odd) {
		return `a name in UTF-8 without empty, . or .. parts, \, : and control characters`
	}
	return ""
}

// Names returns the names of the arrays, without .npy, in the archive's order.
func (z *Archive) Names() []string { return slices.Clone(z.names) }

// Close closes the file of an archive from [OpenArchive]; for others it does
// nothing. Arrays that were read stay.
func (z *Archive) Close() error {
	if z.file == nil {
		return nil
	}
	return z.file.Close()
}

// Array reads the array of that name into memory and checks it: its header, its
// size and its CRC-32.
//
// Bytes are taken as they come out of the archive, never for a claimed size: at
// any time at most 3 times as many as came out, and at most twice those of the
// header and the array it declares, beside a constant of less than 200 KB.
func (z *Archive) Array(name string) (*Array, error) {
	e, ok := z.byName[name]
	if !ok {
		return nil, z.wrong("array", fault.Text(name), z.oneOf())
	}
	src := source{z.path, name}
	packed := bufio.NewReader(io.NewSectionReader(z.r, e.offset, e.packed))
	var from io.Reader = packed
	if e.method == zip.Deflate {
		from = flate.NewReader(packed) // which reads no byte too many of a bufio.Reader
	}
	sum := crc32.NewIEEE()
	r := io.TeeReader(from, sum)

	h, err := readHeader(src, r, e.size)
	if err != nil {
		return nil, err
	}
	data, err := readAll(r, int(e.size-h.end))
	if err != nil {
		return nil, src.readError(err)
	}
	// Asking for one byte more also makes flate look at what it has not yet.
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return nil, src.wrong("data", "more bytes", fmt.Sprintf("exactly the %d of the entry", e.size))
	case err != io.EOF:
		return nil, src.readError(err)
	}
	if _, err := packed.ReadByte(); err != io.EOF {
		return nil, src.wrong("data", "packed bytes after the last", "none")
	}
	if got := sum.Sum32(); got != e.crc {
		return nil, src.wrong("data", fmt.Sprintf("CRC-32 %08x", got), fmt.Sprintf("%08x", e.crc))
	}
	return h.array(src, io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))), nil
}

// readAll reads n bytes, if they come: the buffer starts small and doubles each
// time it is full.
func readAll(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, min(n, 1<<12))
	for have := 0; ; {
		if _, err := io.ReadFull(r, b[have:]); err != nil {
			return nil, err
		}
		if have = len(b); have == n {
			return b, nil
		}
		b = append(make([]byte, 0, have+min(have, n-have)), b...)
		b = b[:cap(b)]
	}
}

// oneOf lists the arrays for an error message.
func (z *Archive) oneOf() string {
	const most = 8
	var have []string
	for _, name := range z.names[:min(most, len(z.names))] {
		have = append(have, fault.Text(name))
	}
	want := "one of " + strings.Join(have, ", ")
	switch more := len(z.names) - most; {
	case len(have) == 0:
		want = "no array: the archive has none"
	case more > 0:
		want += fmt.Sprintf(" and %d more", more)
	}
	return want
}
