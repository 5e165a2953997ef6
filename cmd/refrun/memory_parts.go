package main

import (
	"fmt"

	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/rollout"
)

// held is where a whole rollout's memory is, by part.
type held struct {
	rollout.Memory
	Inputs int64 `json:"input_bytes"` // the initial condition; files stay on disk
}

func (m *held) String() string {
	return fmt.Sprintf("states %s, activations %s, weights %s, outputs %s, inputs %s",
		size(m.States), size(m.Arena), size(m.Weights), size(m.Sinks), size(m.Inputs))
}

// size shows a number of bytes to three digits.
func size(n int64) string { return memory.Text(n) }
