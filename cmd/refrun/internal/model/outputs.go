package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// StoredTensor returns a tensor as one of a safetensors file.
func StoredTensor(name string, t *tensor.Tensor) (*safetensors.Tensor, error) {
	if t.Format != fp16.Int64 {
		return safetensors.OfFloat64s(name, safetensors.DTypeOf(t.Format), t.Shape, t.Data)
	}
	return safetensors.New(name, "I64", t.Shape, wholeBytes(t))
}

// VacantOutput refuses a file that is there, and a kind that is not written.
func VacantOutput(path string, force bool) error {
	switch ext := filepath.Ext(path); {
	case path == "":
		return nil
	case ext != ".npy" && ext != ".npz" && ext != ".safetensors":
		return fmt.Errorf("-o: %s: file type %q: want .npz, .npy or .safetensors", path, ext)
	}
	if _, err := disk.Lstat(path); err == nil && !force {
		return fmt.Errorf("-o: %s: exists: want another file, or --force to overwrite it", path)
	}
	return nil
}

// RawBytes returns a tensor's numbers as a file holds them.
func RawBytes(t *tensor.Tensor) []byte {
	if t.Format == fp16.Int64 {
		return wholeBytes(t)
	}
	return t.Format.Append(nil, t.Data)
}

func wholeBytes(t *tensor.Tensor) []byte {
	var b []byte
	for _, v := range t.Data {
		b = binary.LittleEndian.AppendUint64(b, uint64(int64(v)))
	}
	return b
}

// WriteOutputs writes the outputs by their names, whole or not at all.
func WriteOutputs(path string, names []string, of []*tensor.Tensor) error {
	write := writeNpz
	switch filepath.Ext(path) {
	case ".npy":
		if len(of) != 1 {
			return fmt.Errorf("-o: %s: %d outputs: want .npz or .safetensors", path, len(of))
		}
		write = writeNpy
	case ".safetensors":
		write = writeTensors
	}
	err := disk.Replace(path, 0o666, func(w io.Writer) error { return write(w, names, of) })
	if err != nil {
		return fmt.Errorf("-o: %s: %w", path, err)
	}
	return nil
}

func writeNpy(w io.Writer, _ []string, of []*tensor.Tensor) error {
	if of[0].Format == fp16.Int64 {
		return errors.New("whole numbers: want .npz or .safetensors")
	}
	n, err := npy.NewWriter(w, of[0].Format, of[0].Shape)
	if err != nil {
		return err
	}
	if err := n.Write(of[0].Data); err != nil {
		return err
	}
	return n.Close()
}

func writeNpz(w io.Writer, names []string, of []*tensor.Tensor) error {
	z := npy.NewArchiveWriter(w, false)
	for k, t := range of {
		descr := "<i8"
		if t.Format != fp16.Int64 {
			descr = npy.TypeOf(t.Format)
		}
		if err := z.Copy(EntryName(names[k]), descr, t.Shape, bytes.NewReader(RawBytes(t))); err != nil {
			return err
		}
	}
	return z.Close()
}

// EntryName returns the name of an output as one of an archive: exporters write names such as
// /fc/Gemm_output_0 and Identity:0.
func EntryName(name string) string {
	return strings.TrimLeft(strings.NewReplacer(":", "_", "\\", "_").Replace(name), "/")
}

func writeTensors(w io.Writer, names []string, of []*tensor.Tensor) error {
	var all []*safetensors.Tensor
	for k, t := range of {
		s, err := StoredTensor(names[k], t)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return safetensors.Write(w, all, nil)
}
