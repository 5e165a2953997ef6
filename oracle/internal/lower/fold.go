package lower

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// folds are the batch norms that a compiler may take into the weights of the convolution before them, by that
// convolution's node: those of constants alone, and of a result that nothing else reads.
func folds(g *graph.Graph) map[int]int {
	makes, readers, norms := make([]int, len(g.Values)), make([]int, len(g.Values)), map[int]int{}
	for _, v := range g.Outputs {
		readers[v]++
	}
	constant := func(in []int) bool {
		return !slices.ContainsFunc(in, func(v int) bool { return g.Values[v].Const == nil })
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for _, v := range n.In {
			readers[v]++
		}
		for _, v := range n.Out {
			makes[v] = i + 1
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		op, is := n.Op.(graph.BatchNorm)
		if !is || op.Training || len(n.In) != 5 || !constant(n.In[1:]) || readers[n.In[0]] != 1 || makes[n.In[0]] == 0 {
			continue
		}
		conv := makes[n.In[0]] - 1
		if of := &g.Nodes[conv]; of.Op.Name() == "conv2d" && constant(of.In[1:]) {
			norms[conv] = i
		}
	}
	return norms
}

// fold returns a convolution's parameters with a batch norm in them, as compilers make them of float32 numbers: w a and
// b a + beta - mean a, a = gamma/sqrt(var + eps).
func fold(g *graph.Graph, conv, norm *graph.Node) (weight, bias *tensor.Tensor) {
	single, param := fp16.Float32.Round, func(k int) []float64 { return g.Values[norm.In[k]].Const.Data }
	gamma, beta, mean, variance := param(1), param(2), param(3), param(4)
	w := g.Values[conv.In[1]].Const
	weight, bias = tensor.New(fp16.Float32, w.Shape...), tensor.New(fp16.Float32, w.Shape[0])
	per := len(w.Data) / len(bias.Data)
	for c := range bias.Data {
		a := single(single(gamma[c]) / single(math.Sqrt(variance[c]+norm.Op.(graph.BatchNorm).Eps)))
		for k := c * per; k < (c+1)*per; k++ {
			weight.Data[k] = single(w.Data[k] * a)
		}
		shift := beta[c] - float64(mean[c]*a)
		if len(conv.In) > 2 {
			shift += float64(g.Values[conv.In[2]].Const.Data[c] * a)
		}
		bias.Data[c] = single(shift)
	}
	return weight, bias
}
