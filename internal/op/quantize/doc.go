// Package quantize holds tensors in numbers of 8 bits and fewer with a scale for each block of
// them: MX, NVFP4, float8 with float32 scales, and whole numbers with zero points.
//
// A quantizer is a function with a rule. A [Spec] says which: the format of the elements, which
// numbers share a scale, and how a scale follows from the greatest magnitude amax of its
// block. Where a formula leaves open how float32 arithmetic evaluates it, each [Way] of doing
// so is right, and has a name.
//
//	s, err := quantize.Parse("mxfp8_e4m3", quantize.Options{Rule: "floor"})
//	t, err := s.Quantize(x, 1, nil)   // t.Codes, one a byte, and t.Scales
//	y, err := s.Dequantize(t, fp16.Float32)
//
// # Scales
//
// MX (OCP Microscaling 1.0): blocks of 32 along an axis share a power of 2, 2^-127 to 2^127.
// With E the exponent of the element's largest number:
//
//	floor   2^(floor(log2 amax) - E), the standard's: elements up to 2 - 2^-m times their largest saturate
//	ceil    2^(ceil(log2 amax) - E)
//	even    2^(floor(log2 r) - E), r being amax with half a unit of the element's last place added
//	rceil   2^ceil(log2(amax/largest)), of the quotient in float32 (NVIDIA's): nothing saturates
//
// An amax of 0 or below float32's normal numbers counts as 2^-127 times less than E, which is below
// the range: the scale is 2^-127. Of Inf, floor, ceil and even take 2^128 for it, rceil gives 2^127, and the
// element saturates. NaN makes the scale NaN, code 255, and so the whole block.
//
// NVFP4: blocks of 16 share an E4M3 number, amax/6, or with a global scale g (amax/6)/g, clamped to
// 2^-9 and 448 and rounded to nearest even. torchao clamps to 2^-6 and is right, too. A block of
// zeros has the least scale. 0/0, of a global scale of 0, is NaN.
//
// float8 with float32 scales (one for the tensor, a row, 1x128 or 128x128 numbers): max(amax, eps)/largest.
// With rule pow2 that is rounded up to a power of 2. Where amax and eps are 0 the scale is 0, and the elements
// are NaN, as 0/0 is.
//
// Whole numbers: amax/127 (int8; int4: 7) or by minmax (max - min)/255 with 0 between them and the zero point
// of min/scale; or scale and zero point are given.
//
// # Elements
//
// x over its scale is rounded to nearest even and saturated. The quotient is float32's: a
// division and a product with a reciprocal differ in the last place, which turns ties. Of powers
// of 2 it is exact. Of a NaN, and in a block whose scale is NaN, any code is right.
package quantize
