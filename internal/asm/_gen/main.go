// Command _gen writes the assembly of package asm: go generate ./internal/asm.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
)

// kernels are the files of kernels by name.
var kernels = map[string]func(){
	"act":      act,
	"bytes":    bytesKernels,
	"channels": channels,
	"direct":   direct,
	"fast":     fast,
	"hash":     hashes,
	"lines":    lines,
	"measure":  measure,
	"noise":    noise,
	"norm":     norm,
	"rows":     rowKernels,
	"singles":  singles,
	"units":    units,
	"whole":    whole,
	"winograd": winograd,
}

func main() {
	name := flag.String("kernels", "", "which kernels to write")
	flag.Parse()
	if *name == "arm64" { // names its files itself
		arm64()
		return
	}
	write, ok := kernels[*name]
	if !ok {
		log.Fatalf("-kernels %q: unknown", *name)
	}
	ConstraintExpr("!purego")
	write()
	Generate()
}
