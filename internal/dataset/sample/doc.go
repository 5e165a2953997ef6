// Package sample spreads points over the unit cube, from which the operators of a
// dataset are made.
//
//	Sobol   a digital net, plain or scrambled: scipy's points, bit for bit
//	Halton  radical inverses in the first primes, plain or with permuted digits
//	Latin   a Latin hypercube: every one of n slices of every axis holds one point
//	Random  independent points of the counter stream
//
// A point is a function of the method, the seed and its index. So each can be made
// alone, on any machine, in any order. All arithmetic is on integers, with one rounding
// to float64 at the end; every coordinate lies in [0,1).
//
// [Discrepancy] and [Correlation] say how evenly points are spread.
//
// In use:
//
//	s, err := sample.New(sample.Config{Method: sample.Sobol, Dims: 12, Points: 10000, Scramble: true, Seed: 42})
//	x := make([]float64, 12)
//	s.At(7, x)
package sample
