package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// names lists a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestReplace: a file is written whole or left as it was, and nothing else is left.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, text := range []string{"first", "second"} {
		if err := WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stop")
		err := Replace(path, 0o666, func(w io.Writer) error {
			io.WriteString(w, "half of")
			return stop
		})
		if got, e := ReadFile(path); !errors.Is(err, stop) || e != nil || string(got) != text {
			t.Errorf("%q, %v after the error %v, want %q", got, e, err, text)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"x"}) {
		t.Errorf("left: %v", got)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if is, err := Stat(path); err != nil || is.Mode().Perm()&0o077 != 0 {
		t.Errorf("permissions %v, %v: want those of the file before", is.Mode(), err)
	}
	if err := WriteFile(dir, nil, 0o666); err == nil {
		t.Error("a folder was replaced")
	}
}

// TestLinks: a link to a file is replaced, and what it leads to stays; one to a pipe is written
// through; one to nothing is neither a file nor missing.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	link, nothing := filepath.Join(dir, "link"), filepath.Join(dir, "nothing")
	if err := errors.Join(os.Symlink("file", link), os.Symlink("none", nothing)); err != nil {
		t.Skip("no links here: ", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"link": "text", "file": "kept"} {
		if got, err := ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v: want %q", name, got, err, want)
		}
	}
	if f, err := CreateNew(link); err != nil || f.Close() != nil {
		t.Error(err)
	}
	_, open := Open(nothing)
	_, stat := Stat(nothing)
	_, inside := fs.Stat(Dir(dir), "nothing")
	_, read := fs.ReadFile(Dir(dir), "nothing")
	for i, err := range []error{open, stat, inside, read, WriteFile(nothing, nil, 0o666)} {
		if !errors.Is(err, errLink) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d: error %v, want a link to nothing", i, err)
		}
	}
	if _, err := Stat(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that it does not exist", err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"file", "link", "nothing"}) {
		t.Errorf("left: %v", got)
	}
}

func TestDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("0123"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Dir(dir).Open("x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [2]byte
	if _, err := f.(io.ReaderAt).ReadAt(b[:], 1); err != nil || string(b[:]) != "12" {
		t.Errorf("%q, %v", b, err)
	}
	if entries, err := fs.ReadDir(Dir(dir), "."); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, name := range []string{"../x", "/x", ""} {
		if _, err := Dir(dir).Open(name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: error %v", name, err)
		}
	}
	if _, err := Dir("").Open("x"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("no folder: error %v", err)
	}
}

// refusing is a system that opens nothing.
type refusing struct{ System }

func (refusing) OpenFile(string, int, fs.FileMode) (File, error) { return nil, fs.ErrPermission }

func TestUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	restore := Use(refusing{Operating()})
	f, err := CreateNew(path)
	restore()
	if f != nil || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, %v", f, err)
	}
	if err := WriteFile(path, nil, 0o666); err != nil {
		t.Error(err)
	}
}

func TestFree(t *testing.T) {
	if n, ok := Free(t.TempDir()); ok && n == 0 {
		t.Error("nothing free, and a file can be written")
	}
	if n, ok := Free(filepath.Join(t.TempDir(), "none")); ok {
		t.Errorf("%d free where there is no folder", n)
	}
}
