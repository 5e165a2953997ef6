package disk

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// operating is the operating system.
type operating struct{}

// Operating returns the operating system, the System that is in use if no other is.
func Operating() System { return operating{} }

func (operating) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (operating) Rename(from, to string) error                 { return os.Rename(from, to) }
func (operating) Remove(name string) error                     { return os.Remove(name) }
func (operating) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (operating) Lstat(name string) (fs.FileInfo, error)       { return os.Lstat(name) }
func (operating) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (operating) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (operating) Free(dir string) (uint64, bool)               { return free(dir) }

// SyncDir implements [System]. A folder that may be written but not read cannot be
// opened, and some file systems know no durable names: the file is there all the same.
func (operating) SyncDir(name string) error {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
