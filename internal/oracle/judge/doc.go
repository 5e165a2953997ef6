// Package judge holds the output of a kernel, or of a small network, to what right kernels may
// return.
//
// An operation is one real function, and its exact value is known. A right kernel computes it in
// float32, in some order, with its library's exp, and rounds what it stores. So there is, for each
// element, an interval in which all right kernels are, and a size of errors that is usual in it.
//
//	interval    each operation is taken apart into steps, such as exp and sum. Each step has a
//	            bound of its error that no order of a sum and no library exceeds. A number outside
//	            is a violation.
//	statistics  simulated right kernels, with sums in the worst usual order and a library's
//	            functions at their worst, say how large errors are on these inputs. An output whose
//	            errors are larger, anywhere or altogether, is not of such a kernel.
//	faults      each known fault is built into the steps. Its effect on these inputs is a
//	            direction; errors that lie along it, by its very amount, have that fault. One that
//	            these inputs would not show is listed as blind.
//	contract    kernels may round some steps to the inputs' format, and compute a norm in one way
//	            or another. What is not claimed is searched for, and named.
//
// In use:
//
//	g := graph.New(nil)
//	x := g.Input("input")
//	g.Outputs = []int{g.Add(op, "output", x)}
//	r, err := judge.Check(judge.Question{Graph: g, Inputs: in, Output: out})
//	fmt.Println(r.Verdict, r.Violations, r.Contract, r.Fault)
package judge
