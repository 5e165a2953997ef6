package hdf5

import (
	"encoding/binary"
	"math"
	"slices"
)

var le = binary.LittleEndian

// undefined is the address of what is not there.
const undefined = math.MaxUint64

// signature begins every HDF5 file.
const signature = "\x89HDF\r\n\x1a\n"

// The header messages used here, by their type.
const (
	msgDataspace    = 0x01
	msgLinkInfo     = 0x02
	msgDatatype     = 0x03
	msgFill         = 0x05
	msgLink         = 0x06
	msgExternal     = 0x07
	msgLayout       = 0x08
	msgFilters      = 0x0b
	msgAttribute    = 0x0c
	msgContinuation = 0x10
	msgSymbolTable  = 0x11
	msgAttrInfo     = 0x15
)

// The number of entries of a node: twice the constant K of the superblock, or
// of the format for chunks.
const (
	leafFanout  = 2 * 4
	groupFanout = 2 * 16
	chunkFanout = 2 * 32
)

// tail appends structures to the file. The first error stays.
type tail struct {
	f   Storage
	end int64
	err error
}

// add writes b, a multiple of 8 bytes, and returns its address.
func (t *tail) add(b []byte) uint64 {
	at := t.end
	if t.err == nil {
		_, t.err = t.f.WriteAt(b, at)
	}
	t.end += int64(len(b))
	return uint64(at)
}

// message is a piece of an object header.
type message struct {
	kind uint16
	body []byte
}

// header writes the header of an object: the messages, then the attributes.
func (t *tail) header(messages []message, attrs []attribute) uint64 {
	for _, a := range attrs {
		messages = append(messages, message{msgAttribute, a.message()})
	}
	b := make([]byte, 16)
	b[0] = 1
	le.PutUint16(b[2:], uint16(len(messages)))
	le.PutUint32(b[4:], 1) // reference count
	for _, m := range messages {
		body := pad(m.body)
		b = le.AppendUint16(b, m.kind)
		b = le.AppendUint16(b, uint16(len(body)))
		b = append(b, 0, 0, 0, 0) // flags, reserved
		b = append(b, body...)
	}
	le.PutUint32(b[8:], uint32(len(b)-16))
	return t.add(b)
}

// dataset writes the index and the header of a dataset.
func (t *tail) dataset(d *output, attrs []attribute) uint64 {
	m := []message{
		{msgDataspace, dataspace(d.Shape)},
		{msgDatatype, d.Type.message()},
		{msgFill, []byte{2, 3, 2, 1, 0, 0, 0, 0}}, // zeros, where nothing was written
	}
	size := d.Type.Size()
	if d.Chunk == nil {
		n, _ := product(size, d.Shape)
		at := uint64(d.at)
		if n == 0 {
			at = undefined
		}
		b := le.AppendUint64([]byte{3, 1}, at)
		m = append(m, message{msgLayout, le.AppendUint64(b, uint64(n))})
	} else {
		b := []byte{3, 2, byte(len(d.Chunk) + 1)}
		b = le.AppendUint64(b, t.chunks(d))
		for _, c := range d.Chunk {
			b = le.AppendUint32(b, uint32(c))
		}
		m = append(m, message{msgLayout, le.AppendUint32(b, uint32(size))})
		if f := d.filters(); f != nil {
			m = append(m, message{msgFilters, f})
		}
	}
	return t.header(m, attrs)
}

// filters is the filter pipeline message, in the order of writing; nil for
// none. The names, which no reader asks for, keep the message as long as
// libhdf5 makes it when it copies the dataset.
func (s Spec) filters() []byte {
	b := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	add := func(id uint16, name string, value int) {
		b[1]++
		b = le.AppendUint16(b, id)
		b = append(b, 8, 0, 0, 0, 1, 0) // length of the name, mandatory, one value
		b = append(append(b, name...), 0)
		b = le.AppendUint32(b, uint32(value))
		b = append(b, 0, 0, 0, 0)
	}
	if s.Shuffle {
		add(filterShuffle, "shuffle", s.Type.Size())
	}
	if s.Gzip != 0 {
		add(filterDeflate, "deflate", max(s.Gzip, 1)) // which readers have no use for
	}
	if b[1] == 0 {
		return nil
	}
	return b
}

// chunks writes the B-tree of a dataset's chunks and returns its address. The
// key of a chunk is its stored size, the filters it skipped (none), its first
// index and a 0 for the bytes of the element; the key that ends the tree has a
// greater index.
func (t *tail) chunks(d *output) uint64 {
	if len(d.chunks) == 0 {
		return undefined
	}
	counts := d.grid().counts()
	return t.tree(1, chunkFanout, len(d.chunks), 8+8*(len(d.Shape)+1),
		func(i int) uint64 { return uint64(d.chunks[i].at) },
		func(b []byte, i int) []byte {
			var size uint32
			beyond := 0
			if i == len(d.chunks) {
				i--
				beyond = 1
			} else {
				size = d.chunks[i].size
			}
			b = le.AppendUint32(b, size)
			b = le.AppendUint32(b, 0)
			for k, x := range index(i, counts) {
				b = le.AppendUint64(b, uint64(x+beyond)*uint64(d.Chunk[k]))
			}
			return le.AppendUint64(b, 0)
		})
}

// symbols writes the symbol table of a group whose members have these names,
// in order, and returns the message that points to it.
func (t *tail) symbols(names []string, address func(name string) uint64) []byte {
	heap := make([]byte, 8) // an empty name, which is less than all others
	offsets := make([]uint64, len(names)+1)
	for i, n := range names {
		offsets[i+1] = uint64(len(heap))
		heap = pad(append(append(heap, n...), 0))
	}
	data := t.add(heap)
	b := []byte("HEAP\x00\x00\x00\x00")
	b = le.AppendUint64(b, uint64(len(heap)))
	b = le.AppendUint64(b, 1) // no free block
	heapAt := t.add(le.AppendUint64(b, data))

	var leaves []uint64
	for i := 0; i < len(names); i += leafFanout {
		part := names[i:min(i+leafFanout, len(names))]
		b := []byte{'S', 'N', 'O', 'D', 1, 0, byte(len(part)), 0}
		for k, n := range part {
			b = symbol(b, offsets[i+k+1], address(n), nil)
		}
		leaves = append(leaves, t.add(append(b, make([]byte, 40*(leafFanout-len(part)))...)))
	}
	tree := t.tree(0, groupFanout, len(leaves), 8,
		func(i int) uint64 { return leaves[i] },
		func(b []byte, i int) []byte { // the last name before leaf i
			return le.AppendUint64(b, offsets[min(i*leafFanout, len(names))])
		})
	return le.AppendUint64(le.AppendUint64(nil, tree), heapAt)
}

// symbol appends a symbol table entry; scratch is the symbol table message of
// a group, to be remembered in it, or nil.
func symbol(b []byte, name, header uint64, scratch []byte) []byte {
	b = le.AppendUint64(b, name)
	b = le.AppendUint64(b, header)
	b = append(b, make([]byte, 24)...)
	if scratch != nil {
		b[len(b)-24] = 1
		copy(b[len(b)-16:], scratch)
	}
	return b
}

// tree writes a version-1 B-tree over n children, level by level from the
// leaves, and returns the address of its root. key appends key i, of keySize
// bytes: the one before child i, or for i = n the one after the last child.
func (t *tail) tree(
	kind byte, fanout, n, keySize int, child func(i int) uint64, key func(b []byte, i int) []byte,
) uint64 {
	size := uint64(24 + fanout*(keySize+8) + keySize)
	size = (size + 7) &^ 7
	span := 1 // children of the whole tree below one child of this level
	for level := byte(0); ; level++ {
		children := (n + span - 1) / span
		nodes := max(1, (children+fanout-1)/fanout)
		base := uint64(t.end)
		for j := range nodes {
			from, to := j*fanout, min((j+1)*fanout, children)
			b := append([]byte("TREE"), kind, level)
			b = le.AppendUint16(b, uint16(to-from))
			left, right := base+uint64(j-1)*size, base+uint64(j+1)*size
			if j == 0 {
				left = undefined
			}
			if j == nodes-1 {
				right = undefined
			}
			b = le.AppendUint64(b, left)
			b = le.AppendUint64(b, right)
			for c := from; c < to; c++ {
				b = key(b, c*span)
				b = le.AppendUint64(b, child(c))
			}
			b = key(b, min(to*span, n))
			t.add(append(b, make([]byte, int(size)-len(b))...))
		}
		if nodes == 1 {
			return base
		}
		span *= fanout
		child = func(i int) uint64 { return base + uint64(i)*size }
	}
}

// dataspace is the message of a shape; an empty one is a scalar's.
func dataspace(shape []int) []byte {
	b := []byte{1, byte(len(shape)), 0, 0, 0, 0, 0, 0}
	for _, d := range shape {
		b = le.AppendUint64(b, uint64(d))
	}
	return b
}

// stringType is the datatype message of UTF-8 strings of variable length: a
// sequence, each element 16 bytes that point into a heap, of unsigned bytes.
var stringType = []byte{
	0x19, 1, 1, 0, 16, 0, 0, 0,
	0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0,
}

// boolType is the datatype message of truth values as h5py has them: an enumeration of
// FALSE = 0 and TRUE = 1 over signed bytes.
var boolType = append([]byte{
	0x18, 2, 0, 0, 1, 0, 0, 0,
	0x10, 8, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0,
}, "FALSE\x00\x00\x00TRUE\x00\x00\x00\x00\x00\x01"...)

// message is the type's datatype message.
func (t Type) message() []byte {
	size := byte(t.Size())
	bits := 8 * size
	if t == Bool {
		return boolType
	}
	if t == Uint8 {
		return []byte{0x10, 0, 0, 0, size, 0, 0, 0, 0, 0, bits, 0}
	}
	if t == Int32 || t == Int64 {
		return []byte{0x10, 8, 0, 0, size, 0, 0, 0, 0, 0, bits, 0}
	}
	e := map[Type]struct{ bits, bias byte }{Float16: {5, 15}, Float32: {8, 127}, Float64: {11, 0xff}}[t]
	m := bits - 1 - e.bits
	b := []byte{
		0x11, 0x20, bits - 1, 0, // version and class; hidden bit; place of the sign
		size, 0, 0, 0,
		0, 0, bits, 0, // all bits count
		m, e.bits, 0, m, // exponent and fraction: place and size
		e.bias, 0, 0, 0,
	}
	if t == Float64 {
		b[17] = 3 // 1023
	}
	return b
}

// message is the attribute's header message.
func (a attribute) message() []byte {
	name := append([]byte(a.name), 0)
	b := []byte{1, 0}
	for _, part := range [][]byte{name, a.kind, a.space} {
		b = le.AppendUint16(b, uint16(len(part)))
	}
	for _, part := range [][]byte{name, a.kind, a.space, a.data} {
		b = append(b, pad(slices.Clip(part))...)
	}
	return b
}

// pad fills b up with zeros to a multiple of 8 bytes.
func pad(b []byte) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}
