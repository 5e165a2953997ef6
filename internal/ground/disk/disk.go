// Package disk is the one place from which files are opened, written, renamed and
// removed. What runs on the operating system runs on any [System], such as one that
// fails on purpose.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// File is what is asked of an open file; an [os.File] is one.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Seeker
	io.Closer
	// Name returns the name that the file was opened by.
	Name() string
	// Stat says what the file is now.
	Stat() (fs.FileInfo, error)
	// Sync makes what was written durable; of the file's name [SyncDir] does.
	Sync() error
	// Truncate makes the file that long.
	Truncate(size int64) error
	// Fd returns the number that locks are asked for by.
	Fd() uintptr
}

// System is a file system. The methods do what the functions of package os of the same
// names do, but for what is said here.
type System interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string, perm fs.FileMode) error
	// SyncDir makes the names in a folder durable: files that were created, renamed or
	// removed. A folder or a system that cannot be asked to is no error.
	SyncDir(name string) error
	// Free returns how many bytes may still be written to the disk of a folder; ok says
	// that the system could tell.
	Free(dir string) (bytes uint64, ok bool)
}

// system is the one in use.
var system System = operating{}

// Use puts another system in the place of the one in use, for tests; restore puts that
// back.
func Use(s System) (restore func()) {
	was := system
	system = s
	return func() { system = was }
}

// errLink is why a link to nothing cannot be used. It is not fs.ErrNotExist: there is
// something of that name, and who made it meant a file that is elsewhere or gone.
var errLink = errors.New("is a link to nothing")

// linked gives an error that says that a file is missing another cause if there is a
// link of that name.
func linked(err error) error {
	var p *fs.PathError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &p) {
		return err
	}
	if is, e := system.Lstat(p.Path); e == nil && is.Mode()&fs.ModeSymlink != 0 {
		return &fs.PathError{Op: p.Op, Path: p.Path, Err: errLink}
	}
	return err
}

// OpenFile opens a file as [os.OpenFile] does. Of a link to nothing the error is not
// that it does not exist; nor is it one of [Stat].
func OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := system.OpenFile(name, flag, perm)
	if err != nil {
		return nil, linked(err) // not a nil file of some type
	}
	return f, nil
}

// Open opens a file for reading.
func Open(name string) (File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// CreateNew makes a new file for reading and writing, in the place of one that has the name; a
// link of the name is not followed.
func CreateNew(name string) (File, error) {
	if _, err := Lstat(name); err == nil {
		if err := Remove(name); err != nil {
			return nil, err
		}
	}
	return OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
}

// Rename gives a file another name, in place of the file that has it.
func Rename(from, to string) error { return system.Rename(from, to) }

// Remove removes a file or an empty folder.
func Remove(name string) error { return system.Remove(name) }

// Stat says what a file is; what a link leads to.
func Stat(name string) (fs.FileInfo, error) {
	is, err := system.Stat(name)
	return is, linked(err)
}

// Lstat says what a file is, even of a link.
func Lstat(name string) (fs.FileInfo, error) { return system.Lstat(name) }

// ReadDir lists a folder, sorted by name.
func ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := system.ReadDir(name)
	return all, linked(err)
}

// MkdirAll makes a folder and those above it that are missing.
func MkdirAll(name string, perm fs.FileMode) error { return system.MkdirAll(name, perm) }

// SyncDir makes the names in a folder durable.
func SyncDir(name string) error { return system.SyncDir(name) }

// Free returns how many bytes may still be written to the disk of a folder; ok says that
// the system could tell.
func Free(dir string) (bytes uint64, ok bool) { return system.Free(dir) }
