package main

import (
	"fmt"

	"github.com/refrun/refrun/rollout"
)

// memory is where a whole rollout's memory is, by part.
type memory struct {
	rollout.Memory
	Inputs int64 `json:"input_bytes"` // the initial condition; files stay on disk
}

func (m *memory) String() string {
	return fmt.Sprintf("states %s, activations %s, weights %s, outputs %s, inputs %s",
		size(m.States), size(m.Arena), size(m.Weights), size(m.Sinks), size(m.Inputs))
}

// size shows a number of bytes to three digits.
func size(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range []string{"kB", "MB", "GB", "TB"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
