package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/refrun/refrun/rollout"
)

// readConfig reads what to run from a YAML or JSON file with the fields of a
// case.json. Errors name the line of the field they are about.
func readConfig(path string) (*rollout.Case, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a YAML or JSON file", path, cause(err))
	}
	return parseConfig(path, data)
}

// parseConfig reads the text of a configuration; path is what messages call it.
func parseConfig(path string, data []byte) (*rollout.Case, error) {
	var root, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(&root)
	if err == nil && d.Decode(&second) != io.EOF {
		return nil, fmt.Errorf("%s: text after the first document: want one document", path)
	}
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %s", path, strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: "))
	}
	if len(root.Content) == 0 {
		return nil, fmt.Errorf("%s: empty: want operator and rollout", path)
	}
	lines := map[string]int{}
	text, err := toJSON(root.Content[0], "", lines, 0)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	cs, err := rollout.ParseCase(path, text)
	if err == nil {
		return cs, nil
	}
	// "FILE: FIELD: ..." becomes "FILE:LINE: FIELD: ...".
	rest := strings.TrimPrefix(err.Error(), path+": ")
	field, _, _ := strings.Cut(rest, ":")
	for name := field; name != ""; name = name[:max(0, strings.LastIndexByte(name, '.'))] {
		if line, ok := lines[name]; ok {
			return nil, fmt.Errorf("%s:%d: %s", path, line, rest)
		}
	}
	return nil, err
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
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("%d: %s: want names as keys", key.Line, at)
			}
			name := strings.Trim(at+"."+key.Value, ".")
			if first, twice := lines[name]; twice {
				return nil, fmt.Errorf("%d: %s: given twice, first on line %d: want it once", key.Line, name, first)
			}
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
		var v any
		err := n.Decode(&v)
		if err == nil {
			var j []byte
			if j, err = json.Marshal(v); err == nil {
				return j, nil
			}
		}
		return nil, fmt.Errorf("%d: %s: %s: want a number, text, true, false or null", n.Line, at, n.Value)
	default:
		return nil, fmt.Errorf("%d: %s: want no anchors and aliases", n.Line, at)
	}
	return []byte(b.String()), nil
}
