package hdf5

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// header is what an object header says.
type header struct {
	name     string // for messages
	messages []headerMessage
}

type headerMessage struct {
	kind   uint16
	shared bool // the body only says where the message is
	body   []byte
}

// get returns the message of a kind, or nil.
func (h *header) get(kind uint16) *headerMessage {
	i := slices.IndexFunc(h.messages, func(m headerMessage) bool { return m.kind == kind })
	if i < 0 {
		return nil
	}
	return &h.messages[i]
}

// header reads the object header at an address, in either version.
func (f *File) header(at uint64) (*header, error) {
	h := &header{name: fmt.Sprintf("object header at %d", at)}
	c, err := f.block("object header", at, min(16, f.size-min(at, f.size)))
	if err != nil {
		return nil, err
	}
	if string(c.b[:min(4, len(c.b))]) == "OHDR" {
		return h, f.header2(h, at)
	}
	version := c.byte()
	c.take(7)
	size := c.uint(4)
	if c.short || version != 1 {
		return nil, f.wrong(h.name, fmt.Sprintf("version %d", version), "version 1 or the signature OHDR")
	}
	blocks := [][2]uint64{{at + 16, size}}
	for len(blocks) > 0 {
		c, err := f.block(h.name, blocks[0][0], blocks[0][1])
		if err != nil {
			return nil, err
		}
		blocks = blocks[1:]
		for len(c.b) >= 8 {
			kind, n := uint16(c.uint(2)), int(c.uint(2))
			flags := c.byte()
			c.take(3)
			m := headerMessage{kind, flags&2 != 0, c.take(n)}
			if kind == msgContinuation {
				c := cursor{b: m.body}
				blocks = append(blocks, [2]uint64{c.uint(8), c.uint(8)})
			}
			h.messages = append(h.messages, m)
		}
		if c.short {
			return nil, f.wrong(h.name, "a message cut short", "whole messages")
		}
	}
	return h, nil
}

// header2 reads a version-2 object header.
func (f *File) header2(h *header, at uint64) error {
	c, err := f.block(h.name, at, min(34, f.size-at)) // what comes before the messages, and more
	if err != nil {
		return err
	}
	have := len(c.b)
	c.take(4)
	version, flags := c.byte(), c.byte()
	if version != 2 {
		return f.wrong(h.name, fmt.Sprintf("version %d", version), "version 2")
	}
	if flags&0x20 != 0 {
		c.take(16) // times
	}
	if flags&0x10 != 0 {
		c.take(4) // limits of attribute storage
	}
	size := c.uint(1 << (flags & 3))
	prefix := uint64(have - len(c.b))
	if c.short || size > f.size {
		return f.wrong(h.name, "cut short", "a whole one")
	}
	blocks := [][2]uint64{{at, prefix + size + 4}}
	for i := 0; i < len(blocks); i++ {
		at, n, what := blocks[i][0], blocks[i][1], "OHDR"
		if i > 0 {
			what, prefix = "OCHK", 4
		}
		c, err := f.checked(what, h.name, at, n)
		if err != nil {
			return err
		}
		c.take(int(prefix) - 4)
		for len(c.b) >= 4 { // fewer are a gap
			kind, n, flags2 := uint16(c.uint(1)), int(c.uint(2)), c.byte()
			if flags&4 != 0 {
				c.take(2) // order of creation
			}
			m := headerMessage{kind, flags2&2 != 0, c.take(n)}
			if kind == msgContinuation {
				c := cursor{b: m.body}
				blocks = append(blocks, [2]uint64{c.uint(8), c.uint(8)})
			}
			h.messages = append(h.messages, m)
		}
		if c.short {
			return f.wrong(h.name, "a message cut short", "whole messages")
		}
	}
	return nil
}

// find returns the header of the object at a path, such as "/group/name".
func (f *File) find(path string) (*header, error) {
	h, err := f.header(f.root)
	if err != nil {
		return nil, err
	}
	h.name = fault.Text("/")
	at := ""
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		links, err := f.links(h)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(links, func(l link) bool { return l.name == name })
		if i < 0 {
			return nil, f.wrong("path", fault.Text(path), list("members", h.name, links))
		}
		at += "/" + name
		if links[i].header == undefined {
			return nil, f.wrong("path", fault.Text(at), "an object in this file, not a soft or external link")
		}
		if h, err = f.header(links[i].header); err != nil {
			return nil, err
		}
		h.name = fault.Text(at)
	}
	return h, nil
}

// list says what there is.
func list(what, in string, links []link) string {
	const most = 8
	var have []string
	for _, l := range links[:min(most, len(links))] {
		have = append(have, fault.Text(l.name))
	}
	if len(links) > most {
		have = append(have, fmt.Sprint(len(links)-most, " more"))
	}
	if len(have) == 0 {
		return "one of the " + what + " of " + in + ", which has none"
	}
	return "one of the " + what + " of " + in + ": " + strings.Join(have, ", ")
}
