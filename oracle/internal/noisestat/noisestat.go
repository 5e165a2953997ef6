// Package noisestat is the gate of the noise: the slope on the specified draws or, where
// those are unknown, the statistics of what is left of a step without noise.
package noisestat

import (
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/report"
)

// Check is gate 5. For specified draws it reports the slope and judges nothing. For
// unknown draws, and masks that ReadMasks found, it tests whether the noise is of the
// specified kind.
func Check(ev *evidence.Evidence, f *facts.Facts) ([]report.Finding, error) {
	e := &gate{facts.Begin(ev, f)}
	var err error
	switch {
	case e.NoiseNode() < 0 || e.Stream != nil && e.Stream.Name == "none":
	case e.Stream == nil:
		err = e.unseen()
	case e.Masks != nil:
		e.maskTests()
	default:
		err = e.slopes()
	}
	return e.Found, err
}

// gate is that gate at work.
type gate struct{ *facts.Gate }
