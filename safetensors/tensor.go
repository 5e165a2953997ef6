package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/x448/float16"
)

// Tensor is one named array: elements in row-major order, little-endian. An
// empty shape is a scalar.
type Tensor struct {
	Name  string
	DType DType
	Shape []int

	path string // of the file it was read from, for messages
	raw  []byte // the elements, or, if nil:
	file io.ReaderAt
	at   int64 // where they begin in file
}

// New returns a tensor of raw little-endian elements, which it shares. The
// error says which of dtype, shape and data do not fit.
func New(name string, dtype DType, shape []int, raw []byte) (*Tensor, error) {
	t := &Tensor{Name: name, DType: dtype, Shape: shape, raw: raw}
	size, err := t.size()
	if err != nil {
		return nil, err
	}
	if size != len(raw) {
		return nil, t.wrong("data", fault.Count(len(raw), "byte"),
			fault.Count(size, "byte")+" for "+string(dtype)+" "+fault.Dims(shape))
	}
	return t, nil
}

// OfFloat64s stores values as dtype, one of F64, F32, F16 and BF16. Storing
// never rounds: a value that is not a number of that format is an error. NaNs
// are stored as the quiet NaN without payload.
func OfFloat64s(name string, dtype DType, shape []int, values []float64) (*Tensor, error) {
	t := &Tensor{Name: name, DType: dtype, Shape: shape}
	f, ok := dtype.Format()
	if !ok {
		return nil, t.wrong("dtype", fault.Text(string(dtype)), "F64, F32, F16 or BF16")
	}
	for i, v := range values {
		if !f.Holds(v) {
			return nil, t.wrong("value "+strconv.Itoa(i), strconv.FormatFloat(v, 'g', -1, 64), "a "+f.String()+" number")
		}
	}
	raw := f.Append(make([]byte, 0, len(values)*dtype.Size()), values)
	return New(name, dtype, shape, raw)
}

// Pairs returns a tensor of complex numbers, C64, as one of F32 pairs in a last axis of 2,
// as torch.view_as_real does. It shares the elements.
func (t *Tensor) Pairs() *Tensor {
	p := *t
	p.DType, p.Shape = F32, append(slices.Clone(t.Shape), 2)
	return &p
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Place returns where the tensor's bytes lie in the file of [ParseAt].
func (t *Tensor) Place() (at, size int64) {
	n, _ := t.size()
	return t.at, int64(n)
}

// Bytes returns the raw elements, shared with the tensor; nil if they are not
// in memory.
func (t *Tensor) Bytes() []byte { return t.raw }

// elements returns the raw elements from index lo to hi-1.
func (t *Tensor) elements(lo, hi int) ([]byte, error) {
	size := t.DType.Size()
	if t.file == nil {
		return t.raw[lo*size : hi*size], nil
	}
	b := make([]byte, (hi-lo)*size)
	if n, err := t.file.ReadAt(b, t.at+int64(lo*size)); n < len(b) {
		return nil, fmt.Errorf("%s: %s: %w", t.path, t.Name, err)
	}
	return b, nil
}

// Float64s returns the elements of an F64, F32, F16 or BF16 tensor, all of
// which float64 contains exactly; every NaN becomes [fp16.NaN]. Any other type
// is an error.
func (t *Tensor) Float64s() ([]float64, error) {
	v := make([]float64, t.Len())
	if err := t.Read(0, v); err != nil {
		return nil, err
	}
	return v, nil
}

// Read sets v to the elements from index at on, as Float64s returns them. It
// panics if there are not that many.
func (t *Tensor) Read(at int, v []float64) error {
	if _, ok := t.DType.Format(); !ok {
		return t.wrong("dtype", string(t.DType), "F64, F32, F16 or BF16")
	}
	if at < 0 || len(v) > t.Len()-at {
		panic("safetensors: read beyond the tensor")
	}
	raw, err := t.elements(at, at+len(v))
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	switch t.DType {
	case F64:
		for i := range v {
			v[i] = number(math.Float64frombits(le.Uint64(raw[8*i:])))
		}
	case F32:
		for i := range v {
			v[i] = number(float64(math.Float32frombits(le.Uint32(raw[4*i:]))))
		}
	case F16:
		for i := range v {
			v[i] = number(float64(float16.Frombits(le.Uint16(raw[2*i:])).Float32()))
		}
	case BF16:
		for i := range v {
			v[i] = number(float64(math.Float32frombits(uint32(le.Uint16(raw[2*i:])) << 16)))
		}
	}
	return nil
}

// number is x, or the one NaN for all.
func number(x float64) float64 {
	if x != x {
		return fp16.NaN
	}
	return x
}

// Int64s returns the elements of an integer tensor (I8 to I64, U8 to U64), or truths
// (BOOL) as 1 and 0, any byte but 0 being true. Any other type is an error, and so is a U64 element above 2^63-1.
func (t *Tensor) Int64s() ([]int64, error) {
	switch t.DType {
	case BOOL, I8, U8, I16, U16, I32, U32, I64, U64:
	default:
		return nil, t.wrong("dtype", string(t.DType), "an integer type, I8 to I64 or U8 to U64, or BOOL")
	}
	v := make([]int64, t.Len())
	raw, err := t.elements(0, len(v))
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	for i := range v {
		switch t.DType {
		case BOOL:
			v[i] = int64(min(raw[i], 1))
		case I8:
			v[i] = int64(int8(raw[i]))
		case U8:
			v[i] = int64(raw[i])
		case I16:
			v[i] = int64(int16(le.Uint16(raw[2*i:])))
		case U16:
			v[i] = int64(le.Uint16(raw[2*i:]))
		case I32:
			v[i] = int64(int32(le.Uint32(raw[4*i:])))
		case U32:
			v[i] = int64(le.Uint32(raw[4*i:]))
		case I64:
			v[i] = int64(le.Uint64(raw[8*i:]))
		case U64:
			u := le.Uint64(raw[8*i:])
			if u > math.MaxInt64 {
				return nil, t.wrong("value "+strconv.Itoa(i), strconv.FormatUint(u, 10), "at most 2^63-1")
			}
			v[i] = int64(u)
		}
	}
	return v, nil
}

// size returns the bytes that dtype and shape ask for. Dimensions of 0 count
// as 1 in the test for overflow, so that no order of multiplying can overflow.
func (t *Tensor) size() (int, error) {
	size := t.DType.Size()
	if size == 0 {
		return 0, t.wrong("dtype", fault.Text(string(t.DType)), "one of "+dtypeNames())
	}
	empty := false
	for _, d := range t.Shape {
		if d < 0 {
			return 0, t.wrong("shape", fault.Dims(t.Shape), "dimensions of 0 or more")
		}
		empty = empty || d == 0
		hi, lo := bits.Mul64(uint64(size), uint64(max(d, 1)))
		if hi != 0 || lo > math.MaxInt {
			return 0, t.wrong("shape", fault.Dims(t.Shape), "fewer bytes of "+string(t.DType)+" than an int counts")
		}
		size = int(lo)
	}
	if empty {
		size = 0
	}
	return size, nil
}
