package match

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
)

// TestUnitsOfTF32: units of TF32 may cut the weights off, so that it is no fault where
// nothing else is wrong; it is what is wrong with a step that is.
func TestUnitsOfTF32(t *testing.T) {
	b := newBench(t, "tf32", 0.3)
	all := fault.Library()
	h := all[slices.IndexFunc(all, func(h *trial.Fault) bool { return h.Name == "weights truncated to float16" })]
	for _, wrong := range []bool{false, true} {
		s := b.full(t, b.run(t, b.device, b.draws, 1))
		f := newFilter(b.Matcher, s)
		b.Pool = NewPool(nil)
		if ok, err := f.open(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		next, err := f.near.Run(h, trial.Everywhere, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Got, b.Pool = next.Data, nil
		if s.Limit *= 2 * f.before(); wrong {
			s.Limit /= 4
		}
		if err := b.Filters(s); err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, g := range b.Found {
			found += g.Diagnosis
		}
		want := ""
		if wrong {
			want = h.Name
		}
		listed := slices.ContainsFunc(b.Report.Blind, func(l report.Blind) bool { return l.Name == h.Name })
		if found != want || listed {
			t.Errorf("step known to be wrong: %v: found %q, listed as blind: %v: want %q and no", wrong, found, listed, want)
		}
	}
}

// TestWaysOfOneFault: where a fault and a way of it both explain a step, the fault is named, once.
func TestWaysOfOneFault(t *testing.T) {
	tried := map[string]*Tried{}
	for _, h := range fault.Library() {
		tried[h.ID] = &Tried{H: h}
	}
	even, away, cut := tried["precision.operands-in-tf32"], tried["precision.operands-in-tf32-ties-away-from-zero"],
		tried["precision.operands-truncated-to-tf32"]
	other := tried["precision.two-tf32-products-for-one-of-float32"]
	for _, c := range []struct{ alike, want []*Tried }{
		{[]*Tried{even, away}, []*Tried{even}}, {[]*Tried{away, even, cut}, []*Tried{even}},
		{[]*Tried{away}, []*Tried{away}}, {[]*Tried{away, other, even}, []*Tried{other, even}},
	} {
		if got := kinds(c.alike); !slices.Equal(got, c.want) {
			t.Errorf("%v of %v: want %v", got, c.alike, c.want)
		}
	}
}
