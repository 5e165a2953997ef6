// Package study says what each precision means for an operator: its error of one step,
// how that grows, and when a trajectory has lost another.
//
//	s, err := study.Run(ctx, c, study.Options{Shape: shape, Start: start, Arithmetics: modes})
//	fmt.Println(s.Twin("bfloat16").OneStep[0].RMSOverStd)
//
// A reference in float32 and its twins, which differ from it in one thing each, are
// rolled out side by side. [Saturated] and [Lost] read their distances.
package study
