// Package molecule evaluates networks that give energies of molecules and forces on their atoms: it
// builds them as graphs from PyTorch state dicts, finds neighbours, reads and writes extended XYZ
// files, tests symmetries, and checks what a device returned.
//
//	m, err := molecule.New(config, molecule.Sizes{}, weights)
//	all, err := molecule.ReadXYZ("benzene.xyz", data)
//	r, err := m.Evaluator(graph.Mode{Precision: fp16.Float32}).Evaluate(m.Batch(all...))
//	fmt.Println(r.Energies, r.Forces)
//
// Forces are minus the gradient of the energy, which package grad makes as nodes of the graph. Every
// operation is one real function, rounded once, so that a molecule has the same bits on every machine,
// for any number of threads, and beside any other molecules in a batch; in all modes but float64 also
// with its atoms in any order.
//
// # Networks
//
// z are atomic numbers, r = x_j - x_i for each pair in which i receives from j, d = |r|, u = r/d,
// fc = (cos(pi d/rc) + 1)/2 for d < rc and 0 beyond. MLP is Linear, SiLU, Linear. q and v of an atom
// begin as embedding(z) and 0. From d to what is taken of it, arithmetic is in float64 in every mode
// and rounded once to the mode's widest format.
//
// [PaiNN], the textbook's, has pairs with d < rc, and R radial functions sin(n pi d/rc)/d. In each layer
//
//	(a, b, c) = message(q)_j filters(radial) fc      q_i += sum a      v_i += sum u b + v_j c
//	(V, U) = mix(v), n = sqrt(sum over x, y, z of V^2 + 1e-8)
//	(a, b, c) = update([q, n])                       v += U a          q += b + c sum(U V)
//
// Its state dict has embedding.weight [elements,H], and for layer L filters.L [3H,R], message.L.0 and
// message.L.2, mix.L.weight [2H,H], update.L.0 and update.L.2; readout.0 and readout.2 make the energy
// of an atom.
//
// [PaiNNFilter] is what MLFF Distiller publishes as students: pairs with d <= rc, radial functions
// exp(-(d - centre)^2/width^2) fc, u = r/(d + 1e-8), and in each layer
//
//	(a, b, c) = rbf_to_scalar(radial)                q_i += sum q_j a  v_i += sum v_j b + u c
//	(a, b, c) = update_mlp([q, |v|])                 q += a            v = v b + (mixing_matrix v) c
//
// Its state dict has embedding.weight, rbf.centers, rbf.widths, interactions.L.message.rbf_to_scalar.0
// and .2, interactions.L.update.mixing_matrix [3,3], interactions.L.update.update_mlp.0 and .2, and
// energy_head.0, .2 and so on. It mixes x, y and z, so that a rotation changes its energy.
//
// [SchNet] is that of PyTorch Geometric, with its names and pairs with d <= rc: x += lin(ssp(lin2(sum of
// lin1(x)_j mlp(radial) fc))), ssp = softplus - ln 2, and lin2(ssp(lin1(x))) is the energy of an atom.
//
// # Where forces are not defined
//
// Two atoms in one place have no direction: energies and forces are NaN, as in PyTorch. An atom
// without neighbours has a PaiNN length of sqrt(1e-8), and forces of 0.
package molecule
