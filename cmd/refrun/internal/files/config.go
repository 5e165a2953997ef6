package files

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/rollout"
)

// ReadConfig reads what to run from a YAML or JSON file with the fields of a
// case.json. Errors name the line of the field they are about.
func ReadConfig(path string) (*rollout.Case, error) {
	data, err := ReadText(path)
	if err != nil {
		return nil, err
	}
	return ParseConfig(path, data)
}

// ReadText reads a YAML or JSON file.
func ReadText(path string) ([]byte, error) {
	f, size, err := fault.OpenRegular(path)
	if err == nil {
		defer f.Close()
		if size > MostConfig {
			return nil, fmt.Errorf("%s: %d bytes: want at most %d KiB of YAML or JSON", path, size, MostConfig>>10)
		}
		data := make([]byte, size)
		if _, err = io.ReadFull(f, data); err == nil || size == 0 {
			return data, nil
		}
	}
	if cause := fault.Cause(err); cause != err || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: %w: want a YAML or JSON file", path, cause)
	}
	return nil, err
}

// MostConfig is how long a configuration may be: an operator of a thousand nodes is a
// fifth of it, and the parser makes a few hundred bytes of one.
const MostConfig = 512 << 10

// yaml12 is the directive of YAML 1.2, which the parser refuses although it knows
// what a configuration needs of that version.
var yaml12 = regexp.MustCompile(`\A(\x{feff}?(?:\s*(?:[%#].*)?\n)*?%YAML[ \t]+1)\.2\b`)

// ParseConfig reads the text of a configuration; path is what messages call it.
func ParseConfig(path string, data []byte) (*rollout.Case, error) {
	text, lines, err := ParseYAML(path, data, "operator and rollout")
	if err != nil {
		return nil, err
	}
	cs, err := rollout.ParseCase(path, text)
	if err != nil {
		return nil, lines.Place(path, err)
	}
	return cs, nil
}

// linesOf are the lines on which the fields of a file stand.
type linesOf map[string]int

// Place adds the line to an error about a field: "FILE: FIELD: ..." becomes
// "FILE:LINE: FIELD: ...".
func (l linesOf) Place(path string, err error) error {
	rest := strings.TrimPrefix(err.Error(), path+": ")
	field, _, _ := strings.Cut(rest, ":")
	for name := field; name != ""; name = name[:max(0, strings.LastIndexByte(name, '.'))] {
		for _, at := range []string{name, "space." + name} { // of a dataset a value may come from its space
			if line, ok := l[at]; ok {
				return fmt.Errorf("%s:%d: %s", path, line, rest)
			}
		}
	}
	return err
}

// ParseYAML rewrites a text, of one object with what is wanted, as JSON.
func ParseYAML(path string, data []byte, wanted string) (json.RawMessage, linesOf, error) {
	// The parser compares each with all before it.
	if n := bytes.Count(data, []byte("%TAG")); n > 100 {
		return nil, nil, fmt.Errorf("%s: %%TAG: %d of them: want no directives but %%YAML", path, n)
	}
	var root, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(yaml12.ReplaceAll(data, []byte("${1}.1"))))
	err := d.Decode(&root)
	if err == nil && d.Decode(&second) != io.EOF {
		return nil, nil, fmt.Errorf("%s: text after the first document: want one document", path)
	}
	if err != nil && err != io.EOF {
		what := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
		if what == "found incompatible YAML document" {
			return nil, nil, fmt.Errorf("%s: %%YAML: another version: want 1.1 or 1.2", path)
		}
		return nil, nil, fmt.Errorf("%s: %s: want YAML or JSON", path, what)
	}
	switch {
	case len(root.Content) == 0, root.Content[0].ShortTag() == "!!null":
		return nil, nil, fmt.Errorf("%s: empty: want %s", path, wanted)
	case root.Content[0].Kind != yaml.MappingNode:
		return nil, nil, fmt.Errorf("%s:%d: not an object: want one with %s", path, root.Content[0].Line, wanted)
	}
	at := linesOf{}
	text, err := toJSON(root.Content[0], "", at, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%s:%w", path, err)
	}
	return text, at, nil
}

// toJSON rewrites a YAML document as JSON, noting the line of every field.
// Anchors and aliases are refused: they can make a small file huge.
func toJSON(n *yaml.Node, at string, lines map[string]int, depth int) ([]byte, error) {
	if depth > 32 {
		list, _, _ := strings.Cut(at, "[")
		return nil, fmt.Errorf("%d: %s: nested too deeply", n.Line, list)
	}
	var b strings.Builder
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		first := map[string]int{}
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("%d: %s: want names as keys", key.Line, cmp.Or(at, "root"))
			}
			name := strings.Trim(at+"."+key.Value, ".")
			if line, twice := first[key.Value]; twice {
				return nil, fmt.Errorf("%d: %s: given twice, first on line %d: want it once", key.Line, name, line)
			}
			first[key.Value] = key.Line
			lines[name] = key.Line
			v, err := toJSON(value, name, lines, depth+1)
			if err != nil {
				return nil, err
			}
			k, _ := json.Marshal(key.Value)
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(k)
			b.WriteByte(':')
			b.Write(v)
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, c := range n.Content {
			name := fmt.Sprintf("%s[%d]", at, i)
			lines[name] = c.Line
			v, err := toJSON(c, name, lines, depth+1)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(v)
		}
		b.WriteByte(']')
	case yaml.ScalarNode:
		return scalar(n, at)
	default:
		return nil, fmt.Errorf("%d: %s: want no anchors and aliases", n.Line, at)
	}
	return []byte(b.String()), nil
}

// scalar rewrites a scalar. A number stays as it is written, so that what wants
// an integer sees whether it is one. What other readers take for another number,
// such as 010, which is 8 or 10 by version, is refused.
func scalar(n *yaml.Node, at string) ([]byte, error) {
	tag, text := n.ShortTag(), strings.TrimPrefix(n.Value, "+")
	switch {
	case tag == "!!timestamp": // a text, as JSON has no dates
		return json.Marshal(n.Value)
	case tag != "!!int" && tag != "!!float":
	case decimal.MatchString(text):
		return []byte(text), nil
	case tag == "!!int", leadingZero.MatchString(text):
		return nil, fmt.Errorf("%d: %s: %s: want a decimal number without leading zeros and underscores", n.Line, at, n.Value)
	}
	var v any
	err := n.Decode(&v)
	if err == nil {
		var j []byte
		if j, err = json.Marshal(v); err == nil {
			return j, nil
		}
	}
	return nil, fmt.Errorf("%d: %s: %s: want a number, text, true, false or null", n.Line, at, n.Value)
}

var (
	decimal     = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`) // a number of JSON
	leadingZero = regexp.MustCompile(`^-?0[0-9_]`)
)
