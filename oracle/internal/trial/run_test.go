package trial

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/tensor"
)

// TestRunShares: memory that the output of a fault shares with what the fault was
// given is not used again, and other memory is.
func TestRunShares(t *testing.T) {
	for _, shares := range []bool{false, true} {
		d := rig.NewRig(t, "float32", "gaussian", 0.05)
		r := newRun(&View{Machine: emulate.New(d.Op, d.Config)})
		x := r.View.Machine.Scratch(1, 2, 2, 3)
		y := tensor.New(fp16.Float64, 1, 1, 2, 3)
		if shares {
			y = tensor.Of(fp16.Float64, x.Data[6:], 1, 1, 2, 3)
		}
		r.has(0, x, true)
		r.has(1, y, false)
		r.drop(0)
		if again := overlap(r.View.Machine.Scratch(1, 2, 2, 3).Data, x.Data); again == shares {
			t.Errorf("shared: %v, used again: %v", shares, again)
		}
	}
}
