package pointwise

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/exact/double"
	"github.com/refrun/refrun/tensor"
)

// Integer is a type of whole numbers of some bits, or the truth values 0 and 1. Tensors
// of any of them have the format fp16.Int64.
type Integer uint8

// The types. Int64 and Uint64 reach as far as a tensor holds whole numbers, to 2^53.
const (
	Bool Integer = iota
	Int2
	Uint2
	Int4
	Uint4
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
)

var integers = [...]string{
	"bool", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
}

// ParseInteger returns the type of that name, such as "int8". Any other name is an error
// that lists them.
func ParseInteger(name string) (Integer, error) {
	for i, n := range integers {
		if n == name {
			return Integer(i), nil
		}
	}
	return 0, fmt.Errorf("%.60q: want one of %s", name, strings.Join(integers[:], ", "))
}

// String returns the name that ParseInteger reads.
func (t Integer) String() string {
	if int(t) < len(integers) {
		return integers[t]
	}
	return fmt.Sprintf("Integer(%d)", uint8(t))
}

// Range returns the least and the greatest number of the type.
func (t Integer) Range() (least, greatest float64) {
	switch {
	case t == Bool:
		return 0, 1
	case t >= Int64:
		least, greatest = -1<<53, 1<<53
	default:
		greatest = math.Ldexp(1, t.bits()-1) - 1
		least = -greatest - 1
		if t.unsigned() {
			greatest = 2*greatest + 1
		}
	}
	if t.unsigned() {
		least = 0
	}
	return least, greatest
}

func (t Integer) bits() int      { return 2 << ((int(t) - 1) / 2) }
func (t Integer) unsigned() bool { return t%2 == 0 }

// ToIntegers sets dst, of whole numbers, to src as numbers of that type. Truth values are
// 1 for all that is not 0, NaN too. Of whole numbers the low bits count, as in PyTorch, so
// that 300 is 44 in uint8. Others are cut towards 0, and one that is no number of the type
// then is an error, for devices differ there. dst may be src.
func ToIntegers(dst, src *tensor.Tensor, to Integer) error {
	sameSize(dst, src)
	n := len(src.Data)
	if n > 0 && &dst.Data[0] != &src.Data[0] {
		copy(dst.Data, src.Data)
	}
	_, err := ToIntegerLine(dst.Data, 0, src.Format, to)
	return err
}

// ToIntegerLine is ToIntegers of some numbers of a format in their place, from the one numbered at on. It returns the
// number of the first one in error, too.
func ToIntegerLine(d []float64, at int, from fp16.Format, to Integer) (int, error) {
	least, greatest := to.Range()
	if k := asm.WholeKernels(); k != nil && (to == Int32 || to == Int64) && len(d) >= 8 {
		n := k.Integers(&d[0], len(d)&^7)
		d, at = d[n:], at+n
	}
	for i, v := range d {
		switch {
		case to == Bool:
			d[i] = truth(v != 0)
		case float64(int64(v)) == v && least <= v && v <= greatest:
			d[i] = v + 0 // a number of the type, or -0
		case from == fp16.Int64 && to >= Int64:
		case from == fp16.Int64: // the low bits
			span := greatest - least + 1
			d[i] = v - float64(span*math.Floor((v-least)/span)) // powers of two: exact
		default:
			w := math.Trunc(v) + 0
			if !(least <= w && w <= greatest) {
				return at + i, fmt.Errorf("element %d: %v: want a number of %v", at+i, v, to)
			}
			d[i] = w
		}
	}
	return 0, nil
}

// Quantize sets dst, of whole numbers, to those next to x/scale, of two the even one, plus
// zero, and at least and at most what the type holds: ONNX's QuantizeLinear, of the exact
// quotient. scale is spread over x as numpy does, and so is zero, of whole numbers, unless
// it is nil for 0. A NaN, and 0/0, is an error.
func Quantize(dst, x, scale, zero *tensor.Tensor, to Integer) error {
	least, greatest := to.Range()
	in := []*tensor.Tensor{x, scale}
	if zero != nil {
		in = append(in, zero)
	}
	var odd atomic.Bool
	each(dst, in, func(d []float64, in []run) {
		x, s, z := in[0], in[1], run{data: nothing}
		if zero != nil {
			z = in[2]
		}
		k := asm.WholeKernels()
		if x.step == 0 || s.step+z.step > 0 {
			k = nil
		}
		for i := 0; i < len(d); {
			if n := (len(d) - i) &^ 7; k != nil && n > 0 {
				i += k.Quantize(&d[i], &x.data[i], n, &[4]float64{s.data[0], z.data[0], least, greatest})
			}
			for end := min(i+8, len(d)); i < end; i++ {
				v := quantized(x.data[x.step*i], s.data[s.step*i])
				if v != v {
					odd.Store(true)
				}
				d[i] = min(max(v+z.data[z.step*i], least), greatest) + 0
			}
		}
	})
	if odd.Load() {
		i := slices.IndexFunc(dst.Data, func(v float64) bool { return v != v })
		return fmt.Errorf("element %d: NaN: want a number to quantize", i)
	}
	return nil
}

// nothing is the zero point that is not given.
var nothing = []float64{0}

// quantized returns the whole number next to a/b, of two the even one.
func quantized(a, b float64) float64 {
	q := a / b
	v := math.RoundToEven(q)
	if math.Abs(q-v) == 0.5 { // only then may it be another one
		return nearest(a, b)
	}
	return v
}

// nearest returns the whole number next to a/b, of two the even one. a/b as float64 has it
// is on the right side of what lies halfway between two, or there where a/b is beside it:
// then the sign of a - h b tells.
func nearest(a, b float64) float64 {
	q := a / b
	n := math.RoundToEven(q)
	if h := math.Floor(q) + 0.5; q == h && math.Abs(h) < 1<<51 {
		switch rest := math.FMA(-h, b, a); {
		case rest > 0 == (b > 0) && rest != 0:
			return h + 0.5
		case rest != 0:
			return h - 0.5
		}
	}
	return n
}

// Dequantize sets dst to (x - zero) scale, rounded once to dst.Format: ONNX's
// DequantizeLinear. x and zero are of whole numbers, zero nil for 0; scale and zero are
// spread over x as numpy does. A Float64 scale needs a Float64 dst, whose product is
// rounded as IEEE 754 does.
func Dequantize(dst, x, scale, zero *tensor.Tensor) {
	mustNotNarrow(dst, scale)
	in := []*tensor.Tensor{x, scale}
	if zero != nil {
		in = append(in, zero)
	}
	each(dst, in, func(d []float64, in []run) {
		x, s := in[0], in[1]
		for i := range d {
			v := x.data[x.step*i]
			if zero != nil {
				v -= in[2].data[in[2].step*i]
			}
			by := s.data[s.step*i]
			y := float64(v * by)
			if p := double.Product(v, by); dst.Format != fp16.Float64 && y-y == 0 && p.Lo != 0 {
				y = odd(p)
			}
			d[i] = dst.Format.Round(y)
		}
	})
}

func sameSize(dst, src *tensor.Tensor) {
	if len(dst.Data) != len(src.Data) || dst.Format != fp16.Int64 {
		panic("pointwise: want a destination of as many whole numbers as the source has")
	}
}

// QuantizeDynamic is Quantize of finite numbers with what fits them: uint8's 255 steps from the
// least of them, or 0, to the greatest, or 0. It sets scale, of one number, to that over 255,
// rounded once to its format, or to 1 where it would be 0; zero, of one whole number, to the one
// next to what 0 is at by this scale, of two the even one; and dst by both: ONNX's
// DynamicQuantizeLinear, of exact quotients. Numbers that are not finite are errors.
func QuantizeDynamic(dst, scale, zero, x *tensor.Tensor) error {
	sameSize(dst, x)
	least, greatest, err := ends(x.Data)
	if err != nil {
		return err
	}
	step := (greatest - least) / 255
	// The difference and the quotient are rounded: 2 U, and what they are relative to.
	if f := scale.Format; f == fp16.Float64 {
	} else if y, ok := f.Decide(step, 2.1*0x1p-53*step); ok {
		step = y
	} else {
		span := new(big.Rat).SetFloat64(greatest)
		span.Sub(span, new(big.Rat).SetFloat64(least))
		step = f.Round(exact.Ratio(span.Quo(span, big.NewRat(255, 1))))
	}
	if step == 0 {
		step = 1
	}
	scale.Data[0] = step
	zero.Data[0] = min(max(nearest(-least, step), 0), 255) + 0
	return Quantize(dst, x, scale, zero, Uint8)
}

// ends returns the least and the greatest of numbers and 0. Numbers that are not finite are errors.
func ends(x []float64) (least, greatest float64, err error) {
	if least, greatest = Ends(x); least == least {
		return least, greatest, nil
	}
	i := slices.IndexFunc(x, func(v float64) bool { return v-v != 0 })
	return 0, 0, fmt.Errorf("element %d: %v: want a finite number to quantize", i, x[i])
}

// Ends returns the least and the greatest of numbers and 0, NaN if one is not finite.
func Ends(x []float64) (least, greatest float64) {
	first := 0
	if k := asm.WholeKernels(); k != nil && len(x) >= 8 {
		var low, high [8]float64
		first = len(x) &^ 7
		if k.Extremes(&x[0], first, &low, &high) != 0 {
			return nan, nan
		}
		least, greatest = slices.Min(low[:]), slices.Max(high[:])
	}
	for _, v := range x[first:] {
		if v-v != 0 {
			return nan, nan
		}
		least, greatest = min(least, v), max(greatest, v)
	}
	return least, greatest
}
