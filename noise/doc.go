// Package noise makes the random numbers of a stochastic operator and applies them.
//
// A [Block] is noise of one type on a tensor [N,C,H,W]: gaussian, laplace,
// multiplicative or dropout, of a scale, which a [Schedule] may change from step to
// step, and with a correlation length if wanted. Its zero value is gaussian, of scale 0,
// constant and white. [Block.Apply] takes the numbers from a [Draws], which is one
// application's part of a stream:
//
//	Counter    the project's own: each number a function of seed, operator,
//	           realization, step, site and element, so that batches do not matter
//	Tape       what any framework recorded
//	TorchCPU   PyTorch's generator on a CPU, bit for bit
//	TorchCUDA  PyTorch's generator on an NVIDIA GPU, bit for bit
//
//	draws, err := noise.Counter{Seed: 42}.At(step, 0, n)
//	block := noise.Block{Type: noise.Laplace, Scale: 0.05}
//	err = block.Apply(y, x, noise.Time{Step: &step}, draws)
//
// All draws are float32 numbers, whatever the format of the tensor. Lengths are
// fractions of the image's height, steps are counted from 0, and periods are in steps.
// (Step 0 of a rollout is its start: its first application has the draws of step 1.)
//
// A draw that a source does not have, a parameter out of its range and a broken tape are
// errors that say what was expected; shapes that do not fit together panic.
// docs/NOISE.md defines the counter for those who port it.
//
// For package plan alone, which computes images in blocks of 8 channels, there are [Rows]
// and [RowSpace].
package noise
