package hdf5

import (
	"fmt"

	"github.com/refrun/refrun/internal/ground/fault"
)

// chunked reads the n elements of a box.
func (d *Dataset) chunked(from, region []int, n int) ([]float64, error) {
	lo, hi := make([]int, len(from)), make([]int, len(from))
	for i, o := range from {
		lo[i], hi[i] = o/d.grid.chunk[i], (o+region[i]-1)/d.grid.chunk[i]+1
	}
	counts := d.grid.counts()
	// Before anything is allocated: that all chunks are there bounds the size
	// of the box by that of the file.
	at := append([]int(nil), lo...)
	for more := true; more; more = next(at, lo, hi) {
		if _, ok := d.places[number(at, counts)]; !ok {
			return nil, d.wrong("chunk "+fault.Dims(d.origin(at)), "never written", "a complete file")
		}
	}
	values := make([]float64, n)
	for more := true; more; more = next(at, lo, hi) {
		raw, err := d.chunk(number(at, counts))
		if err != nil {
			return nil, err
		}
		// The part of the chunk within the box.
		origin := d.origin(at)
		extent := d.grid.inside(origin)
		in, out := make([]int, len(at)), make([]int, len(at))
		for i, o := range origin {
			first := max(o, from[i])
			extent[i] = min(o+extent[i], from[i]+region[i]) - first
			in[i], out[i] = first-o, first-from[i]
		}
		rows(extent, part{d.grid.chunk, in}, part{region, out}, func(a, b, n int) {
			if err == nil {
				err = d.decode(values[b:b+n], raw[a*d.element.size:])
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

// origin returns the first index of a chunk.
func (d *Dataset) origin(chunk []int) []int {
	o := make([]int, len(chunk))
	for i, c := range chunk {
		o[i] = c * d.grid.chunk[i]
	}
	return o
}

// chunk reads and unfilters a chunk.
func (d *Dataset) chunk(number int) ([]byte, error) {
	if raw, ok := d.cache.chunks[number]; ok {
		return raw, nil
	}
	p, ok := d.places[number]
	if !ok {
		return nil, d.wrong("chunk "+fault.Dims(d.origin(index(number, d.grid.counts()))), "never written", "a complete file")
	}
	wrong := func(what string, err any) ([]byte, error) {
		origin := fault.Dims(d.origin(index(number, d.grid.counts())))
		return nil, d.wrong(fmt.Sprintf("chunk %s at %d", origin, p.at), fmt.Sprintf("%s: %v", what, err),
			"the bytes that were written")
	}
	if n := d.sizes(0)[0]; uint64(n) > mostCached+d.f.size { // it is unpacked as a whole
		return nil, d.wrong("chunk", fault.Count(n, "byte"),
			fmt.Sprintf("at most the %d bytes of the file and %d MiB", d.f.size, mostCached>>20))
	}
	raw := make([]byte, p.size)
	if err := d.f.readAt(raw, int64(p.at)); err != nil {
		return wrong("reading", err)
	}
	var err error
	sizes := d.sizes(p.skipped)
	for i := len(d.filters) - 1; i >= 0; i-- {
		if p.skipped>>i&1 != 0 {
			continue
		}
		switch f := d.filters[i]; f.id {
		case filterFletcher:
			n := len(raw) - 4
			if n < 0 {
				return wrong("fletcher32", "no checksum")
			}
			if sum, got := fletcher32(raw[:n]), le.Uint32(raw[n:]); sum != got {
				return wrong("fletcher32", fmt.Sprintf("%08x for %08x", got, sum))
			}
			raw = raw[:n]
		case filterShuffle:
			sorted := raw
			raw = make([]byte, len(sorted))
			copy(raw, sorted) // bytes beyond the last whole element stay
			unshuffle(raw, sorted, f.value)
		case filterDeflate:
			if raw, err = d.inflater.inflate(raw, sizes[i]); err != nil {
				return wrong("inflating", err)
			}
		}
	}
	d.cache.put(number, raw)
	return raw, nil
}

// sizes returns the bytes of a chunk before each filter of writing, and after
// the last: what is known of them, for deflate leaves its result open.
func (d *Dataset) sizes(skipped uint32) []int {
	n, _ := product(d.element.size, d.grid.chunk)
	sizes := []int{n}
	for i, f := range d.filters {
		if f.id == filterFletcher && skipped>>i&1 == 0 {
			n += 4
		}
		sizes = append(sizes, n)
	}
	return sizes
}
