package run

import (
	"compress/gzip"
	_ "embed"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// demoCase is the demo's case: of a recording that Spinlock's engine made with PyTorch on a CPU,
// the first two realizations of eleven steps. The whole of it is testdata/rollouts/seed_small,
// weights included: here they are made from their seed.
//
//go:embed demo/case.json
var demoCase string

// demoPlanes is demo/trajectory.safetensors, its bytes in four planes by their place in a float32
// number, and packed: signs and exponents pack well where they lie side by side.
//
//go:embed demo/trajectory.planes.gz
var demoPlanes string

// demoFiles returns the demo's case folder.
func demoFiles() (fs.FS, error) {
	r, err := gzip.NewReader(strings.NewReader(demoPlanes))
	if err != nil {
		return nil, err
	}
	planes, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	file := make([]byte, len(planes))
	for k, b := range planes {
		file[k%(len(file)/4)*4+k/(len(file)/4)] = b
	}
	return inMemory{"case.json": demoCase, "trajectory.safetensors": string(file)}, nil
}

// inMemory is a file system of files in memory.
type inMemory map[string]string

// Open implements [fs.FS].
func (f inMemory) Open(name string) (fs.File, error) {
	text, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return memoryFile{strings.NewReader(text), name}, nil
}

// ReadDir implements [fs.ReadDirFS]: there is one folder.
func (f inMemory) ReadDir(string) (all []fs.DirEntry, err error) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		all = append(all, fs.FileInfoToDirEntry(memoryFile{strings.NewReader(f[name]), name}))
	}
	return all, nil
}

// memoryFile is one of them, and what is known of it.
type memoryFile struct {
	*strings.Reader
	name string
}

func (f memoryFile) Stat() (fs.FileInfo, error) { return f, nil }

func (memoryFile) Close() error { return nil }

func (f memoryFile) Name() string { return f.name }

func (memoryFile) Mode() fs.FileMode { return 0o444 }

func (memoryFile) ModTime() time.Time { return time.Time{} }

func (memoryFile) IsDir() bool { return false }

func (memoryFile) Sys() any { return nil }
