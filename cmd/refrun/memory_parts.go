package main

import (
	"fmt"

	"github.com/refrun/refrun/internal/safetensors"
	"github.com/refrun/refrun/rollout"
)

// memory is where a whole rollout's memory is, by part.
type memory struct {
	rollout.Memory
	Inputs int64 `json:"input_bytes"` // files of the case, which are read whole, and the initial condition
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

// inputBytes counts what was read and is kept: a tape and a recorded
// trajectory are as long as their rollouts.
func inputBytes(cs *rollout.Case, x0 []float64) int64 {
	n := 8 * int64(len(x0))
	for _, f := range []*safetensors.File{cs.Weights, cs.Trajectory, cs.Noise, cs.Layers, cs.Truth} {
		if f == nil {
			continue
		}
		for _, name := range f.Names() {
			if t, err := f.Tensor(name); err == nil {
				n += int64(len(t.Bytes()))
			}
		}
	}
	return n
}
