package lower

import (
	"fmt"
	"slices"
	"strings"

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
		if !normOfConstants(g, n) || readers[n.In[0]] != 1 || makes[n.In[0]] == 0 {
			continue
		}
		conv := makes[n.In[0]] - 1
		of := &g.Nodes[conv]
		if strings.HasPrefix(of.Op.Name(), "conv") && !transposed(of) && constants(g, of.In[1:]) {
			norms[conv] = i
		}
	}
	return norms
}

// constants reports whether values are all constants.
func constants(g *graph.Graph, of []int) bool {
	return !slices.ContainsFunc(of, func(v int) bool { return g.Values[v].Const == nil })
}

// normOfConstants reports whether a node is a batch norm in evaluation whose parameters are constants.
func normOfConstants(g *graph.Graph, n *graph.Node) bool {
	op, is := n.Op.(graph.BatchNorm)
	return is && !op.Training && len(n.In) == 5 && constants(g, n.In[1:])
}

// scaledProduct reports whether a node is a product of constant weights, and of a constant bias if it has one, times
// numbers of its own.
func scaledProduct(g *graph.Graph, n *graph.Node) bool {
	op, is := n.Op.(graph.Gemm)
	return is && (op.Alpha != 1 || op.Beta != 1) && constants(g, n.In[1:])
}

// meanOfSeveral reports whether a node is the mean of several tensors, which are stacked for it.
func meanOfSeveral(g *graph.Graph, n *graph.Node) bool {
	op, is := n.Op.(graph.Reduction)
	stacks := func(of graph.Node) bool {
		stack, is := of.Op.(graph.Stack)
		return is && of.Out[0] == n.In[0] && stack.Axis == op.Axes[0]
	}
	return is && op.Of == "mean" && len(op.Axes) == 1 && slices.ContainsFunc(g.Nodes, stacks)
}

// foldable reports whether a library may make constants of what a node has, when it loads a network.
func foldable(g *graph.Graph, n *graph.Node) bool {
	return normOfConstants(g, n) || scaledProduct(g, n) || meanOfSeveral(g, n)
}

// folding adds steps that constants alone have a part in, whose results a contract may store in the half type.
func (l *lowering) folding(name string, op graph.Op, in ...int) int {
	v := l.to.Add(op, name, in...)
	if l.constants {
		v = l.to.Add(graph.Cast{Dtype: l.claim.Half.String()}, name+".stored", v)
	}
	return v
}

// scaleOf is what a batch norm of a half type multiplies by, gamma/sqrt(var + eps).
func (l *lowering) scaleOf(name string, norm *graph.Node, param func(k int) int) int {
	eps := norm.Op.(graph.BatchNorm).Eps
	v := l.folding(name+".variance", graph.Binary{Of: pointwise.Add, Other: &eps}, param(4))
	return l.folding(name+".scale", graph.Binary{Of: pointwise.Div}, param(1), l.folding(name+".deviation", sqrt, v))
}

// loaded is a node as a library makes it that folds what constants make: a batch norm x a + (beta - mean a), a product
// with its numbers in its weights and its bias, or a sum times 1/n. ONNX Runtime and OpenVINO fold in the network's own
// type.
func (l *lowering) loaded(n *graph.Node, name string, in []int) int {
	number := func(v float64) graph.Op {
		v = l.claim.Half.Round(v)
		return graph.Binary{Of: pointwise.Mul, Other: &v}
	}
	switch op := n.Op.(type) {
	case graph.Reduction:
		shape := l.p.Type(n.In[0]).Shape
		op.Of = "sum"
		of := shape[(op.Axes[0]+len(shape))%len(shape)]
		return l.to.Add(number(1/float64(of)), name, l.to.Add(op, name+".sum", in...))
	case graph.Gemm:
		by := []float64{1, op.Alpha, op.Beta}
		for k := 1; k < len(in); k++ {
			if by[k] != 1 {
				in[k] = l.folding(fmt.Sprintf("%s.folded.%d", name, k), number(by[k]), in[k])
			}
		}
		op.Alpha, op.Beta = 1, 1
		return l.to.Add(op, name, in...)
	}
	a := l.scaleOf(name, n, func(k int) int { return in[k] })
	shift := l.folding(name+".shift", graph.Binary{Of: pointwise.Sub}, in[2],
		l.folding(name+".mean", graph.Binary{Of: pointwise.Mul}, in[3], a))
	a = l.to.Add(l.channelwise(n.In[0]), name+".scales", a)
	y := l.to.Add(graph.Binary{Of: pointwise.Mul}, name+".scaled", in[0], a)
	return l.to.Add(graph.Addition, name, y, l.to.Add(l.channelwise(n.In[0]), name+".shifts", shift))
}

var sqrt, _ = graph.Bind("sqrt", nil)

// fold is a batch norm that is taken into the weights of a convolution.
type fold struct {
	conv, norm   graph.Node
	weight, bias int // the convolution's parameters, of the graph from which a contract is lowered
}

// into adds the steps that make the parameters of a convolution of those of its norm: w a and beta - mean a + b a,
// a = gamma/sqrt(var + eps). Compilers make them of float32 numbers, with errors of their own, so that a weight beside
// the middle of two half numbers may be either. What loads a network in a half type stores each, and has (b - mean) a
// first.
func (f *fold) into(l *lowering) {
	name := l.from.Name(&f.conv) + ".folded"
	param := func(k int) int { return l.of[f.norm.In[k]] }
	a := l.scaleOf(name, &f.norm, param)
	shape := graph.Ints(slices.Repeat([]int{1}, len(l.from.Values[f.weight].Const.Shape)))
	shape[0] = -1
	l.of[f.weight] = l.folding(name+".weight", graph.Binary{Of: pointwise.Mul}, l.of[f.conv.In[1]],
		l.to.Add(graph.Reshape{Shape: shape}, name+".scales", a))
	times := graph.Binary{Of: pointwise.Mul}
	if l.constants && len(f.conv.In) > 2 {
		less := l.folding(name+".less", graph.Binary{Of: pointwise.Sub}, l.of[f.conv.In[2]], param(3))
		l.of[f.bias] = l.folding(name+".bias", graph.Addition, l.folding(name+".shift", times, less, a), param(2))
		return
	}
	mean := l.folding(name+".mean", times, param(3), a)
	shift := l.folding(name+".shift", graph.Binary{Of: pointwise.Sub}, param(2), mean)
	if len(f.conv.In) > 2 {
		shift = l.to.Add(graph.Addition, name+".bias", shift, l.to.Add(times, name+".scaled", l.of[f.conv.In[2]], a))
	}
	l.of[f.bias] = shift
}
