package hdf5

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/refrun/refrun/internal/ground/fault"
)

// attribute is a named value, encoded; strings wait for their place in the heap.
type attribute struct {
	name        string
	kind, space []byte // datatype and dataspace messages
	data        []byte
	strings     []string
}

// Attr attaches a value to the group or dataset at path; a group that is
// missing comes into being. value is a string, a bool, an int, an int64, a float64 or
// a slice of one of these. Strings must be UTF-8 without NUL and are stored with
// variable length, which h5py reads as str.
func (w *Writer) Attr(path, name string, value any) error {
	where := fault.Text(path) + " attribute " + fault.Text(name)
	wrong := func(value, want string) error { return &Error{Field: where, Value: value, Want: want} }
	if w.done {
		return wrong("set", "nothing after Finish")
	}
	if path == "/" {
		path = "" // as the root is called here
	}
	if name == "" || len(name) > 4096 || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' }) {
		return wrong("name", "1 to 4096 characters of printable ASCII")
	}
	if slices.ContainsFunc(w.attrs[path], func(a attribute) bool { return a.name == name }) {
		return wrong("set again", "each name once")
	}
	a := attribute{name: name}
	var shape []int
	switch v := value.(type) {
	case string:
		a.strings = []string{v}
	case []string:
		a.strings, shape = v, []int{len(v)}
	case int:
		a.ints(int64(v))
	case int64:
		a.ints(v)
	case []int:
		for _, x := range v {
			a.ints(int64(x))
		}
		shape = []int{len(v)}
	case []int64:
		a.ints(v...)
		shape = []int{len(v)}
	case bool:
		a.bools(v)
	case []bool:
		a.bools(v...)
		shape = []int{len(v)}
	case float64:
		a.data = Float64.append(nil, []float64{v})
	case []float64:
		a.data, shape = Float64.append(nil, v), []int{len(v)}
	}
	switch value.(type) {
	case string, []string:
		for _, s := range a.strings {
			if !utf8.ValidString(s) || strings.ContainsRune(s, 0) || len(s) > math.MaxInt32 {
				return wrong(fault.Text(s), "UTF-8 of at most 2 GiB, without NUL")
			}
		}
		if n := w.texts + len(a.strings); n > math.MaxUint16 {
			return wrong(fault.Count(n, "string")+" in the file", fmt.Sprint("at most ", math.MaxUint16))
		}
		a.kind, a.data = stringType, make([]byte, 16*len(a.strings))
	case int, int64, []int, []int64:
		a.kind = Int64.message()
	case bool, []bool:
		a.kind = boolType
	case float64, []float64:
		a.kind = Float64.message()
	default:
		return wrong(fmt.Sprintf("%T", value), "a string, bool, int, int64, float64 or a slice of these")
	}
	a.space = dataspace(shape)
	if n := len(a.message()); n > 65528 {
		return wrong(fault.Count(n, "byte"), "at most 65528 (a longer text fits as one string)")
	}
	if path != "" && w.datasets[path] == nil && !w.taken[path] {
		if err := w.enter(path, false); err != nil {
			return err
		}
	}
	w.texts += len(a.strings)
	w.attrs[path] = append(w.attrs[path], a)
	return nil
}

func (a *attribute) bools(v ...bool) {
	for _, x := range v {
		b := byte(0)
		if x {
			b = 1
		}
		a.data = append(a.data, b)
	}
}

func (a *attribute) ints(v ...int64) {
	for _, x := range v {
		a.data = le.AppendUint64(a.data, uint64(x))
	}
}

// Finish completes the file: it writes the index of the chunks, the groups and
// the attributes, and when all that is durable the superblock, without which
// nothing opens the file. Elements that were never written are an error, after
// which the file can still be continued. Closing the file, and giving it its
// name, are left to the caller.
func (w *Writer) Finish() error {
	if w.done {
		return nil
	}
	for _, d := range w.order {
		if d.left > 0 {
			what := "chunk"
			if d.Chunk == nil {
				what = "element"
			}
			return d.wrong("data", fault.Count(d.left, what)+" not written", "every "+what+" written")
		}
	}
	if err := w.clearPadding(); err != nil {
		return err
	}
	t := &tail{f: w.f, end: w.end}
	root, scratch := w.metadata(t)
	if t.err == nil {
		t.err = w.f.Truncate(t.end)
	}
	if t.err == nil {
		t.err = w.f.Sync()
	}
	if t.err != nil {
		return t.err
	}
	b := []byte(signature)
	b = append(b, 0, 0, 0, 0, 0, 8, 8, 0) // versions; sizes of offsets and lengths
	b = le.AppendUint16(b, leafFanout/2)
	b = le.AppendUint16(b, groupFanout/2)
	b = le.AppendUint32(b, 0)             // flags
	b = le.AppendUint64(b, 0)             // base address
	b = le.AppendUint64(b, undefined)     // free space
	b = le.AppendUint64(b, uint64(t.end)) // end of file
	b = le.AppendUint64(b, undefined)     // driver
	b = symbol(b, 0, root, scratch)
	if _, err := w.f.WriteAt(b, 0); err != nil {
		return err
	}
	w.done = true
	return w.f.Sync()
}

// metadata writes all that follows the elements and returns the address of the
// root group and its symbol table message.
func (w *Writer) metadata(t *tail) (root uint64, scratch []byte) {
	t.end = (t.end + 7) &^ 7
	w.strings(t)
	address := map[string]uint64{}
	children := map[string][]string{}
	enter := func(path string, at uint64) {
		cut := strings.LastIndexByte(path, '/')
		address[path] = at
		children[path[:cut]] = append(children[path[:cut]], path[cut+1:])
	}
	for _, d := range w.order {
		enter(d.Path, t.dataset(d, w.attrs[d.Path]))
	}
	for _, v := range w.words {
		enter(v.path, t.words(v, w.attrs[v.path]))
	}
	if len(w.views) > 0 {
		heap := t.heap(mappings(w.views))
		for i, v := range w.views {
			enter(v.path, t.view(v, heap, i+1, w.attrs[v.path]))
		}
	}
	var paths []string
	for p := range w.groups {
		paths = append(paths, p)
	}
	// Deeper groups first: a parent holds the addresses of its children.
	slices.Sort(paths)
	slices.Reverse(paths)
	for _, p := range paths {
		names := children[p]
		slices.Sort(names)
		scratch = t.symbols(names, func(name string) uint64 { return address[p+"/"+name] })
		root = t.header([]message{{msgSymbolTable, scratch}}, w.attrs[p])
		if p != "" {
			enter(p, root)
		}
	}
	return root, scratch // of the last, the shortest path
}

// strings writes all strings of the attributes into one global heap and
// completes the attributes' data with their places in it.
func (w *Writer) strings(t *tail) {
	var all []string
	for _, p := range slices.Sorted(maps.Keys(w.attrs)) {
		for _, a := range w.attrs[p] {
			for i, s := range a.strings {
				ref := a.data[16*i:]
				clear(ref[:16]) // what an empty string is
				if s == "" {
					continue
				}
				all = append(all, s)
				le.PutUint32(ref, uint32(len(s)))
				le.PutUint64(ref[4:], uint64(t.end))
				le.PutUint32(ref[12:], uint32(len(all)))
			}
		}
	}
	if len(all) > 0 {
		t.heap(all)
	}
}

// heap writes a global heap of objects, which have the numbers 1, 2, ..., and returns its
// address.
func (t *tail) heap(objects []string) uint64 {
	b := make([]byte, 16)
	copy(b, "GCOL\x01")
	for i, s := range objects {
		b = le.AppendUint16(b, uint16(i+1))
		b = append(b, 0, 0, 0, 0, 0, 0) // reference count, reserved
		b = le.AppendUint64(b, uint64(len(s)))
		b = pad(append(b, s...))
	}
	if free := 4096 - len(b); free > 0 { // the least size of a heap
		b = append(b, make([]byte, free)...)
		if free >= 16 {
			le.PutUint64(b[4096-free+8:], uint64(free))
		}
	}
	le.PutUint64(b[8:], uint64(len(b)))
	return t.add(b)
}
