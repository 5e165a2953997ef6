package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
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

// ErrBusy is the error of a file that another process is writing.
var ErrBusy = errors.New("another process writes it")

// Replace writes a file whole or not at all, and durably: to a new file beside it that
// gets the name once it is on the disk. After an error there is the file that was there
// before, or none, unless the error is of the last moment, when the new one has the name
// and that is not yet durable.
//
// A link to a file is replaced by the file, which is written nowhere else. A device or a
// pipe, also one behind a link such as /dev/stdout, is written to as it is.
func Replace(name string, perm fs.FileMode, write func(io.Writer) error) error {
	return replace(name, perm, false, func(f File) error { return write(f) })
}

// ReplaceAlone is Replace of a file that takes long to write, anywhere in it: while a process
// does, the error of another one is [ErrBusy].
func ReplaceAlone(name string, perm fs.FileMode, write func(File) error) error {
	return replace(name, perm, true, write)
}

func replace(name string, perm fs.FileMode, alone bool, write func(File) error) error {
	is, err := Lstat(name)
	if err == nil && is.Mode()&fs.ModeSymlink != 0 {
		if is, err = Stat(name); err != nil {
			return err // a link to nothing
		}
		if is.Mode().IsRegular() && !standard(is) {
			is, err = nil, fs.ErrNotExist // the link goes
		}
	}
	switch {
	case err == nil && is.IsDir():
		return &fs.PathError{Op: "open", Path: name, Err: errors.New("is a directory")}
	case err == nil && (!is.Mode().IsRegular() || standard(is)):
		return through(name, perm, write)
	case err == nil:
		perm = is.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := beside(name, perm, alone)
	if err != nil {
		return err
	}
	return publish(f, name, write)
}

// standard reports whether a file is what this process was given to write to.
func standard(is fs.FileInfo) bool {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if out, err := f.Stat(); err == nil && os.SameFile(is, out) {
			return true
		}
	}
	return false
}

// publish writes a new file and gives it its name. Until then its lock tells others that it is
// being written, but on Windows, which renames no open file and has no such locks.
func publish(f File, name string, write func(File) error) error {
	err := write(f)
	if err == nil {
		err = f.Sync()
	}
	closes := f.Close
	if runtime.GOOS == "windows" {
		err = firstOf(err, f.Close())
		closes = func() error { return nil }
	}
	if err == nil {
		err = Rename(f.Name(), name)
	}
	if err != nil {
		Remove(f.Name())
		closes()
		return err
	}
	return firstOf(closes(), SyncDir(filepath.Dir(name)))
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tempSuffix ends the name of a file that is being written. It is in nobody else's use.
const tempSuffix = ".refrun.tmp"

// beside makes the new file that will get a name: NAME.refrun.tmp, which is held. What a process
// left there that was killed goes; what one is writing is ErrBusy or, if the last of them may
// win, stays, and the new file has a name of its own, as it has where there are no locks to
// tell these two apart.
func beside(name string, perm fs.FileMode, alone bool) (File, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	temp := name + tempSuffix
	for range 100 { // of others that begin at the same time
		f, err := OpenFile(temp, flags, perm)
		if err == nil {
			if held, _ := Lock(f); !held && Named(f) {
				return f, nil
			}
			f.Close() // another process took it for one that was left
			continue
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if living(temp) {
			break
		}
	}
	if alone {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: want it to end, or another name", ErrBusy)}
	}
	return OpenFile(fmt.Sprintf("%s.%08x%s", name, rand.Uint32(), tempSuffix), flags, perm)
}

// living reports whether a process may be writing a file of such a name, and removes one of
// which none is.
func living(temp string) bool {
	is, err := Lstat(temp)
	if err != nil {
		return false // it is done
	}
	if !is.Mode().IsRegular() {
		return true // it is somebody else's
	}
	f, err := Open(temp)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	held, none := Lock(f)
	return held || none || Named(f) && Remove(temp) != nil
}

// Sweep removes what a process left of [Replace] that was killed, as the next one of the same
// name would.
func Sweep(name string) {
	living(name + tempSuffix)
}

// Named reports whether an open file still has the name that it was opened by.
func Named(f File) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := Lstat(f.Name())
	return err == nil && os.SameFile(is, now)
}

// through writes to what is there.
func through(name string, perm fs.FileMode, write func(File) error) error {
	f, err := OpenFile(name, os.O_WRONLY|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	return firstOf(write(f), f.Close())
}

// Claim makes this process the one that holds a name until it releases it; the error is [ErrBusy]
// while another one does. Meanwhile there is an empty file of that name, which a kill leaves and
// the next claim takes. Where there are no locks nobody is kept off.
func Claim(name string) (release func(), err error) {
	for range 100 { // of others that release it
		f, err := OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			if is, e := Lstat(name); e == nil && !is.Mode().IsRegular() {
				return nil, err // a link leads elsewhere
			}
			f, err = OpenFile(name, os.O_RDWR, 0)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		held, _ := Lock(f)
		if !held && Named(f) {
			return func() { Remove(name); f.Close() }, nil
		}
		f.Close()
		if held {
			break
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: ErrBusy}
}
