// Package refrun is the root of a CPU reference for rollouts of stochastic
// neural operators: convolution, norm, activation and noise, stepped hundreds
// of times. It exports nothing; the command is cmd/refrun, and the library is
// its folders. To step an operator:
//
//   - [github.com/refrun/refrun/safetensors] opens files of weights,
//   - [github.com/refrun/refrun/operator] makes an operator of them,
//   - [github.com/refrun/refrun/noise] draws and applies the randomness,
//   - [github.com/refrun/refrun/rollout] steps states,
//   - [github.com/refrun/refrun/oracle] judges what a device made of them,
//   - [github.com/refrun/refrun/study] says what each precision means for one, and
//   - [github.com/refrun/refrun/diff] has the differences of two arrays in figures.
//
// To compute any other network:
//
//   - [github.com/refrun/refrun/graph] says what it computes, and evaluates it,
//   - [github.com/refrun/refrun/plan] compiles it, to the same bits,
//   - [github.com/refrun/refrun/asm] says which instruction set runs,
//   - [github.com/refrun/refrun/onnx] and [github.com/refrun/refrun/network] make
//     graphs of files,
//   - [github.com/refrun/refrun/molecule] has energies and forces of molecules, and
//   - [github.com/refrun/refrun/oracle] judges what a device made of one, and what a
//     kernel did.
//
// Package [github.com/refrun/refrun/dataset] makes datasets of operators and their
// rollouts.
//
// The operations can be had alone, on the tensors of
// [github.com/refrun/refrun/tensor] in the formats of
// [github.com/refrun/refrun/fp16]:
//
//   - [github.com/refrun/refrun/conv] holds convolutions, and
//     [github.com/refrun/refrun/tensorcore] the products of GPUs,
//   - [github.com/refrun/refrun/norm] takes numbers together, and
//   - [github.com/refrun/refrun/act] acts on each number.
//
// Package graph has all others: products, functions, sums, pooling, resizing,
// Fourier transforms, and what moves numbers.
//
// The folder examples has programs of a page to begin with.
//
// Every operation is one real function of its inputs, rounded once
// (docs/NUMERICS.md), so results have the same bits on every machine.
package refrun
