package rollout

import (
	"bytes"
	"io"
	"os"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/npy"
)

// createNpy opens a .npy output: the trajectory [M,T,C,H,W] and nothing else.
// numpy has no bfloat16: its numbers are stored as their bits, <u2.
func createNpy(at partialFile, s Trajectory, f fp16.Format, state []byte) (Output, error) {
	head, err := npyHead(f, s.dims())
	if err != nil {
		return nil, err
	}
	return newFlat(at, s, f, len(head), true).begin(head, state)
}

// npyHead returns what stands before the elements of an array.
func npyHead(f fp16.Format, shape []int) ([]byte, error) {
	var head bytes.Buffer
	_, err := npy.NewWriter(&head, f, shape)
	return head.Bytes(), err
}

// npz is a .npz output: trajectory and metrics.<name>, as in a safetensors
// output. Its partial file is flat; Finish packs it.
type npz struct{ *flat }

// packSize is how many bytes are packed at a time.
const packSize = 1 << 16

func (o npz) held() int64 {
	return o.flat.held() + packSize + 8*packSize/int64(o.format.Bytes())
}

func createNpz(at partialFile, s Trajectory, f fp16.Format, state []byte) (Output, error) {
	o, err := newFlat(at, s, f, 0, false).begin(nil, state)
	return npz{o}, err
}

// Finish implements [Output]. The archive is written beside the partial file
// and gets the final name when it is whole; a process that dies in between
// finds the partial file as it was.
func (o npz) Finish() error {
	packed := partial(o.path) + ".npz"
	out, err := os.Create(packed)
	if err != nil {
		return o.failed(err)
	}
	defer out.Close()
	z := npy.NewArchiveWriter(out, false)
	for k, name := range DiagnosticNames {
		if err := o.pack(z, "metrics."+name, fp16.Float64, []int{o.shape.M, o.shape.T}, o.metrics[k]); err != nil {
			return err
		}
	}
	if err := o.pack(z, "trajectory", o.format, o.shape.dims(), o.at); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return o.failed(err)
	}
	if err := out.Sync(); err != nil {
		return o.failed(err)
	}
	if err := o.Close(); err != nil {
		return err
	}
	if err := rename(packed, o.path); err != nil {
		return err
	}
	return os.Remove(partial(o.path))
}

// pack copies an array of the partial file into the archive.
func (o npz) pack(z *npy.ArchiveWriter, name string, f fp16.Format, shape []int, at int64) error {
	w, err := z.Create(name, f, shape)
	if err != nil {
		return o.failed(err)
	}
	n := int64(f.Bytes())
	for _, d := range shape {
		n *= int64(d)
	}
	r := io.NewSectionReader(o.f, at, n)
	buf := make([]byte, packSize)
	values := make([]float64, len(buf)/f.Bytes())
	for n > 0 {
		part := buf[:min(n, int64(len(buf)))]
		if _, err := io.ReadFull(r, part); err != nil {
			return o.failed(err)
		}
		v := values[:len(part)/f.Bytes()]
		f.Decode(v, part)
		if err := w.Write(v); err != nil {
			return o.failed(err)
		}
		n -= int64(len(part))
	}
	if err := w.Close(); err != nil {
		return o.failed(err)
	}
	return nil
}
