// Package rollout steps states through an operator, again and again, and keeps what
// comes out.
//
// A state is [C,H,W]; a rollout is M realizations of T states, the initial one among
// them, [M,T,C,H,W]. With O the operator's output for a state X, the next one is
//
//	autoregressive   O
//	residual         X + dt O
//	convex           alpha X + (1-alpha) O
//
// and then post-processed if the [Config] asks for it: scaled by [MinMax] or [ZScore],
// and clamped.
//
// For a recorded case a step is
//
//	c, err := rollout.OpenCase("case")
//	op, err := c.NewOperator()
//	step := rollout.Stepper{Operator: op, Config: c.Rollout, Mode: mode}
//	x, err = step.Step(x, draws)
//
// What there is, from the small to the large:
//
//   - A [Stepper] makes one step of some realizations, for those who have their own loop.
//   - An [Engine] makes all steps and hands each state to its [Sink] values: a [Digest],
//     an [Output], or a function of yours. It holds one engine batch in memory.
//   - A [Job] is an engine with a file of safetensors, npy, npz or HDF5, a checkpoint
//     beside it, and a resumed run that ends in the same bytes.
//   - A [Case] is a recorded rollout, a folder of case.json and safetensors files
//     (docs/FORMATS.md), which [OpenCase] reads; [Verify] says whether files are still
//     what was written.
//
// A [Stream] says where noise comes from; the same case, stream and mode give the same
// bits on every machine, however a run is split into batches.
//
// What a file says wrongly is an error of one line with file, field, value and
// expectation. A NaN or an infinity ends a run with a [*NonfiniteError], unless it is
// allowed or a float16 overflow.
package rollout
