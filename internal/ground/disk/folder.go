package disk

import (
	"io/fs"
	"path/filepath"
)

// Dir returns a folder as a file system. Its files can be read at a place.
func Dir(dir string) fs.FS { return folder(dir) }

type folder string

// at returns the system's name of a file of the folder.
func (d folder) at(op, name string) (string, error) {
	local, err := filepath.Localize(name)
	if err != nil || d == "" {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return filepath.Join(string(d), local), nil
}

// Open implements [fs.FS].
func (d folder) Open(name string) (fs.File, error) {
	path, err := d.at("open", name)
	if err != nil {
		return nil, err
	}
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat implements [fs.StatFS].
func (d folder) Stat(name string) (fs.FileInfo, error) {
	path, err := d.at("stat", name)
	if err != nil {
		return nil, err
	}
	return Stat(path)
}

// ReadDir implements [fs.ReadDirFS].
func (d folder) ReadDir(name string) ([]fs.DirEntry, error) {
	path, err := d.at("readdir", name)
	if err != nil {
		return nil, err
	}
	return ReadDir(path)
}
