package emulate

import (
	"math"
	"slices"

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

// Fold returns convolution conv with batch norm norm in its weights and bias, both float32
// numbers: w a and b a + beta - mean a, a = gamma/sqrt(var+eps).
func Fold(conv, norm *operator.Node) operator.Node {
	n, single := *conv, fp16.Float32.Round
	s := conv.Weight.Shape
	w, b := make([]float64, len(conv.Weight.Data)), make([]float64, s[0])
	per := len(w) / s[0]
	for c := range b {
		a := single(single(norm.Weight.Data[c]) / single(math.Sqrt(norm.Variance.Data[c]+norm.Eps)))
		for k := c * per; k < (c+1)*per; k++ {
			w[k] = single(conv.Weight.Data[k] * a)
		}
		shift := norm.Bias.Data[c] - float64(norm.Mean.Data[c]*a)
		if conv.Bias != nil {
			shift += float64(conv.Bias.Data[c] * a)
		}
		b[c] = single(shift)
	}
	weight, bias := *conv.Weight, operator.Param{}
	weight.Data = w
	if conv.Bias != nil {
		bias = *conv.Bias
	}
	bias.Data, bias.Shape = b, []int{s[0]}
	n.Weight, n.Bias = &weight, &bias
	return n
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

// Splits reports whether a node is a norm that may be computed so.
func Splits(n operator.Node) bool { return n.Op == operator.OpNorm && n.Norm != "batch" }

// Chained returns the nodes, by their bits, whose output a compiler hands on in float32: those
// that one operation alone reads, an activation, a sum or noise, and that are the last of
// what it reads to be computed. It is fused with them and stores its own. Where acts is false,
// activations are stored, as they are where what a convolution has taken in ends with them.
func Chained(nodes []operator.Node, acts bool) (bits uint64) {
	readers, reader := make([]int, len(nodes)), make([]int, len(nodes))
	for i := range nodes {
		for _, j := range nodes[i].In {
			if j != operator.Input {
				readers[j]++
				reader[j] = i
			}
		}
	}
	for j := range nodes[:min(len(nodes), MostTraced)] {
		r := &nodes[reader[j]]
		fuses := r.Op == operator.OpAct && !IsIdentity(r) || r.Op == operator.OpAdd || r.Op == operator.OpNoise
		if fuses && readers[j] == 1 && j == slices.Max(r.In) && (acts || nodes[j].Op != operator.OpAct) {
			bits |= 1 << j
		}
	}
	return bits
}
