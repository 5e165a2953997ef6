package fp16

import (
	"fmt"
	"strconv"
	"strings"
)

// Text returns v, rounded to the format, as a decimal that reads back as exactly
// this number in float64, and its bits as a dump of the device's memory shows
// them: "0.333251953125 (0x3555)" in Float16. What is no real number is NaN, +Inf
// or -Inf.
func (f Format) Text(v float64) string {
	bits := f.Bits(v)
	return fmt.Sprintf("%s (0x%0*x)", strconv.FormatFloat(f.FromBits(bits), 'g', -1, 64), 2*f.Bytes(), bits)
}

// ParseBits returns the number whose bits s writes as Text does: 0x and all of
// their hexadecimal digits, 4, 8 or 16. Anything else is an error, and so is a
// TF32 number that is not on its grid.
func (f Format) ParseBits(s string) (float64, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	bits, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || len(digits) != 2*f.Bytes() {
		return 0, fmt.Errorf("bits %.60q of a %v: want 0x and %d hexadecimal digits", s, f, 2*f.Bytes())
	}
	if f == TF32 && bits&(1<<tail-1) != 0 {
		return 0, fmt.Errorf("bits %.60q of a %v: want the last %d bits 0", s, f, tail)
	}
	return f.FromBits(bits), nil
}
