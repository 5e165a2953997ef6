// Package refrun is the root of a CPU reference for rollouts of stochastic
// neural operators: convolution, norm, activation and noise, stepped hundreds
// of times. It exports nothing; the command is cmd/refrun, and the library is
// its folders:
//
//   - [github.com/refrun/refrun/conv], [github.com/refrun/refrun/norm],
//     [github.com/refrun/refrun/act], [github.com/refrun/refrun/pointwise] define
//     the operations,
//   - [github.com/refrun/refrun/noise] draws and applies the randomness,
//   - [github.com/refrun/refrun/operator] composes them,
//   - [github.com/refrun/refrun/rollout] steps states, and
//   - [github.com/refrun/refrun/oracle] compares recorded rollouts with it.
//
// Every operation is one real function of its inputs, rounded once
// (docs/NUMERICS.md), so results have the same bits on every machine.
package refrun
