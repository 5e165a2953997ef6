// Package grad makes gradients of graphs: reverse mode, in which each gradient is a node of the
// graph as any other, of a registered operation, rounded once, planned and judged like the rest.
//
//	d, err := grad.Of(g, mode, energy, []int{positions}, types...)
//	y, err := p.Run(new(graph.Run), x) // p of d.Infer: the outputs of g, then one gradient for each input named
//
// # Which real function
//
// The gradient of a node is what its rule says, in a few operations of the graph; with names of
// their own they are in [Of]'s result for everybody to see. Each of them is rounded once, and so
// is each sum where a value is read more than once: a gradient is not one function of the inputs,
// but a network like the one that it belongs to. In the mode float64 it is as close to the
// derivative as float64 gets. In other modes a gradient has the format of the value that it
// belongs to, as in PyTorch.
//
// # Where there is no derivative
//
// The rules are those of PyTorch's autograd, of release 2.9:
//
//	relu at 0, leaky_relu and elu at 0                 as for x < 0
//	abs, sign and linalg_vector_norm of order 1 at 0   0
//	linalg_vector_norm of order 2 of a zero vector     0
//	sqrt at 0                                          +Inf times what comes in: NaN for sqrt of a sum of squares
//	hardtanh and relu6 at their ends                   0
//	clip at its ends                                   1
//	hardshrink and softshrink at their ends            0
//	minimum and maximum of equal numbers               half of it to each
//	amax, amin, and max and min without an axis        an equal part to each of those that are equal
//	max and min along an axis, sort and topk           all to the number whose place is returned
//	floor, ceil, trunc, round, sign, floor_divide      0 everywhere
//
// So a network that takes the length of a vector as the root of a sum of squares has forces that
// are NaN where two atoms are in one place, here as in PyTorch; with linalg_vector_norm it is
// the division by the length that makes NaN, if there is one.
//
// Where several numbers are put to one place by scatter, scatter_nd or index_put the last one
// stays, and only that one has a gradient. PyTorch, which does not define the order, gives all of
// them what the place has.
//
// # What has no rule
//
// [Of] lists every node between the inputs and the output for which there is no rule, or none for
// its attributes, in one error: name, operation and reason. Values on no way from an input to the
// output need no rule.
package grad
