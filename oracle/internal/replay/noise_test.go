package replay

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/oracle/internal/rig"
)

// TestScaleOfUlps: draws that are all an ulp off have no other scale.
func TestScaleOfUlps(t *testing.T) {
	r := rig.NewRig(t, "float32", "gaussian", .1)
	for _, k := range []struct {
		factor float64
		want   bool
	}{{1 + 0x1p-22, false}, {1 + 0x1p-10, true}} {
		states := r.Run(nil)
		e := &Gate{r.Exam(states, true)}
		w, err := e.worstBatch(1)
		if err != nil {
			t.Fatal(err)
		}
		without, err := w.claimed.Step(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range without.Data {
			w.Got[i] = v + k.factor*(w.want[i]-v)
		}
		named := false
		for _, s := range e.scaleSuspects(w) {
			named = named || strings.HasPrefix(s.name, "noise.noise-scale")
		}
		if named != k.want {
			t.Errorf("noise times %v: a scale %v, want %v", k.factor, named, k.want)
		}
	}
}
