package noise

import "fmt"

// Kind names a primitive draw of a block.
type Kind uint8

// The primitive draws. Normal is N(0,1). Exponential is Exp(1). Bernoulli is 1
// with probability p, else 0. ComplexNormal is a complex normal of unit total
// variance (each part of variance 1/2), stored as pairs (re, im).
const (
	Normal Kind = iota
	Exponential
	Bernoulli
	ComplexNormal
)

var kindNames = [...]string{"normal", "exponential", "bernoulli", "normal_complex"}

// String returns the name used in tapes and messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Draws supplies the primitive draws of one operator application, in the order
// in which the operator asks for them.
//
// A source of which some realizations can be drawn without the others has a method
// Slice(lo, hi int) (Draws, bool) as well, which returns the draws for realizations lo to
// hi-1 of its own alone; a [Counter]'s has. Others are drawn whole and shared.
type Draws interface {
	// Draw fills dst with the next primitive draw. shape is that of the
	// tensor being drawn, batch first, and its product is the length of dst
	// (for ComplexNormal, half of it). p is the probability of Bernoulli and
	// is ignored by other kinds. The numbers are float32 numbers in every
	// mode, so that runs of different precision share their noise (only a
	// TorchCPU that is told to draws half types as PyTorch does). A source
	// that lacks the draw, or has one of another kind or shape, returns an
	// error.
	Draw(kind Kind, p float64, shape []int, dst []float64) error
}
