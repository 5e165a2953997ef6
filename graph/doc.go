// Package graph says what a network computes: values, and nodes that make them
// from other values by registered operations, each one real function of its
// inputs, rounded once (docs/NUMERICS.md).
//
//	g := graph.New(nil)
//	x := g.Input("x")
//	w := g.Constant("fc.weight", weight)
//	g.Outputs = []int{g.Add(graph.Linear{}, "fc", x, w)}
//	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: []int{8, 64}, Format: fp16.Float32})
//	y, err := p.Run(new(graph.Run), input)
//
// A [Graph] has no formats and no sizes. [Graph.Infer] gives it both, for a
// [Mode] and for inputs of given types; the [Program] that comes out is
// evaluated by [Program.Run], the only evaluator there is. What is faster than
// Run has its bits: see package plan.
//
// # Operations
//
// An operation is a Go value, such as [Conv] or [Softmax], or comes from [Bind] by its
// name and attributes in JSON: ATen's, or ONNX's where ATen has none. [Names] lists
// them. The fields of an operation made in Go are what they say, zeros too, unless its
// doc gives a zero another meaning; what Bind is not given has PyTorch's default.
//
// # Errors
//
// Inputs that an operation cannot take, by rank, size or format, are errors of Infer
// that name the node, what is wrong with it and what would be right. Run fails only by
// what types do not show: indices out of range, and draws that a source does not have.
//
// # For plans
//
// What begins with Fast, Pieces, SinglePieces, PlainProduct and Seen of [Program] are for
// package plan alone, and so are [Kernel], [MaxPool.Windows] and [Singles];
// [Interpolate.Axes] is for package internal/oracle/judge.
package graph
