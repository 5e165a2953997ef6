package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/oracle/report"
)

// Writable refuses a path that cannot be written, before the work is done.
func Writable(flag, path string) error {
	if path == "" {
		return nil
	}
	st, err := disk.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return fmt.Errorf("%s: %s: is a directory: want the name of a file", flag, path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %s: %w: want a file that can be written", flag, path, fault.Cause(err))
	}
	if _, err := disk.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s: %s: %w: want a file in a folder that exists", flag, path, fault.Cause(err))
	}
	return nil
}

// CaseFiles are the files that a case's folder may have.
func CaseFiles(dir string) []string {
	names := []string{"case.json", "weights.safetensors", "trajectory.safetensors", "noise.safetensors",
		"layers.safetensors", "one_step_f64.safetensors", "probes.json"}
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	return names
}

// Apart refuses to write in the place of a file that is read.
func Apart(flag, path string, read ...string) error {
	at, err := disk.Stat(path)
	if err != nil {
		return nil // nothing is there, or nothing was asked for; writable said what else
	}
	for _, name := range read {
		if of, err := disk.Stat(name); err == nil && os.SameFile(at, of) {
			return fmt.Errorf("%s: %s: is %s, which is read: want another name", flag, path, name)
		}
	}
	return nil
}

// Write writes a report to a file, if that has a name.
func Write(flag, path string, r *report.Report, to func(io.Writer, *report.Report) error) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := to(&b, r); err != nil {
		return err
	}
	return WriteBytes(flag, path, b.Bytes())
}

// WriteFields writes the errors by step and channel to a file, if that has a name.
func WriteFields(flag, path string, fields []diff.Field) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := diff.WriteCSV(&b, fields); err != nil {
		return err
	}
	return WriteBytes(flag, path, b.Bytes())
}

func WriteBytes(flag, path string, b []byte) error {
	if err := disk.WriteFile(path, b, 0o666); err != nil {
		return fmt.Errorf("%s: %s: %w", flag, path, fault.Cause(err))
	}
	return nil
}
