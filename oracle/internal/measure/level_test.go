package measure

import (
	"math"
	"testing"

	"github.com/refrun/refrun/rollout"
)

// TestLevelExact: where most numbers are as they should be, to the last bit, the others have no line in common with
// them.
func TestLevelExact(t *testing.T) {
	truth, s, v := make([]float64, 1000), make([]float64, 1000), make([]float64, 1000)
	for k := range truth {
		if truth[k], s[k] = float64(k)/1000, .01; k%25 == 0 {
			v[k] = .01
		}
	}
	lines := LevelOut(rollout.Config{Normalization: rollout.MinMax}, v, truth, s, 1, false)
	if len(lines) != 1 || lines[0] != 0 || v[0] != .01 || v[1] != 0 {
		t.Errorf("lines %v, errors %v and %v: want none taken", lines, v[0], v[1])
	}
}

// TestLevel: what a normalization makes of the errors of the two numbers that it
// scales by is taken from all, and no more than such errors can be.
func TestLevel(t *testing.T) {
	c := rollout.Config{Normalization: rollout.MinMax}
	truth, s := make([]float64, 1000), make([]float64, 1000)
	for k := range truth {
		truth[k], s[k] = float64(k)/1000, 1e-6
	}
	for _, k := range []struct {
		line     float64 // at the ends, in deviations
		whatever bool    // is asked for
		stays    bool
	}{{5, false, false}, {40, false, true}, {40, true, false}} {
		v := make([]float64, len(truth))
		for i, x := range truth {
			v[i] = k.line * 1e-6 * (2*x - 1)
		}
		lines := LevelOut(c, v, truth, s, 1, k.whatever)
		if want := k.line * k.line / 3; len(lines) != 1 || math.Abs(lines[0]-want) > .01*want {
			t.Errorf("a line of %g deviations: mean square %v, want %.4g", k.line, lines, want)
		}
		if stays := math.Abs(v[0]) > 1e-7; stays != k.stays {
			t.Errorf("a line of %g deviations: %v is left: want it to stay: %v", k.line, v[0], k.stays)
		}
	}
}
