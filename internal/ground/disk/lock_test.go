//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestLeft: what a process left that was killed while it wrote a file goes with the next write of
// it. What is no file was not left by one: it stays, and is not written to.
func TestLeft(t *testing.T) {
	for _, c := range []struct {
		name  string
		stays bool
		leave func(path string) error
	}{
		{"a file", false, func(path string) error { return os.WriteFile(path, make([]byte, 1000), 0o666) }},
		{"nobody may write", false, func(path string) error { return os.WriteFile(path, make([]byte, 1000), 0o444) }},
		{"a link", true, func(path string) error { return os.Symlink("elsewhere", path) }},
		{"a pipe", true, func(path string) error { return syscall.Mkfifo(path, 0o666) }},
		{"a folder", true, func(path string) error { return os.Mkdir(path, 0o777) }},
	} {
		dir := t.TempDir()
		path, elsewhere := filepath.Join(dir, "x"), filepath.Join(dir, "elsewhere")
		if err := errors.Join(os.WriteFile(elsewhere, []byte("kept"), 0o666), c.leave(path+tempSuffix)); err != nil {
			t.Fatal(err)
		}
		err := WriteFile(path, []byte("text"), 0o666)
		got, _ := os.ReadFile(path)
		kept, _ := os.ReadFile(elsewhere)
		want := []string{"elsewhere", "x"}
		if c.stays {
			want = append(want, "x"+tempSuffix)
		}
		if err != nil || string(got) != "text" || string(kept) != "kept" || !slices.Equal(names(t, dir), want) {
			t.Errorf("%s: %v, %q, %q, left %v", c.name, err, got, kept, names(t, dir))
		}
		if err := ReplaceAlone(path, 0o666, func(File) error { return nil }); c.stays != errors.Is(err, ErrBusy) {
			t.Errorf("%s: alone: %v", c.name, err)
		}
		if !c.stays {
			c.leave(path + tempSuffix)
		}
		if Sweep(path); !slices.Equal(names(t, dir), want) {
			t.Errorf("%s: swept, left %v", c.name, names(t, dir))
		}
	}
}

// TestTwoAtOnce: while one writes a file, another that would be alone is told so, and one that
// would not writes its own; the last to end wins, and nothing is left.
func TestTwoAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	err := ReplaceAlone(path, 0o666, func(f File) error {
		Sweep(path)
		if !Named(f) {
			t.Error("what is being written was swept away")
		}
		if err := ReplaceAlone(path, 0o666, func(File) error { return nil }); !errors.Is(err, ErrBusy) {
			t.Errorf("a second one: %v", err)
		}
		if err := Replace(path, 0o666, text("second")); err != nil {
			t.Error(err)
		}
		if got, _ := os.ReadFile(path); string(got) != "second" {
			t.Errorf("%q", got)
		}
		return text("first")(f)
	})
	if got, _ := os.ReadFile(path); err != nil || string(got) != "first" || !slices.Equal(names(t, dir), []string{"x"}) {
		t.Errorf("%v, %q, left %v", err, got, names(t, dir))
	}
}
