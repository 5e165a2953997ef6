package emulate

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// Folds returns for each node the batch norm that a compiler may take into the weights of
// that convolution, 0 for none: one that nothing else reads.
func Folds(nodes []operator.Node) []int {
	norms, readers := make([]int, len(nodes)), make([]int, len(nodes))
	for i := range nodes {
		for _, j := range nodes[i].In {
			if j == operator.Input {
				continue
			}
			if readers[j]++; nodes[i].Op == operator.OpNorm && nodes[i].Norm == "batch" && nodes[j].Op == operator.OpConv {
				norms[j] = i
			}
		}
	}
	for i := range norms {
		if readers[i] != 1 {
			norms[i] = 0
		}
	}
	return norms
}

// Convolve returns convolution n, which need not be a node of the machine, as d takes its
// operands, in float64.
func (d *Device) Convolve(n *operator.Node, x *tensor.Tensor) (*tensor.Tensor, error) {
	f, _, err := n.Formats(d.Mode, fp16.Float32)
	if err != nil {
		return nil, err
	}
	if !d.Wide.Takes(n) && rounds(f) {
		x = Operand(d.Mode, x, f)
	}
	return Wide(x, NewKernel(d.Mode, n, n.Weight.Data), n.Geometry), nil
}

// SplitNorm is norm i as two operations: what is normalized is rounded to f, then multiplied and
// shifted, as OpenVINO computes an instance or a group norm in bfloat16. legal, if not nil, may
// change what is normalized before it is rounded.
func (m *Machine) SplitNorm(i int, f fp16.Format, x *tensor.Tensor, legal *Legal) *tensor.Tensor {
	n, y := &m.Nodes[i], tensor.Like(x)
	ones := make([]float64, 2*len(n.Weight.Data))
	zeros := ones[len(n.Weight.Data):]
	for c := range n.Weight.Data {
		ones[c] = 1
	}
	norm.Group(y, x, n.Groups, ones[:len(zeros)], zeros, n.Eps)
	if legal != nil {
		legal.Disturb(i, y, []*tensor.Tensor{x})
	}
	f.RoundSlice(y.Data, y.Data)
	for p := range y.N() * y.C() {
		c := p % y.C()
		for k, plane := 0, y.Plane(p/y.C(), c); k < len(plane); k++ {
			plane[k] = float64(plane[k]*n.Weight.Data[c]) + n.Bias.Data[c]
		}
	}
	return y
}
