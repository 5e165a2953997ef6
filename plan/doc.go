// Package plan compiles graphs: the same bits as [graph.Program.Run], in less time
// where there are kernels.
//
//	p, err := plan.New(g, mode, types...)
//	err = p.Run(draws, noise.Time{}, out, in)
//
// Operations are joined to passes over images of float32 numbers, which lie in one piece
// of memory, with kernels chosen and weights laid out for them. A run allocates nothing
// where all operations have passes, but that its lists of what guards leave open grow
// with data that is harder than any before. In fast arithmetic what is no image stays float32
// numbers too, products, norms, softmax and what is done number by number with them; axes in
// another order are only seen so until somebody needs them in order. An operation for which
// there is no pass is evaluated by its definition, between the others; [Plan.Nodes] says
// which way each one goes.
//
// A plan is for one [graph.Mode] other than float64, inputs of given types, and the
// instruction set in use when it is made. Types that cannot be inferred are an error
// that names the node; tensors of another shape than the plan's panic.
package plan
