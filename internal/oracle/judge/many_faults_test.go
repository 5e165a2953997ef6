package judge

import "testing"

// TestLead: a factor that is fitted to the output is the cause in place of a variance that is divided by n-1 only if it
// explains more than fitting does by chance, whichever of both is looked at first.
func TestLead(t *testing.T) {
	const limit = 13.
	n1, times := Fault{ID: "kernel.variance-n-minus-1"}, Fault{ID: timesConstant}
	for _, c := range []struct {
		cause, next *Fault
		more        float64 // that next explains
		want        bool
	}{
		{nil, &times, 1, true},
		{&n1, &times, limit*limit - 1, false},
		{&n1, &times, limit*limit + 1, true},
		{&times, &n1, 1 - limit*limit, true},
		{&times, &n1, -1 - limit*limit, false},
		{&n1, &n1, 0, false},
		{&times, &times, 1, true},
	} {
		s := &search{j: &Joint{}}
		if c.cause != nil {
			s.gain, s.j.Cause = 1e4, &Cause{Fault: *c.cause}
		}
		if got := c.more > s.lead(*c.next, limit); got != c.want {
			t.Errorf("%v after %v, explaining %g more: %v", c.next.ID, c.cause, c.more, got)
		}
	}
}
