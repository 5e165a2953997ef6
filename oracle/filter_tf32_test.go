package oracle

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/oracle/report"
)

// TestUnitsOfTF32: units of TF32 may cut the weights off, so that it is no fault where
// nothing else is wrong; it is what is wrong with a step that is.
func TestUnitsOfTF32(t *testing.T) {
	b := newBench(t, "tf32", 0.3)
	all := library()
	h := all[slices.IndexFunc(all, func(h *hypothesis) bool { return h.name == "weights truncated to float16" })]
	for _, wrong := range []bool{false, true} {
		s := b.full(t, b.run(t, b.device, b.draws, 1))
		f := &filter{e: b.matcher, s: s, node: -1, h0: map[*view][][]float64{}}
		b.pool = newPool(nil)
		if ok, err := f.open(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		next, err := f.near.step(h, everywhere, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Got, b.pool = next.Data, nil
		if s.Limit *= 2 * f.before(); wrong {
			s.Limit /= 4
		}
		if err := b.filters(s); err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, g := range b.found {
			found += g.Diagnosis
		}
		want := ""
		if wrong {
			want = h.name
		}
		listed := slices.ContainsFunc(b.r.Blind, func(l report.Blind) bool { return l.Name == h.name })
		if found != want || listed {
			t.Errorf("step known to be wrong: %v: found %q, listed as blind: %v: want %q and no", wrong, found, listed, want)
		}
	}
}
