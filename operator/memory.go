package operator

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/memory"
)

// fitting returns an error if an operator of so many weights takes more memory than there is: as
// float64, and as the kernels read them.
func fitting(weights float64) error {
	if err := memory.Fits(int64(16 * weights)); err != nil {
		return fmt.Errorf("an operator of %.3g weights %w", weights, err)
	}
	return nil
}

// Peak returns what an application to n images h x w holds at once, in bytes, at least: a plan has
// float32 numbers between the nodes. Before it is compiled no more is known.
func (op *Operator) Peak(mode graph.Mode, n, h, w int) int64 {
	bytes, _ := op.peak(mode, n, h, w)
	return bytes
}

// Fits returns an error if that, and so many bytes beside it, are more than there is.
func (op *Operator) Fits(mode graph.Mode, n, h, w int, beside int64) error {
	bytes, p := op.peak(mode, n, h, w)
	if p == nil {
		return nil // what is wrong with it the application says
	}
	return p.Within(memory.Sum(bytes, beside))
}

func (op *Operator) peak(mode graph.Mode, n, h, w int) (int64, *graph.Program) {
	_, p, err := op.inferred(mode, graph.Type{Shape: []int{n, op.Config.InputChannels, h, w}, Format: mode.Wide()})
	if err != nil {
		return 0, nil
	}
	if mode.Precision == fp16.Float64 {
		return p.Peak(), p
	}
	return p.Between() / 2, p
}
