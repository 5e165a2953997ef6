// Package conv computes convolutions, which the public package conv defines: of tensors
// ([Forward], [Transposed], [Wide]), and, for package plan, of images in blocks of 8 channels,
// prepared for one shape ([Image], [Prepared] and [Space]).
//
// A sum is computed in float64 and guarded by a proven bound; exact arithmetic settles the few
// elements that the bound leaves open.
package conv
