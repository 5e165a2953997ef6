// Package network reads networks that are files of a graph: a JSON object of nodes, and the
// weights beside it in a safetensors file. It is the form in which other programs hand any
// network of registered operations to this one; docs/FORMATS.md describes it.
//
//	n, err := network.Open("net.json")
//	p, err := n.Graph.Infer(graph.Mode{Precision: fp16.Float32}, n.Types()...)
//	y, err := p.Run(new(graph.Run), x)
//
// The file says everything: names, formats and shapes of the inputs, each node's operation
// with its attributes under ATen's names, and what it reads. Sizes are those of one example,
// as the program that wrote the file saw them; nothing is open.
//
// A file may come from anywhere. Unknown keys, operations and attributes, names that nothing
// has, and shapes that do not fit are errors of one line that name the node; memory is
// bounded by the size of the two files.
package network
