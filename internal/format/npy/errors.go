package npy

import "github.com/refrun/refrun/internal/ground/fault"

// Error says what is wrong with a file or with what shall be written to one.
type Error = fault.Error

// source is where an array comes from or goes to: a file, or an entry of an
// archive.
type source struct {
	path, entry string
}

func (s source) wrong(field, value, want string) error {
	if s.entry != "" {
		field = fault.Text(s.entry) + " " + field
	}
	return &Error{Path: s.path, Field: field, Value: value, Want: want}
}
