// Command _gen writes the assembly of package asm: go generate ./asm.
package main

import (
	. "github.com/mmcloughlin/avo/build"
)

func main() {
	ConstraintExpr("!purego")
	for _, i := range []isa{avx512, avx2} {
		constants(i)
		input(i)
		multiply(i)
		output(i, float32Out)
		output(i, float16Out)
		output(i, bfloat16Out)
	}
	Generate()
}
