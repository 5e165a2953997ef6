package steps

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/oracle/internal/measure"
)

// TestStepsDoubt: one number may differ by two errors, in units of a deviation that
// the numbers of its plane say, however few they are.
func TestStepsDoubt(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, pixels := range []int{6, 9, 16, 36, 400} {
		h := &spreads{alike: 1, of: float64(pixels)}
		most := 0.0
		for range 20000 {
			var squares float64
			for range pixels {
				v := r.NormFloat64()
				squares += v * v
			}
			d := r.NormFloat64() - r.NormFloat64()
			most = max(most, d*d/(squares/float64(pixels)))
		}
		if limit := h.few(measure.InPeak, 1); most > limit || pixels >= 64 && limit != 100 {
			t.Errorf("%d pixels: a difference of %.3g: want %.3g at most", pixels, most, limit)
		}
	}
}

// TestStepsAlike: of pixels that are alike, all have the error of one.
func TestStepsAlike(t *testing.T) {
	t.Parallel()
	const pixels = 400
	r := rand.New(rand.NewPCG(3, 4))
	h := &spreads{alike: 1, of: float64(pixels)}
	for _, alike := range []int{25, 50, 100} {
		most := 0.0
		for range 20000 {
			var squares, distances float64
			for range pixels / alike {
				v := r.NormFloat64()
				d := v - r.NormFloat64()
				squares, distances = squares+v*v, distances+d*d
			}
			most = max(most, distances/squares)
		}
		if limit, one := h.at(float64(alike), float64(pixels/alike)).few(measure.InAll, pixels),
			h.few(measure.InAll, pixels); most > limit || most < one {
			t.Errorf("%d of %d pixels alike: a mean square of %.3g: "+
				"want at most %.3g, and more than the %.3g of others", alike, pixels, most, limit, one)
		}
	}
}

// TestStepsAllAlike: a mean of many numbers of which each is one of 84 that are alike is at most that of
// as many independent squares as there are others, less than what two cascades of each would make.
func TestStepsAllAlike(t *testing.T) {
	t.Parallel()
	h := &spreads{alike: 84, of: wellKnown, reach: 3, channels: 3}
	if limit := h.few(measure.InAll, 2592); !(limit > anew && limit < 10) {
		t.Errorf("a mean square of %.3g: want more than %v, and less than 10", limit, anew)
	}
}

// TestStepsOwnSlice: a column with a number twelve deviations off is left what many devices have there, and the same
// amount in another column is not.
func TestStepsOwnSlice(t *testing.T) {
	t.Parallel()
	const side, tail = 24, 5
	r := rand.New(rand.NewPCG(5, 6))
	e := make([]float64, 3*side*side)
	for i := range e {
		e[i] = r.NormFloat64()
	}
	for c := range 3 {
		e[c*side*side+7*side+tail] = 12
	}
	device := func(change func(d []float64)) *measure.Cuts {
		d, g := make([]float64, len(e)), make([]float64, len(e))
		for i, v := range e {
			d[i] = 0.25 * (1 + v*v/12) * r.NormFloat64() // of large errors more falls otherwise
		}
		change(d)
		for i, v := range e {
			g[i] = v + d[i]
		}
		return measure.Cut(1, 3, side, side, d, g, e)
	}
	few, many := &spreads{channels: 3, alike: 1, of: side * side}, &spreads{channels: 3, alike: 1, of: side * side}
	for range 3 {
		few.add(device(func([]float64) {}))
	}
	for range manyMembers {
		c := device(func([]float64) {})
		many.add(c)
		many.own = append(many.own, c)
	}
	column := func(x int, by float64) *stepFigures { // has the gain of all three of its large errors
		c := device(func(d []float64) {
			for i := range 3 {
				d[i*side*side+7*side+x] = by
			}
		})
		return &stepFigures{cuts: c, alike: 1, of: side * side}
	}
	right := column(tail, 4)
	if x := few.judge(right); x == nil || x.gate != "accuracy" {
		t.Fatalf("few devices: %+v, want a gain", x)
	}
	if x := many.judge(right); x != nil {
		t.Errorf("many devices have that in this column: %+v", x)
	}
	if right.by = many; few.judge(right) != nil {
		t.Error("what many find right is wrong by the limits of few")
	}
	few.strict = strict{{0, 0}: .01}
	if few.judge(right) == nil {
		t.Error("what is beyond its strict limit is right, as many find it so by another")
	}
	own := func(c *measure.Cuts, k measure.SliceKind, i int) float64 {
		return many.ownLimit(c, k, i, func(t *measure.Tally) float64 { return t.Excess(i) })
	}
	if there, elsewhere := own(right.cuts, measure.InColumn, tail),
		own(right.cuts, measure.InColumn, tail+1); there < 3*elsewhere {
		t.Errorf("the column with the large errors may have %.3g, another %.3g: want much less", there, elsewhere)
	}
	if x := many.judge(column(tail+1, 12)); x == nil {
		t.Error("as far off in another column passes")
	}
	two := measure.Cut(2, 3, side, side, append(e, e...), append(e, e...), append(e, e...))
	if column, plane := own(two, measure.InColumn, tail), own(two, measure.InPlane, 1); column != 0 || plane <= 0 {
		t.Errorf("by devices of one realization of two a column may have %.3g, a plane %.3g: want nothing, and some",
			column, plane)
	}
}

// TestScattered: where right devices are nearly as far from each other as any two are, one that is as accurate as the
// claim may be as far from it as that; one that is less accurate may not, nor one where right devices agree.
func TestScattered(t *testing.T) {
	t.Parallel()
	const side = 32
	r := rand.New(rand.NewPCG(8, 2))
	device := func(apart, size float64) *measure.Cuts { // errors of the emulation have size 1
		d, g, e := make([]float64, 3*side*side), make([]float64, 3*side*side), make([]float64, 3*side*side)
		for i := range d {
			shared, own, other := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
			e[i] = math.Sqrt(1-apart)*shared + math.Sqrt(apart)*own
			g[i] = size * (math.Sqrt(1-apart)*shared + math.Sqrt(apart)*other)
			d[i] = g[i] - e[i]
		}
		return measure.Cut(1, 3, side, side, d, g, e)
	}
	for _, c := range []struct {
		ensemble, apart, size float64
		right                 bool
	}{{.4, .9, .95, true}, {.4, .9, 1.2, false}, {.1, .9, .95, false}, {.1, .1, .99, true}} {
		h := &spreads{channels: 3, alike: 1, of: side * side}
		for range members {
			h.add(device(c.ensemble, 1))
		}
		f := &stepFigures{cuts: device(c.apart, c.size), alike: 1, of: side * side}
		if x := h.judge(f); c.right != (x == nil) {
			t.Errorf("%+v: %+v", c, x)
		}
	}
}

// TestFewFine: against exact arithmetic a slice of few numbers may be off by what all are, where that is less than
// expected.
func TestFewFine(t *testing.T) {
	t.Parallel()
	h := &spreads{alike: 1, of: wellKnown, channels: 3}
	h.squares[measure.InAll].add(.25)
	h.squares[measure.InAll].add(.25)
	coarse := h.few(measure.InRow, 24)
	if h.fine = true; math.Abs(h.few(measure.InRow, 24)-.25*1.1*coarse) > 1e-12*coarse {
		t.Errorf("%.4g, where roundings that fall otherwise make it %.4g", h.few(measure.InRow, 24), coarse)
	}
}
