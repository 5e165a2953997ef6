package resize

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// wide returns a random axis of ONNX's Resize with all that it may have, and its sizes.
func wide(r *rand.Rand) (a Axis, in, out int) {
	in, out = 1+r.IntN(9), 1+r.IntN(9)
	a = Axis{Coordinates: Coordinates(r.IntN(6)), Antialias: r.IntN(2) == 0, Exclude: r.IntN(2) == 0}
	switch r.IntN(3) {
	case 0: // by a scale, as float32 has it
		a.Scale = float64(float32([]float64{0.6, 0.3, 1.0 / 3, 1.5, 2.7, 0.5, math.Exp(r.NormFloat64() / 2)}[r.IntN(7)]))
		out = max(int(float64(in)*a.Scale), 1)
	case 1: // by the ratio of another axis
		a.Ratio = [2]int{1 + r.IntN(9), 1 + r.IntN(9)}
		out = max((2*in*a.Ratio[0]+a.Ratio[1])/(2*a.Ratio[1]), 1)
	}
	if a.Antialias && float64(in)*max(a.Scale, float64(a.Ratio[0])/float64(max(a.Ratio[1], 1))) < 0.25 {
		a.Scale, a.Ratio = 0, [2]int{}
	}
	if a.Coordinates == CropAndResize {
		ends := []float64{0, 1, float64(float32(0.1)), float64(float32(0.9)), -0.25, 1.5, 0x1p-149, r.Float64()}
		a.First, a.Last, a.Outside = ends[r.IntN(8)], ends[r.IntN(8)], float64(r.IntN(3)-1)*1e10
	}
	return a, in, out
}

// coefficients of cubic weights: PyTorch's two, such as have many bits or are small, and one
// with which weights that are left may add up to 0.
var coefficients = []float64{-0.75, -0.5, float64(float32(0.1)), float64(float32(1e-5)), 0x1p-149, 4, -16, -1.0 / 3}

// TestWindows: antialiased sums, such as leave out what is beyond the ends, parts of the
// source, aligned corners of fractional sizes and any coefficient are the judge's to the
// last bit, all axes together.
func TestWindows(t *testing.T) {
	r, o := rand.New(rand.NewPCG(21, 22)), hashed.New(t, *elements)
	for n, seen := 0, 0; seen < *elements; n++ {
		var axes []Axis
		var in, out []int
		for range 1 + []int{0, 1, 1, 1, 2, 3}[r.IntN(6)] {
			a, m, k := wide(r)
			axes, in, out = append(axes, a), append(in, m), append(out, k)
		}
		if len(in) > 2 {
			for i := range in {
				in[i], out[i] = min(in[i], 3), min(out[i], 2)
			}
		}
		for i := range axes { // sizes may have become less than the scale makes them
			if axes[i].fault(in[i]) != "" {
				axes[i].Scale, axes[i].Ratio = 0, [2]int{}
			}
		}
		shape := func(s []int) []int { return append([]int{2}, s...) }
		x := random(r, n%len(kinds), append(formats, fp16.Float32)[r.IntN(5)], shape(in))
		f := append(formats, fp16.Float32)[r.IntN(5)]
		y := tensor.New(f, shape(out)...)
		coefficient := coefficients[r.IntN(len(coefficients))]
		k, name := curve(tent), "linear"
		if r.IntN(2) == 0 {
			k, name = cubicCurve(coefficient), "cubic"
			Cubic(y, x, coefficient, axes...)
		} else {
			Linear(y, x, axes...)
		}
		o.Add(name, y.Data...)
		seen += len(y.Data)
		if !o.Judge {
			continue
		}
		judge := newJudge(axes, in, out, k)
		for i, v := range y.Data {
			want := judge.number(x.Data, i, f)
			if !sameBits(v, want) {
				t.Fatalf("trial %d: %s, %s %v to %v %v, %g, %+v: number %d is %x: want %x",
					n, name, kinds[n%len(kinds)].name, x.Dims(), out, f, coefficient, axes, i, v, want)
			}
		}
	}
}

// judge knows the shares of a resizing, by axis and place.
type judge struct {
	axes    []Axis
	in, out []int
	shares  [][][]share
	beyond  [][]bool
}

func newJudge(axes []Axis, in, out []int, k curve) *judge {
	j := &judge{axes, in, out, make([][][]share, len(axes)), make([][]bool, len(axes))}
	for a := range axes {
		for i := range out[a] {
			p := position(axes[a], i, in[a], out[a])
			j.beyond[a] = append(j.beyond[a], beyond(axes[a], p, in[a]))
			j.shares[a] = append(j.shares[a], sharesOf(axes[a], p, in[a], out[a], k))
		}
	}
	return j
}

// number returns that of the result, by fractions where two float64 do not tell.
func (j *judge) number(data []float64, i int, f fp16.Format) float64 {
	size, place := tensor.Size(j.in), make([]int, len(j.in))
	for a := len(j.in) - 1; a >= 0; a-- {
		place[a], i = i%j.out[a], i/j.out[a]
	}
	at := make([][]share, len(j.in))
	for a := range j.in {
		if j.beyond[a][place[a]] {
			return f.Round(j.axes[a].Outside)
		}
		if at[a] = j.shares[a][place[a]]; at[a] == nil {
			return fp16.NaN
		}
	}
	plane := data[i*size:][:size]
	return ballOf(plane, j.in, at).Or(f, func() float64 {
		sum, _ := weighted(plane, j.in, at)
		return bigref.Round(sum, f)
	})
}

// TestOutside: nearest in a part of the source gives what stands outside for positions
// beyond its ends, on any axis.
func TestOutside(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for n := range 300 {
		a, ha, oa := wide(r)
		b, hb, ob := wide(r)
		a.Coordinates, b.Coordinates = CropAndResize, CropAndResize
		x := random(r, n%len(kinds), fp16.Float32, []int{ha, hb})
		y := tensor.New(fp16.BFloat16, oa, ob)
		rounding := Rounding(r.IntN(4))
		Nearest(y, x, rounding, a, b)
		for i, v := range y.Data {
			p, q := position(a, i/ob, ha, oa), position(b, i%ob, hb, ob)
			place := func(at *big.Rat, n int) int { return min(max(next(at, rounding), 0), n-1) }
			want := a.Outside
			switch {
			case beyond(a, p, ha):
			case beyond(b, q, hb):
				want = b.Outside
			default:
				want = x.Data[place(p, ha)*hb+place(q, hb)]
			}
			if want = y.Format.Round(want); !sameBits(v, want) {
				t.Fatalf("trial %d: %+v, %+v: number %d is %v: want %v", n, a, b, i, v, want)
			}
		}
	}
}

// TestInfluence: a number that is not finite reaches the results in whose window it stands,
// and no other.
func TestInfluence(t *testing.T) {
	for _, antialias := range []bool{false, true} {
		for _, k := range []kernel{triangle, keys(-0.5)} {
			for _, size := range []int{4, 9, 12, 31} {
				for place := range 12 {
					x, y := tensor.New(fp16.Float32, 12), tensor.New(fp16.Float32, size)
					x.Data[place] = []float64{fp16.NaN, math.Inf(1), math.Inf(-1)}[place%3]
					a := Axis{Antialias: antialias, Exclude: antialias}
					if k.support == 1 {
						Linear(y, x, a)
					} else {
						Cubic(y, x, -0.5, a)
					}
					radius := float64(k.support)
					if antialias {
						radius *= max(1, 12/float64(size))
					}
					for i, v := range y.Data {
						p := (float64(i)+0.5)*12/float64(size) - 0.5
						if k.support == 1 && !antialias {
							p = max(p, 0)
						}
						d := math.Abs(float64(place) - p)
						if d < radius-1e-9 && v == 0 || d > radius+1e-9 && v != 0 {
							t.Errorf("12 to %d, antialias %v: number %d, at %g, is %v with %v at %d",
								size, antialias, i, p, v, x.Data[place], place)
						}
					}
				}
			}
		}
	}
}
