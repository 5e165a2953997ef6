package npy

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Float64s returns all elements in row-major order, whatever the order of the
// file. float64 contains every number of the types f2, f4 and f8 (every NaN
// becomes [fp16.NaN]); an integer that it does not contain is an error.
//
// The result takes 8 bytes per element, at most 8 times the size of the data.
func (a *Array) Float64s() ([]float64, error) {
	dst := make([]float64, a.count)
	if err := a.ReadFloat64s(dst, 0); err != nil {
		return nil, err
	}
	return dst, nil
}

// ReadFloat64s is [Array.Float64s] for len(dst) elements from element at on,
// counted in row-major order: rows lo to hi-1 of the first axis of an [N,C,H,W]
// array begin at lo*C*H*W. It reads no other elements, except that an array in
// Fortran order is run through whole. Calls may run at the same time.
func (a *Array) ReadFloat64s(dst []float64, at int) error {
	if at < 0 || len(dst) > a.count || at > a.count-len(dst) {
		return a.wrong("elements", fmt.Sprintf("%d from %d on", len(dst), at), fmt.Sprintf("some of the array's %d", a.count))
	}
	if a.FortranOrder && len(a.Shape) > 1 {
		place := newPlaces(a.Shape)
		return a.scan(0, a.count, func(_ int, v float64) {
			if j := place.next() - at; j >= 0 && j < len(dst) {
				dst[j] = v
			}
		})
	}
	return a.scan(at, len(dst), func(i int, v float64) { dst[i-at] = v })
}

// mostFortran is how many bytes of an array in Fortran order are put in order in
// memory.
const mostFortran = 64 << 20

// RowMajor returns the array itself or, in memory, one in Fortran order as it is in
// the other order, so that its elements can be read in turn. One of more than 64 MiB is
// an error.
func (a *Array) RowMajor() (*Array, error) {
	if !a.FortranOrder || len(a.Shape) < 2 {
		return a, nil
	}
	size := a.element.size
	if n := a.count * size; n > mostFortran {
		return nil, a.wrong("fortran_order", "True",
			fmt.Sprintf("False for %d MiB and more, as numpy.ascontiguousarray makes it", mostFortran>>20))
	}
	raw, buf := make([]byte, a.count*size), make([]byte, 1<<16)
	place, r := newPlaces(a.Shape), io.NewSectionReader(a.data, 0, int64(len(raw)))
	for left := len(raw); left > 0; {
		part := buf[:min(len(buf), left)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, a.readError(err)
		}
		left -= len(part)
		for ; len(part) > 0; part = part[size:] {
			copy(raw[place.next()*size:], part[:size])
		}
	}
	b := *a
	b.FortranOrder, b.data = false, io.NewSectionReader(bytes.NewReader(raw), 0, int64(len(raw)))
	return &b, nil
}

// scan calls use for n elements from lo on, in the order of the file, which is
// also how they are counted here.
func (a *Array) scan(lo, n int, use func(i int, v float64)) error {
	size := a.element.size
	r := io.NewSectionReader(a.data, int64(lo)*int64(size), int64(n)*int64(size))
	buf := make([]byte, min(n*size, 1<<16))
	for i := lo; i < lo+n; {
		part := buf[:min(len(buf), (lo+n-i)*size)]
		if _, err := io.ReadFull(r, part); err != nil {
			return a.readError(err)
		}
		for ; len(part) > 0; part = part[size:] {
			u := a.element.bits(part)
			v, exact := a.element.value(u)
			if !exact {
				return a.wrong("value "+strconv.Itoa(i), a.element.integer(u), "an integer that float64 contains")
			}
			use(i, v)
			i++
		}
	}
	return nil
}

// integer returns an i or u element in decimal.
func (e element) integer(u uint64) string {
	if e.kind == 'i' {
		return strconv.FormatInt(e.signed(u), 10)
	}
	return strconv.FormatUint(u, 10)
}

// places counts through a shape with the first index fastest and says where
// the elements belong when the last one is.
type places struct {
	shape, index, stride []int
	at                   int
}

func newPlaces(shape []int) *places {
	p := &places{shape, make([]int, len(shape)), make([]int, len(shape)), 0}
	s := 1
	for k := len(shape) - 1; k >= 0; k-- {
		p.stride[k] = s
		s *= shape[k]
	}
	return p
}

func (p *places) next() int {
	at := p.at
	for k := range p.shape {
		p.index[k]++
		p.at += p.stride[k]
		if p.index[k] < p.shape[k] {
			break
		}
		p.at -= p.shape[k] * p.stride[k]
		p.index[k] = 0
	}
	return at
}
