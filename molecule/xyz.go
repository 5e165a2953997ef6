package molecule

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
)

func digits(n int) string { return strconv.Itoa(n) }

func sorted(of map[string]int) []string { return slices.Sorted(maps.Keys(of)) }

// ReadXYZ reads molecules of a file in the extended XYZ format, as ASE writes it: for each one a line with
// the number of atoms, a line of keys and values, and a line for each atom. Its Properties say what the
// columns are; without, as in a plain XYZ file, they are the symbol and the position. The columns species
// (or Z), pos and forces are read, and the key energy; other keys are kept as Info, and other columns are
// not. A cell stays in Info and has no effect on energies; with pbc that is true for an axis the file is an
// error, as images of atoms are not supported. file names it in errors, which have the line.
func ReadXYZ(file string, data []byte) ([]*Molecule, error) {
	r := &xyz{file: file, rest: data}
	var all []*Molecule
	for {
		line, ok := r.next()
		for ok && strings.TrimSpace(line) == "" { // lines between and after molecules
			line, ok = r.next()
		}
		if !ok {
			break
		}
		m, err := r.molecule(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no molecule: want a line with the number of atoms first", file)
	}
	return all, nil
}

// xyz reads a file line by line.
type xyz struct {
	file string
	rest []byte
	line int
}

func (r *xyz) next() (string, bool) {
	if len(r.rest) == 0 {
		return "", false
	}
	line, rest, _ := bytes.Cut(r.rest, []byte("\n"))
	r.rest = rest
	r.line++
	return string(bytes.TrimSuffix(line, []byte("\r"))), true
}

func (r *xyz) fail(format string, args ...any) error {
	return fmt.Errorf("%s: line %d: %s", r.file, r.line, fmt.Sprintf(format, args...))
}

// molecule reads one, whose first line is given.
func (r *xyz) molecule(first string) (*Molecule, error) {
	n, err := strconv.Atoi(first)
	if err != nil || n < 0 {
		return nil, r.fail("%.40q: want the number of atoms", first)
	}
	comment, _ := r.next()
	entries, err := entriesOf(comment)
	if err != nil {
		return nil, r.fail("%s", err)
	}
	m := new(Molecule)
	columns := defaultColumns
	for _, e := range entries {
		switch strings.ToLower(e.Key) {
		case "properties":
			if columns, err = columnsOf(e.Value); err != nil {
				return nil, r.fail("Properties: %s", err)
			}
			continue
		case "energy":
			v, err := number(e.Value)
			if err != nil {
				return nil, r.fail("energy: %s", err)
			}
			m.Energy = &v
			continue
		case "pbc":
			if strings.ContainsAny(strings.ToUpper(e.Value), "T1") {
				return nil, r.fail("pbc: %.40q: a periodic cell: want molecules", e.Value)
			}
		}
		m.Info = append(m.Info, e)
	}
	for i := range n {
		line, ok := r.next()
		if !ok {
			return nil, r.fail("%d atoms: want %d", i, n)
		}
		if err := m.atom(strings.Fields(line), columns); err != nil {
			return nil, r.fail("%s", err)
		}
	}
	return m, nil
}

// column is a property of atoms: so many fields of a line.
type column struct {
	name  string
	count int
}

var defaultColumns = []column{{"species", 1}, {"pos", 3}}

// columnsOf reads a value of Properties, such as species:S:1:pos:R:3.
func columnsOf(value string) ([]column, error) {
	parts := strings.Split(value, ":")
	var of []column
	have := map[string]int{}
	for k := 0; k+2 < len(parts); k += 3 {
		n, err := strconv.Atoi(parts[k+2])
		if err != nil || n < 1 || n > 1<<16 {
			return nil, fmt.Errorf("%.40q: want a number of columns", parts[k+2])
		}
		if have[parts[k]] > 0 {
			return nil, fmt.Errorf("%.60q: %.40q twice: want each column once", value, parts[k])
		}
		of = append(of, column{parts[k], n})
		have[parts[k]] = n
	}
	switch {
	case len(parts)%3 != 0:
		return nil, fmt.Errorf("%.60q: want name:type:columns of each", value)
	case have["pos"] != 3:
		return nil, fmt.Errorf("%.60q: want pos:R:3", value)
	case have["species"] != 1 && have["Z"] != 1:
		return nil, fmt.Errorf("%.60q: want species:S:1 or Z:I:1", value)
	case have["forces"] != 0 && have["forces"] != 3:
		return nil, fmt.Errorf("%.60q: want forces:R:3", value)
	}
	return of, nil
}

// atom adds an atom of the fields of a line.
func (m *Molecule) atom(fields []string, columns []column) error {
	want := 0
	for _, c := range columns {
		want += c.count
	}
	if len(fields) < want || len(fields) > want && !slices.Equal(columns, defaultColumns) {
		return fmt.Errorf("%d fields: want %d", len(fields), want)
	}
	known := false
	for _, c := range columns {
		of := fields[:c.count]
		fields = fields[c.count:]
		switch c.name {
		case "species", "Z":
			z, ok := numberOf[of[0]]
			if !ok {
				var err error
				if z, err = strconv.Atoi(of[0]); err != nil || z < 0 || z > 1<<20 {
					return fmt.Errorf("%.40q: want a chemical symbol or an atomic number", of[0])
				}
			}
			if !known {
				m.Numbers = append(m.Numbers, z)
			}
			known = true
		case "pos", "forces":
			to := &m.Positions
			if c.name == "forces" {
				to = &m.Forces
			}
			for _, f := range of {
				v, err := number(f)
				if err != nil {
					return err
				}
				*to = append(*to, v)
			}
		}
	}
	return nil
}

// number reads one, NaN and infinities too.
func number(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.NewReplacer("d", "e", "D", "E").Replace(s), 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q: want a number", s)
	}
	return v, nil
}

// entriesOf reads keys and values: key=value, key="value with blanks", key={value}, or a key alone,
// which is true. What is no such line, as in plain XYZ files, is one entry without a key.
func entriesOf(line string) ([]Entry, error) {
	var of []Entry
	if !strings.Contains(line, "=") {
		if text := strings.TrimSpace(line); text != "" {
			of = append(of, Entry{"", text})
		}
		return of, nil
	}
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		key, after, err := token(rest, "= \t")
		if err != nil {
			return nil, err
		}
		after = strings.TrimLeft(after, " \t")
		value, is := strings.CutPrefix(after, "=")
		if !is {
			of, rest = append(of, Entry{key, "T"}), after
			continue
		}
		v, after, err := token(strings.TrimLeft(value, " \t"), " \t")
		if err != nil {
			return nil, err
		}
		of, rest = append(of, Entry{key, v}), after
	}
	return of, nil
}

// token returns what stands before one of the ends, or between quotes or braces, and what follows.
func token(s, ends string) (of, rest string, err error) {
	if s == "" {
		return "", "", nil
	}
	closing, quoted := map[byte]byte{'"': '"', '\'': '\'', '{': '}', '[': ']'}[s[0]]
	if !quoted {
		i := strings.IndexAny(s, ends)
		if i < 0 {
			i = len(s)
		}
		if i == 0 {
			return "", "", fmt.Errorf("%.40q: want key=value", s)
		}
		return s[:i], s[i:], nil
	}
	if s[0] == '[' { // lists of lists
		depth := 0
		for i := range len(s) {
			switch s[i] {
			case '[':
				depth++
			case ']':
				depth--
			}
			if depth == 0 {
				return s[:i+1], s[i+1:], nil
			}
		}
		return "", "", fmt.Errorf("%.40q: want a closing ]", s)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && closing == '"':
			i++
			b.WriteByte(s[i])
		case s[i] == closing:
			return b.String(), s[i+1:], nil
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", fmt.Errorf("%.40q: want a closing %c", s, closing)
}

// WriteXYZ writes molecules in the extended XYZ format, with energies and forces where they are, so that
// ASE reads them. Numbers have as many digits as say which one of the format they are.
func WriteXYZ(w io.Writer, all []*Molecule, f fp16.Format) error {
	for _, m := range all {
		if err := m.write(w, f); err != nil {
			return err
		}
	}
	return nil
}

func (m *Molecule) write(w io.Writer, f fp16.Format) error {
	bits := 32
	if f == fp16.Float64 {
		bits = 64
	}
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, bits) }
	var b strings.Builder
	fmt.Fprintf(&b, "%d\nProperties=species:S:1:pos:R:3", len(m.Numbers))
	if m.Forces != nil {
		b.WriteString(":forces:R:3")
	}
	if m.Energy != nil {
		fmt.Fprintf(&b, " energy=%s", text(*m.Energy))
	}
	for _, e := range m.Info {
		key := e.Key
		if key == "" {
			key = "comment"
		}
		fmt.Fprintf(&b, " %s=%s", quoted(key), quoted(e.Value))
	}
	b.WriteByte('\n')
	for i, z := range m.Numbers {
		symbol := symbol(z)
		if symbol == symbols[0] && z != 0 {
			symbol = digits(z)
		}
		b.WriteString(symbol)
		for _, v := range m.Positions[3*i : 3*i+3] {
			b.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64))
		}
		if m.Forces != nil {
			for _, v := range m.Forces[3*i : 3*i+3] {
				b.WriteString(" " + text(v))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// quoted is a text as a key or a value of a comment line.
func quoted(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t=\"'{}\\") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Finite returns an error that names the first position that is not finite.
func (m *Molecule) Finite() error {
	for i, v := range m.Positions {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("atom %d: position %v: want finite numbers", i/3, v)
		}
	}
	return nil
}
