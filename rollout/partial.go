package rollout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// partialFile is a file whose every element has its place from the start: it
// is written where it belongs, in any order and as often as needed, and keeps
// a preliminary name until it is complete.
type partialFile struct {
	f    disk.File
	path string
	buf  []byte
	over fs.FileInfo // the file that has the final name when the job begins, nil if there is none
	done bool        // the file that was held has the final name already

	lockless bool // the file system has no locks: another process may write the file, too
	seal     sum  // that the finished file ends with
	pushed   int  // bytes since the system was asked to begin to write them to the disk
}

// push counts bytes that were written, and asks the system to write them to the disk now and
// then, so that it does not have to write all of them when the file is made durable.
func (p *partialFile) push(n int) {
	const often = 4 << 20
	if p.pushed += n; p.pushed >= often {
		disk.Begin(p.f)
		p.pushed = 0
	}
}

// sealText implements [trajectory].
func (p *partialFile) sealText() string { return p.seal.hex() }

// partial returns the name under which an output is written until it is
// complete.
func partial(path string) string { return path + ".partial" }

// open creates the partial file with room for size bytes in all, or continues it. One
// that is to be continued has had its size from the start: what was cut off would be
// taken for zeros.
func (p *partialFile) open(size int64, resume bool) error {
	if err := p.openFile(resume); err != nil {
		return err
	}
	is, err := p.f.Stat()
	if err == nil && resume && is.Size() != size {
		p.Close()
		return &LostError{Path: partial(p.path), What: fmt.Sprintf("%d bytes: "+
			"want %d, as the unfinished run left it, or --force to begin again", is.Size(), size)}
	}
	if err == nil && !resume {
		err = p.f.Truncate(size) // it is empty
	}
	if err != nil {
		p.Close()
		return p.failed(err)
	}
	return nil
}

// openFile creates the partial file, empty, or opens it as it is, unless it is held
// already.
func (p *partialFile) openFile(resume bool) error {
	if !resume {
		return p.create()
	}
	if p.f != nil {
		return nil
	}
	if !exists(partial(p.path)) {
		// Finished already by a process that died before the run was. It keeps
		// its name until it is known to be this run's.
		p.done = true
	}
	return p.hold(0)
}

// create makes a new partial file in the place of one that may be there. That one is not
// emptied: where a file system has no locks another process may write it, too, and may have
// given it its final name by now.
func (p *partialFile) create() error {
	if exists(partial(p.path)) {
		err := disk.Remove(partial(p.path))
		if err != nil && p.f != nil { // as on systems that keep the names of open files
			p.Close()
			err = disk.Remove(partial(p.path))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.Close()
			return p.failed(err)
		}
	}
	p.Close()
	err := p.hold(os.O_CREATE | os.O_EXCL)
	if errors.Is(err, fs.ErrExist) {
		return busy(p.path) // by a process that was faster
	}
	if err == nil {
		if err = disk.SyncDir(filepath.Dir(p.path)); err != nil { // the checkpoint may be in another folder
			err = p.failed(err)
			p.Close()
		}
	}
	return err
}

// name returns the name that the file has now.
func (p *partialFile) name() string {
	if p.done {
		return p.path
	}
	return partial(p.path)
}

// reopen gives a finished file, of which the run was not, its preliminary name again.
func (p *partialFile) reopen() error {
	if !p.done {
		return nil
	}
	if err := rename(p.path, partial(p.path)); err != nil {
		return err
	}
	p.done, p.over = false, nil
	return nil
}

// hold opens the partial file, which is this process's until it is closed: two that
// write one file would leave a mixture.
func (p *partialFile) hold(flags int) (err error) {
	if is, err := disk.Lstat(p.name()); err == nil && is.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s: a link: want a regular file, or none", p.name())
	}
	if p.f, err = disk.OpenFile(p.name(), os.O_RDWR|flags, 0o644); err != nil {
		p.f = nil
		return fmt.Errorf("%s: %w: want a place to write to", p.name(), fault.Cause(err))
	}
	held, none := disk.Lock(p.f)
	p.lockless = none
	free := !held
	if free {
		free, err = p.current()
	}
	if err == nil && !free {
		err = busy(p.path)
	}
	if err != nil {
		p.Close()
	}
	return err
}

// current reports whether the file still has its name: a process that ended
// after it was opened here may have given it the final one.
func (p *partialFile) current() (bool, error) {
	is, err := p.f.Stat()
	if err != nil {
		return false, p.failed(err)
	}
	named, err := disk.Stat(p.name())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, p.failed(err)
	}
	return err == nil && os.SameFile(is, named), nil
}

// ErrBusy is the error of a job whose output another process, or another job, writes.
var ErrBusy = disk.ErrBusy

func busy(path string) error {
	return fmt.Errorf("%s: %w: want it to end, or another name", partial(path), ErrBusy)
}

func (p *partialFile) failed(err error) error {
	return fmt.Errorf("%s: %w", partial(p.path), fault.Cause(err))
}

func (p *partialFile) write(b []byte, at int64) error {
	if _, err := p.f.WriteAt(b, at); err != nil {
		return p.failed(err)
	}
	return nil
}

// kept reports a partial file that was removed, replaced or cut off behind the run's
// back: what is written from then on would go nowhere.
func (p *partialFile) kept(size int64) error {
	switch is, err := p.current(); {
	case err != nil:
		return err
	case !is:
		return &LostError{Path: partial(p.path),
			What: "removed or replaced while the run wrote it: want it left alone until the run ends"}
	}
	is, err := p.f.Stat()
	if err != nil {
		return p.failed(err)
	}
	if is.Size() != size {
		return &LostError{Path: partial(p.path),
			What: fmt.Sprintf("%d bytes: want %d, as the run wrote them; --force begins again", is.Size(), size)}
	}
	return nil
}

// LostError says that a partial file is not what the run made of it, or that another process
// gave its final name to a file of its own: where a file system has no locks two may write one.
type LostError struct {
	Path, What string
	// Resumable says that a resumed run goes back to the last state that is right.
	Resumable bool
}

// Error implements error.
func (e *LostError) Error() string { return e.Path + ": " + e.What }

// sync makes what was written durable.
func (p *partialFile) sync(size int64) error {
	if err := p.kept(size); err != nil {
		return err
	}
	if err := p.f.Sync(); err != nil {
		return p.failed(err)
	}
	return nil
}

// publish gives the partial file, or one that was made of it, its final name. It must be
// durable.
func (p *partialFile) publish(from string) error {
	now, err := disk.Lstat(p.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", p.path, fault.Cause(err))
	}
	if err == nil && (p.over == nil || !os.SameFile(now, p.over)) {
		return &LostError{Path: p.path,
			What: "made by someone else while the run was under way: want no such file; --resume finishes the run"}
	}
	err = rename(from, p.path)
	gone := &LostError{
		Path: from, What: "removed or replaced while the run was under way: want it left alone until the run ends",
	}
	if errors.Is(err, fs.ErrNotExist) {
		return gone
	}
	if err != nil || from != partial(p.path) || p.f == nil {
		return err
	}
	// Where there are no locks another process may have put its own file, which is not
	// finished, in the place of this one just now.
	is, err := p.f.Stat()
	if err != nil {
		return p.failed(err)
	}
	if now, err := disk.Stat(p.path); err == nil && !os.SameFile(is, now) {
		rename(p.path, from) // to go on with; if it cannot be, what is wrong is told anyway
		return gone
	}
	return nil
}

// Close implements [Output].
func (p *partialFile) Close() error {
	if p.f == nil {
		return nil
	}
	err := p.f.Close()
	p.f = nil
	if err != nil {
		return p.failed(err)
	}
	return nil
}

func (p *partialFile) held() int64 { return int64(cap(p.buf)) }

// rename gives a complete file its name, durably.
func rename(from, to string) error {
	if err := disk.Rename(from, to); err != nil {
		return fmt.Errorf("%s: %w", to, fault.Cause(err))
	}
	if err := disk.SyncDir(filepath.Dir(to)); err != nil {
		return fmt.Errorf("%s: %w", filepath.Dir(to), fault.Cause(err))
	}
	return nil
}
