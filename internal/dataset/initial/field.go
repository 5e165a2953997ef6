package initial

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/op/spectral"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// field is a state [c,n,n] in the making, and its random numbers.
type field struct {
	x      []float64
	c, n   int
	size   float64 // n
	stream noise.Counter
	draws  noise.Draws
	k      uint32    // uniform numbers so far
	kept   []float64 // normals that were drawn and not yet used
}

// conditions is the operator of the counter stream that initial conditions have, as
// those of rollout.White.
const conditions = math.MaxUint32

func newField(seed uint64, c, n int, x []float64) *field {
	f := &field{x: x, c: c, n: n, size: float64(n), stream: noise.Counter{Seed: seed, Operator: conditions}}
	d, err := f.stream.At(0, 0, 1)
	if err != nil {
		panic(err) // step 0 of one realization there is
	}
	f.draws = d
	return f
}

// uniform returns the next number of [0,1).
func (f *field) uniform() float64 {
	w := f.stream.Words(f.k, 1, 0)
	f.k++
	return float64((uint64(w[1])<<32|uint64(w[0]))>>11) * 0x1p-53
}

// between returns the next number of [lo,hi).
func (f *field) between(lo, hi float64) float64 { return lo + float64(f.uniform()*(hi-lo)) }

// place returns a random column or row.
func (f *field) place() float64 { return float64(f.size * f.uniform()) }

// inside returns one that is not near an edge.
func (f *field) inside() float64 { return float64(f.between(.3, .7) * f.size) }

// pick returns the next number of 0 to n-1.
func (f *field) pick(n int) int { return min(int(f.uniform()*float64(n)), n-1) }

// normal returns the next standard normal number.
func (f *field) normal() (float64, error) {
	if len(f.kept) == 0 {
		f.kept = make([]float64, 256)
		if err := f.draws.Draw(noise.Normal, 0, []int{1, len(f.kept)}, f.kept); err != nil {
			return 0, err
		}
	}
	v := f.kept[0]
	f.kept = f.kept[1:]
	return v, nil
}

// wave returns twice pi times the cycles over the side that index i of n stands for,
// the upper half of which are negative.
func (f *field) wave(i int) float64 {
	if i > f.n/2 {
		i -= f.n
	}
	return 2 * math.Pi * float64(i)
}

// spectrum adds to every channel a random field of variance v with the power p(k^2), k in
// radians over the side.
func (f *field) spectrum(v float64, p func(k2 float64) float64) error {
	amplitude := make([]float64, f.n*f.n)
	sum := 0.0
	for y := range f.n {
		for x := range f.n {
			kx, ky := f.wave(x), f.wave(y)
			a := p(float64(kx*kx) + float64(ky*ky))
			amplitude[y*f.n+x] = a
			sum += a
		}
	}
	if !(sum > 0) {
		return nil
	}
	for i, a := range amplitude {
		amplitude[i] = math.Sqrt(2 * v * (a / sum))
	}
	return f.filtered(amplitude)
}

// filtered adds to every channel the real part of the transform of complex normals times
// amplitudes.
func (f *field) filtered(amplitude []float64) error {
	area := f.n * f.n
	z := tensor.New(fp16.Float64, f.c, f.n, f.n, 2)
	if err := f.draws.Draw(noise.ComplexNormal, 0, []int{1, f.c, f.n, f.n}, z.Data); err != nil {
		return err
	}
	for i := range z.Data {
		z.Data[i] *= amplitude[i/2%area]
	}
	spectral.IFFT(z, z, []int{1, 2}, spectral.Forward) // without a factor
	for i := range f.x {
		f.x[i] += z.Data[2*i]
	}
	return nil
}

// grf adds a Gaussian random field of a length, a fraction of the side, and a variance.
func (f *field) grf(length, variance float64) error {
	return f.spectrum(variance, func(k2 float64) float64 { return elem.Exp(-k2 * length * length / 2) })
}

// each adds to every pixel of the channels lo to hi-1 what at returns for its column and
// row.
func (f *field) each(lo, hi int, at func(x, y float64) float64) {
	area := f.n * f.n
	for y := range f.n {
		for x := range f.n {
			v := float64(at(float64(x), float64(y))) // a product is rounded before it is added
			for c := lo; c < hi; c++ {
				f.x[c*area+y*f.n+x] += v
			}
		}
	}
}

// all is each for all channels.
func (f *field) all(at func(x, y float64) float64) { f.each(0, f.c, at) }

// rescale takes all numbers to [0,1]; those of a constant state become 0.
func (f *field) rescale() {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range f.x {
		lo, hi = min(lo, v), max(hi, v)
	}
	for i, v := range f.x {
		f.x[i] = 0
		if hi > lo {
			f.x[i] = (v - lo) / (hi - lo)
		}
	}
}

// normalize divides by the largest absolute value, if there is one.
func (f *field) normalize() {
	most := 0.0
	for _, v := range f.x {
		most = max(most, math.Abs(v))
	}
	for i := range f.x {
		if most > 0 {
			f.x[i] /= most
		}
	}
}

// sq returns the square.
func sq(x float64) float64 { return float64(x * x) }

// dist returns the distance of two pixels, without a way around the edges.
func dist(x, y, cx, cy float64) float64 { return math.Sqrt(sq(x-cx) + sq(y-cy)) }

// gauss returns e^(-r^2/(2 s^2)).
func gauss(r2, s float64) float64 { return elem.Exp(-r2 / (2 * sq(s))) }

// turned returns x cos a + y sin a.
func turned(x, y, a float64) float64 {
	return float64(x*elem.Cos(a)) + float64(y*elem.Sin(a))
}

// sigmoid returns 1/(1+e^-x).
func sigmoid(x float64) float64 { return 1 / (1 + elem.Exp(-x)) }
