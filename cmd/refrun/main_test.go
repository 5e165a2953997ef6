package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/refrun/refrun/safetensors"
)

// result is what a call of the command leaves.
type result struct {
	code           int
	stdout, stderr string
}

var allThreads = runtime.GOMAXPROCS(0)

// refrun runs the command in this process. Tests that do nothing else of the whole process may be
// parallel: they run when the others have ended.
func refrun(t *testing.T, args ...string) result {
	t.Helper()
	return runVerbs(t, verbs, args...)
}

// runVerbs runs a program of these verbs in this process.
func runVerbs(t *testing.T, verbs []verb, args ...string) result {
	t.Helper()
	defer runtime.GOMAXPROCS(allThreads) // --threads sets it
	var stdout, stderr bytes.Buffer
	code := runProgram(verbs, args, &stdout, &stderr)
	r := result{code, stdout.String(), stderr.String()}
	if !slices.Contains([]string{"serve", "man", "completion"}, strings.Join(args[:min(1, len(args))], "")) &&
		!slices.Contains(args, "--json") {
		inColumns(t, r.stdout)
	}
	return r
}

// inColumns: no line for a person is wider than a terminal, but for a word that is itself.
func inColumns(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > lineWidth && len(strings.Fields(line)) > 1 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// unfolded is a text whose lines do not matter.
func unfolded(text string) string { return strings.Join(strings.Fields(text), " ") }

// refused checks that a call did nothing but say in one line why not: exit
// code 2, empty stdout, and "refrun VERB: <want>" on stderr. want may hold
// "..." once, for anything.
func (r result) refused(t *testing.T, verb, want string) {
	t.Helper()
	if r.code != 2 {
		t.Errorf("exit code %d, want 2", r.code)
	}
	if r.stdout != "" {
		t.Errorf("stdout is not empty: %.200q", r.stdout)
	}
	line, ok := strings.CutSuffix(r.stderr, "\n")
	if !ok || strings.ContainsFunc(line, func(c rune) bool { return !strconv.IsPrint(c) || c == utf8.RuneError }) {
		t.Errorf("stderr is not one clean line: %.400q", r.stderr)
	}
	if strings.Contains(line, "internal error") {
		t.Errorf("a bug instead of an answer: %s", line)
	}
	want = "refrun " + verb + ": " + want
	head, tail, open := strings.Cut(want, "...")
	if !open {
		want = shorten(want)
	}
	if len(line) > mostLine {
		t.Errorf("%d characters on stderr: %s", len(line), line)
	}
	if open && (!strings.HasPrefix(line, head) || !strings.HasSuffix(line, tail) || len(line) < len(head)+len(tail)) ||
		!open && line != want {
		t.Errorf("stderr\n  %s\nwant\n  %s", line, want)
	}
}

// decode reads stdout as exactly one JSON object.
func (r result) decode(t *testing.T) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.stdout))
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("stdout is not a JSON object: %v (stderr %q)", err, r.stderr)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("stdout holds more than one JSON object: %v", err)
	}
	return v
}

// has checks that a JSON object holds the keys of want, with values of the
// same types; objects and the first elements of lists recursively.
func has(t *testing.T, where string, got, want any) {
	t.Helper()
	if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
		t.Errorf("%s is %T %v, want %T", where, got, got, want)
		return
	}
	switch w := want.(type) {
	case map[string]any:
		g := got.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(w)) {
			if _, ok := g[key]; !ok {
				t.Errorf("%s.%s is missing", where, key)
				continue
			}
			has(t, where+"."+key, g[key], w[key])
		}
	case []any:
		g := got.([]any)
		if len(w) == 0 {
			return
		}
		if len(g) == 0 {
			t.Errorf("%s is empty", where)
			return
		}
		has(t, where+"[0]", g[0], w[0])
	case string:
		if got == "" {
			t.Errorf("%s is empty", where)
		}
	}
}

// object abbreviates JSON objects.
type object = map[string]any

// folder is a case that tests take apart: what stands in its files, to be
// changed and written. It begins as the first three states of a recorded one.
type folder struct {
	t    *testing.T
	json object
	file map[string][]*safetensors.Tensor
	raw  map[string][]byte // files as bytes, instead of the above
}

var template = filepath.Join(root, "testdata/rollouts/autoregressive_batch_relu")

// here is the folder of the package that is tested, wherever a test goes.
var here, errHere = os.Getwd()

// root is the folder of the module, above it.
var root = func() string {
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
	panic(err)
}()

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{t: t, file: map[string][]*safetensors.Tensor{}, raw: map[string][]byte{}}
	b, err := os.ReadFile(filepath.Join(template, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &f.json); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"weights", "trajectory", "noise", "layers", "one_step_f64"} {
		s, err := safetensors.Open(filepath.Join(template, name+".safetensors"))
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
				x = cut(t, x, 1, 3)
			case "one_step":
				x = cut(t, x, 1, 2)
			case "batch0":
				x = cut(t, x, 0, 2)
			}
			f.file[name] = append(f.file[name], x)
		}
	}
	f.set("rollout.num_timesteps", 3)
	return f
}

// cut keeps the first n entries of a dimension.
func cut(t *testing.T, x *safetensors.Tensor, dim, n int) *safetensors.Tensor {
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
	return tensorOf(t, x.Name, x.DType, shape, raw)
}

func tensorOf(t *testing.T, name string, d safetensors.DType, shape []int, raw []byte) *safetensors.Tensor {
	t.Helper()
	x, err := safetensors.New(name, d, shape, raw)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// zeros returns a tensor of zero bytes.
func zeros(t *testing.T, name string, d safetensors.DType, shape ...int) *safetensors.Tensor {
	n := d.Size()
	for _, s := range shape {
		n *= s
	}
	return tensorOf(t, name, d, shape, make([]byte, n))
}

// floats returns a tensor of these numbers.
func floats(t *testing.T, name string, d safetensors.DType, shape []int, v ...float64) *safetensors.Tensor {
	t.Helper()
	x, err := safetensors.OfFloat64s(name, d, shape, v)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// set changes a value of case.json by its path; nil deletes the key.
func (f *folder) set(path string, v any) {
	at := f.json
	keys := strings.Split(path, ".")
	for _, k := range keys[:len(keys)-1] {
		at = at[k].(object)
	}
	at[keys[len(keys)-1]] = v
	if v == nil {
		delete(at, keys[len(keys)-1])
	}
}

// tensor returns a tensor of a file.
func (f *folder) tensor(file, name string) *safetensors.Tensor {
	f.t.Helper()
	for _, x := range f.file[file] {
		if x.Name == name {
			return x
		}
	}
	f.t.Fatalf("%s has no %s", file, name)
	return nil
}

// put adds a tensor to a file, in place of the one of its name.
func (f *folder) put(file string, x *safetensors.Tensor) {
	f.drop(file, x.Name)
	f.file[file] = append(f.file[file], x)
}

// drop removes a tensor.
func (f *folder) drop(file, name string) {
	f.file[file] = slices.DeleteFunc(slices.Clone(f.file[file]),
		func(x *safetensors.Tensor) bool { return x.Name == name })
}

// poke sets element i of a tensor, and leaves other folders' copies alone.
func (f *folder) poke(file, name string, i int, v float64) {
	f.t.Helper()
	x := f.tensor(file, name)
	all, err := x.Float64s()
	if err != nil {
		f.t.Fatal(err)
	}
	all[i] = v
	f.put(file, floats(f.t, name, x.DType, x.Shape, all...))
}

// bytes returns a file as it will be written.
func (f *folder) bytes(name string) []byte {
	f.t.Helper()
	if b, ok := f.raw[name]; ok {
		return b
	}
	if name == "case.json" {
		b, err := json.Marshal(f.json)
		if err != nil {
			f.t.Fatal(err)
		}
		return b
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, f.file[strings.TrimSuffix(name, ".safetensors")], nil); err != nil {
		f.t.Fatal(err)
	}
	return b.Bytes()
}

// write makes the folder and returns its path.
func (f *folder) write() string {
	f.t.Helper()
	dir := f.t.TempDir()
	names := []string{"case.json"}
	for n := range f.file {
		names = append(names, n+".safetensors")
	}
	for n := range f.raw {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), f.bytes(n), 0o666); err != nil {
			f.t.Fatal(err)
		}
	}
	return dir
}
