package hdf5

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Read sets v to the elements from index at on, counted in row-major order. It takes
// memory for the chunks that are kept, and each is unpacked once where those that one
// run of the last axes crosses are no more than these.
func (d *Dataset) Read(v []float64, at int) error {
	all, ok := product(1, d.Shape)
	if !ok || at < 0 || len(v) > all || at > all-len(v) {
		return d.wrong("elements", fmt.Sprintf("%d from %d on", len(v), at), "some of "+fault.Dims(d.Shape))
	}
	if len(v) == 0 {
		return nil
	}
	if d.grid.chunk == nil {
		return d.run(v, at)
	}
	g := d.grid.folded()
	counts, last := g.counts(), len(g.shape)-1
	x, zero := index(at, g.shape), make([]int, last+1)
	where, in := make([]int, last+1), make([]int, last+1)
	for {
		for i, o := range x {
			where[i], in[i] = o/g.chunk[i], o%g.chunk[i]
		}
		raw, err := d.chunk(number(where, counts))
		if err != nil {
			return err
		}
		n := min(len(v), g.shape[last]-x[last], g.chunk[last]-in[last])
		if err := d.decode(v[:n], raw[number(in, g.chunk)*d.element.size:]); err != nil {
			return err
		}
		if v = v[n:]; len(v) == 0 {
			return nil
		}
		x[last] += n - 1
		next(x, zero, g.shape)
	}
}

// run reads contiguous elements.
func (d *Dataset) run(v []float64, at int) error {
	if d.at == undefined {
		return d.wrong("elements", "never written", "a complete file")
	}
	d.raw = slices.Grow(d.raw[:0], min(len(v)*d.element.size, 1<<16))
	for part := range slices.Chunk(v, 1<<13) {
		raw := d.raw[:len(part)*d.element.size]
		if err := d.f.readAt(raw, int64(d.at)+int64(at*d.element.size)); err != nil {
			return fmt.Errorf("%s: %s: %w: want its elements", d.f.path, fault.Text(d.Path), err)
		}
		if err := d.decode(part, raw); err != nil {
			return err
		}
		at += len(part)
	}
	return nil
}

// folded is the grid with as many last axes taken as one as leave every element in its
// place and every chunk its number: those of which a chunk holds all.
func (g grid) folded() grid {
	shape, chunk := slices.Clone(g.shape), slices.Clone(g.chunk)
	for last := len(shape) - 1; last > 0 && chunk[last] == shape[last]; last-- {
		shape[last-1] *= shape[last]
		chunk[last-1] *= chunk[last]
		shape, chunk = shape[:last], chunk[:last]
	}
	return grid{shape, chunk}
}

// mostCached is how many bytes of unpacked chunks are kept, and how many one chunk may
// have in a file of no size.
const mostCached = 32 << 20

// cache holds the last chunks that were unpacked, by their numbers.
type cache struct {
	chunks map[int][]byte
	order  []int // oldest first
	held   int   // bytes
}

func (c *cache) put(number int, raw []byte) {
	for c.held += len(raw); c.held > mostCached && len(c.order) > 0; c.order = c.order[1:] {
		c.held -= len(c.chunks[c.order[0]])
		delete(c.chunks, c.order[0])
	}
	if c.chunks == nil {
		c.chunks = map[int][]byte{}
	}
	c.chunks[number], c.order = raw, append(c.order, number)
}
