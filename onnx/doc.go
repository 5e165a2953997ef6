// Package onnx reads ONNX files as graphs: what a network computes, each operation the real
// function that it is, rounded once.
//
//	m, err := onnx.Open("resnet18.onnx")
//	g, _, err := m.Graph(map[string]onnx.Given{"x": {Shape: []int{8, 3, 224, 224}}})
//	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: x.Shape, Format: x.Format})
//	y, err := p.Run(new(graph.Run), x)
//
// A graph is for sizes that are known. The sizes that a file leaves open, such as "batch", are
// bound to those of the inputs when [Model.Graph] makes a graph; one model may be made into
// several. Names of values are the file's. What lies between the steps of an operation that
// is several here has the name of its output, the step and the graph's operation.
//
// # What is read
//
// Opsets 13 to 23 of ONNX's own operations, those that [Operations] lists; operations of older
// and newer opsets where they differ in ways that are known. Constants of all types of numbers,
// in the file or beside it. Functions of the file, and branches of an If whose condition is
// known, become part of the graph. Whatever else there is, such as loops, is listed by one
// error with the place of each node.
//
// # Types
//
// Numbers of float32, float64, float16 and bfloat16 are held as such. All whole numbers, and
// truths, are [fp16.Int64] in a graph, within 2^53 in magnitude: beyond that there is an error.
// Of sums and products in types shorter than 64 bits the low bits count. Numbers of 8 bits and fewer that are not whole
// are held in float32. Complex numbers and strings are not supported.
//
// # Where ONNX leaves a choice
//
// Each operation of a file is one operation of the graph, rounded once, where there is one:
// so Softmax, LayerNormalization, GroupNormalization, Attention, Gemm, a Sum of many and a DFT
// are. Attention with a cap on its scores, or with its scores as an output, is a chain.
// stash_type and softmax_precision have no effect, as nothing is rounded in between. Dropout
// is the identity.
//
// # What is known beforehand
//
// Shapes, and what is computed of them, are constants in the graph; so are weights that only
// move, such as transposed ones. What rounds stays a node, as it depends on the mode. Where a
// shape depends on the numbers of an input, a value of that input must be given to
// [Model.Graph], and the graph is for this value alone.
//
// # Files from anywhere
//
// Reading trusts nothing. What a file says of sizes is compared with what there is before
// memory is taken, numbers of weights are read when a graph is made, and all memory is bounded
// by the size of the file and of the tensors that its inputs ask for. Files beside the model
// are opened by their names within its folder only, and through no link that leads out of it.
package onnx
