// Package asm is the room of the fast kernels: which instruction sets this CPU
// has, which one runs, and (as they come) the kernels themselves. Today every
// kernel is plain Go, the backend called purego; results do not depend on the
// choice, by contract.
package asm

import (
	"fmt"
	"os"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// backends are the instruction sets that kernels exist for, best first.
var backends = []string{"purego"}

// planned are names the command line knows and that have no kernels yet.
var planned = []string{"avx512", "avx2", "neon"}

// ISA returns the backend to run: name, or for "" what the environment
// variable REFRUN_ISA says, or for "auto" (and nothing said) the best there is.
// A backend that does not exist is an error, not a silent fall-back.
func ISA(name string) (string, error) {
	from := "--isa"
	if name == "" {
		name, from = os.Getenv("REFRUN_ISA"), "REFRUN_ISA"
	}
	if name == "" || name == "auto" {
		return backends[0], nil
	}
	for _, b := range backends {
		if b == name {
			return b, nil
		}
	}
	for _, p := range planned {
		if p == name {
			return "", fmt.Errorf("%s: %q has no kernels in this version: want auto or %s", from, name, strings.Join(backends, ", "))
		}
	}
	return "", fmt.Errorf("%s: %q: want auto, purego, avx2, avx512 or neon", from, name)
}

// CPU returns the processor's name.
func CPU() string { return cpuid.CPU.BrandName }

// Features returns the features of this CPU that kernels may use, by their
// usual names.
func Features() []string {
	var have []string
	for _, f := range []struct {
		id   cpuid.FeatureID
		name string
	}{
		{cpuid.AVX2, "avx2"}, {cpuid.FMA3, "fma"}, {cpuid.F16C, "f16c"},
		{cpuid.AVX512F, "avx512f"}, {cpuid.AVX512DQ, "avx512dq"}, {cpuid.AVX512BW, "avx512bw"}, {cpuid.AVX512VL, "avx512vl"},
		{cpuid.AVX512BF16, "avx512_bf16"}, {cpuid.AVX512FP16, "avx512_fp16"},
		{cpuid.ASIMD, "asimd"}, {cpuid.FPHP, "fphp"}, {cpuid.ASIMDHP, "asimdhp"}, {cpuid.SVE, "sve"},
	} {
		if cpuid.CPU.Supports(f.id) {
			have = append(have, f.name)
		}
	}
	return have
}
