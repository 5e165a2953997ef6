package randgraph

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Modes are those in which every operation has a rule.
func Modes() (all []graph.Mode) {
	for _, m := range [][2]string{{"float64", ""}, {"float32", ""}, {"tf32", ""}, {"float16", "cuda"},
		{"float16", "cpu"}, {"bfloat16", "cuda"}, {"bfloat16", "cpu"}} {
		mode, err := graph.ParseMode(m[0], m[1])
		if err != nil {
			panic("randgraph: " + err.Error())
		}
		all = append(all, mode)
	}
	return all
}

// Answer returns the digest of the outputs in a mode, or of the error that says that there
// are none.
func (c *Case) Answer(m graph.Mode) []byte {
	p, err := c.Graph.Infer(m, c.Types...)
	if err != nil {
		return Digest(nil, err)
	}
	return Digest(p.Run(&graph.Run{}, c.Inputs(0)...))
}

// Digest returns the digest of the formats and bits of tensors, or of an error.
func Digest(of []*tensor.Tensor, err error) []byte {
	h := sha256.New()
	if err != nil {
		h.Write([]byte(err.Error()))
		return h.Sum(nil)
	}
	var b []byte
	for _, x := range of {
		b = append(b, byte(x.Format))
		for _, d := range x.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		for _, v := range x.Data {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	h.Write(b)
	return h.Sum(nil)
}
