package operator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// answers is what a device may return for an operation: any number of the
// format from lo to hi, element by element. A device that evaluates in float32
// is within a proven distance of the exact value before its one rounding to the
// format, so lo and hi are the roundings of the ends of that interval. Where
// they are equal, the exact value is farther from a rounding boundary than the
// device's error, and there is one right answer: the element is decided.
type answers struct {
	lo, hi []float64
	// far says whether a device may be more than an ulp from ours: if nil,
	// where the interval is wider than that, as where large terms cancel.
	far func(i int) bool
}

func (a answers) mayBeFar(i int, f fp16.Format) bool {
	if a.far != nil {
		return a.far(i)
	}
	return f.Distance(a.lo[i], a.hi[i]) > 2
}

// within returns the roundings to y's format of all numbers within bound of
// the exact values.
func within(y *tensor.Tensor, value, bound func(i int) float64) answers {
	a := answers{lo: make([]float64, len(y.Data)), hi: make([]float64, len(y.Data))}
	for i := range y.Data {
		v, e := value(i), bound(i)
		if math.IsInf(v, 0) {
			e = 0
		}
		a.lo[i], a.hi[i] = y.Format.Round(v-e), y.Format.Round(v+e)
	}
	return a
}

// exactly is a device without errors.
func exactly(v []float64) answers { return answers{lo: v, hi: v} }

// tally counts a device's elements by how they compare with ours.
type tally struct {
	elements int
	decided  int // elements with one right answer, which is ours and theirs
	equal    int // of the others: as ours
	ulp      int // of the others: one ulp from ours
	far      int // of the others: more
}

func (c *tally) add(o tally) {
	c.elements += o.elements
	c.decided += o.decided
	c.equal += o.equal
	c.ulp += o.ulp
	c.far += o.far
}

func (c tally) String() string {
	return fmt.Sprintf("%7d elements: %7d decided, all equal; %6d undecided, %6d equal, %4d one ulp apart, %4d more",
		c.elements, c.decided, c.elements-c.decided, c.equal, c.ulp, c.far)
}

// compare counts theirs against ours. It fails where ours or theirs is no
// possible answer, which takes in every decided element that differs, and where
// they are more than an ulp apart although float32's error is less than that.
func compare(t *testing.T, what string, ours, theirs *tensor.Tensor, a answers) tally {
	t.Helper()
	if !ours.SameShape(theirs) || ours.Format != theirs.Format {
		t.Fatalf("%s: %v numbers %s: PyTorch returns %v numbers %s",
			what, ours.Format, ours.Dims(), theirs.Format, theirs.Dims())
	}
	c, f := tally{elements: len(ours.Data)}, ours.Format
	complain := func(i int, format string) {
		t.Helper()
		t.Fatalf("%s, element %d: "+format+": ours %v, PyTorch's %v, possible %v to %v",
			what, i, ours.Data[i], theirs.Data[i], a.lo[i], a.hi[i])
	}
	for i, y := range ours.Data {
		z, lo, hi := theirs.Data[i], a.lo[i], a.hi[i]
		if y != y && z != z {
			c.decided++
			continue
		}
		if !(lo <= y && y <= hi) {
			complain(i, "we are out of bounds")
		}
		if !(lo <= z && z <= hi) {
			complain(i, "PyTorch is out of bounds")
		}
		switch d := f.Distance(y, z); {
		case lo == hi:
			c.decided++
		case d == 0:
			c.equal++
		case d == 1:
			c.ulp++
		case a.mayBeFar(i, f):
			c.far++
		default:
			complain(i, "more than an ulp")
		}
	}
	return c
}

// counts holds tallies by kind of operation.
type counts map[string]*tally

func (c counts) add(t *testing.T, kind, what string, got tally) {
	t.Helper()
	if got.equal != got.elements-got.decided {
		t.Logf("%-46s %v", what, got)
	}
	if c[kind] == nil {
		c[kind] = &tally{}
	}
	c[kind].add(got)
}

// kindOf names what a layer is counted under.
func kindOf(l layer, out fp16.Format) string {
	switch l.(type) {
	case *conv2d:
		if out == fp16.Float32 {
			return "float32 convolution"
		}
		return "convolution"
	case *normalization:
		return "norm"
	case *activation:
		return "activation"
	case *resample:
		return "resampling"
	case *stochasticBlock:
		return "noise"
	case *identity:
		return "identity"
	}
	panic("unknown layer")
}

// check applies a layer in the device's mode to x and compares the result with
// what PyTorch returned; where its kernel rounds every operation to the half
// type, that kernel's model takes our place.
func (d device) check(
	t *testing.T, what string, l layer, x, theirs *tensor.Tensor, draws [][]float64,
) (kind string, got tally) {
	t.Helper()
	pass := &Pass{Mode: d.mode}
	if draws != nil {
		pass.Draws = &given{draws: draws}
	}
	ours, err := forwardOf(l, pass, x, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := d.narrowAnswer(l, x, theirs.Format); v != nil {
		model := tensor.Of(theirs.Format, v, ours.N(), ours.C(), ours.H(), ours.W())
		return "half kernel", compare(t, what, model, theirs, exactly(v))
	}
	return kindOf(l, theirs.Format), compare(t, what, ours, theirs, d.answersOf(l, x, theirs, draws))
}

// report prints the sums and holds them to what no bound says: that many
// elements are decided, so that the comparison means something, and that the
// others are decided otherwise now and then only, as by errors that are mostly
// far below their bounds.
func (c counts) report(t *testing.T) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		s := c[kind]
		t.Logf("all: %-25s %v", kind, s)
		if kind == "float32 convolution" || kind == everywhere {
			continue // float32's own error is all there is to see; known exceptions are counted
		}
		if s.decided*2 < s.elements {
			t.Errorf("%s: %d of %d elements are decided: want half or more", kind, s.decided, s.elements)
		}
		if s.ulp*200 > s.elements {
			t.Errorf("%s: %d of %d elements are an ulp apart: want 0.5 %% at most", kind, s.ulp, s.elements)
		}
		if s.far*2000 > s.elements {
			t.Errorf("%s: %d of %d elements are farther apart: want 0.05 %% at most", kind, s.far, s.elements)
		}
	}
}
