package graph

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// Mode says in which arithmetic an operator is evaluated: the number formats
// between its operations, and what is cast where.
//
//	float64   everything float64 in a fixed order: the truth of bounds and twins
//	float32   every operation rounds once to float32
//	float32:fast  as float32, but in the arithmetic of FastContract
//	tf32      as float32, but convolutions round their operands to TF32
//	float16   as PyTorch's autocast to float16: operation by operation a
//	bfloat16  narrow or a wide result, as docs/NUMERICS.md, section 10, says
type Mode struct {
	Precision fp16.Format
	Autocast  Autocast      // of Float16 and BFloat16; NoAutocast for others
	TF32      fp16.Rounding // of TF32 operands; the zero value, nearest even, for others
	Fast      bool          // of Float32: by FastContract
}

// ParseMode returns the mode of a precision (float64, float32, tf32, float16 or
// bfloat16; "tf32:away" and "tf32:truncate" name the other roundings that
// devices have for TF32 operands, "float32:fast" and "float32:fast-7" the arithmetic of
// [FastContract]) and an autocast (see [ParseAutocast]; "" is
// CUDA's, or none where the precision has none). Unknown names, an autocast
// for a precision without one and float16 on a CPU of PyTorch 1.13, which has
// none, are errors.
func ParseMode(precision, autocast string) (Mode, error) {
	name, rounding, given := strings.Cut(precision, ":")
	f, err := fp16.ParseFormat(name)
	if err != nil {
		return Mode{}, err
	}
	m := Mode{Precision: f}
	switch {
	case !given:
	case f == fp16.Float32 && (rounding == "fast" || rounding == FastContract):
		m.Fast = true
	case f == fp16.Float32 && strings.HasPrefix(rounding, "fast-"):
		return Mode{}, fmt.Errorf("precision %.60q: another version of fast arithmetic: this program has %s",
			precision, FastContract)
	case f != fp16.TF32:
		return Mode{}, fmt.Errorf("precision %.60q: want a rounding after tf32 only, and fast after float32 only", precision)
	default:
		if m.TF32, err = fp16.ParseRounding(rounding); err != nil {
			return Mode{}, err
		}
	}
	switch {
	case m.half() || autocast != "":
		if m.Autocast, err = ParseAutocast(autocast); err != nil {
			return Mode{}, err
		}
	}
	return m, m.Check()
}

// Check refuses a mode that no device has.
func (m Mode) Check() error {
	switch {
	case m.Precision > fp16.BFloat16:
		return fmt.Errorf("precision %v: want a number format", m.Precision)
	case m.TF32 != fp16.NearestEven && m.Precision != fp16.TF32:
		return fmt.Errorf("precision %v: has no TF32 operands to round: want tf32", m.Precision)
	case m.Fast && m.Precision != fp16.Float32:
		return fmt.Errorf("precision %v: has no fast arithmetic: want float32", m.Precision)
	case m.half() && m.Autocast == NoAutocast:
		return fmt.Errorf("precision %v: want an autocast, cuda or cpu", m.Precision)
	case !m.half() && m.Autocast != NoAutocast:
		return fmt.Errorf("autocast %v: precision %v has none: want float16 or bfloat16", m.Autocast, m.Precision)
	case m.Autocast == CPU113 && m.Precision == fp16.Float16:
		return fmt.Errorf("autocast %v: has no float16: want bfloat16, or cpu:2.x", m.Autocast)
	}
	return nil
}

// String returns the canonical name of the mode, such as "float32", "float32:fast-7",
// "tf32:away" or "float16/autocast-cuda".
func (m Mode) String() string {
	s := m.Precision.String()
	if m.TF32 != fp16.NearestEven {
		s += ":" + m.TF32.String()
	}
	if m.Fast {
		s += ":" + FastContract
	}
	if m.Autocast != NoAutocast {
		s += "/autocast-" + m.Autocast.String()
	}
	return s
}

func (m Mode) half() bool { return m.Precision.Half() }

// Wide returns the widest format of the mode: Float64 or Float32. Weights,
// initial conditions and the states that a policy sums are of it.
func (m Mode) Wide() fp16.Format {
	if m.Precision == fp16.Float64 {
		return fp16.Float64
	}
	return fp16.Float32
}

// Output returns the format of a convolution's output, and so of an operator that ends
// with one.
func (m Mode) Output() fp16.Format {
	_, f := m.Product("conv2d", m.Wide())
	return f
}

// The contracts' versions (docs/NUMERICS.md). Results of one of them have the same bits everywhere.
const (
	// Contract is the numerical contract: each result is rounded once.
	Contract = "1"
	// FastContract is fast arithmetic: float32 operations in a written order, for convolutions, products, norms,
	// softmax and GELU, which are not rounded once.
	FastContract = "fast-7"
)
