package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/tensor"
)

// input reads one --input.
func (m *Network) input(arg string) error {
	name, file, one := strings.Cut(arg, "=")
	if !one && strings.HasSuffix(arg, ".npy") { // one array
		if len(m.Inputs) != 1 {
			return fmt.Errorf("--input: %s: one array for %d inputs: want NAME=FILE, of %s", arg, len(m.Inputs), m.Wanted())
		}
		name, file, one = m.Inputs[0].Name, arg, true
	}
	if !one {
		found := 0
		for _, in := range m.Inputs {
			x, err := readInput(arg, in.Name, in.Type)
			if errors.Is(err, ErrNoTensor) {
				continue
			}
			if err != nil {
				return err
			}
			m.Given[in.Name], found = x, found+1
		}
		if found == 0 {
			return fmt.Errorf("--input: %s: none of the network's inputs: want NAME=FILE, or a file with %s", arg, m.Wanted())
		}
		return nil
	}
	i := slices.IndexFunc(m.Inputs, func(in onnx.Input) bool { return in.Name == name })
	if i < 0 {
		return fmt.Errorf("--input: %q: not an input of the network: want %s", name, m.Wanted())
	}
	x, err := readInput(file, "", m.Inputs[i].Type)
	m.Given[name] = x
	return err
}

var ErrNoTensor = errors.New("no tensor of that name")

// CutTensor cuts FILE:TENSOR, of which both may have colons.
func CutTensor(arg string) (file, name string) {
	for _, ext := range []string{".npz", ".safetensors"} {
		if i := strings.LastIndex(arg, ext+":"); i > 0 {
			return arg[:i+len(ext)], arg[i+len(ext)+1:]
		}
	}
	return arg, ""
}

// readInput reads a tensor of that type from FILE or FILE:TENSOR; with a name it is that
// tensor of a file of several.
func readInput(arg, name string, d onnx.DType) (*tensor.Tensor, error) {
	file := arg
	if name == "" {
		file, name = CutTensor(arg)
	}
	read := readNpz
	switch {
	case strings.HasSuffix(file, ".npz"):
	case strings.HasSuffix(file, ".safetensors"):
		read = ReadSafetensors
	case strings.HasSuffix(file, ".npy") && name == "":
		read = readNpy
	default:
		return nil, fmt.Errorf("--input: %s: want a .npy, .npz or .safetensors file", arg)
	}
	data, shape, err := read(file, name)
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want a file of tensors", file, c)
		}
		return nil, err
	}
	f, ok := d.Format()
	if !ok {
		return nil, fmt.Errorf("%s: the network wants %v numbers, which are not supported", arg, d)
	}
	for i, v := range data {
		if !f.Holds(v) {
			return nil, fmt.Errorf("%s: number %d is %v: want %v numbers", arg, i, v, d)
		}
	}
	return tensor.Of(f, data, shape...), nil
}

func readNpy(file, _ string) ([]float64, []int, error) {
	a, err := npy.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer a.Close()
	data, err := a.Float64s()
	return data, a.Shape, err
}

func readNpz(file, name string) ([]float64, []int, error) {
	z, err := npy.OpenArchive(file)
	if err != nil {
		return nil, nil, err
	}
	defer z.Close()
	name, err = Pick(file, name, z.Names())
	if err != nil {
		return nil, nil, err
	}
	a, err := z.Array(name)
	if err != nil {
		return nil, nil, err
	}
	data, err := a.Float64s()
	return data, a.Shape, err
}

func ReadSafetensors(file, name string) ([]float64, []int, error) {
	f, closer, err := files.OpenTensors(file)
	if err != nil {
		return nil, nil, err
	}
	defer closer.Close()
	name, err = Pick(file, name, f.Names())
	if err != nil {
		return nil, nil, err
	}
	t, err := f.Tensor(name)
	if err != nil {
		return nil, nil, err
	}
	x, err := network.TensorOf(t)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", file, name, err)
	}
	return x.Data, x.Shape, nil
}

// Pick returns the tensor of a name, or the only one there is.
func Pick(file, name string, names []string) (string, error) {
	if name != "" && !slices.Contains(names, name) {
		return "", fmt.Errorf("%s: %.60q: %w", file, name, ErrNoTensor)
	}
	return files.Choose(file, name, names)
}
