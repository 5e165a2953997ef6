package safetensors

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/refrun/refrun/internal/ground/fault"
)

// header is the JSON object at the head of a file. It is read token by token:
// decoding into maps and structs would let the last of two equal names win.
type header struct {
	metadata map[string]string
	entries  []entry
}

// entry is one tensor's line in the header: its data are bytes begin to end-1
// of what follows the header.
type entry struct {
	*Tensor
	begin, end int
}

// headerReader reads the tokens of a header. After json.Valid its decoder
// cannot fail; its errors are passed on all the same.
type headerReader struct {
	path string
	dec  *json.Decoder
}

const metadataKey = "__metadata__"

func readHeader(path string, raw []byte) (*header, error) {
	p := headerReader{path, json.NewDecoder(bytes.NewReader(raw))}
	p.dec.UseNumber()
	switch {
	case len(raw) == 0 || raw[0] != '{':
		return nil, p.wrong("header", fault.Text(string(raw[:min(len(raw), 80)])), "a JSON object, beginning with {")
	case !utf8.Valid(raw):
		return nil, p.wrong("header", "not UTF-8", "a JSON object")
	case !json.Valid(raw): // Token alone would not see what follows the object
		return nil, p.wrong("header", "not JSON", "a JSON object")
	}
	var h header
	err := p.object("header", func(name string) error {
		if name == metadataKey {
			return p.metadata(&h)
		}
		e, err := p.entry(name)
		h.entries = append(h.entries, e)
		return err
	})
	return &h, err
}

func (p *headerReader) metadata(h *header) error {
	h.metadata = map[string]string{}
	return p.object(metadataKey, func(key string) error {
		tok, err := p.dec.Token()
		if err != nil {
			return err
		}
		s, ok := tok.(string)
		if !ok {
			return p.wrong(metadataKey+" "+fault.Text(key), show(tok), "a string")
		}
		h.metadata[key] = s
		return nil
	})
}

func (p *headerReader) entry(name string) (entry, error) {
	e := entry{Tensor: &Tensor{Name: name, Shape: []int{}, path: p.path}}
	missing := []string{"dtype", "shape", "data_offsets"}
	err := p.object(fault.Text(name), func(key string) error {
		missing = slices.DeleteFunc(missing, func(k string) bool { return k == key })
		switch key {
		case "dtype":
			tok, err := p.dec.Token()
			if err != nil {
				return err
			}
			s, ok := tok.(string)
			if !ok {
				return e.wrong(key, show(tok), "a string")
			}
			e.DType = DType(s)
			return nil
		case "shape":
			return p.array(e.Tensor, key, maxRank, func(n int) { e.Shape = append(e.Shape, n) })
		case "data_offsets":
			var at []int
			if err := p.array(e.Tensor, key, 8, func(n int) { at = append(at, n) }); err != nil {
				return err
			}
			if len(at) != 2 {
				return e.wrong(key, fault.Dims(at), "[begin,end]")
			}
			e.begin, e.end = at[0], at[1]
			return nil
		}
		return e.wrong(fault.Text(key), "unknown key", "only dtype, shape and data_offsets")
	})
	if err == nil && len(missing) > 0 {
		err = e.wrong(missing[0], "missing", "dtype, shape and data_offsets")
	}
	return e, err
}

// object reads an object and calls value for each key, to read what belongs to
// it. A key that comes twice is an error.
func (p *headerReader) object(field string, value func(key string) error) error {
	tok, err := p.dec.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		return p.wrong(field, show(tok), "an object")
	}
	seen := map[string]bool{}
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return err
		}
		key := tok.(string) // json.Valid: keys are strings
		if seen[key] {
			return p.wrong(field, fault.Text(key), "each name once")
		}
		if len(seen) == maxNames {
			return p.wrong(field, "more than "+fault.Count(maxNames, "name"), "at most that many")
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	_, err = p.dec.Token()
	return err
}

// maxRank is the number of axes that a tensor may have, as in PyTorch.
const maxRank = 64

// array reads an array of at most so many integers from 0 to the largest int.
func (p *headerReader) array(t *Tensor, field string, most int, element func(n int)) error {
	tok, err := p.dec.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('[') {
		return t.wrong(field, show(tok), "an array of integers")
	}
	for k := 0; p.dec.More(); k++ {
		tok, err := p.dec.Token()
		if err != nil {
			return err
		}
		if k == most {
			return t.wrong(field, "more than "+fault.Count(most, "number"), "at most that many")
		}
		num, _ := tok.(json.Number)
		n, err := strconv.ParseUint(num.String(), 10, strconv.IntSize-1)
		if err != nil {
			return t.wrong(field, show(tok), "integers from 0 to 2^"+strconv.Itoa(strconv.IntSize-1)+"-1")
		}
		element(int(n))
	}
	_, err = p.dec.Token()
	return err
}

func (p *headerReader) wrong(field, value, want string) error {
	return &failure{Path: p.path, Field: field, Value: value, Want: want}
}

// show describes a token that was not expected.
func show(tok json.Token) string {
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return fault.Text(v)
	case json.Number:
		return fault.Clip(v.String())
	case bool:
		return strconv.FormatBool(v)
	}
	return "null"
}
