// Package asm is the room of the fast kernels: which instruction sets this CPU has, which one runs, and the kernels
// themselves, for the packages of operations. They stand in tables, a struct of functions for each purpose and set: an
// operation takes the table of the set that runs (ActKernels, BytesKernels, ChannelKernels, DirectKernels, HashKernels,
// LineKernels, MeasureKernels, NormKernels, NoiseKernels, PixelKernels, RowKernels, SingleKernels, UnitKernels,
// WinogradKernels)
// once and calls through it, a row or a tile at a time. Every kernel is written by the generator in _gen. The backend
// called purego has none of them: packages compute in plain Go there. Results do not depend on the choice, by contract.
package asm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/cpuid/v2"
)

// backend is an instruction set and its kernels, nil where there are none.
type backend struct {
	name                 string
	act                  *Act
	winograd             *Winograd // 3x3
	winograd5, winograd7 *Winograd
	fast, fast4, fast5   *Fast // 3x3, 4x4 and 5x5
	fastTaps             *FastTaps
	fastRows             *FastRows
	noise                *Noise
	direct               *Direct
	channels             *Channels
	pixels               *Pixels
	lines                *Lines
	norm                 *Norm
	rows                 *Rows
	singles              *Singles
	units                *Units
	whole                *Whole
	measure              *Measure
	hash                 *Hash
	bytes                *Bytes
}

// known are all names of backends, on any CPU.
var known = []string{"avx512", "avx2", "neon", "purego"}

// inUse is the backend that runs: the one Use chose, or else the environment's.
var inUse atomic.Pointer[backend]

func current() *backend {
	if b := inUse.Load(); b != nil {
		return b
	}
	if err := Use(""); err != nil {
		panic("asm: " + err.Error())
	}
	return inUse.Load()
}

// Use chooses the backend that runs from now on, for all goroutines: name, or
// for "" what the environment variable REFRUN_ISA says, or for "auto" (and
// nothing said) the best that this CPU has. One that it does not have is an
// error, not a silent fall-back.
func Use(name string) error {
	from := "--isa"
	if name == "" {
		name, from = os.Getenv("REFRUN_ISA"), "REFRUN_ISA"
	}
	if name == "" || name == "auto" {
		inUse.Store(&backends[0])
		return nil
	}
	for i := range backends {
		if backends[i].name == name {
			inUse.Store(&backends[i])
			return nil
		}
	}
	if slices.Contains(known, name) {
		return fmt.Errorf("%s: %q: this CPU or build does not have it: want auto, %s", from, name, strings.Join(ISAs(), ", "))
	}
	return fmt.Errorf("%s: %q: want auto, %s", from, name, strings.Join(known, ", "))
}

// ISA returns the name of the backend that runs. It panics if REFRUN_ISA names
// one that cannot and Use was not called.
func ISA() string { return current().name }

// ISAs returns the names of the backends that this CPU and build have, best
// first.
func ISAs() []string {
	var names []string
	for _, b := range backends {
		names = append(names, b.name)
	}
	return names
}

// ran are the kernels that were chosen since Forget.
var ran struct {
	sync.Mutex
	names map[[2]string]bool // of the kernel, and of its instruction set if that is said apart
}

// Ran notes that an operation chose a kernel.
func Ran(name string) { note(name, "") }

// RanHere notes that an operation chose a kernel of the backend that runs, or plain Go. It takes
// no memory.
func RanHere(name string, kernel bool) {
	if kernel {
		note(name, current().name)
	} else {
		note(name, plainGo)
	}
}

const plainGo = ", plain Go"

func note(name, on string) {
	ran.Lock()
	defer ran.Unlock()
	if ran.names == nil {
		ran.names = map[[2]string]bool{}
	}
	ran.names[[2]string{name, on}] = true
}

// Kernels returns the names of the kernels that ran since Forget, in order of
// the alphabet.
func Kernels() []string {
	ran.Lock()
	defer ran.Unlock()
	var names []string
	for n := range ran.names {
		switch n[1] {
		case "", plainGo:
			names = append(names, n[0]+n[1])
		default:
			names = append(names, n[0]+" "+n[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Forget empties the list of Kernels.
func Forget() {
	ran.Lock()
	defer ran.Unlock()
	ran.names = nil
}

// WinogradKernels returns the kernels for 3x3 of the backend that runs, nil if it
// has none; Form.Kernels has those of all sizes.
func WinogradKernels() *Winograd { return current().winograd }

// DirectKernels returns the kernels of the backend that runs, nil if it has
// none.
func DirectKernels() *Direct { return current().direct }

// PixelKernels returns the kernels of the backend that runs, nil if it has none.
func PixelKernels() *Pixels { return current().pixels }

// NormKernels returns the kernels of the backend that runs, nil if it has none.
func NormKernels() *Norm { return current().norm }

// CPU returns the processor's name.
func CPU() string { return cpuid.CPU.BrandName }

// SecondCache returns the bytes of a processor's second cache, or of 2 MB where the CPU
// does not tell.
func SecondCache() int {
	if n := cpuid.CPU.Cache.L2; n > 0 {
		return n
	}
	return 2 << 20
}

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
