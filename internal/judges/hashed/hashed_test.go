package hashed

import (
	"strings"
	"testing"
)

// TestFaults: other outputs than were judged in this process, or are recorded, are faults, and
// so are those of which nothing is recorded; a record of another number of elements says nothing.
func TestFaults(t *testing.T) {
	of := func(elements int, x ...float64) *Outputs {
		o := &Outputs{elements: elements, of: map[string]*stream{}}
		o.Add("sum", x[:1]...)
		o.Add("sum", x[1:]...)
		return o
	}
	sum := of(7, 1, 2).sums()["sum"]
	if sum == of(7, 2, 1).sums()["sum"] {
		t.Error("the order does not count")
	}
	for i, c := range []struct {
		known string
		as    record
		x     []float64
		fault string // "" for none
	}{
		{sum, record{7, sum}, []float64{1, 2}, ""},
		{"", record{7, sum}, []float64{1, 2}, ""},
		{"", record{8, sum}, []float64{1, 3}, ""},
		{"", record{7, sum}, []float64{1, 3}, "recorded is " + sum},
		{sum, record{8, sum}, []float64{1, 3}, "differ from those of the first"},
		{"", record{}, []float64{1, 2}, "sum is not in testdata"},
	} {
		recorded := map[string]record{"T sum": c.as}
		if c.as.SHA256 == "" {
			clear(recorded)
		}
		if delete(known, "T sum"); c.known != "" {
			known["T sum"] = c.known
		}
		faults := of(7, c.x...).faults("T", recorded)
		if got := strings.Join(faults, "; "); (got == "") != (c.fault == "") || !strings.Contains(got, c.fault) {
			t.Errorf("case %d: %q, want %q", i, got, c.fault)
		}
	}
	o := of(7, 1, 2)
	o.Add("product", 3)
	if at, n := o.Least("sum", "product", "mean", "none"); at != 2 || n != 0 {
		t.Errorf("the fewest are %d of number %d", n, at)
	}
	if at, n := o.Least("sum", "product"); at != 1 || n != 1 {
		t.Errorf("the fewest are %d of number %d", n, at)
	}
}
