package lower

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
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

var sqrt, _ = graph.Bind("sqrt", nil)

// fold is a batch norm that is taken into the weights of a convolution.
type fold struct {
	conv, norm   graph.Node
	weight, bias int // the convolution's parameters, of the graph from which a contract is lowered
}

// into adds the steps that make the parameters of a convolution of those of its norm, as compilers make them of float32
// numbers: w a and beta - mean a + b a, a = gamma/sqrt(var + eps). Each has errors of its own, so that a weight beside
// the middle of two half numbers may be either.
func (f *fold) into(l *lowering) {
	name, eps := l.from.Name(&f.conv)+".folded", f.norm.Op.(graph.BatchNorm).Eps
	param := func(k int) int { return l.of[f.norm.In[k]] }
	root := l.to.Add(sqrt, name+".deviation",
		l.to.Add(graph.Binary{Of: pointwise.Add, Other: &eps}, name+".variance", param(4)))
	a := l.to.Add(graph.Binary{Of: pointwise.Div}, name+".scale", param(1), root)
	shape := graph.Ints(slices.Repeat([]int{1}, len(l.from.Values[f.weight].Const.Shape)))
	shape[0] = -1
	l.of[f.weight] = l.to.Add(graph.Binary{Of: pointwise.Mul}, name+".weight", l.of[f.conv.In[1]],
		l.to.Add(graph.Reshape{Shape: shape}, name+".scales", a))
	shift := l.to.Add(graph.Binary{Of: pointwise.Sub}, name+".shift", param(2),
		l.to.Add(graph.Binary{Of: pointwise.Mul}, name+".mean", param(3), a))
	if len(f.conv.In) > 2 {
		shift = l.to.Add(graph.Addition, name+".bias", shift,
			l.to.Add(graph.Binary{Of: pointwise.Mul}, name+".scaled", l.of[f.conv.In[2]], a))
	}
	l.of[f.bias] = shift
}
