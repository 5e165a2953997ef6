package hdf5

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"hash/adler32"
	"io"
	"strconv"

	"github.com/refrun/refrun/internal/asm"
)

// The filters a chunk may have passed on its way to the file, by their
// registered numbers.
const (
	filterDeflate  = 1
	filterShuffle  = 2
	filterFletcher = 3
)

// filter is one step of a dataset's pipeline.
type filter struct{ id, value int }

// pipeline decodes the filters of a dataset.
func (f *File) pipeline(name string, c *cursor) ([]filter, error) {
	version, n := c.byte(), int(c.byte())
	if version == 1 {
		c.take(6)
	}
	var filters []filter
	seen := map[int]bool{}
	for range n {
		id := int(c.uint(2))
		length := 0
		if version == 1 || id >= 256 {
			length = int(c.uint(2))
		}
		c.take(2) // whether the filter is optional
		values := int(c.uint(2))
		if version == 1 {
			length = (length + 7) &^ 7
		}
		c.take(length)
		v := cursor{b: c.take(4 * values)}
		if version == 1 && values%2 != 0 {
			c.take(4)
		}
		filters = append(filters, filter{id, int(int32(v.uint(4)))})
		if id < filterDeflate || id > filterFletcher || seen[id] {
			return nil, f.wrong(name+" filter", strconv.Itoa(id),
				"deflate (1), shuffle (2) and fletcher32 (3), each at most once")
		}
		if v := filters[len(filters)-1].value; id == filterShuffle && (v < 1 || v > 8) {
			return nil, f.wrong(name+" filter shuffle", strconv.Itoa(v), "an element size from 1 to 8")
		}
		seen[id] = true
	}
	if c.short || version < 1 || version > 2 {
		return nil, f.wrong(name+" filters", fmt.Sprintf("version %d", version), "a whole message of version 1 or 2")
	}
	return filters, nil
}

// shuffle gathers the first bytes of all elements, then the second bytes, and
// so on, which makes runs of what neighbours have in common.
func shuffle(dst, src []byte, size int) {
	n := len(src) / size
	if size == 4 {
		if k := asm.BytesKernels(); k != nil {
			const most = 1 << 15 // at once
			done := 0
			for n-done >= 32 {
				now := min(n-done, most) &^ 31
				k.Sort(&dst[done], n, &src[4*done], now)
				done += now
			}
			for i := done; i < n; i++ {
				for j := range 4 {
					dst[j*n+i] = src[4*i+j]
				}
			}
			return
		}
		a, b, c, d := dst[:n], dst[n:][:n], dst[2*n:][:n], dst[3*n:][:n]
		for i := range a {
			v := le.Uint32(src[4*i:])
			a[i], b[i], c[i], d[i] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		}
		return
	}
	for k := range size {
		column := dst[k*n:][:n]
		for i := range column {
			column[i] = src[i*size+k]
		}
	}
}

func unshuffle(dst, src []byte, size int) {
	n := len(src) / size
	for k := range size {
		for i, b := range src[k*n:][:n] {
			dst[i*size+k] = b
		}
	}
}

// fletcher32 is the checksum of the filter of that name: the sum of the
// big-endian 16-bit words of b, a last odd byte filled up with 0, in the lower
// half, and the sum of that sum's partial sums in the upper half. Both are
// taken modulo 65535, in 1..65535 unless all words are 0.
func fletcher32(b []byte) uint32 {
	fold := func(s uint32) uint32 { return s&0xffff + s>>16 }
	var s1, s2 uint32
	for len(b) > 0 {
		// After a block s1 <= 65896 and s2 <= 131070. The next 360 words w <=
		// 65535 raise s2 to at most 131070 + 360*65896 + 65535*360*361/2 =
		// 4282317930 < 2^32, and s1 to 65896 + 360*65535, which folds to no
		// more than 65535 + 360.
		block := b[:min(720, len(b))]
		b = b[len(block):]
		for ; len(block) > 1; block = block[2:] {
			s1 += uint32(block[0])<<8 | uint32(block[1])
			s2 += s1
		}
		if len(block) == 1 {
			s1 += uint32(block[0]) << 8
			s2 += s1
		}
		s1, s2 = fold(s1), fold(s2)
	}
	return fold(s2)<<16 | fold(s1)
}

// adler is the checksum of zlib streams, Adler-32 (RFC 1950, 8.2).
func adler(b []byte) uint32 {
	k := asm.BytesKernels()
	if k == nil {
		return adler32.Checksum(b)
	}
	const prime, most = 65521, 1 << 16
	sums := [2]uint64{1, 0}
	for len(b) >= 32 {
		n := min(len(b), most) &^ 31
		k.Adler(&sums, &b[0], n)
		sums, b = [2]uint64{sums[0] % prime, sums[1] % prime}, b[n:]
	}
	for _, v := range b {
		sums[0] += uint64(v)
		sums[1] += sums[0]
	}
	return uint32(sums[1]%prime<<16 | sums[0]%prime)
}

// inflater undoes the deflate filter, which is a zlib stream (RFC 1950).
type inflater struct{ z io.ReadCloser }

// inflate returns the n bytes of which src is the compressed form. The length
// is compared with what deflate can reach before anything is allocated.
func (f *inflater) inflate(src []byte, n int) ([]byte, error) {
	if !inflatable(len(src), n) {
		return nil, fmt.Errorf("%d bytes cannot become %d", len(src), n)
	}
	r := bytes.NewReader(src)
	var err error
	if f.z == nil {
		f.z, err = zlib.NewReader(r)
	} else {
		err = f.z.(zlib.Resetter).Reset(r, nil)
	}
	if err != nil {
		f.z = nil
		return nil, err
	}
	dst := make([]byte, n)
	if _, err := io.ReadFull(f.z, dst); err != nil {
		return nil, err
	}
	// Reading to the end is what compares the stream's checksum.
	if k, err := f.z.Read(make([]byte, 1)); k != 0 || err != io.EOF {
		if err == nil || err == io.EOF {
			err = fmt.Errorf("more than %d bytes", n)
		}
		return nil, err
	}
	return dst, nil
}

// inflatable reports whether n bytes can come out of a zlib stream of the
// given length: a match copies at most 258 bytes and takes at least 2 bits, so
// that each byte becomes at most 1032.
func inflatable(stored, n int) bool { return n/1032 <= stored }
