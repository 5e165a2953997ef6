package operator

import "github.com/refrun/refrun/fp16"

// NoiseFormat returns the format of the tensor to which the stochastic block
// adds its noise in a mode, for a state of the mode's widest format; that
// format itself if the operator has no noise.
func (op *Operator) NoiseFormat(m Mode) fp16.Format {
	nodes := op.Nodes()
	of := make([]fp16.Format, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		in := make([]fp16.Format, len(n.In))
		for k, j := range n.In {
			in[k] = m.Wide()
			if j != Input {
				in[k] = of[j]
			}
		}
		if n.Op == OpNoise {
			return in[0]
		}
		_, of[i], _ = m.Formats(n, in...)
	}
	return m.Wide()
}
