package operator

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
)

// Mode says in which arithmetic an operator is evaluated.
type Mode struct {
	// Precision is the format of every activation: Float32 (the default of
	// rollouts) or Float64 (truth for bounds: plain float64 in a fixed order).
	Precision fp16.Format
}

// ParseMode returns the mode of that precision. Formats whose rounding points
// are not defined yet are errors that name them.
func ParseMode(precision string) (Mode, error) {
	f, err := fp16.ParseFormat(precision)
	if err != nil {
		return Mode{}, err
	}
	m := Mode{f}
	if err := m.check(); err != nil {
		return Mode{}, err
	}
	return m, nil
}

// check refuses formats whose rounding points are not defined yet.
func (m Mode) check() error {
	if m.Precision != fp16.Float32 && m.Precision != fp16.Float64 {
		return fmt.Errorf("precision %q is not there yet: want float32 or float64", m.Precision)
	}
	return nil
}

// String returns the canonical name of the mode, such as
// "float32/state-float32".
func (m Mode) String() string { return m.Precision.String() + "/state-" + m.Precision.String() }

// Contract is the version of the numerical contract (docs/NUMERICS.md) that
// results obey. Results of one contract have the same bits everywhere.
const Contract = "1"
