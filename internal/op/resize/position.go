package resize

import (
	"fmt"
	"math/big"
)

// Coordinates is the rule by which number i of a result of n numbers gets its position in
// a source of m numbers. s is the scale, n/m if none is given, and N = s m, which need not
// be whole. The names are ONNX's.
//
//	half_pixel            (i+1/2)/s - 1/2: PyTorch's align_corners=False
//	pytorch_half_pixel    the same, but 0 if n is 1
//	half_pixel_symmetric  the same, but about the middle: m/2 (1 - n/N) more
//	align_corners         i (m-1)/(N-1), and 0 if N is at most 1
//	asymmetric            i/s: that of PyTorch's nearest
//	tf_crop_and_resize    (m-1) (First + i (Last-First)/(N-1)), and the middle of
//	                      this part if N is at most 1
type Coordinates uint8

// The rules.
const (
	HalfPixel Coordinates = iota
	PyTorchHalfPixel
	HalfPixelSymmetric
	AlignCorners
	Asymmetric
	CropAndResize
)

var coordinates = []string{
	"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric", "tf_crop_and_resize",
}

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

// scale returns the scale p/q in lowest terms.
func (a *Axis) scale(in, out int) (p, q *big.Int) {
	s := big.NewRat(int64(max(out, 1)), int64(in))
	switch {
	case a.Scale != 0:
		s.SetFloat64(a.Scale)
	case a.given():
		s.SetFrac64(int64(a.Ratio[0]), int64(a.Ratio[1]))
	}
	return s.Num(), s.Denom()
}

func (a *Axis) positions(in, out int) positions {
	n := func(v int) *big.Int { return big.NewInt(int64(v)) }
	p, q := a.scale(in, out)
	beyond := new(big.Int).Mul(n(in), p) // (N-1) q
	beyond.Sub(beyond, q)
	switch {
	case a.Coordinates == CropAndResize:
		return a.crop(in, beyond, q)
	case a.Coordinates == PyTorchHalfPixel && out <= 1, a.Coordinates == AlignCorners && beyond.Sign() <= 0:
		return positions{n(0), n(0), n(1)}
	case a.Coordinates == AlignCorners && a.given():
		return positions{q.Mul(q, n(in-1)), n(0), beyond}
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

// crop returns the positions in a part of the source: from its begin b on, N-1 steps are its
// length, where N-1 is beyond/q.
func (a *Axis) crop(in int, beyond, q *big.Int) positions {
	end := big.NewRat(int64(in-1), 1)
	part := func(v float64) *big.Rat { r := new(big.Rat).SetFloat64(v); return r.Mul(r, end) }
	b, step := part(a.First), part(a.Last)
	if beyond.Sign() <= 0 {
		b.Add(b, step).Mul(b, big.NewRat(1, 2))
		return positions{new(big.Int), b.Num(), b.Denom()}
	}
	step.Sub(step, b).Mul(step, new(big.Rat).SetFrac(q, beyond))
	mul := func(x, y *big.Int) *big.Int { return new(big.Int).Mul(x, y) }
	return positions{mul(step.Num(), b.Denom()), mul(b.Num(), step.Denom()), mul(step.Denom(), b.Denom())}
}

// at returns the numerator of position i.
func (p *positions) at(i int) *big.Int {
	n := big.NewInt(int64(i))
	return n.Add(n.Mul(n, p.step), p.start)
}

// floor returns the floor of n/d.
func floor(n, d *big.Int) *big.Int {
	q, _ := new(big.Int).DivMod(n, d, new(big.Int)) // d is positive
	return q
}

// clamp returns a number, or what is nearest to it between least and most.
func clamp(n *big.Int, least, most int) int {
	switch {
	case n.Cmp(big.NewInt(int64(least))) < 0:
		return least
	case n.Cmp(big.NewInt(int64(most))) > 0:
		return most
	}
	return int(n.Int64())
}

// outside reports whether CropAndResize puts position n beyond the source.
func (a *Axis) outside(n *big.Int, p *positions, in int) bool {
	end := new(big.Int).Mul(p.denominator, big.NewInt(int64(in-1)))
	return a.Coordinates == CropAndResize && (n.Sign() < 0 || n.Cmp(end) > 0)
}
