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

// positions are those of the numbers of a result: of number i, i step + start over the
// denominator.
type positions struct{ step, start, denominator *big.Int }

func (a Axis) positions(in, out int) positions {
	n := func(v int) *big.Int { return big.NewInt(int64(v)) }
	// The scale is p/q, in lowest terms.
	s := new(big.Rat)
	if a.Scale != 0 {
		s.SetFloat64(a.Scale)
	} else {
		s.SetFrac64(int64(max(out, 1)), int64(in))
	}
	p, q := s.Num(), s.Denom()
	switch {
	case out <= 1 && (a.Coordinates == AlignCorners || a.Coordinates == PyTorchHalfPixel):
		return positions{n(0), n(0), n(1)}
	case a.Coordinates == AlignCorners:
		return positions{n(in - 1), n(0), n(out - 1)}
	case a.Coordinates == Asymmetric:
		return positions{q, n(0), p}
	}
	start := new(big.Int).Sub(q, p) // ((2i+1) q - p)/2p
	if a.Coordinates == HalfPixelSymmetric {
		start.Add(start, new(big.Int).Mul(n(in), p)) // and (m p - n q)/2p
		start.Sub(start, new(big.Int).Mul(n(out), q))
	}
	return positions{new(big.Int).Lsh(q, 1), start, new(big.Int).Lsh(p, 1)}
}

// at returns the numerator of position i.
func (p *positions) at(i int) *big.Int {
	n := big.NewInt(int64(i))
	return n.Add(n.Mul(n, p.step), p.start)
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
