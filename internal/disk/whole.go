package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// ReadFile returns what a file holds.
func ReadFile(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile writes a file as [Replace] does.
func WriteFile(name string, data []byte, perm fs.FileMode) error {
	return Replace(name, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Replace writes a file whole or not at all, and durably: to a new file beside it that
// gets the name once it is on the disk. After an error there is the file that was there
// before, or none, unless the error is of the last moment, when the new one has the name
// and that is not yet durable. A device, a pipe or a link is written to as it is.
func Replace(name string, perm fs.FileMode, write func(io.Writer) error) (err error) {
	is, err := Lstat(name)
	switch {
	case err == nil && is.IsDir():
		return &fs.PathError{Op: "open", Path: name, Err: errors.New("is a directory")}
	case err == nil && !is.Mode().IsRegular():
		return through(name, perm, write)
	case err == nil:
		perm = is.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp := fmt.Sprintf("%s.%08x.tmp", name, rand.Uint32())
	f, err := OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = Rename(temp, name)
	}
	if err != nil {
		Remove(temp)
		return err
	}
	return SyncDir(filepath.Dir(name))
}

// through writes to what is there.
func through(name string, perm fs.FileMode, write func(io.Writer) error) error {
	if _, err := Stat(name); err != nil {
		return err // a link to nothing
	}
	f, err := OpenFile(name, os.O_WRONLY|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
