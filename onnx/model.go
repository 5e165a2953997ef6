package onnx

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// Model is an ONNX file. The numbers of its weights stay in the file until a graph is made
// of it. It is not safe for concurrent use.
type Model struct {
	Producer string // the program that wrote the file
	Opset    int    // the version of ONNX's operations
	Inputs   []Input
	Outputs  []string
	// NoKernel are nodes that the last graph has and ONNX Runtime 1.31 has no kernel for on the CPU,
	// as far as is known here: it does not load the file.
	NoKernel []string

	file      io.ReaderAt
	size      int64
	open      func(name string) (io.ReaderAt, int64, error)
	others    map[string]*io.SectionReader
	closers   []io.Closer
	main      *graphProto
	functions map[string]*graphProto
	loaded    map[*tensorProto]*loadedTensor
	taken     int64 // bytes of what is loaded
}

// Input is an input of a model as the file states it.
type Input struct {
	Name  string
	Type  DType
	Shape []Dim
	Rank  bool // the rank is stated; without it Shape is nil
}

// Options say where what is not in the file comes from. The zero value is for files that
// hold their weights themselves.
type Options struct {
	// Open opens a file of weights that the model names, relative to the model's folder,
	// and returns its size. The name has slashes and does not lead out of the folder, unless
	// links do. What has a Close method is closed by [Model.Close].
	Open func(name string) (io.ReaderAt, int64, error)
}

// The versions of ONNX's operations that are read. What is tested as a whole are 13 to 23;
// operations of the others that are the same, or differ in ways that are known, are read
// too.
const (
	leastOpset = 1
	mostOpset  = 28
)

// Open reads the model at a path, and weights from files beside it. It must be closed.
func Open(path string) (*Model, error) {
	f, size, err := fault.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	m, err := Read(f, size, Options{Open: func(name string) (io.ReaderAt, int64, error) {
		other, err := beside(path, filepath.FromSlash(name))
		if err != nil {
			return nil, 0, err
		}
		return opened(fault.OpenRegular(other))
	}})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.closers = append(m.closers, f)
	return m, nil
}

// beside returns where a file in a model's folder really is. Links may lead there within that
// folder, and from a link to the model to what is beside the model itself, as caches of models
// have both; a link that leads elsewhere is refused, as the model could show any file by it.
func beside(path, name string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	var real [3]string // of the file, the folder and the model
	for i, p := range []string{filepath.Join(filepath.Dir(path), name), filepath.Dir(path), path} {
		if real[i], err = disk.Real(p); err != nil {
			return "", fault.Cause(err)
		}
	}
	for _, dir := range []string{real[1], filepath.Dir(real[2])} {
		if inside, err := filepath.Rel(dir, real[0]); err == nil && filepath.IsLocal(inside) {
			return real[0], nil
		}
	}
	return "", errors.New("is a link out of the model's folder: want a file in it")
}

func opened(f disk.File, size int64, err error) (io.ReaderAt, int64, error) {
	return f, size, err
}

// Close closes the files that the model has opened.
func (m *Model) Close() error {
	var first error
	for _, c := range m.closers {
		if err := c.Close(); first == nil {
			first = err
		}
	}
	m.closers = nil
	return first
}

// Read reads a model of that size. The memory it takes is bounded by the size of the file,
// whatever the file says: numbers of weights are not read, and what is said of sizes is
// compared with what is there.
func Read(r io.ReaderAt, size int64, o Options) (*Model, error) {
	m := &Model{file: r, size: size, open: o.Open, functions: map[string]*graphProto{},
		loaded: map[*tensorProto]*loadedTensor{}}
	w := &wire{r: r, size: size, left: mostMessages}
	g, functions, err := w.model(m)
	switch {
	case err != nil:
		return nil, err
	case g == nil:
		return nil, fmt.Errorf("no graph: want an ONNX model")
	}
	m.main = g
	m.Opset = g.opsets[""]
	if m.Opset < leastOpset || m.Opset > mostOpset {
		return nil, fmt.Errorf("opset %d: want 13 to 23 of ONNX's operations", m.Opset)
	}
	for _, f := range functions {
		m.functions[standard(f.domain)+"/"+f.name+"/"+f.overload] = f
	}
	constants := map[string]bool{}
	for _, t := range g.constants {
		constants[t.name] = true
	}
	for _, v := range g.inputs {
		if constants[v.name] { // as old files list them
			continue
		}
		m.Inputs = append(m.Inputs, Input{Name: v.name, Type: v.dtype, Shape: v.dims, Rank: v.known})
	}
	for _, v := range g.outputs {
		m.Outputs = append(m.Outputs, v.name)
	}
	return m, nil
}
