//go:build 386 || arm || mips || mipsle

package fp16

// Sizes of tensors are ints up to 2^40, which an int of 32 bits does not hold. A program for such
// a machine is refused when it is compiled, by this name.
var _ = refrun_is_for_64_bit_machines_only
