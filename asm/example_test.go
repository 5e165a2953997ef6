package asm_test

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/asm"
)

// Which instruction sets there are, and which one runs. Results do not depend on it.
func Example() {
	before := asm.ISA()
	defer asm.Use(before)
	sets := asm.ISAs()
	fmt.Println("plain Go is the last:", sets[len(sets)-1])
	if err := asm.Use("purego"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(asm.ISA())
	if err := asm.Use("auto"); err != nil {
		fmt.Println(err)
	}
	fmt.Println("the best again:", asm.ISA() == sets[0], slices.Contains(sets, before))
	fmt.Println(asm.Use("sse"))
	// Output:
	// plain Go is the last: purego
	// purego
	// the best again: true true
	// --isa: "sse": want auto, avx512, avx2, neon, purego
}
