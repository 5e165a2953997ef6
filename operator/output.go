package operator

import (
	"sync"

	"github.com/refrun/refrun/fp16"
)

// outputs are the formats of an operator's output, by mode.
type outputs struct {
	mu sync.Mutex
	of []output
}

type output struct {
	mode   Mode
	format fp16.Format
}

// Output returns the format of the operator's output in a mode, for an input of the
// mode's wide format: that of a convolution, [Mode.Output], unless the operations behind
// the last one make float32 numbers of it, as the sum with a float32 input is.
func (op *Operator) Output(m Mode) fp16.Format {
	o := &op.outputs
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.of {
		if x.mode == m {
			return x.format
		}
	}
	nodes := op.Nodes()
	f := m.Output()
	if op.Config.Nodes != nil && len(nodes) > 0 {
		of := make([]fp16.Format, len(nodes))
		for i := range nodes {
			in := make([]fp16.Format, len(nodes[i].In))
			for k, j := range nodes[i].In {
				in[k] = m.Wide()
				if j != Input {
					in[k] = of[j]
				}
			}
			var err error
			if _, of[i], err = m.Formats(&nodes[i], in...); err != nil {
				of[i] = m.Wide() // such an operator has no output
			}
		}
		f = of[len(nodes)-1]
	}
	o.of = append(o.of, output{m, f})
	return f
}
