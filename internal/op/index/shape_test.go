package index

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// trials calls body with shapes of ranks from least to 5 until so many numbers were made.
func trials(t *testing.T, seed uint64, least int, body func(o *outputs, r *rand.Rand, shape []int)) {
	r, o := rand.New(rand.NewPCG(seed, 7)), &outputs{Outputs: hashed.New(t, *elements)}
	for o.n < *elements {
		body(o, r, someShape(r, least))
	}
}

func someFormat(r *rand.Rand) fp16.Format { return formats[r.IntN(len(formats))] }

func TestPermute(t *testing.T) {
	trials(t, 1, 0, func(o *outputs, r *rand.Rand, shape []int) {
		order, out := r.Perm(len(shape)), make([]int, len(shape))
		for a, of := range order {
			out[a] = shape[of]
		}
		src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), out...)
		Permute(dst, src, order...)
		holds(t, o, dst, func(at []int) float64 {
			from := make([]int, len(at))
			for a, of := range order {
				from[of] = at[a]
			}
			return src.Data[place(shape, from)]
		})
	})
}

func TestExpandAndRepeat(t *testing.T) {
	trials(t, 2, 0, func(o *outputs, r *rand.Rand, shape []int) {
		front := make([]int, r.IntN(3))
		for a := range front {
			front[a] = 1 + r.IntN(3)
		}
		out := append(front, shape...)
		for a := range shape {
			if r.IntN(2) == 0 {
				shape[a] = 1
			}
		}
		src := numbered(someFormat(r), shape...)
		dst := tensor.New(someFormat(r), out...)
		Expand(dst, src)
		from := func(at []int) float64 {
			at = at[len(front):]
			for a := range at {
				at[a] %= shape[a]
			}
			return src.Data[place(shape, at)]
		}
		holds(t, o, dst, from)
		for a := range shape {
			out[len(front)+a] = shape[a] * r.IntN(4)
		}
		dst = tensor.New(someFormat(r), out...)
		Repeat(dst, src)
		holds(t, o, dst, from)
	})
}

func TestSlice(t *testing.T) {
	trials(t, 3, 0, func(o *outputs, r *rand.Rand, shape []int) {
		n := len(shape)
		start, step, out := make([]int, n), make([]int, n), make([]int, n)
		for a, d := range shape {
			step[a] = r.IntN(7) - 3
			if d == 0 {
				continue
			}
			start[a] = r.IntN(d)
			out[a] = r.IntN(d + 1)
			for out[a] > 0 && (start[a]+(out[a]-1)*step[a] < 0 || start[a]+(out[a]-1)*step[a] >= d) {
				out[a]--
			}
		}
		src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), out...)
		Slice(dst, src, start, step)
		holds(t, o, dst, func(at []int) float64 {
			for a := range at {
				at[a] = start[a] + step[a]*at[a]
			}
			return src.Data[place(shape, at)]
		})
	})
}

func TestRoll(t *testing.T) {
	trials(t, 4, 0, func(o *outputs, r *rand.Rand, shape []int) {
		shift := make([]int, len(shape))
		for a := range shift {
			shift[a] = r.IntN(41) - 20
		}
		if len(shift) > 0 && r.IntN(10) == 0 {
			shift[0] = math.MinInt
		}
		src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), shape...)
		Roll(dst, src, shift)
		if o.add(dst); !o.Judge {
			return
		}
		each(t, src, func(at []int) float64 { // what was at i is now at i + shift
			v := src.Data[place(shape, at)]
			for a := range at {
				at[a] = ((at[a]+shift[a]%shape[a])%shape[a] + shape[a]) % shape[a]
			}
			if got := dst.Data[place(shape, at)]; math.Float64bits(got) != math.Float64bits(dst.Format.Round(v)) {
				t.Fatalf("%v rolled by %v: %v at %v, want %v", shape, shift, got, at, v)
			}
			return v
		})
	})
}

func TestRepeatInterleave(t *testing.T) {
	trials(t, 5, 1, func(o *outputs, r *rand.Rand, shape []int) {
		axis, times := r.IntN(len(shape)), r.IntN(4)
		out := append([]int(nil), shape...)
		out[axis] *= times
		src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), out...)
		RepeatInterleave(dst, src, axis, times)
		holds(t, o, dst, func(at []int) float64 {
			at[axis] /= times
			return src.Data[place(shape, at)]
		})
	})
}

func TestTriangle(t *testing.T) {
	trials(t, 6, 2, func(o *outputs, r *rand.Rand, shape []int) {
		n := len(shape)
		diagonal := r.IntN(13) - 6
		switch r.IntN(20) {
		case 0:
			diagonal = math.MaxInt
		case 1:
			diagonal = math.MinInt
		}
		for _, upper := range []bool{false, true} {
			src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), shape...)
			Triangle(dst, src, diagonal, upper)
			holds(t, o, dst, func(at []int) float64 {
				d := at[n-1] - at[n-2]
				if upper && d >= diagonal || !upper && d <= diagonal {
					return src.Data[place(shape, at)]
				}
				return 0
			})
		}
	})
}

// TestPad: the judge walks from the place in the source to one inside it.
func TestPad(t *testing.T) {
	trials(t, 7, 0, func(o *outputs, r *rand.Rand, shape []int) {
		p := Padding(r.IntN(4))
		before, out := make([]int, len(shape)), append([]int(nil), shape...)
		for a, d := range shape {
			most := 4
			switch {
			case p == Constant:
			case d == 0:
				continue
			case p == Reflect:
				most = d
			}
			after := r.IntN(most+2) - 2
			before[a] = r.IntN(most+2) - 2
			if p != Constant {
				after, before[a] = min(after, most-1), min(before[a], most-1)
			}
			if p == Constant && d+before[a]+after < 0 || p != Constant && d+min(before[a], 0)+min(after, 0) < 1 {
				before[a], after = 0, 0
			}
			out[a] += before[a] + after
		}
		src, dst := numbered(someFormat(r), shape...), tensor.New(someFormat(r), out...)
		value := r.NormFloat64()
		Pad(dst, src, before, p, value)
		holds(t, o, dst, func(at []int) float64 {
			for a, d := range shape {
				i := at[a] - before[a]
				lo, hi := max(0, -before[a]), min(d, out[a]-before[a])
				for i < 0 || i >= d || p == Circular && (i < lo || i >= hi) {
					switch {
					case p == Constant:
						return value
					case p == Reflect && i < 0:
						i = -i
					case p == Reflect:
						i = 2*d - 2 - i
					case p == Replicate && i < 0:
						i++
					case p == Replicate:
						i--
					case i < lo:
						i += hi - lo
					default:
						i -= hi - lo
					}
				}
				at[a] = i
			}
			return src.Data[place(shape, at)]
		})
	})
}

// TestBlocks: both orders by their formulas, and back.
func TestBlocks(t *testing.T) {
	trials(t, 8, 3, func(o *outputs, r *rand.Rand, shape []int) {
		n, b := len(shape), 1+r.IntN(3)
		c, h, w := shape[n-3], shape[n-2], shape[n-1]
		deep := append(append([]int(nil), shape[:n-3]...), c*b*b, h, w)
		flat := append(append([]int(nil), shape[:n-3]...), c, h*b, w*b)
		for _, order := range []Order{CRD, DCR} {
			src, dst := numbered(someFormat(r), deep...), tensor.New(someFormat(r), flat...)
			DepthToSpace(dst, src, b, order)
			channel := func(at []int) {
				i, j := at[n-2]%b, at[n-1]%b
				at[n-2], at[n-1] = at[n-2]/b, at[n-1]/b
				if order == CRD {
					at[n-3] = at[n-3]*b*b + i*b + j
				} else {
					at[n-3] += (i*b + j) * c
				}
			}
			holds(t, o, dst, func(at []int) float64 {
				channel(at)
				return src.Data[place(deep, at)]
			})
			back := tensor.New(fp16.Float64, deep...)
			SpaceToDepth(back, dst, b, order)
			holds(t, o, back, func(at []int) float64 { return dst.Format.Round(src.Data[place(deep, at)]) })
		}
	})
}
