package rig

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
)

// Splits reports whether a node is a norm that may be computed in two operations.
func Splits(n operator.Node) bool { return n.Op == operator.OpNorm && n.Norm != "batch" }

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
