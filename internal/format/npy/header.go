package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

const (
	magic     = "\x93NUMPY"
	maxHeader = 10_000 // bytes; numpy itself loads no longer ones unless told to
	maxRank   = 64     // of numpy 2
	align     = 64     // data written here begin at a multiple of it
)

// header is what stands before the data, and what follows from it.
type header struct {
	descr   string
	fortran bool
	shape   []int

	element element
	count   int   // of elements
	end     int64 // bytes before the data
}

// readHeader reads the header of a file of size bytes and holds it to that
// size: the data must fill the rest of it exactly.
func readHeader(src source, r io.Reader, size int64) (*header, error) {
	// The length of the dict is a 16-bit number in version 1, a 32-bit one in
	// versions 2 and 3; 3 differs from 2 in allowing UTF-8.
	var fixed [12]byte
	start := fixed[:10]
	if size < int64(len(start)) {
		return nil, src.wrong("file", fault.Count(size, "byte"), "at least the 10 bytes of magic, version and header length")
	}
	if _, err := io.ReadFull(r, start); err != nil {
		return nil, src.readError(err)
	}
	if m := string(start[:6]); m != magic {
		return nil, src.wrong("magic", fault.Text(m), fault.Text(magic))
	}
	var n int64
	switch version := fmt.Sprintf("%d.%d", start[6], start[7]); version {
	case "1.0":
		n = int64(binary.LittleEndian.Uint16(start[8:]))
	case "2.0", "3.0":
		start = fixed[:]
		if size < int64(len(start)) {
			return nil, src.wrong("file", fault.Count(size, "byte"), "at least the 12 bytes of magic, version and header length")
		}
		if _, err := io.ReadFull(r, start[10:]); err != nil {
			return nil, src.readError(err)
		}
		n = int64(binary.LittleEndian.Uint32(start[8:]))
	default:
		return nil, src.wrong("version", version, "1.0, 2.0 or 3.0")
	}
	left := size - int64(len(start))
	if n > min(left, maxHeader) {
		return nil, src.wrong("header length", strconv.FormatInt(n, 10),
			fmt.Sprintf("at most %d, the lesser of the %d bytes left in the file and %d", min(left, maxHeader), left, maxHeader))
	}
	dict := make([]byte, n)
	if _, err := io.ReadFull(r, dict); err != nil {
		return nil, src.readError(err)
	}
	h := &header{end: int64(len(start)) + n}
	p := parser{source: src, rest: string(dict)}
	if err := p.dict(h); err != nil {
		return nil, err
	}
	var ok bool
	if h.element, ok = elementOf(h.descr); !ok {
		return nil, src.wrong("descr", fault.Text(h.descr), known)
	}
	var err error
	if h.count, err = count(src, h.shape, h.element.size); err != nil {
		return nil, err
	}
	if have, want := size-h.end, int64(h.count*h.element.size); have != want {
		return nil, src.wrong("data", fault.Count(have, "byte"),
			fmt.Sprintf("exactly %d for %s %s", want, h.descr, fault.Dims(h.shape)))
	}
	return h, nil
}

// count returns the number of elements of a shape, whose bytes an int must
// count. Dimensions of 0 count as 1 in that test, so that no order of
// multiplying can overflow.
func count(src source, shape []int, size int) (int, error) {
	if len(shape) > maxRank {
		return 0, src.wrong("shape", fault.Count(int64(len(shape)), "dimension"), "at most "+strconv.Itoa(maxRank))
	}
	bytes, empty := size, false
	for _, d := range shape {
		if d < 0 {
			return 0, src.wrong("shape", fault.Dims(shape), "dimensions of 0 or more")
		}
		empty = empty || d == 0
		hi, lo := bits.Mul64(uint64(bytes), uint64(max(d, 1)))
		if hi != 0 || lo > math.MaxInt {
			return 0, src.wrong("shape", fault.Dims(shape), "fewer bytes of data than an int counts")
		}
		bytes = int(lo)
	}
	if empty {
		return 0, nil
	}
	return bytes / size, nil
}

// headerFor returns the header that numpy.save writes for an array in row-major
// order, byte for byte: version 1.0, with room for the first dimension to grow
// to 21 digits, then spaces and a newline up to the next multiple of 64.
func headerFor(descr string, shape []int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr)
	for i, d := range shape {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(d))
	}
	if len(shape) == 1 {
		b.WriteByte(',')
	}
	b.WriteString("), }")
	if len(shape) > 0 {
		b.WriteString(strings.Repeat(" ", 21-len(strconv.Itoa(shape[0]))))
	}
	before := len(magic) + 4
	b.WriteString(strings.Repeat(" ", align-(before+b.Len()+1)%align))
	b.WriteByte('\n')

	head := append([]byte(magic), 1, 0)
	head = binary.LittleEndian.AppendUint16(head, uint16(b.Len()))
	return append(head, b.String()...)
}
