// Package strict reads JSON objects whose keys are all known: what a file says
// is either understood or refused by name, never dropped. Duplicate keys,
// unknown keys and values of another type are errors of one line that name the
// file, the field, the value and what was expected.
package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Object is a JSON object being taken apart. Getters note the first error;
// Close returns it, or an error for keys nobody asked for.
type Object struct {
	file, path string
	raw        map[string]json.RawMessage
	keys       []string // in the order of the file
	asked      map[string]bool
	err        error
}

// Parse reads data as one object. file begins every message; path is the place
// of the object in the file, "" for its root.
func Parse(file, path string, data []byte) (*Object, error) {
	o := &Object{file: file, path: path, raw: map[string]json.RawMessage{}, asked: map[string]bool{}}
	d := json.NewDecoder(bytes.NewReader(data))
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return nil, o.Errorf("", "want a JSON object%s", because(err))
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, o.Errorf("", "broken JSON%s", because(err))
		}
		key := t.(string) // the decoder accepts nothing else before a colon
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, o.Errorf(key, "broken JSON%s", because(err))
		}
		if _, twice := o.raw[key]; twice {
			return nil, o.Errorf(key, "given twice: want it once")
		}
		o.raw[key] = v
		o.keys = append(o.keys, key)
	}
	if _, err := d.Token(); err != nil {
		return nil, o.Errorf("", "broken JSON%s", because(err))
	}
	if _, err := d.Token(); err != io.EOF { // More would not see a second }
		return nil, o.Errorf("", "text after the JSON object: want one object")
	}
	return o, nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + clip(strings.ReplaceAll(err.Error(), "\n", " "), 100)
}

// Errorf returns an error that names the file and the field key of the object.
func (o *Object) Errorf(key, format string, args ...any) error {
	where := o.file + ": "
	if at := o.at(key); at != "" {
		where += at + ": "
	}
	return fmt.Errorf("%s"+format, append([]any{where}, args...)...)
}

// at returns the place of a key in the file.
func (o *Object) at(key string) string { return strings.Trim(o.path+"."+Word(key), ".") }

// Word returns a key as a word of a message: cut to 60 letters, and quoted if it would not
// do as one.
func Word(key string) string {
	if q := strconv.Quote(clip(key, 60)); q != `"`+key+`"` {
		return q
	}
	return key
}

// Fail notes an error about key, as the getters do.
func (o *Object) Fail(key, format string, args ...any) {
	if o.err == nil {
		o.err = o.Errorf(key, format, args...)
	}
}

// Has reports whether key is present with a value other than null.
func (o *Object) Has(key string) bool {
	o.asked[key] = true
	v, ok := o.raw[key]
	return ok && string(v) != "null"
}

func get[T any](o *Object, key, want string, def T) T {
	if !o.Has(key) {
		return def
	}
	var v T
	if err := json.Unmarshal(o.raw[key], &v); err != nil {
		o.Fail(key, "%s: want %s", short(o.raw[key]), want)
		return def
	}
	return v
}

// short returns a value as it stands in the file, on one line.
func short(v json.RawMessage) string {
	return clip(strings.Join(strings.Fields(string(v)), " "), 60)
}

// clip keeps what a hostile file says to a length fit for a message.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most-3] + "..."
	}
	return strings.ToValidUTF8(s, "")
}

// Need notes an error if key is missing or null.
func (o *Object) Need(keys ...string) {
	for _, key := range keys {
		if !o.Has(key) {
			o.Fail(key, "missing: want a value")
		}
	}
}

// Int returns the integer at key, which must lie in [lo,hi], or def if key is
// missing or null.
func (o *Object) Int(key string, def, lo, hi int64) int64 {
	want := fmt.Sprintf("an integer from %d to %d", lo, hi)
	if lo == hi {
		want = fmt.Sprint(lo)
	}
	v := get(o, key, want, def)
	if o.Has(key) && (v < lo || v > hi) {
		o.Fail(key, "%d: want %s", v, want)
		return def
	}
	return v
}

// Seed returns the integer at key as PyTorch reads a seed: 64 bits, negative
// numbers in two's complement; ok is false if key is missing or null.
func (o *Object) Seed(key string) (seed uint64, ok bool) {
	if !o.Has(key) {
		return 0, false
	}
	var u uint64
	if json.Unmarshal(o.raw[key], &u) == nil {
		return u, true
	}
	return uint64(get(o, key, "an integer of 64 bits", int64(0))), true
}

// Float returns the number at key, or def if key is missing or null.
func (o *Object) Float(key string, def float64) float64 {
	return get(o, key, "a finite number", def)
}

// Floats returns the list of numbers at key, or nil.
func (o *Object) Floats(key string) []float64 {
	return list[float64](o, key, "a list of finite numbers")
}

// Raw returns the object at key as it stands in the file, for another reader; nil if
// key is missing or null.
func (o *Object) Raw(key string) []byte {
	if o.Child(key) == nil {
		return nil
	}
	return o.raw[key]
}

// Ints returns the list of integers at key, nil if key is missing or null.
func (o *Object) Ints(key string) []int {
	return list[int](o, key, "a list of integers")
}

// list returns the list at key without nulls, which would pass for zeros or empty
// texts; nil if key is missing or null.
func list[T any](o *Object, key, want string) []T {
	elements := get[[]*T](o, key, want, nil)
	if elements == nil {
		return nil
	}
	v := make([]T, len(elements))
	for i, p := range elements {
		if p == nil {
			o.Fail(key, "%s: want %s", short(o.raw[key]), want)
			return nil
		}
		v[i] = *p
	}
	return v
}

// String returns the text at key, or def if key is missing or null.
func (o *Object) String(key, def string) string {
	return get(o, key, "a string", def)
}

// Bool returns the truth value at key, or def if key is missing or null.
func (o *Object) Bool(key string, def bool) bool {
	return get(o, key, "true or false", def)
}

// Child returns the object at key, or nil if key is missing or null.
func (o *Object) Child(key string) *Object {
	if !o.Has(key) {
		return nil
	}
	c, err := Parse(o.file, o.at(key), o.raw[key])
	if err != nil && o.err == nil {
		o.err = err
	}
	return c
}

// Children returns the objects of the list at key, nil if key is missing or
// null.
func (o *Object) Children(key string) []*Object {
	var all []*Object
	for i, v := range get[[]json.RawMessage](o, key, "a list of objects", nil) {
		c, err := Parse(o.file, fmt.Sprintf("%s[%d]", o.at(key), i), v)
		if err != nil {
			o.Fail(key, "%s: want a list of objects", short(v))
			return nil
		}
		all = append(all, c)
	}
	return all
}

// Strings returns the list of strings at key, nil if key is missing or null.
func (o *Object) Strings(key string) []string {
	return list[string](o, key, "a list of strings")
}

// Ignore marks keys as known although nothing reads them.
func (o *Object) Ignore(keys ...string) {
	for _, k := range keys {
		o.asked[k] = true
	}
}

// Open says that unknown keys of this object are allowed.
func (o *Object) Open() {
	for k := range o.raw {
		o.asked[k] = true
	}
}

// Close returns an error that names an unknown key, which often explains the
// rest, or else the first error noted.
func (o *Object) Close() error {
	var unknown, known []string
	for k := range o.raw {
		if !o.asked[k] {
			unknown = append(unknown, k)
		}
	}
	if len(unknown) == 0 {
		return o.err
	}
	for k := range o.asked {
		known = append(known, Word(k))
	}
	sort.Strings(unknown)
	sort.Strings(known)
	return o.Errorf(unknown[0], "unknown key:%s want one of %s",
		fault.Meant(Word(unknown[0]), known), clip(strings.Join(known, ", "), 150))
}

// Finite reports whether v is neither NaN nor infinite.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// List returns the elements of the list at key as they stand in the file, nil if key is
// missing or null.
func (o *Object) List(key string) []json.RawMessage {
	return list[json.RawMessage](o, key, "a list without nulls")
}

// Keys returns the object's keys in the order of the file.
func (o *Object) Keys() []string { return o.keys }
