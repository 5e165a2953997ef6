package table

// quantizers are the faults of kernels that write numbers of 8 bits and fewer, or read them. How they are
// made is said in oracle/quantizer.
var quantizers = []Row{
	{ID: "quantize.nibbles-swapped", Name: "the two numbers of a byte are swapped", Verdict: logic, Advice: "put the first of two numbers into the other half of the byte, or say order=high"},
	{ID: "quantize.scale-rule", Name: "scales are by %s", Verdict: logic, Advice: "compute the scale by the rule that is asked for, or say rule="},
	{ID: "quantize.amax-signed", Name: "amax is the greatest number, not the greatest magnitude", Verdict: logic, Advice: "take the absolute value before the maximum"},
	{ID: "quantize.padding-counted", Name: "the last, partial block counts what is beyond its end", Verdict: logic, Advice: "mask what is loaded beyond the end before the maximum"},
	{ID: "quantize.global-scale-missing", Name: "the global scale is not applied to %s", Verdict: logic, Advice: "divide scales by the global scale, and elements by the product of both"},
	{ID: "quantize.global-scale-twice", Name: "the global scale is applied twice to %s", Verdict: logic, Advice: "divide scales by the global scale, and elements by the product of both"},
	{ID: "quantize.zero-point-ignored", Name: "the zero point is ignored", Verdict: logic, Advice: "add the zero point to what is rounded; subtract it before the scale on the way back"},
	{ID: "quantize.least-scale-missing", Name: "small scales become 0", Verdict: logic, Advice: "clamp scales to the least number of E4M3, 2^-9"},
	{ID: "quantize.scales-transposed", Name: "scales are transposed", Verdict: logic, Advice: "check the strides of the scales"},
	{ID: "quantize.scales-swizzled", Name: "scales are in tiles of 128 x 4", Verdict: logic, Advice: "undo the order that tensor cores want before scales are judged"},
	{ID: "quantize.scale-of-other-block", Name: "blocks have the scale of the block beside them", Verdict: logic, Advice: "check the index of the scale: element over size of a block"},
	{ID: "quantize.other-axis", Name: "blocks are along axis %s", Verdict: logic, Advice: "check the axis, and the strides of the input"},
	{ID: "quantize.not-saturated", Name: "what is too large is not saturated", Verdict: precise, Advice: "clamp to the largest number before the conversion: casts overflow to NaN or infinity"},
	{ID: "quantize.other-elements", Name: "elements are %s", Verdict: precise, Advice: "check the type of the conversion"},
	{ID: "quantize.truncated", Name: "%s are cut off, not rounded", Verdict: precise, Advice: "round to nearest even"},
	{ID: "quantize.scale-missing", Name: "the scale of %s is not applied", Verdict: logic, Advice: "multiply by both scales, of operands or of the product"},
	{ID: "quantize.scale-twice", Name: "the scale of %s is applied twice", Verdict: logic, Advice: "multiply by each scale once"},
	{ID: "quantize.scale-inverse", Name: "the scale of %s is divided by", Verdict: logic, Advice: "multiply by the scale: what was quantized was divided by it"},
	{ID: "quantize.drift", Name: "stochastic rounding has a drift", Verdict: random, Advice: "add uniform bits of the whole range before the cut, and to magnitudes"},
	{ID: "quantize.not-drawn", Name: "rounding is not by chance", Verdict: random, Advice: "the neighbour away from zero must have the chance of the distance to the other"},
	{ID: "quantize.zeros", Name: "the elements are zeros", Verdict: logic, Advice: "check that the kernel writes its output"},
}
