package oracle

// filters holds the hypotheses of the library against the residual of a step.
func (e *exam) filters(s *fullStep) error { return nil }
