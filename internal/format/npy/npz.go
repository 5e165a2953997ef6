package npy

import (
	"archive/zip"
	"bufio"
	"cmp"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/refrun/refrun/internal/ground/fault"
)

const extension = ".npy" // of an entry, not part of its array's name

// Archive is a .npz file: a zip file of arrays, stored or deflated. Only its
// directory is kept; each array is read when asked for.
type Archive struct {
	source
	r      io.ReaderAt
	names  []string
	byName map[string]entry
	file   io.Closer // nil if there is nothing to close

	comment string
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
	limited := &limited{r, mostDirectory}
	dir, err := zip.NewReader(limited, size)
	if err == errDirectory {
		return nil, z.wrong("directory", fmt.Sprintf("more than %d MiB", mostDirectory>>20), "a few arrays")
	}
	if err != nil {
		return nil, z.wrong("file", fault.Text(err.Error()), "a zip archive")
	}
	limited.left = math.MaxInt64
	z.comment = dir.Comment
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
	sort.Slice(entries, func(i, k int) bool { return entries[i].offset < entries[k].offset })
	for i, e := range entries[min(1, len(entries)):] {
		if before := entries[i]; e.offset < before.offset+before.packed {
			return nil, source{path, e.name}.wrong("place", fmt.Sprint(e.offset),
				fmt.Sprintf("%d or more, where %s ends", before.offset+before.packed, fault.Text(before.name)))
		}
	}
	return z, nil
}

// mostDirectory is how much of an archive is read to find its entries: of each, several
// times as much is kept.
const mostDirectory = 8 << 20

var errDirectory = errors.New("a large directory")

// limited reads at most so many bytes.
type limited struct {
	io.ReaderAt
	left int64
}

func (l *limited) ReadAt(p []byte, at int64) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, errDirectory
	}
	return l.ReaderAt.ReadAt(p, at)
}

// entryOf checks what the directory says of a file. What the file's own header
// repeats is not looked at.
func (z *Archive) entryOf(f *zip.File, size int64) (entry, error) {
	name, ok := strings.CutSuffix(f.Name, extension)
	if want := badEntry(name); !ok || want != "" {
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
		return wrong("packed size", fmt.Sprint(f.CompressedSize64),
			fmt.Sprintf("to end within the %d bytes of the archive", size))
	case f.UncompressedSize64 > math.MaxInt:
		return wrong("size", fmt.Sprint(f.UncompressedSize64), "a size that an int counts")
	case f.Method == zip.Store && f.CompressedSize64 != f.UncompressedSize64:
		return wrong("size", fmt.Sprint(f.UncompressedSize64), fmt.Sprintf("the %d of its stored bytes", f.CompressedSize64))
	}
	return entry{name, offset, int64(f.CompressedSize64), int64(f.UncompressedSize64), f.CRC32, f.Method}, nil
}

// badEntry is badName of an array that is read, whose name may have colons, as TensorFlow's names do, but not where
// a drive has one.
func badEntry(name string) (want string) {
	if len(name) > 1 && name[1] != ':' {
		name = strings.ReplaceAll(name, ":", "_")
	}
	return badName(name)
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

// Place returns where the elements of a stored array lie in the archive, and its
// type and shape as its header says them. A deflated array is an error.
func (z *Archive) Place(name string) (at, size int64, a *Array, err error) {
	e, ok := z.byName[name]
	if !ok {
		return 0, 0, nil, z.wrong("array", fault.Text(name), z.oneOf())
	}
	src := source{z.path, name}
	if e.method != zip.Store {
		return 0, 0, nil, src.wrong("method", fmt.Sprint(e.method), "0 (stored)")
	}
	h, err := readHeader(src, io.NewSectionReader(z.r, e.offset, e.packed), e.size)
	if err != nil {
		return 0, 0, nil, err
	}
	at, size = e.offset+h.end, e.size-h.end
	return at, size, h.array(src, io.NewSectionReader(z.r, at, size)), nil
}

// Comment returns the text at the archive's end.
func (z *Archive) Comment() string { return z.comment }

// Names returns the names of the arrays, without .npy, in the archive's order.
func (z *Archive) Names() []string { return slices.Clone(z.names) }

// Close closes the file of an archive from [OpenArchive]; for others it does
// nothing. Its arrays end with it.
func (z *Archive) Close() error {
	if z.file == nil {
		return nil
	}
	return z.file.Close()
}

// Array opens the array of that name and checks it by reading it through: its
// header, its size and its CRC-32. Its elements stay in the archive, which must stay
// open; of a deflated one they are unpacked again whenever they are read, so it should
// be read from its beginning to its end.
//
// Memory is taken for the header and a constant of less than 200 KB. What unpacks to
// more than [fault.MostUnpacked] is refused.
func (z *Archive) Array(name string) (*Array, error) {
	e, ok := z.byName[name]
	if !ok {
		return nil, z.wrong("array", fault.Text(name), z.oneOf())
	}
	src := source{z.path, name}
	section := io.NewSectionReader(z.r, e.offset, e.packed)
	packed := bufio.NewReader(section)
	var from io.Reader = packed
	if e.method == zip.Deflate {
		if most := fault.MostUnpacked(e.packed); e.size > most {
			return nil, src.wrong("size", fmt.Sprint(e.size),
				fmt.Sprintf("at most %d of its %d deflated bytes; numpy.savez stores them as they are", most, e.packed))
		}
		from = flate.NewReader(packed) // which reads no byte too many of a bufio.Reader
	}
	sum := crc32.NewIEEE()
	r := io.TeeReader(from, sum)

	h, err := readHeader(src, r, e.size)
	if err != nil {
		return nil, err
	}
	if n, err := io.CopyBuffer(io.Discard, io.LimitReader(r, e.size-h.end), make([]byte, 1<<16)); err != nil {
		return nil, src.readError(err)
	} else if n < e.size-h.end {
		return nil, src.readError(io.ErrUnexpectedEOF)
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
	var content io.ReaderAt = section
	if e.method == zip.Deflate {
		content = &inflated{packed: section}
	}
	return h.array(src, io.NewSectionReader(content, h.end, e.size-h.end)), nil
}

// inflated reads deflated bytes at any place: onwards from the last one read, or else
// from the first one again.
type inflated struct {
	packed *io.SectionReader

	mu sync.Mutex
	z  io.Reader
	at int64
}

func (f *inflated) ReadAt(p []byte, at int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.z == nil || at < f.at {
		f.z, f.at = flate.NewReader(bufio.NewReader(io.NewSectionReader(f.packed, 0, f.packed.Size()))), 0
	}
	skipped, err := io.CopyN(io.Discard, f.z, at-f.at)
	if f.at += skipped; err == nil {
		n, err = io.ReadFull(f.z, p)
		f.at += int64(n)
	}
	return n, err
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
