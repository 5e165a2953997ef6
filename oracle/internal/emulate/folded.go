package emulate

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// Folds returns for each node the batch norm that a compiler may take into the weights of
// that convolution, 0 for none: one that nothing else reads.
func Folds(nodes []operator.Node) []int {
	norm, readers := make([]int, len(nodes)), make([]int, len(nodes))
	for i := range nodes {
		for _, j := range nodes[i].In {
			if j == operator.Input {
				continue
			}
			if readers[j]++; nodes[i].Op == operator.OpNorm && nodes[i].Norm == "batch" && nodes[j].Op == operator.OpConv {
				norm[j] = i
			}
		}
	}
	for i := range norm {
		if readers[i] != 1 {
			norm[i] = 0
		}
	}
	return norm
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
