package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestError(t *testing.T) {
	e := &Error{"w.safetensors", Text("a\nb") + " shape", Dims([]int{2, 3}), Count(1, "byte")}
	if got, want := e.Error(), `w.safetensors: "a\nb" shape: [2,3]: want 1 byte`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	e.Path = ""
	if got, want := e.Error(), `"a\nb" shape: [2,3]: want 1 byte`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestShort holds that nothing a file says makes a long line.
func TestShort(t *testing.T) {
	for _, s := range []string{Text(strings.Repeat("x", 1e6)), Clip(strings.Repeat("x", 1e6)), Dims(make([]int, 1e6)),
		Dims([]int{1e18, 1e18, 1e18, 1e18, 1e18})} {
		if len(s) > 100 || strings.Contains(s, "\n") {
			t.Errorf("%d bytes: %.80s", len(s), s)
		}
	}
	if Dims(nil) != "[]" || Count(2, "byte") != "2 bytes" || Count(uint64(0), "byte") != "0 bytes" ||
		Clip("abc") != "abc" {
		t.Error("short texts changed")
	}
}

func TestCause(t *testing.T) {
	_, err := os.Open("none")
	if got := Cause(fmt.Errorf("x: %w", err)); strings.Contains(got.Error(), "none") || !errors.Is(got, fs.ErrNotExist) {
		t.Errorf("%v", got)
	}
	if e := errors.New("y"); Cause(e) != e || Cause(nil) != nil {
		t.Error("other errors changed")
	}
}
