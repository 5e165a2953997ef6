package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// Record is what is known of a unit that was made: UNIT.json beside its file. The
// manifest is all records, a line for each, without the seconds.
type Record struct {
	Unit  int    `json:"unit"`
	File  string `json:"file"` // within the folder
	Bytes int64  `json:"bytes"`
	// A file of states is known by its seal, which is formed without reading all of it once more:
	// see docs/FORMATS.md. Any other one, and one that was made before there were seals, is by
	// its SHA-256.
	SHA256   string  `json:"sha256,omitempty"`
	Seal     string  `json:"seal,omitempty"`
	Identity string  `json:"identity"`
	Digest   string  `json:"digest"` // of the states as they are stored, [rollout.Digest]
	Format   string  `json:"format"` // of the stored states
	Version  string  `json:"version"`
	Seconds  float64 `json:"seconds,omitempty"`       // that the last process took
	Sum      string  `json:"record_sha256,omitempty"` // of the record without it
}

// sealed returns the text of a record, with its own hash.
func (r Record) sealed() []byte {
	r.Sum = ""
	r.Sum = fmt.Sprintf("%x", sha256.Sum256(lineText(r)))
	return lineText(r)
}

// line returns the record's line in the manifest, which says nothing of how it was made.
func (r Record) line() []byte {
	r.Seconds, r.Sum = 0, ""
	return lineText(r)
}

// Record returns the record of a unit, nil if there is none yet. One that cannot be read
// or is of another unit is an error.
func (p *Dataset) Record(i int) (*Record, error) {
	path := filepath.Join(p.Dir, base(i)+".json")
	text, err := readFile(path, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %s: want the record of a unit", path, fault.Clip(err.Error()))
	}
	switch {
	case string(r.sealed()) != string(text):
		return nil, fmt.Errorf("%s: not the bytes that were written", path)
	case r.Unit != i || r.File != p.Path(i):
		return nil, fmt.Errorf("%s: unit %d in %s: want unit %d in %s", path, r.Unit, fault.Text(r.File), i, p.Path(i))
	case r.Identity != p.Lines[i].Identity:
		return nil, fmt.Errorf("%s: identity %s: want %s, that of the plan",
			path, fault.Text(r.Identity), p.Lines[i].Identity)
	}
	return r, nil
}

// size returns the bytes of a unit's file, -1 if there is none.
func (p *Dataset) size(i int) int64 {
	info, err := disk.Stat(filepath.Join(p.Dir, p.Path(i)))
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}

// Done reports whether a unit has been made: its record is there, and a file of the size
// that it says.
func (p *Dataset) Done(i int) bool {
	r, err := p.Record(i)
	return err == nil && r != nil && p.size(i) == r.Bytes
}

// hash returns the SHA-256 of a file and its size.
func hash(path string) (string, int64, error) {
	f, _, err := fault.OpenRegular(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum, n, err := hashOf(f)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return sum, n, nil
}

// hashOf returns the SHA-256 of what is read to its end, and how long that is.
func hashOf(r io.Reader) (string, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return fmt.Sprintf("%x", h.Sum(nil)), n, err
}

// Missing returns the units of the plan that have not been made.
func (p *Dataset) Missing() []int {
	var all []int
	for i := range p.Lines {
		if !p.Done(i) {
			all = append(all, i)
		}
	}
	return all
}

// WriteManifest writes manifest.jsonl from the records, unless it is what they say already, so
// that a dataset that one may only read can be merged; and returns its SHA-256. A
// unit that has not been made is an error.
func (p *Dataset) WriteManifest() (string, error) {
	path := filepath.Join(p.Dir, manifestName)
	var text []byte
	for i := range p.Lines {
		r, err := p.Record(i)
		if err != nil {
			return "", err
		}
		if r == nil {
			return "", fmt.Errorf("%s: unit %d: not made: want all units", path, i)
		}
		text = append(text, r.line()...)
	}
	sum := sha256.Sum256(text)
	if was, err := readFile(path, int64(len(text))); err != nil || !bytes.Equal(was, text) {
		if err := disk.WriteFile(path, text, 0o666); err != nil {
			return "", fmt.Errorf("%s: %w", path, fault.Cause(err))
		}
	}
	return fmt.Sprintf("%x", sum), nil
}
