package dataset

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// Dataset is a dataset that is to be made in a folder: plan.json, which says what it is, and
// plan.jsonl, a line for each unit. Neither is ever changed.
type Dataset struct {
	Head
	Dir   string
	Lines []Line
	units *Units
}

// Head is what plan.json says.
type Head struct {
	Format   int    `json:"plan"` // 1
	Contract string `json:"contract"`
	MadeBy   string `json:"made_by"`
	Name     string `json:"name"`
	Units    int    `json:"units"`
	Shards   int    `json:"shards"`
	// Identity is the SHA-256 of the units' identities in order: that of the dataset's
	// numbers, by which a paper cites it.
	Identity string `json:"identity"`
	Lines    string `json:"plan_jsonl_sha256"`
	// Rate is the GFLOP a second of the machine that made the plan, on which its
	// predicted seconds rest. No number of the dataset depends on it.
	Rate  float64         `json:"gflop_per_second"`
	Notes []string        `json:"notes,omitempty"`
	Spec  json.RawMessage `json:"spec"`
	Sum   string          `json:"plan_sha256"` // of the same without it
}

// sealed returns the text of plan.json, with its own hash.
func (h Head) sealed() ([]byte, error) {
	h.Sum = ""
	text, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return nil, err
	}
	h.Sum = fmt.Sprintf("%x", sha256.Sum256(text))
	text, err = json.MarshalIndent(h, "", " ")
	return append(text, '\n'), err
}

// Line is what plan.jsonl says of a unit.
type Line struct {
	Unit     int    `json:"unit"`
	Identity string `json:"identity"`
	Cost
	Seconds float64 `json:"seconds"` // predicted
}

const (
	headName     = "plan.json"
	linesName    = "plan.jsonl"
	manifestName = "manifest.jsonl"
	planFormat   = 1
)

// New plans a specification for a folder, which it does not touch: see [Dataset.Write].
// madeBy is the program and its version, rate the GFLOP a second to predict by.
func New(s *Spec, file, dir string, shards int, rate float64, madeBy string) (*Dataset, error) {
	switch {
	case shards < 1 || shards > mostShards:
		return nil, fmt.Errorf("--shards: %d: want 1 to %d", shards, mostShards)
	case !(rate > 0):
		return nil, fmt.Errorf("%v GFLOP a second: want more than 0", rate)
	}
	units, err := s.Units(file)
	if err != nil {
		return nil, err
	}
	p := &Dataset{Dir: dir, units: units, Head: Head{Format: planFormat, Contract: graph.Contract, MadeBy: madeBy,
		Name: s.Name, Units: s.Operators, Shards: min(shards, s.Operators), Rate: rate, Notes: s.Notes, Spec: s.Text}}
	all, lines := sha256.New(), sha256.New()
	for i := range s.Operators {
		l, err := p.line(i)
		if err != nil {
			return nil, err
		}
		p.Lines = append(p.Lines, l)
		fmt.Fprintln(all, l.Identity)
		lines.Write(lineText(l))
	}
	p.Identity, p.Head.Lines = fmt.Sprintf("%x", all.Sum(nil)), fmt.Sprintf("%x", lines.Sum(nil))
	return p, nil
}

// line makes the line of a unit.
func (p *Dataset) line(i int) (Line, error) {
	u, err := p.units.At(i)
	if err != nil {
		return Line{}, err
	}
	c, err := u.Cost()
	return Line{i, u.Identity, c, c.GFLOP / p.Rate}, err
}

func lineText(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of texts and finite numbers
	}
	return append(b, '\n')
}

// Write puts the plan into its folder, which must not hold another one.
func (p *Dataset) Write() error {
	if old, err := Open(p.Dir); err == nil {
		if old.Identity != p.Identity || old.Shards != p.Shards {
			return fmt.Errorf("%s: another plan: want a folder without one", filepath.Join(p.Dir, headName))
		}
		return nil // the same: what was made stays
	} else if _, gone := disk.Lstat(filepath.Join(p.Dir, headName)); !errors.Is(gone, fs.ErrNotExist) {
		return err
	}
	if err := disk.MkdirAll(p.Dir, 0o777); err != nil {
		return fmt.Errorf("%s: %w: want a folder to write to", p.Dir, fault.Cause(err))
	}
	path := filepath.Join(p.Dir, linesName)
	err := disk.Replace(path, 0o666, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		for _, l := range p.Lines {
			b.Write(lineText(l))
		}
		return b.Flush()
	})
	if err == nil {
		path = filepath.Join(p.Dir, headName)
		var text []byte
		if text, err = p.Head.sealed(); err == nil {
			err = disk.WriteFile(path, text, 0o666)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return nil
}

// Open reads the plan in a folder, and compares its lines with the hash of them.
func Open(dir string) (*Dataset, error) {
	path := filepath.Join(dir, headName)
	text, err := readFile(path, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: want a folder that refrun dataset plan made", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	p := &Dataset{Dir: dir}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p.Head); err != nil {
		return nil, fmt.Errorf("%s: %s: want a plan", path, fault.Clip(err.Error()))
	}
	switch {
	case p.Format != planFormat:
		return nil, fmt.Errorf("%s: plan: %d: want %d", path, p.Format, planFormat)
	case p.Contract != graph.Contract:
		return nil, fmt.Errorf("%s: contract: %s: want %s, that of this program",
			path, fault.Text(p.Contract), graph.Contract)
	case !sealedAs(p.Head, text):
		return nil, fmt.Errorf("%s: not the bytes that were written", path)
	case p.Shards < 1 || p.Shards > mostShards || p.Shards > p.Units:
		return nil, fmt.Errorf("%s: shards: %d: want 1 to %d", path, p.Shards, min(mostShards, p.Units))
	}
	s, err := Parse(path, p.Spec)
	if err != nil {
		return nil, err
	}
	if s.Operators != p.Units {
		return nil, fmt.Errorf("%s: units: %d: want %d, as in its specification", path, p.Units, s.Operators)
	}
	if p.units, err = s.Units(path); err != nil {
		return nil, err
	}
	if err := p.readLines(filepath.Join(dir, linesName)); err != nil {
		return nil, err
	}
	return p, nil
}

// readLines reads the lines of a plan, one of each unit.
func (p *Dataset) readLines(path string) error {
	text, err := readFile(path, int64(p.Units+1)*512)
	if err != nil {
		return err
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(text)); sum != p.Head.Lines {
		units, err := p.differing(text)
		if err != nil {
			return err
		}
		return &Damaged{
			path, fmt.Sprintf("SHA-256 %s: want %s, as plan.json says", sum, fault.Text(p.Head.Lines)), units,
		}
	}
	all := sha256.New()
	for line := range bytes.Lines(text) {
		var l Line
		if err := json.Unmarshal(line, &l); err != nil || l.Unit != len(p.Lines) {
			return fmt.Errorf("%s:%d: want unit %d", path, len(p.Lines)+1, len(p.Lines))
		}
		p.Lines = append(p.Lines, l)
		fmt.Fprintln(all, l.Identity)
	}
	if sum := fmt.Sprintf("%x", all.Sum(nil)); len(p.Lines) != p.Units || sum != p.Identity {
		return fmt.Errorf("%s: %d units of the identity %s: want %d of %s",
			path, len(p.Lines), sum, p.Units, fault.Text(p.Identity))
	}
	return nil
}

// Damaged is a plan whose lines are not those that were written.
type Damaged struct {
	Path, What string
	Units      []int // whose lines differ from what the specification makes
}

// Error names the first of the units.
func (d *Damaged) Error() string {
	if len(d.Units) == 0 {
		return fmt.Sprintf("%s: %s", d.Path, d.What)
	}
	return fmt.Sprintf("%s: unit %d: not the line that was written, as of %d units", d.Path, d.Units[0], len(d.Units))
}

// differing returns the units of which a text does not hold the line, which the
// specification makes once more.
func (p *Dataset) differing(text []byte) ([]int, error) {
	lines := linesOf(text)
	var units []int
	for i := range p.Units {
		l, err := p.line(i)
		if err != nil {
			return nil, err
		}
		if !lines[string(lineText(l))] {
			units = append(units, i)
		}
	}
	return units, nil
}

// linesOf returns the lines of a text: one whose end was changed is none of them.
func linesOf(text []byte) map[string]bool {
	all := map[string]bool{}
	for l := range bytes.Lines(text) {
		all[string(l)] = true
	}
	return all
}

func sealedAs(h Head, text []byte) bool {
	is, err := h.sealed()
	return err == nil && bytes.Equal(is, text)
}

// readFile reads a regular file of at most so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, size, err := fault.OpenRegular(path)
	if cause := fault.Cause(err); cause != err {
		return nil, fmt.Errorf("%s: %w", path, cause)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, fmt.Errorf("%s: %d bytes: want at most %d", path, size, most)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil && size > 0 {
		return nil, fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return b, nil
}

// Unit returns unit i, which must be the one that was planned.
func (p *Dataset) Unit(i int) (*Unit, error) {
	u, err := p.units.At(i)
	if err != nil {
		return nil, err
	}
	if u.Identity != p.Lines[i].Identity {
		return nil, fmt.Errorf("%s: unit %d: identity %s: want %s, which this program makes of the specification",
			filepath.Join(p.Dir, linesName), i, fault.Text(p.Lines[i].Identity), u.Identity)
	}
	return u, nil
}

// Costs returns the cost of each unit, by which shards are cut.
func (p *Dataset) Costs() []float64 {
	c := make([]float64, len(p.Lines))
	for i, l := range p.Lines {
		c[i] = l.GFLOP
	}
	return c
}

// place is where the unit's file is.
func (p *Dataset) place(i int) string { return filepath.Join(p.Dir, filepath.FromSlash(p.Path(i))) }

// Path returns the unit's file, without the folder of the plan.
func (p *Dataset) Path(i int) string { return base(i) + p.units.File }

func base(i int) string {
	return filepath.ToSlash(filepath.Join("units", fmt.Sprintf("%05d", i/1000), fmt.Sprintf("%08d", i)))
}
