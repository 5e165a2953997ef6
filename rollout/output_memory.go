package rollout

import (
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
)

// Memory counts, in bytes, what a rollout holds at once. It is counted from
// shapes and buffers, so it is the same in every run on a machine. The process takes more:
// the program itself, and what its garbage collector has not yet taken back,
// which may be as much again.
type Memory struct {
	// States is the states of one engine batch, [B,C,H,W] in float64.
	States int64 `json:"state_bytes"`
	// Arena is what steps hold beside them: the states that they make, the images
	// and draws of the operator's plans, and of an engine batch that is stepped in
	// parts its draws (but those of a counter). The scratch of a kernel at work comes
	// on top, some 2 MiB a thread. In float64 mode, which has no plans, it is the
	// most that one step may hold (norms and activations work in place and hold
	// less): the draws, and the activations of one application of the operator,
	// of the module at work its input and output, and inside a residual block
	// the block's input.
	Arena int64 `json:"arena_bytes"`
	// Weights is the parameters, and the copies of the convolutions' weights in
	// the order in which the kernels read them, which differ by instruction set.
	Weights int64 `json:"weight_bytes"`
	// Sinks is the buffers of the outputs, the digest and the image of a
	// checkpoint. An HDF5 output's grow by 16 bytes a state, the index of its
	// chunks; nothing else depends on the number of steps.
	Sinks int64 `json:"sink_bytes"`
}

// memory counts what the job held.
func (j *Job) memory(digests []*Digest, outputs []Output) Memory {
	if j.Graph != nil {
		return j.graphMemory(digests, outputs)
	}
	c, op := j.Config, j.Operator
	all := c.EngineBatches()[0][1]
	part := all
	if j.Batch > 0 {
		part = min(j.Batch, all)
	}
	plane := int64(8 * j.Shape.H * j.Shape.W)
	m := Memory{States: int64(all*j.Shape.C) * plane}
	m.Arena = 2*m.States + op.PlanBytes()
	if j.Mode.Precision == fp16.Float64 {
		m.Arena += int64(part*activations(op)) * plane
	}
	counted := j.Mode.Precision != fp16.Float64 && (part == all || j.Stream != nil && j.Stream.Name == "counter")
	if !counted && j.Stream != nil && j.Stream.Name != "none" {
		kinds, channels := op.Draws()
		for _, k := range kinds {
			size := plane
			switch k {
			case noise.Bernoulli:
				size = 8
			case noise.ComplexNormal:
				size *= 2
			}
			m.Arena += int64(all*channels) * size
			if j.Mode.Precision == fp16.Float64 {
				m.Arena += int64(part*channels) * size // the part's share of them
			}
		}
	}
	m.Weights = op.Bytes()
	m.sinks(digests, outputs)
	return m
}

// graphMemory counts that of a step graph: what is read and made, twice, beside the values of a step.
func (j *Job) graphMemory(digests []*Digest, outputs []Output) Memory {
	m := Memory{States: 8 * int64(j.Graph.packed())}
	m.Arena = 2*m.States + j.Graph.values
	for _, v := range j.Graph.Network.Graph.Values {
		if v.Const != nil {
			m.Weights += 8 * int64(len(v.Const.Data))
		}
	}
	m.sinks(digests, outputs)
	return m
}

// sinks adds what outputs hold.
func (m *Memory) sinks(digests []*Digest, outputs []Output) {
	for _, d := range digests {
		m.Sinks += d.held()
	}
	for _, o := range outputs {
		m.Sinks += o.held()
	}
	if len(outputs) > 0 {
		for _, d := range digests {
			text, _ := d.MarshalText()
			m.Sinks += int64(len(text))
		}
		m.Sinks += 2 * m.States // the image of a checkpoint, as a tensor and as a file
	}
}

// activations returns the channels of the arrays that one application of op to
// one sample holds at once, beside the sample. A convolution from c to o
// channels holds c+o; the norm and the activation after it 2o. In a residual
// block c more are held for its sum, or o, when its projection has taken their
// place. Noise is added from o to o.
func activations(op *operator.Operator) int {
	most, first := 0, true
	for _, p := range op.Params() {
		if len(p.Shape) != 4 {
			continue
		}
		o, c := p.Shape[0], p.Shape[1]
		n := max(c, o) + o
		if first { // its input is the sample itself
			n, first = 2*o, false
		}
		if strings.Contains(p.Name, ".blocks.") {
			n += o
		}
		most = max(most, n)
	}
	return most
}

// held returns the bytes of memory that the digest keeps.
func (d *Digest) held() int64 {
	const sha256State = 128
	return int64(cap(d.buf)+cap(d.waiting)) + sha256State*int64(len(d.each))
}
