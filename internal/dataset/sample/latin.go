package sample

import "github.com/refrun/refrun/noise"

// latin is a Latin hypercube: along every axis the points stand in random order, one
// in each of n equal slices, anywhere in it.
type latin struct {
	checked
	of    noise.Counter
	order [][]uint32
}

func newLatin(of checked, c Config) *latin {
	l := &latin{checked: of, of: stream(c.Seed)}
	for d := range c.Dims {
		l.order = append(l.order, permutation(l.of, uint32(MostDims+d), c.Points))
	}
	return l
}

// At implements [Sampler].
func (l *latin) At(i int, x []float64) {
	l.check(i, x)
	for d := range x {
		u := uniform(word(l.of, uint32(d), uint32(i)))
		x[d] = min((float64(l.order[d][i])+u)/float64(l.points), 1-0x1p-53)
	}
}
