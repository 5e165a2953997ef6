package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// Header returns what stands before the data in a file of these tensors: the
// length and the JSON object, filled up with spaces to a multiple of 8. The
// elements are not looked at and may be missing, so that a file can be written
// while they are computed. Tensors keep their order; a reader that maps the
// file finds every element aligned if wider types come first.
//
// Names must be unique, in UTF-8, and not "__metadata__".
func Header(tensors []*Tensor, metadata map[string]string) ([]byte, error) {
	if n := max(len(tensors)+1, len(metadata)); n > maxNames { // and the metadata's own name
		return nil, &failure{Field: "names", Value: strconv.Itoa(n), Want: "at most " + strconv.Itoa(maxNames)}
	}
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	if len(metadata) > 0 {
		for k, v := range metadata {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return nil, &failure{Field: metadataKey + " " + fault.Text(k), Value: fault.Text(v), Want: "UTF-8"}
			}
		}
		fmt.Fprintf(&b, "%q:%s,", metadataKey, toJSON(metadata))
	}
	seen := map[string]bool{metadataKey: true}
	at := 0
	for _, t := range tensors {
		size, err := t.size()
		switch {
		case err != nil:
			return nil, err
		case seen[t.Name] || !utf8.ValidString(t.Name):
			return nil, t.wrong("name", fault.Text(t.Name), "UTF-8, each name once, none "+metadataKey)
		case size > math.MaxInt-at:
			return nil, t.wrong("shape", fault.Dims(t.Shape), "a file of fewer bytes than an int counts")
		}
		seen[t.Name] = true
		fmt.Fprintf(&b, `%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]},`,
			toJSON(t.Name), t.DType, toJSON(append([]int{}, t.Shape...)), at, at+size)
		at += size
	}
	if b.Bytes()[b.Len()-1] == ',' {
		b.Truncate(b.Len() - 1)
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if n := b.Len() - 8; n > maxHeader {
		return nil, &failure{Field: "header length", Value: strconv.Itoa(n), Want: "at most " + strconv.Itoa(maxHeader)}
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	return b.Bytes(), nil
}

// Write writes a file of these tensors, in this order, to w. See [Header] for
// what it asks of them.
func Write(w io.Writer, tensors []*Tensor, metadata map[string]string) error {
	head, err := Header(tensors, metadata)
	if err != nil {
		return err
	}
	for _, t := range tensors {
		// The fields are open to change since New.
		if size, _ := t.size(); size != len(t.raw) {
			return t.wrong("data", fault.Count(len(t.raw), "byte"), fault.Count(size, "byte"))
		}
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range tensors {
		if _, err := w.Write(t.raw); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile is [Write] to path, whole or not at all, and durably.
func WriteFile(path string, tensors []*Tensor, metadata map[string]string) error {
	err := disk.Replace(path, 0o666, func(w io.Writer) error { return Write(w, tensors, metadata) })
	if e, ok := err.(*failure); ok {
		e.Path = path
	}
	return err
}

// toJSON encodes what cannot fail: strings, and slices and maps of them.
func toJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("safetensors: header: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
