package resize

import (
	"math/big"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Rounding is the rule by which a position takes the number next to it. The names are
// ONNX's. PyTorch's nearest is Floor of asymmetric coordinates, its nearest-exact
// PreferCeil of half_pixel's.
type Rounding uint8

// The roundings. Those that prefer take the nearer number, and of two as near the lower or
// the upper.
const (
	Floor Rounding = iota
	Ceil
	PreferFloor
	PreferCeil
)

var roundings = []string{"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}

// ParseRounding returns the rounding of that name, or an error that lists them.
func ParseRounding(name string) (Rounding, error) {
	i, err := parse(name, roundings)
	return Rounding(i), err
}

// Nearest sets dst to the numbers of src that are next to the positions.
func Nearest(dst, src *tensor.Tensor, r Rounding, axes ...Axis) {
	if r > PreferCeil {
		panic("resize: unknown rounding")
	}
	l := newLayout(dst, src, axes)
	at := make([][]int, len(axes))
	for a := range axes {
		at[a] = r.neighbours(&l.axes[a], l.in[a], l.out[a])
	}
	l.each(dst, src, func(out, in []float64) {
		if len(out) > 0 {
			pick(dst.Format, out, in, l, at)
		}
	})
}

// outside is the place of a position that CropAndResize puts beyond the source.
const outside = -1

// pick sets out to the numbers of in at the places along the first axis and those after it.
func pick(f fp16.Format, out, in []float64, l *layout, at [][]int) {
	a := len(l.in) - len(at)
	if len(at) == 1 {
		for i, k := range at[0] {
			if out[i] = l.axes[a].Outside; k != outside {
				out[i] = in[k]
			}
		}
		f.RoundSlice(out, out)
		return
	}
	n, m := len(out)/len(at[0]), len(in)/l.in[a]
	for i, k := range at[0] {
		switch to := out[i*n : (i+1)*n]; {
		case k == outside:
			fill(to, f.Round(l.axes[a].Outside))
		case i > 0 && k == at[0][i-1]:
			copy(to, out[(i-1)*n:])
		default:
			pick(f, to, in[k*m:(k+1)*m], l, at[1:])
		}
	}
}

func fill(out []float64, v float64) {
	for i := range out {
		out[i] = v
	}
}

// neighbours returns the number next to every position of an axis.
func (r Rounding) neighbours(a *Axis, in, out int) []int {
	all := a.positions(in, out)
	d, one, two := all.denominator, big.NewInt(1), new(big.Int).Lsh(all.denominator, 1)
	at := make([]int, out)
	for i := range at {
		p := all.at(i)
		if a.outside(p, &all, in) {
			at[i] = outside
			continue
		}
		of := d
		switch r { // each is a floor
		case Ceil: // (p + d - 1)/d
			p.Add(p, d).Sub(p, one)
		case PreferCeil: // p/d + 1/2
			p.Lsh(p, 1).Add(p, d)
			of = two
		case PreferFloor: // the ceiling of p/d - 1/2, (2p - d + 2d - 1)/2d
			p.Lsh(p, 1).Add(p, d).Sub(p, one)
			of = two
		}
		at[i] = clamp(floor(p, of), 0, in-1)
	}
	return at
}
