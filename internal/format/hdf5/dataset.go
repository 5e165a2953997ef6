package hdf5

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Dataset is an array in a file. It is not safe for concurrent use.
type Dataset struct {
	Path  string
	Type  Type
	Shape []int

	f       *File
	element element
	grid    grid // chunk is nil for contiguous elements

	at       uint64         // contiguous: of the elements, undefined for none
	places   map[int]extent // chunks by their number
	filters  []filter       // in the order of writing
	inflater inflater
	cache    cache
	raw      []byte // contiguous: what is being decoded
}

// extent is a stored chunk.
type extent struct {
	at, size uint64
	skipped  uint32 // bit i: filter i was not applied
}

// Dataset returns the dataset at a path, such as "/metrics/energy". Its
// elements are not read yet.
func (f *File) Dataset(path string) (*Dataset, error) {
	f.renew()
	h, err := f.find(path)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Path: path, f: f}
	if h.get(msgExternal) != nil {
		return nil, f.wrong(h.name, "elements in other files", "elements in this file")
	}
	c, err := f.message(h, msgDataspace, "dataspace")
	if err != nil {
		return nil, err
	}
	if d.Shape, err = f.dataspace(h.name, c); err != nil {
		return nil, err
	}
	if c, err = f.message(h, msgDatatype, "datatype"); err != nil {
		return nil, err
	}
	if d.element, err = f.element(h.name, c); err != nil {
		return nil, err
	}
	var ok bool
	if d.Type, ok = d.element.exported(); !ok {
		return nil,
			f.wrong(h.name+" datatype", "other than numbers", "float16, float32, float64, int32, int64, uint8 or bool")
	}
	if h.get(msgFilters) != nil {
		if c, err = f.message(h, msgFilters, "filters"); err != nil {
			return nil, err
		}
		if d.filters, err = f.pipeline(h.name, c); err != nil {
			return nil, err
		}
	}
	if c, err = f.message(h, msgLayout, "layout"); err != nil {
		return nil, err
	}
	return d, d.layout(h.name, c)
}

func (d *Dataset) wrong(field, value, want string) error {
	return d.f.wrong(fault.Text(d.Path)+" "+field, value, want)
}

// layout decodes where the elements are.
func (d *Dataset) layout(name string, c *cursor) error {
	f := d.f
	version, class := c.byte(), c.byte()
	if class == 3 {
		return f.wrong(name+" layout", "a view of other datasets", "the dataset that holds the elements")
	}
	if version < 3 || version > 5 || class < 1 || class > 2 {
		return f.wrong(name+" layout", fmt.Sprintf("version %d, class %d", version, class),
			"version 3 to 5, class 1 (contiguous) or 2 (chunked)")
	}
	if class == 1 {
		d.at = c.uint(8)
		size := c.uint(8)
		n, ok := product(d.element.size, d.Shape)
		switch {
		case c.short || d.filters != nil:
			return f.wrong(name+" layout", "cut short, or with filters", "a whole one without")
		case !ok || uint64(n) != size && d.at != undefined:
			return f.wrong(name+" layout", fault.Count(size, "byte"), "those of "+fault.Dims(d.Shape)+" "+d.Type.String())
		case d.at != undefined && (d.at > f.size || size > f.size-d.at):
			return f.wrong(name+" layout", fmt.Sprintf("%d bytes at %d", size, d.at),
				fmt.Sprintf("an end within the file's %d bytes", f.size))
		}
		return nil
	}
	if version == 3 {
		rank := int(c.byte())
		at := c.uint(8)
		if err := d.cut(name, c, rank, 4); err != nil {
			return err
		}
		return d.btree(name, at)
	}
	flags, rank, width := c.byte(), int(c.byte()), int(c.byte())
	if flags&^2 != 0 || width > 8 {
		return f.wrong(name+" layout", fmt.Sprintf("flags %#x, dimensions of %d bytes", flags, width),
			"filters on all chunks, dimensions of at most 8 bytes")
	}
	if err := d.cut(name, c, rank, width); err != nil {
		return err
	}
	switch index := c.byte(); index {
	case 1:
		return d.single(name, c, flags&2 != 0)
	case 3:
		c.take(1)
		return d.fixedArray(name, c.uint(8))
	default:
		kinds := map[byte]string{2: "implicit", 4: "extensible array", 5: "version-2 B-tree"}
		return f.wrong(name+" chunk index", fmt.Sprintf("%d (%s)", index, kinds[index]),
			"a version-1 B-tree, a fixed array or a single chunk; a file of the default libver has the first")
	}
}

// cut decodes the shape of the chunks: rank dimensions of the given width, the
// last that of the element in bytes.
func (d *Dataset) cut(name string, c *cursor, rank, width int) error {
	chunk := make([]int, rank)
	for i := range chunk {
		n := c.uint(width)
		if n < 1 || n > math.MaxUint32 || n > math.MaxInt {
			return d.f.wrong(name+" chunk", fmt.Sprint("a dimension of ", n), "one from 1 to 2^32-1")
		}
		chunk[i] = int(n)
	}
	if rank != len(d.Shape)+1 || rank < 2 || chunk[rank-1] != d.element.size {
		return d.f.wrong(name+" chunk", fault.Dims(chunk),
			"the axes of "+fault.Dims(d.Shape)+fmt.Sprintf(" and the %d bytes of an element", d.element.size))
	}
	d.grid = grid{d.Shape, chunk[:rank-1]}
	if n, ok := product(1, chunk); !ok || uint64(n) > math.MaxUint32 {
		return d.f.wrong(name+" chunk", fault.Dims(chunk), "fewer than 2^32 bytes")
	}
	if _, ok := product(1, d.grid.counts()); !ok {
		return d.f.wrong(name+" chunk", fault.Dims(chunk), "a number of chunks that an int holds")
	}
	return nil
}

// At returns the elements with the given leading indices, in row-major order:
// of a trajectory [N,M,T,C,H,W], At(n, m, t) is one state and At() is all.
// An element that was never written is an error, also where HDF5 would fill in
// a value. The last chunks read are kept, so that states read in order cost one
// decompression per chunk.
func (d *Dataset) At(lead ...int) ([]float64, error) {
	region := append([]int(nil), d.Shape...)
	from := make([]int, len(d.Shape))
	if len(lead) > len(d.Shape) {
		return nil, d.wrong("index", fault.Dims(lead), "at most the axes of "+fault.Dims(d.Shape))
	}
	for i, x := range lead {
		if x < 0 || x >= d.Shape[i] {
			return nil, d.wrong("index", fault.Dims(lead), "one within "+fault.Dims(d.Shape))
		}
		from[i], region[i] = x, 1
	}
	n, ok := product(8, region)
	if n /= 8; !ok {
		return nil, d.wrong("shape", fault.Dims(region), "fewer bytes than an int counts")
	}
	switch {
	case n == 0:
		return []float64{}, nil
	case d.grid.chunk == nil:
		return d.contiguous(from, n)
	}
	return d.chunked(from, region, n)
}

// contiguous reads n elements, beginning with the one at from.
func (d *Dataset) contiguous(from []int, n int) ([]float64, error) {
	if d.at == undefined {
		return nil, d.wrong("elements", "never written", "a complete file")
	}
	b := make([]byte, n*d.element.size)
	if err := d.f.readAt(b, int64(d.at)+int64(number(from, d.Shape)*d.element.size)); err != nil {
		return nil, fmt.Errorf("%s: %s: %w: want its elements", d.f.path, fault.Text(d.Path), err)
	}
	values := make([]float64, n)
	return values, d.decode(values, b)
}

func (d *Dataset) decode(dst []float64, b []byte) error {
	if !d.element.floats(dst, b) {
		return d.wrong("element", "beyond 2^53", "numbers that float64 holds exactly")
	}
	return nil
}
