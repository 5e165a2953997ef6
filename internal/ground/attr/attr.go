// Package attr reads the attributes of operations, JSON objects that people write.
package attr

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Read sets what attributes, a JSON object, name in the struct or map that to points to.
// Nothing else may be in them. An error is one line with the attribute, its value and what is wanted.
func Read(attributes []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(attributes))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(attributes, &all) != nil {
		return fmt.Errorf("attributes: %.60q: want a JSON object", attributes)
	}
	of := reflect.TypeOf(to).Elem()
	known := named(of)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if known != nil && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			return fmt.Errorf("%.60q: no such attribute: want %s", name, or(known))
		}
		alone, _ := json.Marshal(map[string]json.RawMessage{name: all[name]})
		if err := json.Unmarshal(alone, reflect.New(of).Interface()); err != nil {
			return mistyped(name, all[name], err)
		}
	}
	return err
}

// mistyped is the error of an attribute with a value of another kind.
func mistyped(name string, value json.RawMessage, err error) error {
	var of *json.UnmarshalTypeError
	if !errors.As(err, &of) { // of a type that reads itself, which names its attribute
		return err
	}
	want := of.Type.String()
	switch of.Type.Kind() {
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	case reflect.Float64:
		want = "a number"
	case reflect.Bool:
		want = "true or false"
	case reflect.String:
		want = "a string"
	case reflect.Slice:
		want = "a list"
	case reflect.Map, reflect.Struct:
		want = "an object"
	}
	var flat bytes.Buffer
	if json.Compact(&flat, value) != nil {
		flat.Reset()
	}
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || name == "" {
		name = quoted
	}
	return fmt.Errorf("%.60s: %.60s: want %s", name, clean(flat.String()), want)
}

// named returns the names of the attributes that a struct has, sorted; nil of a map, which has any.
func named(of reflect.Type) []string {
	if of.Kind() != reflect.Struct {
		return nil
	}
	names := []string{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, named(f.Type)...)
		case f.IsExported() && name != "-":
			names = append(names, cmp.Or(name, f.Name))
		}
	}
	slices.Sort(names)
	return names
}

// or writes names for an error.
func or(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// clean is text of a file without what would move a terminal's cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
