package hdf5

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// link is a member of a group.
type link struct {
	name   string
	header uint64 // undefined for soft and external links
}

// links lists the members of a group.
func (f *File) links(h *header) ([]link, error) {
	if m := h.get(msgSymbolTable); m != nil {
		c := cursor{b: m.body}
		return f.symbols(h, c.uint(8), c.uint(8))
	}
	info := h.get(msgLinkInfo)
	if info == nil {
		return nil, f.wrong(h.name, "not a group", "a group")
	}
	c := cursor{b: info.body}
	c.take(1)
	if c.byte()&1 != 0 {
		c.take(8) // order of creation
	}
	if heap := c.uint(8); heap != undefined || c.short {
		return nil, f.wrong(h.name, "links in a fractal heap", "a group with few members, or of the default libver")
	}
	var links []link
	for _, m := range h.messages {
		if m.kind != msgLink {
			continue
		}
		c := cursor{b: m.body}
		l := link{header: undefined}
		version, flags, kind := c.byte(), c.byte(), byte(0)
		if flags&8 != 0 {
			kind = c.byte()
		}
		if flags&4 != 0 {
			c.take(8) // order of creation
		}
		if flags&16 != 0 {
			c.take(1) // character set
		}
		if n := c.uint(1 << (flags & 3)); n <= uint64(len(c.b)) {
			l.name = string(c.take(int(n)))
		} else {
			c.short = true
		}
		if kind == 0 {
			l.header = c.uint(8)
		}
		if c.short || m.shared || version != 1 {
			return nil, f.wrong(h.name+" link", fault.Text(l.name), "a whole message of version 1")
		}
		links = append(links, l)
	}
	return links, nil
}

// symbols lists the members of a symbol-table group: the leaves of a B-tree
// name them by offsets into a local heap.
func (f *File) symbols(h *header, tree, heap uint64) ([]link, error) {
	c, err := f.signed("HEAP", h.name+" local heap", heap, 32)
	if err != nil {
		return nil, err
	}
	c.take(4)
	n := c.uint(8)
	c.take(8)
	if c, err = f.block(h.name+" local heap", c.uint(8), n); err != nil {
		return nil, err
	}
	names := string(c.b) // shared by the links' names
	var links []link
	err = f.tree(h.name, tree, 0, 8, func(_ []byte, at uint64) error {
		c, err := f.signed("SNOD", h.name+" symbols", at, 8)
		if err != nil {
			return err
		}
		c.take(2)
		n := c.uint(2)
		if c, err = f.block(h.name+" symbols", at+8, 40*n); err != nil {
			return err
		}
		for range n {
			offset, l := c.uint(8), link{header: c.uint(8)}
			if c.uint(4) == 2 {
				l.header = undefined
			}
			c.take(20)
			name := names[min(offset, uint64(len(names))):]
			end := strings.IndexByte(name[:min(len(name), 1<<16)], 0)
			if end < 0 {
				return f.wrong(h.name+" name at", strconv.FormatUint(offset, 10),
					fmt.Sprintf("one that ends within the heap's %d bytes and 65536", len(names)))
			}
			l.name = name[:end]
			links = append(links, l)
		}
		return nil
	})
	return links, err
}

// tree visits the children of a version-1 B-tree of the given kind, from left
// to right, each with the key before it. Levels must count down, so that no
// path through the tree is endless.
func (f *File) tree(name string, at uint64, kind byte, keySize int, visit func(key []byte, at uint64) error) error {
	return f.node(name, at, kind, -1, keySize, visit)
}

func (f *File) node(
	name string, at uint64, kind byte, want int, keySize int, visit func(key []byte, at uint64) error,
) error {
	c, err := f.signed("TREE", name+" B-tree", at, 24)
	if err != nil {
		return err
	}
	gotKind, level, n := c.byte(), int(c.byte()), c.uint(2)
	if gotKind != kind {
		return f.wrong(fmt.Sprintf("%s B-tree at %d", name, at), fmt.Sprintf("kind %d", gotKind),
			fmt.Sprintf("kind %d", kind))
	}
	if want >= 0 && level != want {
		return f.wrong(fmt.Sprintf("%s B-tree at %d", name, at), fmt.Sprintf("level %d", level),
			fmt.Sprintf("level %d", want))
	}
	if c, err = f.block(name+" B-tree", at+24, n*uint64(keySize+8)); err != nil {
		return err
	}
	for range n {
		key, child := c.take(keySize), c.uint(8)
		if level > 0 {
			err = f.node(name, child, kind, level-1, keySize, visit)
		} else {
			err = visit(key, child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
