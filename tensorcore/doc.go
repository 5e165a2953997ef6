// Package tensorcore computes what the matrix units of GPUs return, bit for bit.
//
//	m, err := tensorcore.Lookup("a100")
//	u, err := m.Unit(tensorcore.FP16, fp16.Float32)
//	d := u.Dot(a, b, c)          // c + sum of a[k] b[k], as the device adds it
//	u.MatMul(dst, a, b, nil, 1)  // [M,K] by [K,N], k ascending
//
// A unit takes a block of N products and an accumulator at a time, and its result is the
// accumulator of the next block. Products of the operands are exact.
//
// NVIDIA's rule, from Volta on. The exponent of a product is the sum of its operands'
// exponents, and its significand, in [1,4), is not normalised. E is the greatest exponent of
// the products and of the accumulator that are not zero. Every term is truncated toward zero
// to a multiple of 2^(E-F). The sum of those is exact, and is rounded once: toward zero to
// float32, or to the nearest float16, ties to even. Subnormal numbers count. What is too
// large is infinite. FP8 of Ada, and of Hopper's wgmma, keeps 13 bits of the fraction of each result.
//
// AMD's units differ from one another: see the table of rules in rules.go, which says of
// each row how well it is known.
//
// Sources: Khattak and Mikaitis, arXiv 2512.07004, whose recordings of real devices are the
// tests of this package; MMA-Sim, arXiv 2511.10909; FTTN, arXiv 2403.00232.
//
// Operands are numbers of the unit's input format; for TF32 any float32 number, of which the
// unit takes the first 10 bits of the fraction. There is one NaN, [fp16.NaN]. Misuse panics.
package tensorcore
