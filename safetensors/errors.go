package safetensors

import "github.com/refrun/refrun/internal/ground/fault"

// failure says what is wrong with a file or with what shall be written to one.
type failure = fault.Error

// wrong reports a field of t.
func (t *Tensor) wrong(field, value, want string) error {
	return &failure{Path: t.path, Field: fault.Text(t.Name) + " " + field, Value: value, Want: want}
}
