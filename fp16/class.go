package fp16

import "fmt"

// Class says what kind of floating-point number a number is.
type Class uint8

// The classes.
const (
	ClassZero Class = iota
	ClassSubnormal
	ClassNormal
	ClassInfinite
	ClassNaN
)

var classes = [...]string{"zero", "subnormal", "normal", "infinite", "NaN"}

// String returns zero, subnormal, normal, infinite or NaN.
func (c Class) String() string {
	if int(c) < len(classes) {
		return classes[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Class returns the class of v, rounded to the format, in the format: 2^-20 is
// normal in BFloat16, subnormal in Float16.
func (f Format) Class(v float64) Class {
	if v != v {
		return ClassNaN
	}
	w := &walks[f]
	switch n := f.steps(v); {
	case n == 0:
		return ClassZero
	case n < 1<<w.frac:
		return ClassSubnormal
	case n < w.inf:
		return ClassNormal
	}
	return ClassInfinite
}
