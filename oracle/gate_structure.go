package oracle

func (e *exam) structure() error { return nil }
