// Package zarr writes arrays as Zarr version 3 has them
// (https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html), in stores of the file
// system: zarr.json for each array and for the root, and files of chunks.
//
// An [Array] is cut along its first axis only, into files of so many rows. Where pieces
// are given, a file is a shard (codec sharding_indexed): the pieces, each with its CRC-32C
// and compressed if that is asked for, then an index of them. A file is whole or absent, so
// that any number of processes can write the files of one array without a lock.
//
// [WriteRoot] writes what makes a store of the arrays, with consolidated metadata, from which
// readers know all of them at once. It is the last to be written: without it nothing opens.
package zarr

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"strconv"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/disk"
)

// Array declares an array.
type Array struct {
	Shape []int
	Type  fp16.Format // float64, float32 or float16: the others have no name in Zarr
	// Rows is how many indices of the first axis stand in a file, at least 1.
	Rows int
	// Piece is the shape of the pieces of a file, which divides that of the file; nil for a
	// file of one piece, without an index.
	Piece      []int
	Gzip       int      // level, 1 to 9; 0 for none
	Names      []string // of the axes
	Attributes map[string]any
}

// chunk is the shape of a file.
func (a *Array) chunk() []int { return append([]int{a.Rows}, a.Shape[1:]...) }

// Files returns how many files the array has.
func (a *Array) Files() int { return (a.Shape[0] + a.Rows - 1) / a.Rows }

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

type object = map[string]any

// metadata is what zarr.json of the array says.
func (a *Array) metadata() object {
	codecs := []object{{"name": "bytes", "configuration": object{"endian": "little"}}}
	if a.Gzip > 0 {
		codecs = append(codecs, object{"name": "gzip", "configuration": object{"level": a.Gzip}})
	}
	codecs = append(codecs, object{"name": "crc32c"})
	if a.Piece != nil {
		codecs = []object{{"name": "sharding_indexed", "configuration": object{
			"chunk_shape": a.Piece, "codecs": codecs, "index_location": "end",
			"index_codecs": []object{{"name": "bytes", "configuration": object{"endian": "little"}}, {"name": "crc32c"}},
		}}}
	}
	attributes := a.Attributes
	if attributes == nil {
		attributes = object{}
	}
	return object{
		"zarr_format": 3, "node_type": "array", "shape": a.Shape, "data_type": a.Type.String(),
		"chunk_grid":         object{"name": "regular", "configuration": object{"chunk_shape": a.chunk()}},
		"chunk_key_encoding": object{"name": "default", "configuration": object{"separator": "/"}},
		"fill_value":         0, "codecs": codecs, "attributes": attributes, "dimension_names": a.Names,
	}
}

// WriteRoot writes zarr.json of every array, by name, and of the store in a folder, which has
// attributes too.
func WriteRoot(dir string, attributes map[string]any, arrays map[string]*Array) error {
	all := object{}
	for name, a := range arrays {
		all[name] = a.metadata()
		text, err := json.MarshalIndent(all[name], "", " ")
		if err != nil {
			return err
		}
		if err := disk.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			return err
		}
		if err := disk.WriteFile(filepath.Join(dir, name, "zarr.json"), text, 0o666); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(object{
		"zarr_format": 3, "node_type": "group", "attributes": attributes,
		"consolidated_metadata": object{"kind": "inline", "must_understand": false, "metadata": all},
	}, "", " ")
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(dir, "zarr.json"), text, 0o666)
}

// WriteFile writes file k of an array in the folder of a store. fill gives the numbers to
// put, piece by piece in row-major order; pieces of rows beyond the shape are left out. Of
// an array without pieces it gives the numbers in any portions, and what is left out is 0.
func (a *Array) WriteFile(dir, name string, k int, fill func(put func(v []float64) error) error) error {
	path := filepath.Join(dir, name, "c", strconv.Itoa(k))
	for range a.Shape[2:] {
		path = filepath.Join(path, "0")
	}
	if err := disk.MkdirAll(path, 0o777); err != nil {
		return err
	}
	path = filepath.Join(path, "0")
	if len(a.Shape) == 1 {
		path = filepath.Dir(path)
	}
	return disk.Replace(path, 0o666, func(w io.Writer) error {
		f := &file{Array: a, w: w}
		if a.Piece == nil {
			return f.whole(fill)
		}
		return f.shard(fill)
	})
}

// file is a file of an array in the making.
type file struct {
	*Array
	w      io.Writer
	raw    []byte
	packed bytes.Buffer
	z      *gzip.Writer
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pack returns the bytes of a piece as they are stored.
func (f *file) pack(raw []byte) ([]byte, error) {
	b := raw
	if f.Gzip > 0 {
		f.packed.Reset()
		if f.z == nil {
			z, err := gzip.NewWriterLevel(&f.packed, f.Gzip)
			if err != nil {
				return nil, err
			}
			f.z = z
		} else {
			f.z.Reset(&f.packed)
		}
		if _, err := f.z.Write(raw); err != nil {
			return nil, err
		}
		if err := f.z.Close(); err != nil {
			return nil, err
		}
		b = f.packed.Bytes()
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// whole writes a file of one piece.
func (f *file) whole(fill func(put func(v []float64) error) error) error {
	size := product(f.chunk()) * f.Type.Bytes()
	err := fill(func(v []float64) error { f.raw = f.Type.Append(f.raw, v); return nil })
	if err == nil && len(f.raw) > size {
		err = fmt.Errorf("%d bytes: want at most %d", len(f.raw), size)
	}
	if err != nil {
		return err
	}
	b, err := f.pack(append(f.raw, make([]byte, size-len(f.raw))...))
	if err != nil {
		return err
	}
	_, err = f.w.Write(b)
	return err
}

// shard writes the pieces and their index: where each begins and how many bytes it has, or
// ones for a piece that is not there; then the CRC-32C of that.
func (f *file) shard(fill func(put func(v []float64) error) error) error {
	pieces := product(f.chunk()) / product(f.Piece)
	index := make([]byte, 0, 16*pieces+4)
	at := uint64(0)
	err := fill(func(v []float64) error {
		if len(v) != product(f.Piece) || len(index) >= 16*pieces {
			return fmt.Errorf("piece %d of %d numbers: want %d pieces of %d", len(index)/16, len(v), pieces, product(f.Piece))
		}
		f.raw = f.Type.Append(f.raw[:0], v)
		b, err := f.pack(f.raw)
		if err != nil {
			return err
		}
		index = binary.LittleEndian.AppendUint64(index, at)
		index = binary.LittleEndian.AppendUint64(index, uint64(len(b)))
		at += uint64(len(b))
		_, err = f.w.Write(b)
		return err
	})
	if err != nil {
		return err
	}
	for len(index) < 16*pieces {
		index = binary.LittleEndian.AppendUint64(index, math.MaxUint64)
	}
	index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(index, castagnoli))
	_, err = f.w.Write(index)
	return err
}
