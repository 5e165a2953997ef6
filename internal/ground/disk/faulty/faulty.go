// Package faulty is a file system for tests that fails on purpose: at the k-th operation
// of a kind, or as a computer does whose power goes off. It works on the operating
// system's files and keeps beside them what is durable, so that a crash can take back
// what was not.
package faulty

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/refrun/refrun/internal/ground/disk"
)

// Kind is what goes wrong.
type Kind int

// The kinds of faults. A full disk stays full; a crash ends everything; of the others
// one operation fails.
const (
	None     Kind = iota // nothing: operations are counted
	Full                 // a write, and all after it, finds no space after half of it
	ReadFail             // a read fails half way with EIO
	Short                // a read ends half way, as at the end of a file
	SyncFail             // a sync fails with EIO, and what was not durable is lost
	Rename               // a rename fails with EIO
	Meta                 // what opens, looks at, lists, cuts or removes a file fails with EIO

	// Crashes, by what is lost of what no sync made durable.
	CrashKeeps  // nothing
	CrashLoses  // all writes and all names
	CrashNames  // all names: files made, renamed and removed
	CrashWrites // all writes
	CrashRandom // some of both
)

// Kinds are all that go wrong.
var Kinds = []Kind{
	Full, ReadFail, Short, SyncFail, Rename, Meta, CrashKeeps, CrashLoses, CrashNames, CrashWrites, CrashRandom,
}

// String returns the name of a kind.
func (k Kind) String() string {
	return [...]string{"none", "no space", "read fails", "short read", "sync fails", "rename fails", "other failure",
		"crash, all kept", "crash, all lost", "crash, names lost", "crash, writes lost", "crash, some lost"}[k]
}

// Crash reports whether nothing works after the fault.
func (k Kind) Crash() bool { return k >= CrashKeeps }

// errCrashed is what every operation after a crash says. It is no error of a disk, which
// a program might wait for the end of.
var errCrashed = errors.New("the computer is off")

// class is what an operation is, for the kinds that hit only some.
type class int

const (
	read class = iota
	write
	syncing
	rename
	meta
	looking // meta that changes nothing
)

// hits says which kinds hit a class, beside crashes.
var hits = [...][]Kind{
	read: {ReadFail, Short}, write: {Full}, syncing: {SyncFail}, rename: {Rename}, meta: {Meta}, looking: {Meta},
}

// changes reports whether a disk may be another after it.
func (c class) changes() bool { return c != read && c != looking }

// inode is the contents of a file.
type inode struct {
	data, durable []byte
	pending       []change // since the last sync
}

// change is a write at a place, or, if data is nil, a new length.
type change struct {
	at   int64
	data []byte
}

// do applies a change.
func (c change) do(b []byte) []byte {
	if c.data == nil {
		return resize(b, c.at)
	}
	if end := c.at + int64(len(c.data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[c.at:], c.data)
	return b
}

func resize(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

func (n *inode) change(c change) {
	c.data = slices.Clone(c.data)
	n.data = c.do(n.data)
	n.pending = append(n.pending, c)
}

// renaming is a change of names: of each to the file that it names then, nil for none.
type renaming map[string]*inode

// System fails at operation K of a kind, counted from 1.
type System struct {
	root  string
	kind  Kind
	k     int
	under disk.System

	mu           sync.Mutex
	random       *rand.Rand
	count        int
	turns        []int // the operations that one which changes something goes before
	changed      bool  // by the operation before
	done         bool  // the fault has happened
	off          bool
	names, saved map[string]*inode // now, and durably
	pending      []renaming        // since the folder was synced
	open         []*file
}

// New returns a system that fails at the k-th operation that the kind hits, of files
// below root, all of which are durable. The seed decides what a crash loses.
func New(root string, kind Kind, k int, seed uint64) (*System, error) {
	s := &System{root: root, kind: kind, k: k, under: disk.Operating(), random: rand.New(rand.NewPCG(seed, uint64(k))),
		names: map[string]*inode{}, saved: map[string]*inode{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		n := &inode{data: b, durable: slices.Clone(b)}
		s.names[path], s.saved[path] = n, n
		return err
	})
	return s, err
}

// Count returns how many operations there were that the kind hits.
func (s *System) Count() int { return s.count }

// Turns returns the operations, counted from 1, at which a crash leaves something else than at the operation
// before: the first, and those after one that changes something. Between them a command only reads.
func (s *System) Turns() []int { return s.turns }

// Happened says that the fault did.
func (s *System) Happened() bool { return s.done }

// step counts an operation and says whether it fails.
func (s *System) step(c class) (fails bool, err error) {
	if s.off {
		return true, errCrashed
	}
	if !s.kind.Crash() && !slices.Contains(hits[c], s.kind) {
		return false, nil
	}
	s.count++
	if s.count == 1 || s.changed {
		s.turns = append(s.turns, s.count)
	}
	s.changed = c.changes()
	if s.count != s.k && !(s.kind == Full && s.done) {
		return false, nil
	}
	s.done = true
	switch {
	case s.kind.Crash():
		s.off = true
		return true, errCrashed
	case s.kind == Full:
		return true, syscall.ENOSPC
	}
	return true, syscall.EIO
}

// End ends the computer, if the fault is a crash, and the use of the system in any case:
// what is on the disk then is what another process finds.
func (s *System) End() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range s.open {
		f.File.Close()
	}
	if !s.kind.Crash() {
		return nil
	}
	s.off, s.done = true, true
	keep := func(names bool) bool {
		switch s.kind {
		case CrashKeeps:
			return true
		case CrashNames:
			return !names
		case CrashWrites:
			return names
		case CrashRandom:
			return s.random.IntN(2) == 0
		}
		return false
	}
	for _, r := range s.pending {
		if keep(true) {
			s.save(r)
		}
	}
	for _, path := range sorted(s.names) {
		if s.saved[path] == nil {
			errs = append(errs, os.Remove(path))
		}
	}
	settled := map[*inode][]byte{}
	for _, path := range sorted(s.saved) {
		n := s.saved[path]
		if _, is := settled[n]; !is {
			b := slices.Clone(n.durable)
			for _, c := range n.pending {
				if keep(false) {
					b = c.do(b)
				}
			}
			settled[n] = b
		}
		os.Remove(path) // another file may have the name
		errs = append(errs, os.WriteFile(path, settled[n], 0o666))
	}
	return errors.Join(errs...)
}

func sorted(m map[string]*inode) []string {
	var all []string
	for path := range m {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

// save makes a change of names durable.
func (s *System) save(r renaming) {
	for path, n := range r {
		if n == nil {
			delete(s.saved, path)
		} else {
			s.saved[path] = n
		}
	}
}

// change changes names.
func (s *System) change(r renaming) {
	for path, n := range r {
		if n == nil {
			delete(s.names, path)
		} else {
			s.names[path] = n
		}
	}
	s.pending = append(s.pending, r)
}

func absolute(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	return path
}

func failed(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// OpenFile implements [disk.System].
func (s *System) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := looking
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		c = meta
	}
	if fails, err := s.step(c); fails {
		return nil, failed("open", name, err)
	}
	f, err := s.under.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	path := absolute(name)
	n := s.names[path]
	if n == nil {
		n = new(inode)
		if flag&os.O_CREATE != 0 {
			s.change(renaming{path: n})
		}
	}
	if flag&os.O_TRUNC != 0 {
		n.change(change{})
	}
	open := &file{File: f, s: s, n: n}
	s.open = append(s.open, open)
	return open, nil
}

// Rename implements [disk.System].
func (s *System) Rename(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fails, err := s.step(rename); fails {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	if err := s.under.Rename(from, to); err != nil {
		return err
	}
	s.change(renaming{absolute(to): s.names[absolute(from)], absolute(from): nil})
	return nil
}

// Remove implements [disk.System].
func (s *System) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fails, err := s.step(meta); fails {
		return failed("remove", name, err)
	}
	if err := s.under.Remove(name); err != nil {
		return err
	}
	s.change(renaming{absolute(name): nil})
	return nil
}

// look is what only looks.
func look[T any](s *System, op, name string, do func(string) (T, error)) (v T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fails, err := s.step(looking); fails {
		return v, failed(op, name, err)
	}
	return do(name)
}

// Stat implements [disk.System].
func (s *System) Stat(name string) (fs.FileInfo, error) { return look(s, "stat", name, s.under.Stat) }

// Lstat implements [disk.System].
func (s *System) Lstat(name string) (fs.FileInfo, error) {
	return look(s, "lstat", name, s.under.Lstat)
}

// ReadDir implements [disk.System].
func (s *System) ReadDir(name string) ([]fs.DirEntry, error) {
	return look(s, "open", name, s.under.ReadDir)
}

// MkdirAll implements [disk.System]. Folders are durable at once.
func (s *System) MkdirAll(name string, perm fs.FileMode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fails, err := s.step(meta); fails {
		return failed("mkdir", name, err)
	}
	return s.under.MkdirAll(name, perm)
}

// SyncDir implements [disk.System].
func (s *System) SyncDir(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fails, err := s.step(syncing); fails {
		return failed("sync", name, err)
	}
	dir := absolute(name)
	s.pending = slices.DeleteFunc(s.pending, func(r renaming) bool {
		for path := range r {
			if filepath.Dir(path) != dir {
				return false
			}
		}
		s.save(r)
		return true
	})
	return nil
}

// Free implements [disk.System].
func (s *System) Free(dir string) (uint64, bool) { return s.under.Free(dir) }

// file is an open file. Its position is the underlying file's.
type file struct {
	disk.File
	s *System
	n *inode
}

// part does all of a read, or half of it and an error.
func (f *file) part(b []byte, do func([]byte) (int, error), end error) (int, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	fails, err := f.s.step(read)
	switch {
	case !fails:
		return do(b)
	case f.s.off:
		return 0, failed("read", f.Name(), err)
	}
	n, e := do(b[:len(b)/2])
	switch {
	case e != nil:
		return n, e
	case f.s.kind == Short:
		return n, end
	}
	return n, failed("read", f.Name(), err)
}

func (f *file) Read(b []byte) (int, error) { return f.part(b, f.File.Read, nil) }

func (f *file) ReadAt(b []byte, at int64) (int, error) {
	return f.part(b, func(b []byte) (int, error) { return f.File.ReadAt(b, at) }, io.EOF)
}

func (f *file) Write(b []byte) (int, error) {
	at, err := f.File.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	n, err := f.WriteAt(b, at)
	f.File.Seek(at+int64(n), io.SeekStart)
	return n, err
}

func (f *file) WriteAt(b []byte, at int64) (int, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	before := f.s.off
	fails, err := f.s.step(write)
	switch {
	case before:
		return 0, failed("write", f.Name(), err)
	case fails:
		b = b[:len(b)/2]
	}
	n, e := f.File.WriteAt(b, at)
	if n > 0 {
		f.n.change(change{at, b[:n]})
	}
	if fails {
		e = failed("write", f.Name(), err)
	}
	return n, e
}

func (f *file) Sync() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	n := f.n
	fails, err := f.s.step(syncing)
	if fails {
		if !f.s.off {
			n.data, n.pending = slices.Clone(n.durable), nil
			f.File.Truncate(0)
			f.File.WriteAt(n.data, 0)
		}
		return failed("sync", f.Name(), err)
	}
	n.durable, n.pending = slices.Clone(n.data), nil
	return nil
}

func (f *file) Truncate(size int64) error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if fails, err := f.s.step(meta); fails {
		return failed("truncate", f.Name(), err)
	}
	if err := f.File.Truncate(size); err != nil {
		return err
	}
	f.n.change(change{at: size})
	return nil
}

func (f *file) Stat() (fs.FileInfo, error) {
	return look(f.s, "stat", f.Name(), func(string) (fs.FileInfo, error) { return f.File.Stat() })
}
