// Package diff measures how far numbers lie from a reference of the same shape: the
// largest difference, in units of the last place too, and the RMS in units of the
// reference's standard deviation.
//
//	d := diff.Compare(got, want, fp16.Float16)
//	fmt.Println(d.MaxAbs, d.MaxUlp, d.RMSOverStd)
//
// What there is:
//
//   - [Compare] takes two arrays in memory, [CompareStreams] two of any size, and
//     [Accumulator] what comes in pieces.
//   - [PerStep] compares trajectories step by step, and [Growth] says how their
//     difference grows.
//   - [CompareFields] and [Fields] have the relative L2 error and VRMSE by step and channel.
//
// These are figures and no verdict: whether a device is right, package oracle says.
package diff
