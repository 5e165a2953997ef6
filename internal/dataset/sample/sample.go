package sample

import (
	"fmt"
	"math/bits"

	"github.com/refrun/refrun/noise"
)

// Method names a way to spread points.
type Method string

// The methods.
const (
	Sobol  Method = "sobol"
	Halton Method = "halton"
	Latin  Method = "latin"
	Random Method = "random"
)

// ParseMethod returns the method of that name. Any other name is an error.
func ParseMethod(name string) (Method, error) {
	switch m := Method(name); m {
	case Sobol, Halton, Latin, Random:
		return m, nil
	}
	return "", fmt.Errorf("%.60q: want sobol, halton, latin or random", name)
}

// What can be asked for.
const (
	MostDims   = len(directions) + 1 // 64
	MostPoints = 1 << 30
)

// Config says which points are wanted.
type Config struct {
	Method Method
	Dims   int // 1 to MostDims
	Points int // 1 to MostPoints
	Seed   uint64
	// Scramble randomizes Sobol's and Halton's points, which otherwise ignore the seed and
	// begin in the corner of the cube.
	Scramble bool
	// Bits of Sobol's numbers, 30 to 64; 0 means 30, as in scipy.
	Bits int
	// Legacy takes the seed as scipy's argument seed does, and otherwise as its rng, which
	// makes other points of it. Of Sobol only.
	Legacy bool
}

// Sampler makes points one by one. It may be used by several goroutines.
type Sampler interface {
	// At sets x, one number for each dimension, to point i. It panics if i is not one of
	// the points or x has another length.
	At(i int, x []float64)
}

// Check reports why no sampler can be had, without making one.
func (c Config) Check() error {
	switch {
	case c.Dims < 1 || c.Dims > MostDims:
		return fmt.Errorf("%d dimensions: want 1 to %d", c.Dims, MostDims)
	case c.Points < 1 || c.Points > MostPoints:
		return fmt.Errorf("%d points: want 1 to %d", c.Points, MostPoints)
	case c.Bits != 0 && (c.Bits < 30 || c.Bits > 64):
		return fmt.Errorf("%d bits: want 30 to 64", c.Bits)
	}
	_, err := ParseMethod(string(c.Method))
	return err
}

// New returns a sampler. What cannot be had is an error.
func New(c Config) (Sampler, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	of := checked{c.Points, c.Dims}
	switch c.Method {
	case Sobol:
		return newSobol(of, c), nil
	case Halton:
		return newHalton(of, c), nil
	case Latin:
		return newLatin(of, c), nil
	}
	return &random{of, stream(c.Seed)}, nil
}

// checked is the size of a sampler.
type checked struct{ points, dims int }

func (c checked) check(i int, x []float64) {
	if i < 0 || i >= c.points || len(x) != c.dims {
		panic(fmt.Sprintf("sample: point %d of %d numbers: want one of %d points of %d", i, len(x), c.points, c.dims))
	}
}

// random are independent uniform points.
type random struct {
	checked
	of noise.Counter
}

// At implements [Sampler].
func (r *random) At(i int, x []float64) {
	r.check(i, x)
	for d := range x {
		x[d] = uniform(word(r.of, uint32(d), uint32(i)))
	}
}

// stream returns the part of a seed's counter stream that is set aside for samples.
func stream(seed uint64) noise.Counter {
	return noise.Counter{Seed: seed, Operator: 1<<32 - 2}
}

// word returns number k of a series of 64 random bits.
func word(of noise.Counter, series, k uint32) uint64 {
	x := of.Words(k, series, 0)
	return uint64(x[1])<<32 | uint64(x[0])
}

// uniform returns the number of [0,1) that the first 53 of 64 bits are.
func uniform(w uint64) float64 { return float64(float64(w>>11) * 0x1p-53) }

// permutation returns a random order of n numbers by the shuffle of Fisher and Yates. The
// index is the upper half of a product of 128 bits, of which some are likelier than
// others by n 2^-64.
func permutation(of noise.Counter, series uint32, n int) []uint32 {
	p := make([]uint32, n)
	for i := range p {
		p[i] = uint32(i)
	}
	for i := n - 1; i > 0; i-- {
		j, _ := bits.Mul64(word(of, series, uint32(i)), uint64(i+1))
		p[i], p[j] = p[j], p[i]
	}
	return p
}
