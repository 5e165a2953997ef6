package oracle

// noise is gate 5: whether the device's noise is the specified one, or, where
// that cannot be known, whether it is noise of the specified kind.
func (e *exam) noise() error {
	switch {
	case e.noiseNode() < 0 || e.stream != nil && e.stream.Name == "none":
		return nil
	case e.stream == nil:
		return e.unseen()
	case e.masks != nil:
		e.maskTests()
		return nil
	}
	return e.slopes()
}
