package oracle

func (e *exam) steps() error { return nil }
