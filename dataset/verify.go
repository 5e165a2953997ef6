package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/rollout"
)

// Fault is what is wrong with a unit.
type Fault struct {
	Unit int    `json:"unit"`
	What string `json:"what"`
}

// Check says how units are verified.
type Check struct {
	Read      bool // read every file, and not only look at its size
	Recompute int  // units to make once more, taken at random from the plan's identity
	Progress  func(done, total int)
}

// Checked is what was verified.
type Checked struct {
	Units, Read, Recomputed int
	Faults                  []Fault
	Manifest                string // SHA-256 of manifest.jsonl, "" if there is none
}

// Verify compares what was made with the plan: the records, the files, the manifest if
// there is one. What is wrong is in Faults; an error is what kept it from looking.
func (p *Dataset) Verify(ctx context.Context, c Check) (*Checked, error) {
	out := &Checked{Units: len(p.Lines)}
	again := p.pick(c.Recompute)
	lines, err := p.manifest(out)
	if err != nil {
		return nil, err
	}
	total, done := len(p.Lines)+len(again), 0
	step := func() error {
		if done++; c.Progress != nil {
			c.Progress(done, total)
		}
		return ctx.Err()
	}
	const block = 64
	var whats [block]string
	for i := range p.Lines {
		if i%block == 0 {
			par.For(min(block, len(p.Lines)-i), func(k int) { whats[k] = p.fault(i+k, c.Read) })
		}
		what := whats[i%block]
		if what == "" && lines != nil {
			if r, _ := p.Record(i); r != nil && !lines[string(r.line())] {
				what = manifestName + ": its line is not that of its record"
			}
		}
		if what != "" {
			out.Faults = append(out.Faults, Fault{i, what})
		}
		if c.Read {
			out.Read++
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, i := range again {
		r, err := p.Record(i)
		if err == nil && r != nil {
			f, ferr := fp16.ParseFormat(r.Format)
			if ferr != nil {
				out.Faults = append(out.Faults, Fault{i, "its record has no format of numbers"})
				continue
			}
			digest, err := p.Recompute(ctx, i, f)
			if err != nil {
				return nil, err
			}
			if digest != r.Digest {
				out.Faults = append(out.Faults,
					Fault{i, fmt.Sprintf("made once more its digest is %s: want %.64s, as it was", digest, r.Digest)})
			}
			out.Recomputed++
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fault returns what is wrong with a unit's record and file, "" if nothing is.
func (p *Dataset) fault(i int, read bool) string {
	if u, err := p.Unit(i); err != nil || u == nil {
		return strings.TrimPrefix(err.Error(), p.Dir)
	}
	r, err := p.Record(i)
	switch {
	case err != nil:
		return err.Error()
	case r == nil:
		return "not made"
	}
	size := p.size(i)
	if size < 0 {
		return r.File + ": missing"
	}
	if size != r.Bytes {
		return fmt.Sprintf("%s: %d bytes: want %d, as its record says", r.File, size, r.Bytes)
	}
	if read {
		return p.differs(r)
	}
	return ""
}

// differs reads a unit's file and returns how it is not the one of the record, "" if it is.
func (p *Dataset) differs(r *Record) string {
	path := filepath.Join(p.Dir, filepath.FromSlash(r.File))
	if r.Seal == "" {
		sum, _, err := hash(path)
		if err != nil {
			return err.Error()
		}
		if sum != r.SHA256 {
			return fmt.Sprintf("%s: SHA-256 %s: want %.64s, as its record says", r.File, sum, r.SHA256)
		}
		return ""
	}
	v, err := rollout.Verify(path)
	switch {
	case err != nil:
		return err.Error()
	case len(v.Differ) > 0:
		return fmt.Sprintf("%s: %s: not what was written", r.File, v.Differ[0])
	case v.Seal != r.Seal:
		return fmt.Sprintf("%s: seal %s: want %.64s, as its record says", r.File, cmp.Or(v.Seal, "none"), r.Seal)
	}
	return ""
}

// manifest returns the manifest's lines, nil if there is none. One that has all of them and
// more, or in another order, is an error.
func (p *Dataset) manifest(out *Checked) (map[string]bool, error) {
	path := filepath.Join(p.Dir, manifestName)
	text, err := readFile(path, int64(len(p.Lines)+1)*1024)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if out.Manifest, _, err = hash(path); err != nil {
		return nil, err
	}
	lines := linesOf(text)
	var whole []byte
	for i := range p.Lines {
		r, err := p.Record(i)
		if err != nil || r == nil || !lines[string(r.line())] {
			return lines, nil // what is wrong has a unit
		}
		whole = append(whole, r.line()...)
	}
	if string(whole) != string(text) {
		return nil, fmt.Errorf("%s: lines that are no unit's, or in another order: want one for each unit; "+
			"merge makes it anew", path)
	}
	return lines, nil
}

// pick returns n units that the dataset's identity chooses, each once.
func (p *Dataset) pick(n int) []int {
	var all []int
	seen := map[int]bool{}
	of := noise.Counter{Seed: p.units.Seed, Operator: apart - 1}
	for k := uint32(0); len(all) < min(n, len(p.Lines)); k++ {
		w := of.Words(k, 0, 0)
		i := int((uint64(w[0]) * uint64(len(p.Lines))) >> 32)
		if !seen[i] {
			seen[i] = true
			all = append(all, i)
		}
	}
	return all
}
