package hdf5

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Spec declares a dataset to be written.
type Spec struct {
	Path  string // "/group/name", printable ASCII; its groups come into being
	Type  Type
	Shape []int
	// Chunk is the shape of the pieces in which the elements are written and
	// stored. It is nil for elements that stand in one run, each at its place:
	// right for small numbers that come one by one.
	Chunk   []int
	Gzip    int  // compression level of each chunk, 1 to 9, or [Huffman]; 0 for none
	Shuffle bool // sort each chunk's bytes by significance before compression
}

// Huffman as a level gives each byte a code by how often it occurs and looks for no
// repetitions; of shuffled chunks the bytes of each significance have codes of their own, or none
// where they would gain little. What has noise in its low bits has no repetitions there, and its
// exponents few values: it becomes smaller than by level 9, in a tenth of the time.
const Huffman = flate.HuffmanOnly

// Storage is what a [Writer] needs of a file.
type Storage interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// Writer writes one file. It is not safe for concurrent use.
//
// The file begins with room for the superblock, then for the datasets without
// chunks. The chunks follow in the order in which they were written, each after
// a record of which chunk it is. Readers do not look at the records; [Resume]
// rebuilds the index from them.
type Writer struct {
	f        Storage
	datasets map[string]*output
	order    []*output
	groups   map[string]bool
	attrs    map[string][]attribute
	taken    map[string]bool // paths of views and words
	views    []view          // in the order of their declaration
	words    []words         // likewise
	texts    int             // strings in attrs
	layout   uint32          // identifies specs
	end      int64           // of what is written
	done     bool

	z           *zlib.Writer
	codes       coder // of Huffman
	level       int
	raw, sorted []byte
	packed      bytes.Buffer
}

// output is a dataset of the writer.
type output struct {
	Spec
	ordinal uint32
	left    int // elements, or chunks, that are not written yet

	at     int64   // of the elements, without chunks
	chunks []place // in row-major order
}

// place is where a chunk is stored; size 0 if it is not.
type place struct {
	at   int64
	size uint32
}

// State says how far a partial file has come.
type State struct {
	Layout  uint32 `json:"layout"`            // a checksum of the datasets' declarations
	Size    int64  `json:"size"`              // of the part of the file that is durable
	Missing []int  `json:"missing,omitempty"` // elements of each dataset without chunks that are not
}

const (
	superblockSize = 96
	recordSize     = 16 // dataset, stored size, number of the chunk
	maxRank        = 32
	maxChunks      = 1 << 28 // of a dataset: an index of 4 GiB
)

// Create begins a file with the given datasets in f, which loses what it held.
// The elements of each must then be written with [Writer.Write].
func Create(f Storage, specs []Spec) (*Writer, error) {
	w, err := newWriter(f, specs)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	return w, w.restart(w.end)
}

// Resume continues a partial file that has reached a state which
// [Writer.Checkpoint] returned. The datasets must be those it was created with,
// and the attributes must be set again. What was written after that state is
// lost and must be written again; if that is done in the same order, the
// file becomes what it would have been without the interruption, to the bit.
func Resume(f Storage, specs []Spec, s State) (*Writer, error) {
	w, err := newWriter(f, specs)
	if err != nil {
		return nil, err
	}
	if s.Layout != w.layout {
		return nil, &Error{Field: "state layout", Value: fmt.Sprintf("%08x", s.Layout),
			Want: fmt.Sprintf("%08x, that of these datasets", w.layout)}
	}
	for w.end < s.Size {
		if err := w.replay(s.Size); err != nil {
			return nil, err
		}
	}
	if _, err := f.ReadAt(make([]byte, 1), s.Size-1); w.end == s.Size && err != nil {
		return nil, &Error{Field: "partial file", Value: err.Error(), Want: fault.Count(s.Size, "byte")}
	}
	if w.end != s.Size {
		return nil, &Error{Field: "state size", Value: strconv.FormatInt(s.Size, 10), Want: "the end of a chunk"}
	}
	missing := s.Missing
	for _, d := range w.order {
		if d.Chunk != nil {
			continue
		}
		if len(missing) == 0 || missing[0] < 0 || missing[0] > d.left {
			return nil, &Error{
				Field: "state missing", Value: fmt.Sprint(s.Missing), Want: "a count for each dataset without chunks",
			}
		}
		d.left, missing = missing[0], missing[1:]
	}
	return w, w.restart(s.Size)
}

// newWriter lays out the file.
func newWriter(f Storage, specs []Spec) (*Writer, error) {
	w := &Writer{
		f: f, end: superblockSize,
		datasets: map[string]*output{}, groups: map[string]bool{"": true}, attrs: map[string][]attribute{},
		taken: map[string]bool{},
	}
	declared, err := json.Marshal(specs)
	if err != nil {
		return nil, err
	}
	w.layout = crc32.ChecksumIEEE(declared)
	for i, s := range specs {
		if err := s.check(); err != nil {
			return nil, err
		}
		if err := w.enter(s.Path, true); err != nil {
			return nil, err
		}
		d := &output{Spec: s, ordinal: uint32(i)}
		if s.Chunk == nil {
			n, _ := product(1, s.Shape)
			d.left, d.at = n, w.end
			w.end += (int64(n)*int64(s.Type.Size()) + 7) &^ 7
			if w.end < d.at {
				return nil, s.wrong("shape", fault.Dims(s.Shape), "a file of fewer than 2^63 bytes")
			}
		} else {
			d.left, _ = product(1, d.grid().counts())
			if d.left > maxChunks {
				return nil, s.wrong("chunk", fault.Dims(s.Chunk),
					fmt.Sprintf("at most %d chunks of %s", maxChunks, fault.Dims(s.Shape)))
			}
			d.chunks = make([]place, d.left)
		}
		w.datasets[s.Path] = d
		w.order = append(w.order, d)
	}
	return w, nil
}

// restart clears what a finished file begins with and everything from end on.
func (w *Writer) restart(end int64) error {
	if _, err := w.f.WriteAt(make([]byte, superblockSize), 0); err != nil {
		return err
	}
	w.end = end
	return w.f.Truncate(end)
}

func (s Spec) wrong(field, value, want string) error {
	return &Error{Field: fault.Text(s.Path) + " " + field, Value: value, Want: want}
}

func (s Spec) check() error {
	size := s.Type.Size()
	if size == 0 {
		return s.wrong("type", s.Type.String(), "float16, float32, float64, int32, int64, uint8 or bool")
	}
	if len(s.Shape) > maxRank {
		return s.wrong("shape", fault.Dims(s.Shape), fmt.Sprintf("at most %d axes", maxRank))
	}
	if _, ok := product(size, s.Shape); !ok {
		return s.wrong("shape", fault.Dims(s.Shape), "dimensions of 0 or more and fewer bytes than an int counts")
	}
	if s.Chunk == nil {
		if s.Gzip != 0 || s.Shuffle {
			return s.wrong("chunk", "none", "a shape, for only chunks can be compressed or shuffled")
		}
		return nil
	}
	if len(s.Chunk) != len(s.Shape) || len(s.Chunk) == 0 {
		return s.wrong("chunk", fault.Dims(s.Chunk),
			fmt.Sprintf("a shape of %d axes, as many as %s has and not none", len(s.Shape), fault.Dims(s.Shape)))
	}
	for i, c := range s.Chunk {
		if c < 1 || c > max(s.Shape[i], 1) {
			return s.wrong("chunk", fault.Dims(s.Chunk), "dimensions from 1 to those of "+fault.Dims(s.Shape))
		}
	}
	// A chunk that deflate cannot shorten grows by 5 bytes in 16 KiB and 6.
	if n, _ := product(size, s.Chunk); uint64(n) > math.MaxUint32-1<<21 {
		return s.wrong("chunk", fault.Count(n, "byte"), "at most 2^32-2^21")
	}
	if (s.Gzip < 0 || s.Gzip > 9) && s.Gzip != Huffman {
		return s.wrong("gzip", strconv.Itoa(s.Gzip), "a level from 1 to 9, or 0 for none")
	}
	return nil
}

func (s Spec) grid() grid { return grid{s.Shape, s.Chunk} }

// enter makes the groups of a path and, unless it is that of a dataset, the
// group at it.
func (w *Writer) enter(path string, dataset bool) error {
	wrong := func(want string) error { return &Error{Field: "path", Value: fault.Text(path), Want: want} }
	parts := strings.Split(path, "/")
	if parts[0] != "" || len(parts) < 2 {
		return wrong("one that begins with /")
	}
	for _, p := range parts[1:] {
		for _, c := range p {
			if c < ' ' || c > '~' {
				return wrong("printable ASCII")
			}
		}
		if p == "" || p == "." {
			return wrong("names between single slashes")
		}
	}
	if len(path) > 4096 {
		return wrong("at most 4096 bytes")
	}
	for i := 2; i <= len(parts); i++ {
		p := strings.Join(parts[:i], "/")
		switch {
		case w.datasets[p] != nil || w.taken[p]:
			return wrong("no dataset " + fault.Text(p) + " on the way")
		case i == len(parts) && dataset && w.groups[p]:
			return wrong("no group of that name")
		case i < len(parts) || !dataset:
			w.groups[p] = true
		}
	}
	return nil
}
