package main

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemoZip: what is built into the program is the folder demo, and nothing else.
func TestDemoZip(t *testing.T) {
	files, err := zip.NewReader(strings.NewReader(demoFiles), int64(len(demoFiles)))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadDir("demo")
	if err != nil || len(want) == 0 || len(want) != len(files.File) {
		t.Fatalf("%d files, want the %d of the folder (%v)", len(files.File), len(want), err)
	}
	for _, f := range want {
		data, err := os.ReadFile(filepath.Join("demo", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fs.ReadFile(files, f.Name()); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s differs from the file of the folder (%v)", f.Name(), err)
		}
	}
}
