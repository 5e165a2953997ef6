// Package asm says which instruction sets this machine's kernels exist for, and which
// one runs; and chooses one.
//
// Results do not depend on the choice, by contract: it is for tests, for benchmarks, and
// for a look at whether a set is to blame.
//
//	avx512   AVX-512 F, DQ, BW and VL
//	avx2     AVX2 and FMA3
//	neon     64-bit ARM
//	purego   no kernels: plain Go, on every machine; builds with -tags purego have it alone
//
// Without a choice the best set runs that the CPU has, or the one that the environment
// variable REFRUN_ISA names. What has been compiled for a set (an [operator.Compiled], a
// [plan.Plan]) keeps to it.
//
// In use:
//
//	fmt.Println(asm.ISAs(), asm.ISA())
//	err := asm.Use("purego")
//
// [operator.Compiled]: https://pkg.go.dev/github.com/refrun/refrun/operator#Compiled
// [plan.Plan]: https://pkg.go.dev/github.com/refrun/refrun/plan#Plan
package asm

import kernels "github.com/refrun/refrun/internal/asm"

// ISAs returns the names of the sets that this CPU and build have, best first; purego is
// the last.
func ISAs() []string { return kernels.ISAs() }

// ISA returns the name of the set that runs. It panics if REFRUN_ISA names one that
// cannot and Use was not called.
func ISA() string { return kernels.ISA() }

// Use chooses the set that runs from now on, for all goroutines: name, or for "" what
// the environment variable REFRUN_ISA says, or for "auto" (and nothing said) the best
// that this CPU has. One that it does not have is an error of one line that lists those
// it has, not a silent fall-back.
func Use(name string) error { return kernels.Use(name) }
