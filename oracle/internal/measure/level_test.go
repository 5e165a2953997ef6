package measure

import (
	"math"
	"testing"

	"github.com/refrun/refrun/rollout"
)

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
