// Package dataset makes datasets of sampled stochastic operators: a space of
// operators, points in it, and of each point an operator, an initial condition and
// rollouts, in files that can be made on any machine, in any order, to the same bits.
//
//   - A [Spec] says what a dataset is, in the project's own form or in Spinlock's.
//   - A [Unit] is one operator of it: its parameters, its seeds, its identity. It follows
//     from the specification and the operator's index alone.
//
// Package sample spreads the points, package initial makes the initial conditions.
//
// In use:
//
//	spec, err := dataset.Parse("spec.json", text)
//	units, err := spec.Units("spec.json")
//	u, err := units.At(17)
//	op, err := operator.Init(u.Operator, u.WeightsSeed)
//
// and to make all of it, or what is left of it, in a folder
//
//	p, err := dataset.New(spec, "spec.json", dir, 1, 10, "my program") // 10 GFLOP a second
//	err = p.Write()
//	made, err := p.Make(ctx, dataset.Run{Units: p.Missing(), Workers: 1})
//	err = p.Export("well", dataset.Layout{Format: "well", Split: [3]int{8, 1, 1}})
package dataset
