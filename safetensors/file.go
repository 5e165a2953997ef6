// Package safetensors reads and writes the safetensors format: the length of a
// header as a little-endian 64-bit integer, the header as a JSON object
//
//	{"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...,
//	 "__metadata__": {"key": "text"}}
//
// and the elements of all tensors, row-major and little-endian, one tensor
// after the other without gap or overlap (https://github.com/huggingface/safetensors).
//
// Files may come from anywhere, so reading trusts nothing: what a file claims
// is compared with what it holds before it is used, and memory stays within a
// small multiple of the file's size.
//
// In use:
//
//	f, err := safetensors.Open("weights.safetensors")
//	t, err := f.Tensor("conv.weight")
//	data, err := t.Float64s()
//	weight := tensor.Of(fp16.Float32, data, t.Shape...)
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// A header has at most 32 MiB, of the 100 MB that the format allows, and names at most
// 2^17 tensors: a thousand times what a file of weights has, and no more than what a
// reader can take apart in a second.
const (
	maxHeader = 32 << 20
	maxNames  = 1 << 17
)

// File is a file, in memory or, of [ParseAt], on disk.
type File struct {
	Path     string            // as given to [Open] or [Parse]
	Metadata map[string]string // never nil

	tensors []*Tensor // in the order of their data
	byName  map[string]*Tensor
}

// Open reads the regular file at path. Errors about its content are one line that names
// the file, the field, the value found and what was expected.
func Open(path string) (*File, error) {
	f, size, err := fault.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, size)
	n, err := io.ReadFull(f, data)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { // a file that shrank is for Parse to judge
		return nil, err
	}
	data = data[:n]
	return Parse(path, data)
}

// Parse reads a file that is already in memory; path only names it in
// messages. The tensors share data.
func Parse(path string, data []byte) (*File, error) {
	f, begin, err := layout(path, bytes.NewReader(data), len(data))
	if err != nil {
		return nil, err
	}
	at := begin
	for _, t := range f.tensors {
		size, _ := t.size()
		t.raw = data[at : at+size : at+size]
		at += size
	}
	return f, nil
}

// ParseAt reads the header of a file of that size and leaves the elements
// where they are: tensors are read when they are asked for, from file, which
// must stay open and as it is.
func ParseAt(path string, file io.ReaderAt, size int64) (*File, error) {
	if size > math.MaxInt {
		return nil, &failure{
			Path: path, Field: "file", Value: strconv.FormatInt(size, 10) + " bytes", Want: "fewer than an int counts",
		}
	}
	f, begin, err := layout(path, file, int(size))
	if err != nil {
		return nil, err
	}
	at := int64(begin)
	for _, t := range f.tensors {
		size, _ := t.size()
		t.file, t.at = file, at
		at += int64(size)
	}
	return f, nil
}

// kinds are the files that are given in place of a safetensors file, by their first bytes.
var kinds = []struct{ magic, kind string }{
	{"\x93NUMPY", "a NumPy array (.npy)"},
	{"PK\x03\x04", "a ZIP archive, such as .npz and .pt are"},
	{"\x89HDF\r\n\x1a\n", "an HDF5 file"},
	{"GGUF", "a GGUF file"},
	{"\x80\x02", "a pickle"}, {"\x80\x04", "a pickle"}, {"\x80\x05", "a pickle"},
	{"\x1f\x8b", "a gzip file"}, {"\x89PNG", "a picture (PNG)"},
	{"{", "JSON"},
	{"\x08", "an ONNX model, by its first byte"},
}

// other says which other kind of file it is, and "" if it may be a safetensors file: that begins with a
// length, a number of 64 bits of which the last bytes are 0.
func other(file io.ReaderAt) string {
	var begin [8]byte
	n, _ := file.ReadAt(begin[:], 0)
	if n == len(begin) && binary.LittleEndian.Uint64(begin[:]) <= maxHeader {
		return ""
	}
	for _, k := range kinds {
		if strings.HasPrefix(string(begin[:n]), k.magic) {
			return k.kind
		}
	}
	if n == len(begin) && !slices.ContainsFunc(begin[:],
		func(b byte) bool { return b < ' ' && !strings.ContainsRune("\t\n\r", rune(b)) || b > '~' }) {
		return "text"
	}
	return ""
}

// layout reads and checks a header. It returns the tensors, without their
// elements, in the order of their data, and where that begins.
func layout(path string, file io.ReaderAt, size int) (f *File, begin int, err error) {
	wrong := func(field, value, want string) (*File, int, error) {
		return nil, 0, &failure{Path: path, Field: field, Value: value, Want: want}
	}
	if kind := other(file); kind != "" {
		return wrong("file", kind, "a safetensors file")
	}
	if size < 8 {
		return wrong("file", fault.Count(size, "byte"), "at least the 8 bytes of a header length")
	}
	var length [8]byte
	if _, err := file.ReadAt(length[:], 0); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	n, left := binary.LittleEndian.Uint64(length[:]), size-8
	if limit := min(maxHeader, left); n > uint64(limit) {
		return wrong("header length", strconv.FormatUint(n, 10),
			fmt.Sprintf("at most %d, the lesser of the %d bytes left in the file and %d", limit, left, maxHeader))
	}
	text := make([]byte, n)
	if _, err := file.ReadAt(text, 8); err != nil && n > 0 {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	h, err := readHeader(path, text)
	if err != nil {
		return nil, 0, err
	}
	left -= int(n)

	f = &File{Path: path, Metadata: h.metadata, byName: make(map[string]*Tensor, len(h.entries))}
	if f.Metadata == nil {
		f.Metadata = map[string]string{}
	}
	at, err := f.place(h.entries, left)
	if err != nil {
		return nil, 0, err
	}
	if at != left {
		return wrong("file", fault.Count(left-at, "byte")+" after the last tensor", "the data to end with the file")
	}
	return f, 8 + int(n), nil
}

// place notes the tensors in the order of their data, which has no gap, and returns where it ends.
func (f *File) place(entries []entry, left int) (at int, err error) {
	// Empty tensors share their offset with the next one, so order by the end too.
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	for _, e := range entries {
		size, err := e.size()
		if err != nil {
			return 0, err
		}
		offsets := fmt.Sprintf("[%d,%d]", e.begin, e.end)
		switch {
		case e.begin > e.end:
			return 0, e.wrong("data_offsets", offsets, "begin <= end")
		case e.end > left:
			return 0, e.wrong("data_offsets", offsets, fmt.Sprintf("an end within the %d bytes after the header", left))
		case e.end-e.begin != size:
			return 0, e.wrong("data_offsets", offsets,
				fmt.Sprintf("the %d bytes of %s %s", size, e.DType, fault.Dims(e.Shape)))
		case e.begin != at:
			return 0, e.wrong("data_offsets", offsets, fmt.Sprintf("to begin at %d, where the data before it end", at))
		}
		at = e.end
		f.tensors = append(f.tensors, e.Tensor)
		f.byName[e.Name] = e.Tensor
	}
	return at, nil
}

// Names returns the tensors' names in the order of their data.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i, t := range f.tensors {
		names[i] = t.Name
	}
	return names
}

// Tensor returns the tensor of that name, shared with the file. The error
// names the file and lists what it has.
func (f *File) Tensor(name string) (*Tensor, error) {
	if t := f.byName[name]; t != nil {
		return t, nil
	}
	const most = 8
	var have []string
	for _, t := range f.tensors[:min(most, len(f.tensors))] {
		have = append(have, fault.Text(t.Name))
	}
	want := "one of " + strings.Join(have, ", ")
	switch more := len(f.tensors) - most; {
	case len(have) == 0:
		want = "no tensor: the file has none"
	case more > 0:
		want += fmt.Sprintf(" and %d more", more)
	}
	return nil, &failure{Path: f.Path, Field: "tensor", Value: fault.Text(name), Want: want}
}
