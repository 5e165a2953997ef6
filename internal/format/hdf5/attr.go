package hdf5

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Attr returns an attribute of the group or dataset at a path: a string, a bool, an
// int64 or a float64, or a slice of one of these if it is an array, whose axes
// are not told. A missing attribute is an error that lists what there is.
func (f *File) Attr(path, name string) (any, error) {
	f.renew()
	h, err := f.find(path)
	if err != nil {
		return nil, err
	}
	var have []link
	for _, m := range h.messages {
		if m.kind != msgAttribute {
			continue
		}
		what := h.name + " attribute"
		c := cursor{b: m.body}
		version, flags := c.byte(), c.byte()
		var parts [3][]byte // name, datatype, dataspace
		var sizes [3]int
		for i := range sizes {
			sizes[i] = int(c.uint(2))
		}
		if version == 3 {
			c.take(1) // character set of the name
		}
		for i, n := range sizes {
			parts[i] = c.take(n)
			if version == 1 {
				c.take(-n & 7)
			}
		}
		if c.short || version < 1 || version > 3 || m.shared {
			return nil, f.wrong(what, fmt.Sprintf("version %d", version),
				"a whole message of version 1 to 3 in the object header")
		}
		title := strings.TrimRight(string(parts[0]), "\x00")
		if title != name {
			have = append(have, link{name: title})
			continue
		}
		what += " " + fault.Text(name)
		if version > 1 && flags != 0 {
			return nil, f.wrong(what, fmt.Sprintf("flags %d", flags), "a datatype of its own")
		}
		e, err := f.element(what, &cursor{b: parts[1]})
		if err != nil {
			return nil, err
		}
		shape, err := f.dataspace(what, &cursor{b: parts[2]})
		if err != nil {
			return nil, err
		}
		n, ok := product(e.size, shape)
		if !ok || n > len(c.b) {
			return nil, f.wrong(what, fault.Count(len(c.b), "byte"), "those of "+fault.Dims(shape))
		}
		return f.values(what, e, c.take(n), len(shape) == 0)
	}
	if m := h.get(msgAttrInfo); m != nil {
		c := cursor{b: m.body}
		c.take(1)
		if c.byte()&1 != 0 {
			c.take(2) // order of creation
		}
		if c.uint(8) != undefined {
			return nil, f.wrong(h.name+" attributes", "in a fractal heap", "few and small ones, in the object header")
		}
	}
	return nil, f.wrong(h.name+" attribute", fault.Text(name), list("attributes", h.name, have))
}

// values decodes the elements of an attribute.
func (f *File) values(what string, e element, b []byte, scalar bool) (any, error) {
	n := len(b) / e.size
	switch e.class {
	case classFloat:
		v := make([]float64, n)
		e.floats(v, b)
		return one(v, scalar), nil
	case classBool:
		v := make([]bool, n)
		for i := range v {
			v[i] = b[i] != 0
		}
		return one(v, scalar), nil
	case classSigned, classUnsigned:
		v := make([]int64, n)
		for i := range v {
			var ok bool
			if v[i], ok = e.int(b[i*e.size:]); !ok {
				return nil, f.wrong(what, fmt.Sprint(uint64(v[i])), "at most 2^63-1")
			}
		}
		return one(v, scalar), nil
	}
	v := make([]string, n)
	heap := heap{f: f}
	for i := range v {
		x := b[i*e.size:][:e.size]
		s := string(x)
		if e.class == classSequence {
			var err error
			if s, err = heap.get(what, &cursor{b: x}); err != nil {
				return nil, err
			}
		}
		// Strings of fixed size, and some writers' others, are filled up.
		v[i] = strings.TrimRight(s, "\x00")
		if !utf8.ValidString(v[i]) {
			return nil, f.wrong(what, fault.Text(v[i]), "UTF-8")
		}
	}
	return one(v, scalar), nil
}

func one[T any](v []T, scalar bool) any {
	if scalar {
		return v[0]
	}
	return v
}

// heap reads from global heaps and keeps the last one, in which strings that
// stand together usually are.
type heap struct {
	f       *File
	at      uint64
	objects map[uint64]string // parts of one string, however many refer to them
}

// get returns the string that a sequence's 16 bytes point to.
func (h *heap) get(what string, c *cursor) (string, error) {
	n, at, number := c.uint(4), c.uint(8), c.uint(4)
	if n == 0 {
		return "", nil
	}
	if h.objects == nil || at != h.at {
		what := what + " global heap"
		c, err := h.f.signed("GCOL", what, at, 16)
		if err != nil {
			return "", err
		}
		c.take(4)
		size := c.uint(8)
		if c, err = h.f.block(what, at+16, size-min(size, 16)); err != nil {
			return "", err
		}
		h.at, h.objects = at, map[uint64]string{}
		whole := string(c.b)
		for len(c.b) >= 16 {
			k := c.uint(2)
			c.take(6)
			size := c.uint(8)
			if k == 0 || size > uint64(len(c.b)) { // the free rest
				break
			}
			at := len(whole) - len(c.b)
			h.objects[k] = whole[at : at+int(size)]
			c.take(int(size))
			c.take(int(-size & 7))
		}
	}
	if s := h.objects[number]; uint64(len(s)) >= n {
		return s[:n], nil
	}
	return "", h.f.wrong(what, fmt.Sprintf("%d bytes of object %d", n, number),
		fmt.Sprintf("a string in the global heap at %d", at))
}
