package npy

import (
	"archive/zip"
	"io"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/fault"
)

// ArchiveWriter writes a .npz file, one array after the other.
type ArchiveWriter struct {
	zip     *zip.Writer
	method  uint16
	names   map[string]bool
	current *Writer // the last array begun
	err     error   // the first one of the archive or of an array
}

// NewArchiveWriter begins an archive on w, deflated as by numpy.savez_compressed
// or stored as by numpy.savez. Equal arrays give equal bytes, whenever they are
// written, by one version of Go. Archives and arrays of more than 4 GiB are
// written as zip64.
func NewArchiveWriter(w io.Writer, deflated bool) *ArchiveWriter {
	z := &ArchiveWriter{zip: zip.NewWriter(w), names: map[string]bool{}}
	if deflated {
		z.method = zip.Deflate
	}
	return z
}

// Create begins an array of numbers of format f as entry name.npy; see
// [NewWriter]. The array before it must have been closed. Names must be unique
// relative paths with slashes, in UTF-8, without backslash, colon and control
// characters. The first error, of Create or of an array, is final: all later
// calls return it.
func (z *ArchiveWriter) Create(name string, f fp16.Format, shape []int) (*Writer, error) {
	w, err := z.create(name, descrOf(f), f.Bytes(), shape)
	if err == nil {
		w.format = f
	}
	return w, err
}

func (z *ArchiveWriter) create(name, descr string, size int, shape []int) (*Writer, error) {
	if err := z.settle(); err != nil {
		return nil, err
	}
	src := source{entry: name}
	if want := badName(name); want != "" {
		z.err = src.wrong("name", fault.Text(name), want)
		return nil, z.err
	}
	if z.names[name] {
		z.err = src.wrong("name", fault.Text(name), "each name once")
		return nil, z.err
	}
	z.names[name] = true
	// The time is the first that zip can express, whenever this runs.
	to, err := z.zip.CreateHeader(&zip.FileHeader{Name: name + extension, Method: z.method,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		z.err = err
		return nil, err
	}
	z.current, z.err = newWriter(src, to, descr, size, shape)
	return z.current, z.err
}

// Copy writes an array of the type that numpy calls descr, such as "|u1", whose
// bytes r holds: no more and no fewer than the shape needs.
func (z *ArchiveWriter) Copy(name, descr string, shape []int, r io.Reader) error {
	e, ok := elementOf(descr)
	if !ok {
		return source{entry: name}.wrong("descr", fault.Text(descr), known)
	}
	w, err := z.create(name, descr, e.size, shape)
	if err != nil {
		return err
	}
	n := int64(w.count) * int64(e.size)
	w.closed = true
	copied, err := io.CopyBuffer(struct{ io.Writer }{w.w}, io.LimitReader(r, n+1), make([]byte, 1<<16))
	if err == nil && copied != n {
		err = w.wrong("data", fault.Count(copied, "byte"), fault.Count(n, "byte"))
	}
	w.err = err
	return err
}

// Comment sets the archive's comment, at most 65535 bytes that stand at its end.
func (z *ArchiveWriter) Comment(text string) error { return z.zip.SetComment(text) }

// Close completes the archive by its directory, without which it does not open;
// it does not close the underlying writer. An array that is not closed or not
// whole is an error and leaves the archive without directory.
func (z *ArchiveWriter) Close() error {
	if err := z.settle(); err != nil {
		return err
	}
	z.err = z.zip.Close()
	return z.err
}

// settle takes note of how the last array ended.
func (z *ArchiveWriter) settle() error {
	if z.err == nil && z.current != nil {
		if z.err = z.current.err; z.err == nil && !z.current.closed {
			z.err = z.current.wrong("array", "open", "it closed before what follows")
		}
	}
	return z.err
}
