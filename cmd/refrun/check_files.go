package main

import (
	"bytes"
	"cmp"
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
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// override puts the files that flags name into a case, in place of its own.
func (w *checkFlags) override(cs *rollout.Case) error {
	for _, f := range []struct {
		path string
		to   **safetensors.File
	}{
		{w.weights, &cs.Weights}, {w.trajectory, &cs.Trajectory}, {w.layers, &cs.Layers}, {w.tape, &cs.Noise},
	} {
		if f.path == "" {
			continue
		}
		var err error
		if *f.to, err = openFile(f.path); err != nil {
			return err
		}
	}
	if cs.Step != nil {
		if given := cmp.Or(w.weights, w.layers, w.tape); given != "" {
			return fmt.Errorf("%s: a step graph has its weights and draws in its case, and no layers: "+
				"want no --weights, --layers or --tape", given)
		}
		return nil
	}
	switch {
	case cs.Trajectory == nil && w.dir == "":
		return errors.New("--trajectory: missing: want the safetensors file that the device wrote")
	case cs.Weights == nil && cs.WeightsSeed == nil:
		return errors.New("--weights: missing: want the safetensors file of the weights, or weights_seed in " + cs.File)
	}
	return nil
}

// writable refuses a path that cannot be written, before the work is done.
func writable(flag, path string) error {
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

// spares refuses a report in the place of a file that the check reads.
func (w *checkFlags) spares(flag, path string) error {
	read := []string{w.config, w.weights, w.trajectory, w.layers, w.tape}
	if w.dir != "" {
		read = append(read, caseFiles(w.dir)...)
	}
	return apart(flag, path, read...)
}

// caseFiles are the files that a case's folder may have.
func caseFiles(dir string) []string {
	names := []string{"case.json", "weights.safetensors", "trajectory.safetensors", "noise.safetensors",
		"layers.safetensors", "one_step_f64.safetensors", "probes.json"}
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	return names
}

// apart refuses to write in the place of a file that is read.
func apart(flag, path string, read ...string) error {
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

// write writes a report to a file, if that has a name.
func write(flag, path string, r *report.Report, to func(io.Writer, *report.Report) error) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := to(&b, r); err != nil {
		return err
	}
	return writeBytes(flag, path, b.Bytes())
}

// writeFields writes the errors by step and channel to a file, if that has a name.
func writeFields(flag, path string, fields []diff.Field) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := diff.WriteCSV(&b, fields); err != nil {
		return err
	}
	return writeBytes(flag, path, b.Bytes())
}

func writeBytes(flag, path string, b []byte) error {
	if err := disk.WriteFile(path, b, 0o666); err != nil {
		return fmt.Errorf("%s: %s: %w", flag, path, fault.Cause(err))
	}
	return nil
}
