package oracle

import "github.com/refrun/refrun/oracle/report"

// checkNoise is gate 5: whether the device's noise is the specified one, or, where
// that cannot be known, whether it is noise of the specified kind.
func checkNoise(ev *evidence, f *facts) ([]report.Finding, error) {
	e := &noiseGate{newGate(ev, f)}
	var err error
	switch {
	case e.noiseNode() < 0 || e.stream != nil && e.stream.Name == "none":
	case e.stream == nil:
		err = e.unseen()
	case e.masks != nil:
		e.maskTests()
	default:
		err = e.slopes()
	}
	return e.found, err
}

// noiseGate is that gate at work.
type noiseGate struct{ *gate }
