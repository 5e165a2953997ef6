// Package forward judges one evaluation of a network: are its outputs what a device of the claimed
// arithmetic returns for these inputs, and if not, which layer is wrong?
//
//	claim, err := forward.ParseClaim("bfloat16", "cpu")
//	r, err := forward.Check(ctx, forward.Question{Graph: g, Inputs: in, Claim: claim, Outputs: out, Layers: layers})
//	fmt.Println(r.Verdict, r.FirstLayer, r.Diagnosis)
//
// A network is judged in pieces. Where the outputs of layers were recorded, each is a piece: the part of
// the graph from what the device had recorded before to what it recorded there, held against the device's
// own numbers. So an error stays where it is made, and the first wrong piece names the layer. Without
// layers the whole graph is one piece for each output.
//
// In each piece the roundings of the claim are written into the graph: operands that autocast casts, and
// results that it stores. What comes of it is exact arithmetic with those roundings alone, the centre of
// what right devices return; package judge says how far from it they may be: rigorous intervals, and the
// errors of simulated right devices on these very inputs, whose sums have the worst usual order and whose
// functions are a library's. An output that is farther off, anywhere or altogether, is wrong. So the limits
// follow from these inputs, and none was fitted to what passed.
//
// A compiler that keeps values in registers rounds less often. So a piece that is not as claimed is tried
// under contracts of fewer roundings, and passes as more accurate, under the contract's name.
package forward
