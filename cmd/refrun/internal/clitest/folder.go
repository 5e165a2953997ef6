package clitest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/safetensors"
)

// Save writes a safetensors file into a new folder and returns its path.
func Save(t *testing.T, name string, tensors ...*safetensors.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Row1 returns a file of one tensor x of one dimension.
func Row1(t *testing.T, d safetensors.DType, v ...float64) string {
	t.Helper()
	return Save(t, "x.safetensors", Floats(t, "x", d, []int{len(v)}, v...))
}

// Folder is a case that tests take apart: what stands in its files, to be
// changed and written. It begins as the first three states of a recorded one.
type Folder struct {
	T    *testing.T
	Json object
	File map[string][]*safetensors.Tensor
	Raw  map[string][]byte // files as bytes, instead of the above
}

var Template = filepath.Join(Root, "testdata/rollouts/autoregressive_batch_relu")

// here is the folder of the package that is tested, wherever a test goes.
var here, errHere = os.Getwd()

// Root is the folder of the module, above it.
var Root = func() string {
	dir, err := here, errHere
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			err = os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "" // of a process that a test starts elsewhere
}()

func NewFolder(t *testing.T) *Folder {
	t.Helper()
	f := &Folder{T: t, File: map[string][]*safetensors.Tensor{}, Raw: map[string][]byte{}}
	b, err := os.ReadFile(filepath.Join(Template, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &f.Json); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"weights", "trajectory", "noise", "layers", "one_step_f64"} {
		s, err := safetensors.Open(filepath.Join(Template, name+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range s.Names() {
			x, err := s.Tensor(n)
			if err != nil {
				t.Fatal(err)
			}
			switch n {
			case "trajectory":
				x = Cut(t, x, 1, 3)
			case "one_step":
				x = Cut(t, x, 1, 2)
			case "batch0":
				x = Cut(t, x, 0, 2)
			}
			f.File[name] = append(f.File[name], x)
		}
	}
	f.Set("rollout.num_timesteps", 3)
	return f
}

// Cut keeps the first n entries of a dimension.
func Cut(t *testing.T, x *safetensors.Tensor, dim, n int) *safetensors.Tensor {
	t.Helper()
	shape := slices.Clone(x.Shape)
	outer, inner := 1, x.DType.Size()
	for _, d := range shape[:dim] {
		outer *= d
	}
	for _, d := range shape[dim+1:] {
		inner *= d
	}
	var raw []byte
	for i := range outer {
		at := i * shape[dim] * inner
		raw = append(raw, x.Bytes()[at:at+n*inner]...)
	}
	shape[dim] = n
	return TensorOf(t, x.Name, x.DType, shape, raw)
}

func TensorOf(t *testing.T, name string, d safetensors.DType, shape []int, raw []byte) *safetensors.Tensor {
	t.Helper()
	x, err := safetensors.New(name, d, shape, raw)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Zeros returns a tensor of zero bytes.
func Zeros(t *testing.T, name string, d safetensors.DType, shape ...int) *safetensors.Tensor {
	n := d.Size()
	for _, s := range shape {
		n *= s
	}
	return TensorOf(t, name, d, shape, make([]byte, n))
}

// Floats returns a tensor of these numbers.
func Floats(t *testing.T, name string, d safetensors.DType, shape []int, v ...float64) *safetensors.Tensor {
	t.Helper()
	x, err := safetensors.OfFloat64s(name, d, shape, v)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Set changes a value of case.json by its path; nil deletes the key.
func (f *Folder) Set(path string, v any) {
	at := f.Json
	keys := strings.Split(path, ".")
	for _, k := range keys[:len(keys)-1] {
		at = at[k].(object)
	}
	at[keys[len(keys)-1]] = v
	if v == nil {
		delete(at, keys[len(keys)-1])
	}
}

// Tensor returns a tensor of a file.
func (f *Folder) Tensor(file, name string) *safetensors.Tensor {
	f.T.Helper()
	for _, x := range f.File[file] {
		if x.Name == name {
			return x
		}
	}
	f.T.Fatalf("%s has no %s", file, name)
	return nil
}

// Put adds a tensor to a file, in place of the one of its name.
func (f *Folder) Put(file string, x *safetensors.Tensor) {
	f.Drop(file, x.Name)
	f.File[file] = append(f.File[file], x)
}

// Drop removes a tensor.
func (f *Folder) Drop(file, name string) {
	f.File[file] = slices.DeleteFunc(slices.Clone(f.File[file]),
		func(x *safetensors.Tensor) bool { return x.Name == name })
}

// Poke sets element i of a tensor, and leaves other folders' copies alone.
func (f *Folder) Poke(file, name string, i int, v float64) {
	f.T.Helper()
	x := f.Tensor(file, name)
	all, err := x.Float64s()
	if err != nil {
		f.T.Fatal(err)
	}
	all[i] = v
	f.Put(file, Floats(f.T, name, x.DType, x.Shape, all...))
}

// Bytes returns a file as it will be written.
func (f *Folder) Bytes(name string) []byte {
	f.T.Helper()
	if b, ok := f.Raw[name]; ok {
		return b
	}
	if name == "case.json" {
		b, err := json.Marshal(f.Json)
		if err != nil {
			f.T.Fatal(err)
		}
		return b
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, f.File[strings.TrimSuffix(name, ".safetensors")], nil); err != nil {
		f.T.Fatal(err)
	}
	return b.Bytes()
}

// Write makes the folder and returns its path.
func (f *Folder) Write() string {
	f.T.Helper()
	dir := f.T.TempDir()
	names := []string{"case.json"}
	for n := range f.File {
		names = append(names, n+".safetensors")
	}
	for n := range f.Raw {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), f.Bytes(n), 0o666); err != nil {
			f.T.Fatal(err)
		}
	}
	return dir
}

// Retype stores the trajectory, moved by delta, as another type.
func (f *Folder) Retype(d safetensors.DType, delta float64) {
	f.T.Helper()
	x := f.Tensor("trajectory", "trajectory")
	v, err := x.Float64s()
	if err != nil {
		f.T.Fatal(err)
	}
	to, _ := d.Format()
	for i := range v {
		v[i] = to.Round(v[i] + delta)
	}
	f.Put("trajectory", Floats(f.T, x.Name, d, x.Shape, v...))
}

// object abbreviates JSON objects.
type object = map[string]any
