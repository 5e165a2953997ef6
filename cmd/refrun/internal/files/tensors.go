package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/hdf5"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/safetensors"
)

// Array is a tensor of a file, whose elements are read as they are asked for.
type Array struct {
	Name   string
	Path   string // of the file
	Shape  []int
	Format fp16.Format
	From   func(v []float64, at int) error
	file   io.Closer
	Size   int64 // of the file
}

// Read makes a [diff.Stream] of it.
func (a *Array) Read(v []float64, at int) error { return a.From(v, at) }

// Len returns the number of elements, which those who read the file have found an int.
func (a *Array) Len() int {
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

func (a *Array) Close() { a.file.Close() }

// OpenTensor opens FILE, FOLDER, FILE:TENSOR or FOLDER:TENSOR. Either part may
// hold colons: the file is the longest that exists.
func OpenTensor(arg string) (a *Array, err error) {
	file, name := arg, ""
	st, err := disk.Stat(file)
	for missing := err; err != nil; st, err = disk.Stat(file) {
		i := strings.LastIndexByte(file, ':')
		gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG)
		if i <= 0 || !gone { // a link to nothing, and what cannot be looked at, are files of that name
			return nil, fmt.Errorf("%s: %w: want a .safetensors, .npy, .npz or .h5 file or a case folder", arg,
				fault.Cause(missing))
		}
		if file, name = arg[:i], arg[i+1:]; name == "" {
			return nil, fmt.Errorf("%s: no tensor after the colon: want FILE:TENSOR", arg)
		}
	}
	if st.IsDir() {
		file = filepath.Join(file, "trajectory.safetensors")
	}
	defer func() {
		if c := fault.Cause(err); c != err { // the system's words begin with what was tried
			err = fmt.Errorf("%s: %w: want a file that can be read", file, c)
		}
	}()
	var open func(file, name string) (*Array, error)
	switch ext := filepath.Ext(file); ext {
	case ".safetensors":
		open = openSafetensors
	case ".npy":
		open = openNpy
	case ".npz":
		open = openNpz
	case ".h5", ".hdf5":
		open = openHDF5
	default:
		return nil, fmt.Errorf("%s: file type %q: want .safetensors, .npy, .npz or .h5", file, ext)
	}
	if a, err = open(file, name); err != nil {
		return nil, err
	}
	a.Path = file
	if st, err = disk.Stat(file); err == nil {
		a.Size = st.Size()
	}
	return a, nil
}

// Choose returns the tensor to read from a file of several.
func Choose(file, name string, names []string) (string, error) {
	switch {
	case name != "":
		return name, nil
	case slices.Contains(names, "trajectory"):
		return "trajectory", nil
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", fmt.Errorf("%s: no tensors: want one", file)
	}
	const most = 8
	some, more := names[:min(most, len(names))], ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
	}
	return "", fmt.Errorf("%s: %d tensors: want %s:NAME with one of %s%s",
		file, len(names), file, strings.Join(some, ", "), more)
}

// OpenFile opens a safetensors file, whose elements stay on disk; the system's errors
// get the form of others.
func OpenFile(path string) (*safetensors.File, error) {
	t, _, err := OpenTensors(path)
	return t, err
}

// OpenTensors is openFile for who closes the file.
func OpenTensors(path string) (*safetensors.File, io.Closer, error) {
	f, size, err := fault.OpenRegular(path)
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want a safetensors file", path, c)
		}
		return nil, nil, err
	}
	t, err := safetensors.ParseAt(path, f, size)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return t, f, nil
}

func openSafetensors(file, name string) (*Array, error) {
	f, closer, err := OpenTensors(file)
	if err != nil {
		return nil, err
	}
	return opened(closer, func() (*Array, error) {
		name, err := Choose(file, name, f.Names())
		if err != nil {
			return nil, err
		}
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		format, ok := t.DType.Format()
		if !ok {
			return nil, fmt.Errorf("%s: %s: dtype %s: want F64, F32, F16 or BF16", file, name, t.DType)
		}
		read := func(v []float64, at int) error { return t.Read(at, v) }
		return &Array{Name: file + ":" + name, Shape: t.Shape, Format: format, From: read, file: closer}, nil
	})
}

// opened closes a file in which nothing is found.
func opened(file io.Closer, find func() (*Array, error)) (*Array, error) {
	a, err := find()
	if err != nil {
		file.Close()
	}
	return a, err
}

func openNpy(file, name string) (*Array, error) {
	if name != "" {
		return nil, fmt.Errorf("%s:%s: want no name, since the file holds one array", file, name)
	}
	a, err := npy.Open(file)
	if err != nil {
		return nil, err
	}
	return opened(a, func() (*Array, error) { return ofNpy(file, a, a) })
}

func openNpz(file, name string) (*Array, error) {
	z, err := npy.OpenArchive(file)
	if err != nil {
		return nil, err
	}
	return opened(z, func() (*Array, error) {
		name, err := Choose(file, name, z.Names())
		if err != nil {
			return nil, err
		}
		a, err := z.Array(name)
		if err != nil {
			return nil, err
		}
		return ofNpy(file+":"+name, a, z)
	})
}

func ofNpy(name string, a *npy.Array, file io.Closer) (*Array, error) {
	format, ok := a.Format()
	if !ok {
		return nil, fmt.Errorf("%s: dtype %s: want <f8, <f4 or <f2", name, a.DType)
	}
	a, err := a.RowMajor()
	if err != nil {
		return nil, err
	}
	return &Array{Name: name, Shape: a.Shape, Format: format, From: a.ReadFloat64s, file: file}, nil
}

// openHDF5 opens a dataset, by default Spinlock's /trajectories: of its
// [N,M,T,C,H,W], N = 1, the trajectory [M,T,C,H,W].
func openHDF5(file, name string) (*Array, error) {
	f, err := hdf5.Open(file)
	if err != nil {
		return nil, err
	}
	return opened(f, func() (*Array, error) {
		name := "/" + strings.TrimPrefix(cmp.Or(name, "trajectories"), "/")
		d, err := f.Dataset(name)
		if err != nil {
			return nil, err
		}
		format, ok := map[hdf5.Type]fp16.Format{
			hdf5.Float64: fp16.Float64, hdf5.Float32: fp16.Float32, hdf5.Float16: fp16.Float16,
		}[d.Type]
		if !ok {
			return nil, fmt.Errorf("%s:%s: type %v: want f8, f4 or f2", file, name, d.Type)
		}
		shape := d.Shape
		if len(shape) == 6 && shape[0] == 1 {
			shape = shape[1:]
		}
		return &Array{Name: file + ":" + name, Shape: shape, Format: format, From: d.Read, file: f}, nil
	})
}
