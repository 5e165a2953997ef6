package index

import "github.com/refrun/refrun/tensor"

// Padding says what stands beyond a source.
type Padding uint8

// The paddings.
const (
	Constant  Padding = iota // a given number
	Reflect                  // the source mirrored at its first and its last number
	Replicate                // its first and its last number
	Circular                 // the source again
)

// Pad sets dst to src with so many numbers before it along each axis; behind it there are
// as many as dst has room for. A negative number of them cuts off. Mirrored and repeated
// is the whole source, but a circular one is cut first.
func Pad(dst, src *tensor.Tensor, before []int, p Padding, value float64) {
	rank := len(src.Shape)
	want(len(dst.Shape) == rank && len(before) == rank, "a padding of another rank")
	if len(dst.Data) == 0 {
		return
	}
	by, m := strides(src.Shape), make(maps, rank)
	for a, n := range dst.Shape {
		d := src.Shape[a]
		lo, hi := 0, d // what is there to be repeated
		if p == Circular {
			lo = max(0, -before[a])
			hi = min(d, n-before[a])
		}
		want(p == Constant || lo < hi || before[a] == 0 && n == d, "a padding of nothing")
		m[a] = line(n, func(i int) int {
			at := i - before[a]
			if at < lo || at >= hi {
				switch p {
				case Constant:
					return outside
				case Reflect:
					at = modulo(at, max(2*(d-1), 1))
					at = min(at, 2*(d-1)-at)
				case Replicate:
					at = min(max(at, 0), d-1)
				case Circular:
					at = lo + modulo(at-lo, hi-lo)
				}
			}
			return at * by[a]
		})
	}
	m.move(dst, src, value)
}
