package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/attr"
)

// entry is a registered operation.
type entry struct {
	casts casts
	bind  func(attributes []byte) (Op, error)
}

// registry holds every operation by its name.
var registry = map[string]entry{}

// register makes an operation known, with its default attributes and what autocast
// makes of it. The exported fields of its type, or those of their json tags, are the
// names of its attributes. It is for functions init.
func register(defaults Op, c casts) {
	bind(defaults.Name(), c, func(attributes []byte) (Op, error) {
		op := reflect.New(reflect.TypeOf(defaults)) // by reflection, as code for each type would be 70 KB
		op.Elem().Set(reflect.ValueOf(defaults))
		if err := attr.Read(attributes, op.Interface()); err != nil {
			return nil, err
		}
		return op.Elem().Interface().(Op), nil
	})
}

// bind makes an operation known by a name, with a function that binds its attributes,
// a JSON object.
func bind(name string, c casts, f func(attributes []byte) (Op, error)) {
	if _, twice := registry[name]; twice {
		panic("graph: " + name + " is registered twice")
	}
	registry[name] = entry{c, f}
}

// Names returns the names of all operations, sorted: ATen's, or ONNX's where ATen has
// none.
func Names() []string { return slices.Sorted(maps.Keys(registry)) }

// Bind returns the operation of that name with its attributes, a JSON object; nil for
// the defaults. An unknown name, an unknown attribute and a value of another kind are
// errors. Whether the values fit is checked by [Op.Infer], which knows the inputs.
func Bind(name string, attributes []byte) (Op, error) {
	e, ok := registry[name]
	if !ok {
		return nil, fmt.Errorf("unknown operation %.60q: want a registered one, such as %s", name, near(name))
	}
	if len(attributes) == 0 {
		attributes = []byte("{}")
	}
	if !json.Valid(attributes) {
		return nil, fmt.Errorf("%s: attributes: %.60q: want a JSON object", name, attributes)
	}
	op, err := e.bind(attributes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, short{err})
	}
	return op, nil
}

// short is an error whose line is not too long, whatever names it repeats.
type short struct{ error }

func (e short) Error() string {
	s := e.error.Error()
	if len(s) > 300 {
		return strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}

func (e short) Unwrap() error { return e.error }

// near returns the registered name that is most like another: with the most pairs of
// neighbouring letters in common, for its length.
func near(name string) string {
	pairs := func(s string) map[string]bool {
		of := map[string]bool{}
		for i := range len(s) - 1 {
			of[s[i:i+2]] = true
		}
		return of
	}
	wanted, best, most := pairs(name[:min(len(name), 60)]), "conv2d", 0.0
	for _, n := range Names() {
		common, all := 0, len(wanted)
		for p := range pairs(n) {
			if wanted[p] {
				common++
			} else {
				all++
			}
		}
		if s := float64(common) / float64(max(all, 1)); s > most {
			best, most = n, s
		}
	}
	return best
}

// Ints is an attribute of whole numbers, one for each axis. A single number, in JSON
// without brackets too, stands for all axes; none for the default.
type Ints []int

// UnmarshalJSON reads a number, a list of them, or null for the default.
func (v *Ints) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*v = nil
		return nil
	}
	if len(b) > 0 && b[0] == '[' {
		*v = nil // not the memory of a default
		return json.Unmarshal(b, (*[]int)(v))
	}
	*v = make(Ints, 1)
	return json.Unmarshal(b, &(*v)[0])
}

// each returns the attribute for that many axes, or an error that names it.
func (v Ints) each(name string, axes, otherwise int) ([]int, error) {
	all := make([]int, axes)
	for i := range all {
		switch len(v) {
		case 0:
			all[i] = otherwise
		case 1:
			all[i] = v[0]
		case axes:
			all[i] = v[i]
		default:
			return nil, fmt.Errorf("%s: %d numbers: want 1, or %d, one for each axis", name, len(v), axes)
		}
	}
	return all, nil
}

// axis returns an axis of a tensor of that rank, counted from the end if it is
// negative, or an error.
func axis(name string, a, rank int) (int, error) {
	if a < -rank || a >= rank {
		return 0, fmt.Errorf("%s: %d: want an axis of rank %d, %d to %d", name, a, rank, -rank, rank-1)
	}
	if a < 0 {
		a += rank
	}
	return a, nil
}

// arity returns an error unless there are that many inputs.
func arity(in []Type, least, most int) error {
	switch {
	case least <= len(in) && len(in) <= most:
		return nil
	case least == most:
		return fmt.Errorf("%d inputs: want %d", len(in), least)
	}
	return fmt.Errorf("%d inputs: want %d to %d", len(in), least, most)
}

// real returns an error if an input is of whole numbers.
func real(in []Type) error {
	for k, t := range in {
		if t.Format == fp16.Int64 {
			return fmt.Errorf("input %d: int64 numbers: want floating-point ones", k)
		}
	}
	return nil
}

// shown writes the sizes of a file for an error: the first eight.
func shown(sizes []int) string {
	const most = 8
	if len(sizes) <= most {
		return fmt.Sprint(sizes)
	}
	first := fmt.Sprint(sizes[:most])
	return fmt.Sprintf("%s ... and %d more]", first[:len(first)-1], len(sizes)-most)
}
