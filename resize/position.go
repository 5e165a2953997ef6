package resize

import (
	"fmt"
	"math/big"
)

// Coordinates is the rule by which number i of a result of n numbers gets its position in
// a source of m numbers. s is the scale, n/m if none is given. The names are ONNX's.
//
//	half_pixel            (i+1/2)/s - 1/2: PyTorch's align_corners=False
//	pytorch_half_pixel    the same, but 0 if n is 1
//	half_pixel_symmetric  the same, but about the middle: m/2 (1 - n/(s m)) more
//	align_corners         i (m-1)/(n-1), and 0 if n is 1
//	asymmetric            i/s: that of PyTorch's nearest
type Coordinates uint8

// The rules.
const (
	HalfPixel Coordinates = iota
	PyTorchHalfPixel
	HalfPixelSymmetric
	AlignCorners
	Asymmetric
)

var coordinates = []string{"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric"}

// String returns the name of the rule.
func (c Coordinates) String() string {
	if int(c) < len(coordinates) {
		return coordinates[c]
	}
	return fmt.Sprintf("Coordinates(%d)", uint8(c))
}

// ParseCoordinates returns the rule of that name, or an error that lists them.
func ParseCoordinates(name string) (Coordinates, error) {
	i, err := parse(name, coordinates)
	return Coordinates(i), err
}

func parse(name string, names []string) (int, error) {
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%.60q: want one of %q", name, names)
}

// positions returns the position of every number of the result, as integers over one
// denominator.
func (a Axis) positions(in, out int) (numerators []*big.Int, denominator *big.Int) {
	n := func(v int) *big.Int { return big.NewInt(int64(v)) }
	one, two := n(1), n(2)
	// The scale is p/q, in lowest terms.
	s := new(big.Rat)
	if a.Scale != 0 {
		s.SetFloat64(a.Scale)
	} else if out > 0 {
		s.SetFrac64(int64(out), int64(in))
	}
	p, q := s.Num(), s.Denom()
	denominator = one
	step, start := new(big.Int), new(big.Int) // position i is (i step + start)/denominator
	switch {
	case out == 1 && (a.Coordinates == AlignCorners || a.Coordinates == PyTorchHalfPixel), out == 0:
	case a.Coordinates == AlignCorners:
		step, denominator = n(in-1), n(out-1)
	case a.Coordinates == Asymmetric:
		step, denominator = q, p
	default:
		// ((2i+1) q - p)/2p
		denominator = new(big.Int).Mul(two, p)
		step.Mul(two, q)
		start.Sub(q, p)
		if a.Coordinates == HalfPixelSymmetric { // and (m p - n q)/2p
			start.Add(start, new(big.Int).Mul(n(in), p))
			start.Sub(start, new(big.Int).Mul(n(out), q))
		}
	}
	numerators = make([]*big.Int, out)
	at := new(big.Int).Set(start)
	for i := range numerators {
		numerators[i] = new(big.Int).Set(at)
		at.Add(at, step)
	}
	return numerators, denominator
}

// floor returns the floor of n/d, between least and most, and what is above it, times d.
func floor(n, d *big.Int, least, most int) (at int, rest *big.Int) {
	q, rest := new(big.Int).DivMod(n, d, new(big.Int))
	switch {
	case q.Cmp(big.NewInt(int64(least))) < 0:
		at = least
	case q.Cmp(big.NewInt(int64(most))) > 0:
		at = most
	default:
		at = int(q.Int64())
	}
	return at, rest
}
