package hdf5

import "github.com/refrun/refrun/internal/ground/fault"

// Error says what is wrong with a file or with what shall be written to one.
type Error = fault.Error
