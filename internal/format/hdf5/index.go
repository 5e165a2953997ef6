package hdf5

import (
	"fmt"

	"github.com/refrun/refrun/internal/ground/fault"
)

// place notes where a chunk lies, given by its number. The sizes are compared
// with the chunk's: what no filter changes must be as long, and what deflate
// may have shortened not too short. Together the chunks must fit in the file,
// so that the dataset is no larger than a file of that size can hold.
func (d *Dataset) place(name string, number int, p extent, total *uint64) error {
	f := d.f
	what := func() string {
		return fmt.Sprintf("%s chunk %s", name, fault.Dims(d.origin(index(number, d.grid.counts()))))
	}
	if p.at > f.size || p.size > f.size-p.at {
		return f.wrong(what(), fmt.Sprintf("%d bytes at %d", p.size, p.at),
			fmt.Sprintf("an end within the file's %d bytes", f.size))
	}
	sizes := d.sizes(p.skipped)
	last := sizes[len(sizes)-1]
	deflated := false
	for i, f := range d.filters {
		deflated = deflated || f.id == filterDeflate && p.skipped>>i&1 == 0
	}
	if !deflated && p.size != uint64(last) || !inflatable(int(p.size), sizes[0]) {
		return f.wrong(what(), fault.Count(p.size, "byte"), fmt.Sprintf("what the filters make of %d", sizes[0]))
	}
	if *total += p.size; *total > f.size {
		return f.wrong(what(), fmt.Sprintf("%d bytes of chunks", *total), fmt.Sprintf("at most the file's %d", f.size))
	}
	if _, ok := d.places[number]; ok {
		return f.wrong(what(), "listed twice", "each chunk once")
	}
	d.places[number] = p
	return nil
}

// btree reads the version-1 B-tree of the chunks.
func (d *Dataset) btree(name string, at uint64) error {
	d.places = map[int]extent{}
	if at == undefined {
		return nil
	}
	counts := d.grid.counts()
	where := make([]int, len(counts))
	var total uint64
	return d.f.tree(name, at, 1, 8+8*(len(counts)+1), func(key []byte, at uint64) error {
		c := cursor{b: key}
		p := extent{at: at, size: c.uint(4), skipped: uint32(c.uint(4))}
		for i, n := range counts {
			o := c.uint(8)
			w := o / uint64(d.grid.chunk[i])
			if o%uint64(d.grid.chunk[i]) != 0 || w >= uint64(n) {
				return d.f.wrong(name+" chunk", fmt.Sprintf("index %d on axis %d", o, i),
					fmt.Sprintf("a multiple of %s within %s", fault.Dims(d.grid.chunk), fault.Dims(d.Shape)))
			}
			where[i] = int(w)
		}
		return d.place(name, number(where, counts), p, &total)
	})
}

// single reads the index that is a single chunk.
func (d *Dataset) single(name string, c *cursor, filtered bool) error {
	d.places = map[int]extent{}
	n, _ := product(1, d.grid.counts())
	p := extent{size: uint64(d.sizes(0)[0])}
	if filtered {
		p.size, p.skipped = c.uint(8), uint32(c.uint(4))
	}
	p.at = c.uint(8)
	if c.short || n > 1 || filtered != (d.filters != nil) {
		return d.f.wrong(name+" layout", "a single chunk", "one chunk, with its size if it has filters")
	}
	if p.at == undefined || n == 0 {
		return nil
	}
	var total uint64
	return d.place(name, 0, p, &total)
}

// fixedArray reads the index that lists all chunks in row-major order, in one
// block or, if there are many, in pages.
func (d *Dataset) fixedArray(name string, at uint64) error {
	d.places = map[int]extent{}
	if at == undefined {
		return nil
	}
	f := d.f
	name += " fixed array"
	wrong := func(value, want string) error { return f.wrong(name, value, want) }
	c, err := f.checked("FAHD", name, at, 28)
	if err != nil {
		return err
	}
	version, filtered, width, pageBits := c.byte(), c.byte(), int(c.byte()), c.byte()
	n, block := c.uint(8), c.uint(8)
	all, _ := product(1, d.grid.counts())
	switch {
	case version != 0 || filtered > 1 || (filtered == 1) != (d.filters != nil):
		return wrong(fmt.Sprintf("version %d, filters %d", version, filtered), "version 0, and filters as in the dataset")
	case filtered == 0 && width != 8 || filtered == 1 && (width < 13 || width > 20):
		return wrong(fmt.Sprintf("entries of %d bytes", width), "8, or with filters 13 to 20")
	case n != uint64(all):
		return wrong(fmt.Sprintf("%d entries", n), fmt.Sprintf("the %d chunks of %s", all, fault.Dims(d.Shape)))
	case block == undefined:
		return nil
	}
	var total uint64
	number := 0
	entries := func(c *cursor, n uint64) error {
		for range n {
			p := extent{at: c.uint(8), size: uint64(d.sizes(0)[0])}
			if filtered == 1 {
				p.size, p.skipped = c.uint(width-12), uint32(c.uint(4))
			}
			if p.at != undefined {
				if err := d.place(name, number, p, &total); err != nil {
					return err
				}
			}
			number++
		}
		return nil
	}
	if n > f.size { // each entry takes more than a byte
		return wrong(fmt.Sprintf("%d entries", n), fmt.Sprintf("what fits in the file's %d bytes", f.size))
	}
	const prefix = 14 // signature, version, kind, address of the header
	page := uint64(1) << min(pageBits, 62)
	if n <= page {
		c, err := f.checked("FADB", name, block, prefix+n*uint64(width)+4)
		if err != nil {
			return err
		}
		c.take(10)
		return entries(c, n)
	}
	pages := (n + page - 1) / page
	bitmap := (pages + 7) / 8
	c, err = f.checked("FADB", name, block, prefix+bitmap+4)
	if err != nil {
		return err
	}
	c.take(10)
	written := c.take(int(bitmap))
	at = block + prefix + bitmap + 4
	for i := range pages {
		here := min(page, n-i*page)
		size := here*uint64(width) + 4
		if written[i/8]&(0x80>>(i%8)) == 0 {
			number += int(here)
		} else {
			c, err := f.checked("", name, at, size)
			if err != nil {
				return err
			}
			if err := entries(c, here); err != nil {
				return err
			}
		}
		at += size
	}
	return nil
}
